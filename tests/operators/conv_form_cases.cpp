// Convolutions in other forms: conv1d, and conv_transpose2d by its definition, each input spread over the output.

#include <algorithm>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Operator conv1d() {
  Operator op{.name = "conv1d"};
  struct Use {
    Shape x, weight;
    op::Conv1dOptions options = {};
    bool bias = true;
  };
  for (const Use& use : {Use{{2, 3, 11}, {4, 3, 3}}, Use{{1, 2, 9}, {3, 2, 5}, {.padding = 2}, false},
                         Use{{2, 4, 13}, {6, 2, 3}, {.stride = 2, .padding = 1, .groups = 2}},
                         Use{{1, 1, 20}, {2, 1, 4}, {.stride = 3, .dilation = 2}}, Use{{3, 8, 32}, {16, 8, 1}}}) {
    std::vector<Argument> arguments{uniform(use.x), uniform(use.weight)};
    if (use.bias) arguments.push_back(uniform({use.weight[0]}));
    const auto terms = static_cast<double>(use.weight[1] * use.weight[2]);
    op.samples.push_back(
        {.name = message(use.x, " * ", use.weight),
         .arguments = arguments,
         .call =
             [use](const std::vector<Tensor>& in) {
               return std::vector{op::conv1d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), use.options)};
             },
         .reference =
             [use](const std::vector<Array>& in) {
               const std::int64_t stride = use.options.stride, padding = use.options.padding;
               const std::int64_t dilation = use.options.dilation, groups = use.options.groups;
               const std::int64_t length = use.x[2], taps = use.weight[2], per_group = use.weight[1];
               const std::int64_t count = (length + 2 * padding - dilation * (taps - 1) - 1) / stride + 1;
               Array y({use.x[0], use.weight[0], count});
               for_each_position(y.shape, [&](const Shape& at) {
                 double& sum = y.at(at);
                 if (in.size() > 2) sum = in[2][at[1]];
                 for (std::int64_t c = 0; c < per_group; ++c)
                   for (std::int64_t k = 0; k < taps; ++k) {
                     const std::int64_t i = at[2] * stride - padding + k * dilation;
                     if (i < 0 || i >= length) continue;
                     const std::int64_t channel = at[1] / (use.weight[0] / groups) * per_group + c;
                     sum += in[0].at({at[0], channel, i}) * in[1].at({at[1], c, k});
                   }
               });
               return std::vector{y};
             },
         .terms = terms,
         .gradient_terms =
             std::max(terms * static_cast<double>(use.weight[0]), static_cast<double>(use.x[0] * use.x[2]))});
  }
  op.refuses("four dimensions", Kind::shape, {"[1,2,3,4]"}, [] { op::conv1d(ones({1, 2, 3, 4}), ones({1, 2, 3})); });
  op.refuses("a weight of four dimensions", Kind::shape, {"[1,2,1,3]"}, [] {
    op::conv1d(ones({1, 2, 3}), ones({1, 2, 1, 3}));
  });
  return op;
}

