// Convolutions of volumes and rows by their definitions.

#include <algorithm>
#include <array>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/sequences.hpp"
#include "tern/operators/volumes.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using Sizes = std::array<std::int64_t, 3>;

Sizes sizes(Triple of) { return {of.d, of.h, of.w}; }

// The place that tap k of window (or input) i names, along each of three dimensions.
struct Steps {
  Sizes stride, padding, dilation;
  std::int64_t operator()(int dim, std::int64_t i, std::int64_t k) const {
    const auto d = static_cast<std::size_t>(dim);
    return i * stride[d] - padding[d] + k * dilation[d];
  }
};

// Calls body(position of x, position of y, position of weight) for every product of a convolution from x to y.
template <class Body>
void for_each_product(const Shape& x, const Shape& y, const Shape& weight, const Steps& steps, std::int64_t groups,
                      Body body) {
  for_each_position(y, [&](const Shape& out) {
    for_each_position(Shape{weight[1], weight[2], weight[3], weight[4]}, [&](const Shape& tap) {
      Shape in{out[0], out[1] / (weight[0] / groups) * weight[1] + tap[0]};
      for (int dim = 0; dim < 3; ++dim) {
        const std::int64_t place = steps(dim, out[dim + 2], tap[dim + 1]);
        if (place < 0 || place >= x[dim + 2]) return;
        in.push_back(place);
      }
      body(in, out, Shape{out[1], tap[0], tap[1], tap[2], tap[3]});
    });
  });
}

struct ConvUse {
  Shape x, weight;
  op::Conv3dOptions options = {};
  bool bias = true;
};

Operator conv3d() {
  Operator op{.name = "conv3d"};
  for (const ConvUse& use :
       {ConvUse{{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}, ConvUse{{2, 3, 4, 5, 6}, {4, 3, 3, 3, 3}},
        ConvUse{{1, 2, 5, 4, 6}, {3, 2, 3, 2, 3}, {.padding = 1}, false},
        ConvUse{{2, 4, 5, 6, 5}, {6, 2, 2, 3, 3}, {.stride = 2, .padding = {0, 1, 1}, .groups = 2}},
        ConvUse{{1, 2, 7, 6, 8}, {2, 2, 3, 2, 2}, {.stride = {2, 1, 3}, .dilation = {2, 3, 1}}},
        ConvUse{{1, 2, 3, 4, 4}, {2, 2, 2, 2, 2}, {.padding = {0, 1, 0}, .end_padding = Triple(1, 0, 2)}},
        ConvUse{{2, 3, 3, 5, 5}, {3, 1, 3, 3, 3}, {.padding = 1, .groups = 3, .activation = Activation::relu}}}) {
    std::vector<Argument> arguments{uniform(use.x), uniform(use.weight)};
    if (use.bias) arguments.push_back(uniform({use.weight[0]}));
    const double taps = static_cast<double>(element_count(use.weight)) / static_cast<double>(use.weight[0]);
    op.samples.push_back(
        {.name = message(use.x, " * ", use.weight, use.options.end_padding ? " unequal" : ""),
         .arguments = arguments,
         .call =
             [use](const std::vector<Tensor>& in) {
               return std::vector{op::conv3d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), use.options)};
             },
         .reference =
             [use](const std::vector<Array>& in) {
               const auto& o = use.options;
               const Steps steps{sizes(o.stride), sizes(o.padding), sizes(o.dilation)};
               const Sizes end = sizes(o.end_padding.value_or(o.padding));
               Shape shape{use.x[0], use.weight[0]};
               for (std::size_t d = 0; d < 3; ++d) {
                 const int dim = static_cast<int>(d) + 2;
                 const std::int64_t span = steps.dilation[d] * (use.weight[dim] - 1) + 1;
                 shape.push_back((use.x[dim] + steps.padding[d] + end[d] - span) / steps.stride[d] + 1);
               }
               Array y(shape);
               if (in.size() > 2) for_each_position(shape, [&](const Shape& at) { y.at(at) = in[2][at[1]]; });
               for_each_product(
                   use.x, shape, use.weight, steps, o.groups,
                   [&](const Shape& x, const Shape& out, const Shape& w) { y.at(out) += in[0].at(x) * in[1].at(w); });
               if (o.activation == Activation::relu)
                 for (double& value : y.values) value = std::max(value, 0.0);
               return std::vector{y};
             },
         .terms = taps,
         .gradient_terms = std::max(taps * static_cast<double>(use.weight[0]),
                                    static_cast<double>(element_count(use.x)) / static_cast<double>(use.x[1]))});
  }
  const auto call = [](const Shape& x, const Shape& weight, const op::Conv3dOptions& options) {
    return [=] { op::conv3d(ones(x), ones(weight), {}, options); };
  };
  op.refuses("channels differ", Kind::shape, {"3 channels", "[2,1,3,3,3]"}, call({1, 3, 4, 4, 4}, {2, 1, 3, 3, 3}, {}));
  op.refuses("two dimensions", Kind::shape, {"[4,4]"}, call({4, 4}, {2, 1, 3, 3, 3}, {}));
  op.refuses("a deep kernel", Kind::shape, {"depth", "of 5"}, call({1, 1, 4, 4, 4}, {2, 1, 5, 3, 3}, {}));
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::conv3d(ones({1, 1, 2, 2, 2}), ones({1, 1, 1, 1, 1}, DType::float64));
  });
  return op;
}