Operator conv_transpose2d() {
  Operator op{.name = "conv_transpose2d"};
  struct Use {
    Shape x, weight;
    op::ConvTranspose2dOptions options = {};
    bool bias = true;
  };
  const auto side = [](std::int64_t size, std::int64_t taps, std::int64_t stride, std::int64_t padding,
                       std::int64_t more, std::int64_t dilation) {
    return (size - 1) * stride - 2 * padding + dilation * (taps - 1) + more + 1;
  };
  for (const Use& use :
       {Use{{1, 1, 1, 1}, {1, 1, 1, 1}}, Use{{2, 3, 4, 5}, {3, 2, 3, 3}},
        Use{{2, 3, 4, 5}, {3, 2, 3, 3}, {.padding = 1}, false}, Use{{2, 2, 4, 3}, {2, 3, 2, 2}, {.stride = 2}},
        Use{{1, 2, 5, 4}, {2, 3, 3, 3}, {.stride = 2, .padding = 1, .output_padding = 1}},
        Use{{1, 2, 3, 4},
            {2, 2, 3, 2},
            {.stride = {1, 3}, .padding = {1, 0}, .output_padding = {0, 2}, .dilation = {2, 1}}},
        Use{{2, 4, 3, 5}, {4, 3, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
        Use{{1, 16, 6, 7}, {16, 8, 4, 4}, {.stride = 2, .padding = 1}},
        Use{{2, 8, 9, 9}, {8, 16, 3, 3}, {.padding = 1}}}) {
    std::vector<Argument> arguments{uniform(use.x), uniform(use.weight)};
    if (use.bias) arguments.push_back(uniform({use.weight[1] * use.options.groups}));
    const auto taps = static_cast<double>(use.weight[2] * use.weight[3]);
    op.samples.push_back(
        {.name = message(use.x, " * ", use.weight, use.options.groups > 1 ? " in groups" : "",
                         use.options.padding.h > 0 ? " padded" : ""),
         .arguments = arguments,
         .call =
             [use](const std::vector<Tensor>& in) {
               return std::vector{op::conv_transpose2d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), use.options)};
             },
         .reference =
             [use, side](const std::vector<Array>& in) {
               const Pair stride = use.options.stride, padding = use.options.padding;
               const Pair more = use.options.output_padding, dilation = use.options.dilation;
               const std::int64_t groups = use.options.groups;
               const std::int64_t out = use.weight[1] * groups;
               Array y({use.x[0], out, side(use.x[2], use.weight[2], stride.h, padding.h, more.h, dilation.h),
                        side(use.x[3], use.weight[3], stride.w, padding.w, more.w, dilation.w)});
               if (in.size() > 2) for_each_position(y.shape, [&](const Shape& at) { y.at(at) = in[2][at[1]]; });
               for_each_position(use.x, [&](const Shape& at) {
                 for (std::int64_t o = 0; o < use.weight[1]; ++o)
                   for (std::int64_t kh = 0; kh < use.weight[2]; ++kh)
                     for (std::int64_t kw = 0; kw < use.weight[3]; ++kw) {
                       const std::int64_t h = at[2] * stride.h - padding.h + kh * dilation.h,
                                          w = at[3] * stride.w - padding.w + kw * dilation.w;
                       if (h < 0 || h >= y.shape[2] || w < 0 || w >= y.shape[3]) continue;
                       const std::int64_t channel = at[1] / (use.x[1] / groups) * use.weight[1] + o;
                       y.at({at[0], channel, h, w}) += in[0].at(at) * in[1].at({at[1], o, kh, kw});
                     }
               });
               return std::vector{y};
             },
         .terms = taps * static_cast<double>(use.x[1]),
         .gradient_terms =
             std::max(taps * static_cast<double>(use.weight[1]), static_cast<double>(use.x[0] * use.x[2] * use.x[3]))});
  }
  const auto call = [](const Shape& x, const Shape& weight, const op::ConvTranspose2dOptions& options,
                       const Tensor& bias = {}) { op::conv_transpose2d(ones(x), ones(weight), bias, options); };
  op.refuses("channels differ", Kind::shape, {"3 channels", "[2,1,3,3]"}, [call] {
    call({1, 3, 4, 4}, {2, 1, 3, 3}, {});
  });
  op.refuses("two dimensions", Kind::shape, {"[4,4]"}, [call] { call({4, 4}, {3, 1, 3, 3}, {}); });
  op.refuses("an output_padding of the stride", Kind::shape, {"output_padding 2"}, [call] {
    call({1, 3, 4, 4}, {3, 1, 3, 3}, {.stride = 2, .output_padding = 2});
  });
  op.refuses("nothing left", Kind::shape, {"-2"}, [call] { call({1, 3, 2, 2}, {3, 1, 1, 1}, {.padding = 2}); });
  op.refuses("groups that do not divide", Kind::shape, {"2 groups", "3 channels"}, [call] {
    call({1, 3, 2, 2}, {3, 1, 1, 1}, {.groups = 2});
  });
  op.refuses("another bias", Kind::shape, {"[3]", "[1]"}, [call] { call({1, 3, 2, 2}, {3, 1, 1, 1}, {}, ones({3})); });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::conv_transpose2d(ones({1, 1, 2, 2}), ones({1, 1, 1, 1}, DType::float64));
  });
  return op;
}

}  // namespace

std::vector<Operator> conv_form_cases() {
  std::vector<Operator> all;
  all.push_back(conv1d());
  all.push_back(conv_transpose2d());
  return all;
}

}  // namespace tern::testing