struct TransposeUse {
  Shape x, weight;
  op::ConvTranspose3dOptions options = {};
  bool bias = true;
};

// For x and weight of five dimensions; the options of rows have 1 and 0 elsewhere.
Array transposed(const TransposeUse& use, const std::vector<Array>& in) {
  const auto& o = use.options;
  const Steps steps{sizes(o.stride), sizes(o.padding), sizes(o.dilation)};
  const Sizes more = sizes(o.output_padding);
  Shape shape{use.x[0], use.weight[1] * o.groups};
  for (std::size_t d = 0; d < 3; ++d) {
    const int dim = static_cast<int>(d) + 2;
    shape.push_back((use.x[dim] - 1) * steps.stride[d] - 2 * steps.padding[d] +
                    steps.dilation[d] * (use.weight[dim] - 1) + more[d] + 1);
  }
  Array y(shape);
  if (in.size() > 2) for_each_position(shape, [&](const Shape& at) { y.at(at) = in[2][at[1]]; });
  for_each_product(shape, use.x, use.weight, steps, o.groups, [&](const Shape& to, const Shape& from, const Shape& w) {
    y.at(to) += in[0].at(from) * in[1].at(w);
  });
  return y;
}

Operator conv_transpose3d() {
  Operator op{.name = "conv_transpose3d"};
  for (const TransposeUse& use :
       {TransposeUse{{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}}, TransposeUse{{2, 3, 2, 4, 3}, {3, 2, 3, 3, 3}},
        TransposeUse{{1, 2, 3, 4, 3}, {2, 3, 2, 2, 2}, {.stride = 2}, false},
        TransposeUse{{1, 2, 3, 3, 4}, {2, 3, 3, 3, 3}, {.stride = 2, .padding = 1, .output_padding = 1}},
        TransposeUse{{1, 2, 3, 2, 3},
                     {2, 2, 3, 2, 2},
                     {.stride = {3, 1, 2}, .padding = {1, 0, 1}, .output_padding = {2, 0, 0}, .dilation = {2, 3, 1}}},
        TransposeUse{{2, 4, 2, 3, 3}, {4, 3, 2, 3, 3}, {.stride = {1, 2, 2}, .groups = 2}}}) {
    std::vector<Argument> arguments{uniform(use.x), uniform(use.weight)};
    if (use.bias) arguments.push_back(uniform({use.weight[1] * use.options.groups}));
    const double taps = static_cast<double>(use.weight[2] * use.weight[3] * use.weight[4]);
    op.samples.push_back(
        {.name = message(use.x, " * ", use.weight),
         .arguments = arguments,
         .call =
             [use](const std::vector<Tensor>& in) {
               return std::vector{op::conv_transpose3d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), use.options)};
             },
         .reference = [use](const std::vector<Array>& in) { return std::vector{transposed(use, in)}; },
         .terms = taps * static_cast<double>(use.x[1]),
         .gradient_terms =
             std::max(taps * static_cast<double>(use.weight[1]), static_cast<double>(element_count(use.x)))});
  }
  const auto call = [](const Shape& x, const Shape& weight, const op::ConvTranspose3dOptions& options,
                       const Tensor& bias = {}) {
    return [=] { op::conv_transpose3d(ones(x), ones(weight), bias, options); };
  };
  op.refuses("channels differ", Kind::shape, {"3 channels", "[2,1,3,3,3]"}, call({1, 3, 4, 4, 4}, {2, 1, 3, 3, 3}, {}));
  op.refuses("an output_padding of the stride", Kind::shape, {"output_padding 2"},
             call({1, 3, 4, 4, 4}, {3, 1, 3, 3, 3}, {.stride = 2, .output_padding = 2}));
  op.refuses("nothing left", Kind::shape, {"-2"}, call({1, 3, 2, 2, 2}, {3, 1, 1, 1, 1}, {.padding = 2}));
  op.refuses("another bias", Kind::shape, {"[3]", "[1]"}, call({1, 3, 2, 2, 2}, {3, 1, 1, 1, 1}, {}, ones({3})));
  return op;
}

Operator conv_transpose1d() {
  Operator op{.name = "conv_transpose1d"};
  struct Use {
    Shape x, weight;
    op::ConvTranspose1dOptions options = {};
    bool bias = true;
  };
  for (const Use& use :
       {Use{{1, 1, 1}, {1, 1, 1}}, Use{{2, 3, 7}, {3, 2, 3}}, Use{{1, 2, 5}, {2, 3, 4}, {.stride = 2}, false},
        Use{{2, 4, 6}, {4, 1, 3}, {.stride = 3, .padding = 1, .output_padding = 2, .groups = 2}},
        Use{{1, 2, 5}, {2, 2, 3}, {.dilation = 3}}}) {
    std::vector<Argument> arguments{uniform(use.x), uniform(use.weight)};
    if (use.bias) arguments.push_back(uniform({use.weight[1] * use.options.groups}));
    op.samples.push_back({.name = message(use.x, " * ", use.weight),
                          .arguments = arguments,
                          .call =
                              [use](const std::vector<Tensor>& in) {
                                return std::vector{
                                    op::conv_transpose1d(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), use.options)};
                              },
                          .reference =
                              [use](const std::vector<Array>& in) {
                                const auto& o = use.options;
                                const TransposeUse whole{{use.x[0], use.x[1], 1, 1, use.x[2]},
                                                         {use.weight[0], use.weight[1], 1, 1, use.weight[2]},
                                                         {.stride = {1, 1, o.stride},
                                                          .padding = {0, 0, o.padding},
                                                          .output_padding = {0, 0, o.output_padding},
                                                          .dilation = {1, 1, o.dilation},
                                                          .groups = o.groups}};
                                std::vector<Array> inputs = in;
                                inputs[0].shape = whole.x;
                                inputs[1].shape = whole.weight;
                                Array y = transposed(whole, inputs);
                                y.shape = {y.shape[0], y.shape[1], y.shape[4]};
                                return std::vector{y};
                              },
                          .terms = static_cast<double>(element_count(use.weight)),
                          .gradient_terms = static_cast<double>(element_count(use.x) * use.weight[2])});
  }
  op.refuses("four dimensions", Kind::shape, {"[1,2,3,4]"}, [] {
    op::conv_transpose1d(ones({1, 2, 3, 4}), ones({2, 1, 3}));
  });
  op.refuses("a weight of four dimensions", Kind::shape, {"[2,1,1,3]"}, [] {
    op::conv_transpose1d(ones({1, 2, 3}), ones({2, 1, 1, 3}));
  });
  return op;
}

}  // namespace

std::vector<Operator> volume_conv_cases() { return {conv3d(), conv_transpose3d(), conv_transpose1d()}; }

}  // namespace tern::testing
