// Options and forms of operators whose plain use is in the family's own cases.

#include <algorithm>

#include "support/catalogue.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr Reduce reductions[]{Reduce::mean, Reduce::sum, Reduce::none};

std::string name_of(Reduce reduce) {
  return reduce == Reduce::none ? " each" : reduce == Reduce::sum ? " sum" : " mean";
}

// ---- losses ----

// One position of log-probabilities [N, classes, d...]: which row of labels, and where its classes begin and step.
Operator nll(const char* name, bool weighted, const std::vector<Shape>& shapes) {
  Operator op{.name = name, .ulps = 4};
  constexpr std::int64_t ignored = 2;
  for (const Shape& shape : shapes)
    for (const Reduce reduce : reductions) {
      Shape positions{shape[0]};
      for (int i = 2; i < shape.rank(); ++i) positions.push_back(shape[i]);
      const std::int64_t classes = shape[1], area = element_count(shape) / (shape[0] * classes);
      std::vector<Argument> arguments{uniform(shape, -3, -0.1), labels(positions, classes)};
      std::vector<double> weights;
      for (std::int64_t c = 0; c < classes; ++c) weights.push_back(0.5 * static_cast<double>(c + 1));
      if (weighted) arguments.push_back(constant(listed({classes}, weights)));
      op.samples.push_back(
          {.name = message(shape, name_of(reduce)),
           .arguments = arguments,
           .call =
               [reduce](const std::vector<Tensor>& in) {
                 return std::vector{
                     op::nll(in[0], in[1],
                             {.ignore_index = ignored, .reduce = reduce, .weight = in.size() > 2 ? in[2] : Tensor()})};
               },
           .reference =
               [=](const std::vector<Array>& in) {
                 Array out(reduce == Reduce::none ? positions : Shape{});
                 double counted = 0;
                 for (std::int64_t row = 0; row < shape[0] * area; ++row) {
                   const auto label = static_cast<std::int64_t>(in[1][row]);
                   if (label == ignored) continue;
                   const double weight = weighted ? in[2][label] : 1;
                   counted += weight;
                   out[reduce == Reduce::none ? row : 0] -=
                       weight * in[0][(row / area * classes + label) * area + row % area];
                 }
                 if (reduce == Reduce::mean) out[0] /= counted;
                 return std::vector{out};
               },
           .terms = static_cast<double>(element_count(shape)),
           .gradient_terms = static_cast<double>(element_count(shape)),
           .scalars_from = 0,
           .large_arguments = 1});
    }
  op.refuses("labels of another shape", Kind::shape, {"[4]"}, [] {
    op::nll(ones({2, 3, 5}), zeros({4}, DType::int64));
  });
  if (weighted)
    op.refuses("weights of another number of classes", Kind::shape, {"[4]", "[3]"}, [] {
      op::nll(ones({2, 3}), zeros({2}, DType::int64), {.weight = ones({4})});
    });
  return op;
}

// Both binary losses, with weights of elements and of what is true. The reference is of a prediction and a target.
Operator binary(const char* name, bool logits) {
  Operator op{.name = name, .ulps = 8};
  struct Use {
    Shape x, weight, pos_weight;
    bool weighs, pos_weighs;
  };
  const auto call = [logits](const Tensor& x, const Tensor& t, const op::BinaryCrossEntropyOptions& options) {
    return logits ? op::binary_cross_entropy_with_logits(x, t, options) : op::binary_cross_entropy(x, t, options);
  };
  for (const Use& use : {Use{{5, 4}, {}, {}, false, false}, Use{{5, 4}, {5, 1}, {4}, true, true},
                         Use{{17}, {17}, {}, true, true}, Use{{2, 3, 4}, {4}, {3, 1}, true, true}})
    for (const Reduce reduce : reductions) {
      const bool weighs = use.weighs, pos_weighs = use.pos_weighs && logits;
      op.samples.push_back(
          {.name = message(use.x, weighs ? " weighted" : "", name_of(reduce)),
           .arguments = {logits ? uniform(use.x, -4, 4) : uniform(use.x, 0.05, 0.95), constant(uniform(use.x, 0, 1)),
                         constant(uniform(use.weight, 0.5, 2)), constant(uniform(use.pos_weight, 0.5, 3))},
           .call =
               [=](const std::vector<Tensor>& in) {
                 op::BinaryCrossEntropyOptions options{.reduce = reduce};
                 if (weighs) options.weight = in[2];
                 if (pos_weighs) options.pos_weight = in[3];
                 return std::vector{call(in[0], in[1], options)};
               },
           .reference =
               [=](const std::vector<Array>& in) {
                 Array out(reduce == Reduce::none ? use.x : Shape{});
                 std::int64_t i = 0;
                 for_each_position(use.x, [&](const Shape& at) {
                   const double x = in[0].at(at), t = in[1].at(at);
                   const double yes = logits ? -std::log1p(std::exp(-x)) : std::log(x);
                   const double no = logits ? -x - std::log1p(std::exp(-x)) : std::log1p(-x);
                   const double positive = pos_weighs ? broadcast_at(in[3], at) : 1;
                   const double loss = -(positive * t * yes + (1 - t) * no) * (weighs ? broadcast_at(in[2], at) : 1);
                   out[reduce == Reduce::none ? i++ : 0] += loss;
                 });
                 if (reduce == Reduce::mean) out[0] /= static_cast<double>(in[0].size());
                 return std::vector{out};
               },
           .terms = reduce == Reduce::none ? 4 : 2 * static_cast<double>(element_count(use.x)),
           .gradient_terms = 8,
           .scalars_from = 0,
           .large_arguments = 1});
    }
  op.refuses("shapes that differ", Kind::shape, {"[2]", "[3]"}, [call] { call(ones({2}), ones({3}), {}); });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [call] { call(ones({2}), ones({2}, DType::float64), {}); });
  op.refuses("a weight of more", Kind::shape, {"[2,3]", "[3]"}, [call] {
    call(full({3}, 0.5), ones({3}), {.weight = ones({2, 3})});
  });
  op.refuses("a target with a gradient", Kind::autograd, {"detach"},
             [call] { call(full({3}, 0.5), ones({3}).set_requires_grad(), {}); });
  if (!logits)
    op.refuses("weights of what is true", Kind::any, {"pos_weight"},
               [call] { call(full({3}, 0.5), ones({3}), {.pos_weight = ones({3})}); });
  return op;
}

// ---- images ----

// An operator that takes images with or without a batch: the same values by either way.
Operator unbatched(const char* name, std::vector<Argument> arguments,
                   std::function<Tensor(const std::vector<Tensor>&)> call, double terms) {
  Operator op{.name = name, .ulps = 8};
  op.samples.push_back({.name = message("one image of ", arguments[0].shape),
                        .arguments = arguments,
                        .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in)}; },
                        .reference =
                            [call](const std::vector<Array>& in) {
                              // Of a batch of one, which the family's own cases check, in float64.
                              const Device reference("sequential");
                              const NoGrad no_grad;
                              std::vector<Tensor> batch;
                              for (const Array& x : in)
                                batch.push_back(tensor_of(x, DType::float64, Layout::contiguous));
                              batch[0] = batch[0].unsqueeze(0);
                              const Tensor result = call(batch);
                              Array out = array_of(result.squeeze(0));
                              out.dtype.reset();
                              return std::vector{out};
                            },
                        .terms = terms,
                        .gradient_terms = terms * 8});
  return op;
}

std::vector<Operator> images() {
  std::vector<Operator> all;
  all.push_back(unbatched(
      "conv2d/one image", {uniform({3, 7, 6}), uniform({4, 3, 3, 3}), uniform({4})},
      [](const std::vector<Tensor>& in) { return op::conv2d(in[0], in[1], in[2], {.padding = 1}); }, 28));
  all.push_back(unbatched(
      "conv2d_max_pool2d/one image", {uniform({3, 8, 7}), uniform({4, 3, 3, 3}), uniform({4})},
      [](const std::vector<Tensor>& in) { return op::conv2d_max_pool2d(in[0], in[1], in[2]); }, 28));
  all.push_back(unbatched(
      "conv1d/one row", {uniform({3, 9}), uniform({4, 3, 3}), uniform({4})},
      [](const std::vector<Tensor>& in) { return op::conv1d(in[0], in[1], in[2], {.stride = 2}); }, 10));
  all.push_back(unbatched(
      "conv_transpose2d/one image", {uniform({3, 4, 5}), uniform({3, 2, 3, 3}), uniform({2})},
      [](const std::vector<Tensor>& in) { return op::conv_transpose2d(in[0], in[1], in[2], {.stride = 2}); }, 28));
  all.push_back(unbatched(
      "max_pool2d/one image", {distinct({3, 7, 6})},
      [](const std::vector<Tensor>& in) { return op::max_pool2d(in[0], 2); }, 1));
  all.push_back(unbatched(
      "max_pool2d_with_indices/one image", {distinct({3, 7, 6})},
      [](const std::vector<Tensor>& in) { return op::max_pool2d_with_indices(in[0], 3).values; }, 1));
  all.push_back(unbatched(
      "avg_pool2d/one image", {uniform({3, 7, 6})},
      [](const std::vector<Tensor>& in) { return op::avg_pool2d(in[0], 2); }, 4));
  all.push_back(unbatched(
      "adaptive_avg_pool2d/one image", {uniform({3, 7, 6})},
      [](const std::vector<Tensor>& in) { return op::adaptive_avg_pool2d(in[0], 2); }, 12));
  all.push_back(unbatched(
      "global_avg_pool2d/one image", {uniform({3, 7, 6})},
      [](const std::vector<Tensor>& in) { return op::global_avg_pool2d(in[0]); }, 42));
  return all;
}

// The output of a padded cross-correlation of [N, C, H, W] that keeps the size.
Operator same_padding() {
  Operator op{.name = "conv2d/same padding", .ulps = 4};
  struct Use {
    Shape x, weight;
    Pair dilation = 1;
    std::int64_t groups = 1;
  };
  for (const Use& use :
       {Use{{2, 3, 6, 5}, {4, 3, 3, 3}}, Use{{1, 2, 6, 5}, {3, 2, 4, 2}}, Use{{1, 2, 7, 9}, {2, 2, 2, 3}, {3, 2}},
        Use{{2, 4, 5, 5}, {4, 2, 5, 4}, 1, 2}, Use{{1, 1, 2, 2}, {1, 1, 5, 6}}}) {
    const double terms = static_cast<double>(element_count(use.weight)) / static_cast<double>(use.weight[0]);
    op.samples.push_back(
        {.name = message(use.x, ' ', use.weight, " dilated ", use.dilation.h, 'x', use.dilation.w),
         .arguments = {uniform(use.x), uniform(use.weight)},
         .call =
             [use](const std::vector<Tensor>& in) {
               return std::vector{op::conv2d(in[0], in[1], {},
                                             {.dilation = use.dilation, .groups = use.groups, .same_padding = true})};
             },
         .reference =
             [use](const std::vector<Array>& in) {
               Array out({use.x[0], use.weight[0], use.x[2], use.x[3]});
               const std::int64_t taps_h = use.weight[2], taps_w = use.weight[3], own = use.weight[1];
               const std::int64_t above = use.dilation.h * (taps_h - 1) / 2, left = use.dilation.w * (taps_w - 1) / 2;
               const std::int64_t of_group = use.weight[0] / use.groups;
               for_each_position(out.shape, [&](const Shape& at) {
                 double sum = 0;
                 for_each_position({own, taps_h, taps_w}, [&](const Shape& tap) {
                   const std::int64_t h = at[2] - above + tap[1] * use.dilation.h,
                                      w = at[3] - left + tap[2] * use.dilation.w;
                   if (h < 0 || w < 0 || h >= use.x[2] || w >= use.x[3]) return;
                   sum += in[0].at({at[0], at[1] / of_group * own + tap[0], h, w}) *
                          in[1].at({at[1], tap[0], tap[1], tap[2]});
                 });
                 out.at(at) = sum;
               });
               return std::vector{out};
             },
         .terms = terms,
         .gradient_terms = terms * static_cast<double>(use.x[0] * use.x[2] * use.x[3])});
  }
  op.refuses("a stride", Kind::shape, {"stride of 2x1"}, [] {
    op::conv2d(ones({1, 1, 5, 5}), ones({1, 1, 3, 3}), {}, {.stride = {2, 1}, .same_padding = true});
  });
  op.refuses("padding as well", Kind::shape, {"padding of 1x1"}, [] {
    op::conv2d(ones({1, 1, 5, 5}), ones({1, 1, 3, 3}), {}, {.padding = 1, .same_padding = true});
  });
  return op;
}

// ---- other sizes ----

// One dimension of bicubic or nearest-exact interpolation: element i is the sum of weight x[index].
struct Tap {
  std::int64_t index;
  double weight;
};

std::vector<Tap> taps(op::Interpolation mode, bool align_corners, std::int64_t i, std::int64_t count, std::int64_t size,
                      double step) {
  const auto inside = [size](double place) {
    return static_cast<std::int64_t>(std::clamp(place, 0.0, static_cast<double>(size - 1)));
  };
  const auto at = static_cast<double>(i);
  if (mode == op::Interpolation::nearest) return {{inside(std::floor(at * step)), 1}};
  if (mode == op::Interpolation::nearest_exact) return {{inside(std::floor((at + 0.5) * step)), 1}};
  double place = (at + 0.5) * step - 0.5;
  if (align_corners) place = count > 1 ? at * static_cast<double>(size - 1) / static_cast<double>(count - 1) : 0;
  if (mode == op::Interpolation::bilinear) place = std::max(place, 0.0);
  const double left = std::floor(place), share = place - left;
  if (mode == op::Interpolation::bilinear) return {{inside(left), 1 - share}, {inside(left + 1), share}};
  const auto weight = [](double distance) {
    constexpr double a = -0.75;
    const double d = std::abs(distance);
    return d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1 : a * (d * d * d - 5 * d * d + 8 * d - 4);
  };
  std::vector<Tap> all;
  for (const double k : {-1.0, 0.0, 1.0, 2.0}) all.push_back({inside(left + k), weight(share - k)});
  return all;
}

Operator resized(const char* name, const std::vector<op::InterpolateOptions>& modes, bool by_scale) {
  Operator op{.name = name, .ulps = 16};
  struct Use {
    Shape x;
    double h, w;  // sizes, or scales
  };
  const std::vector<Use> sizes{{{1, 1, 3, 3}, 7, 7}, {{2, 3, 5, 4}, 10, 8}, {{2, 2, 9, 7}, 4, 3},
                               {{1, 2, 6, 5}, 6, 9}, {{1, 1, 1, 4}, 3, 1},  {{2, 1, 4, 4}, 4, 4}};
  const std::vector<Use> scales{{{1, 1, 3, 3}, 2, 2},
                                {{1, 2, 5, 4}, 1.5, 2.25},
                                {{2, 1, 9, 7}, 0.5, 0.75},
                                {{1, 1, 5, 5}, 1.125, 1},
                                {{1, 1, 4, 3}, 3, 1.375}};
  for (const op::InterpolateOptions& options : modes)
    for (const Use& use : by_scale ? scales : sizes) {
      const auto height =
          static_cast<std::int64_t>(by_scale ? std::floor(static_cast<double>(use.x[2]) * use.h) : use.h);
      const auto width =
          static_cast<std::int64_t>(by_scale ? std::floor(static_cast<double>(use.x[3]) * use.w) : use.w);
      op.samples.push_back(
          {.name = message(use.x, " by ", use.h, 'x', use.w, " mode ", static_cast<int>(options.mode),
                           options.align_corners ? " aligned" : ""),
           .arguments = {uniform(use.x)},
           .call =
               [=](const std::vector<Tensor>& in) {
                 return std::vector{by_scale ? op::interpolate_by(in[0], {use.h, use.w}, options)
                                             : op::interpolate(in[0], {height, width}, options)};
               },
           .reference =
               [=](const std::vector<Array>& in) {
                 Array out({use.x[0], use.x[1], height, width});
                 const double step_h = by_scale ? 1 / use.h : static_cast<double>(use.x[2]) / use.h;
                 const double step_w = by_scale ? 1 / use.w : static_cast<double>(use.x[3]) / use.w;
                 for_each_position(out.shape, [&](const Shape& at) {
                   for (const Tap& row : taps(options.mode, options.align_corners, at[2], height, use.x[2], step_h))
                     for (const Tap& column : taps(options.mode, options.align_corners, at[3], width, use.x[3], step_w))
                       out.at(at) += row.weight * column.weight * in[0].at({at[0], at[1], row.index, column.index});
                 });
                 return std::vector{out};
               },
           .terms = 16,
           .gradient_terms = 256});
    }
  op.refuses("three dimensions", Kind::shape, {"[2,3,4]"}, [by_scale] {
    by_scale ? op::interpolate_by(ones({2, 3, 4}), 2) : op::interpolate(ones({2, 3, 4}), 2);
  });
  if (by_scale)
    for (const double scale : {0.0, -1.0, 0.25, 1e30, std::nan("")})
      op.refuses(message("a scale of ", scale), Kind::shape, {"[1,1,2,2]"}, [scale] {
        op::interpolate_by(ones({1, 1, 2, 2}), scale);
      });
  return op;
}

// ---- dtypes ----

// An operator that converts to float64 first. `dtypes` are those that it takes without as well.
Operator converting(const char* name, std::function<Tensor(const Tensor&, std::optional<DType>)> call, double terms,
                    std::vector<DType> dtypes = {DType::float32, DType::int32}) {
  Operator op{.name = name, .ulps = 8};
  for (const DType from : dtypes) {
    Argument x = is_floating(from) ? uniform({4, 5}, 0.5, 1.5) : integers({4, 5}, 1, 3);
    x.dtype = from;
    op.samples.push_back(
        {.name = message("of ", from),
         .arguments = {x},
         .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], DType::float64)}; },
         .reference =
             [call](const std::vector<Array>& in) {
               const Device reference("sequential");
               const NoGrad no_grad;
               Array out = array_of(call(tensor_of(in[0], DType::float64, Layout::contiguous), {}));
               out.dtype = DType::float64;
               return std::vector{out};
             },
         .dtypes = {DType::float32},
         .gradient = false,
         .terms = terms});
  }
  return op;
}

// Indices of int32.
Operator narrow_index(const char* name, std::function<Tensor(const Tensor& x, const Tensor& index)> call,
                      const Shape& index) {
  Operator op = movement(name);
  Argument narrow = labels(index, 4);
  narrow.dtype = DType::int32;
  op.samples.push_back(moving(
      "int32", {any_values({4, 4}), narrow},
      [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1])}; },
      [call](const std::vector<Array>& in) {
        const Device reference("sequential");
        const NoGrad no_grad;
        Array out = array_of(call(tensor_of(in[0], DType::float64, Layout::contiguous),
                                  tensor_of(in[1], DType::int64, Layout::contiguous)));
        out.dtype.reset();
        return std::vector{out};
      }));
  return op;
}

// Dimensions 0 and -1 of a number.
Operator of_number(const char* name, std::function<Tensor(const Tensor& x, std::int64_t dim)> call,
                   std::function<double(double)> function, bool member = false) {
  Operator op{.name = name, .ulps = 6, .member = member};
  for (const std::int64_t dim : {0, -1})
    op.samples.push_back({.name = message("dimension ", dim),
                          .arguments = {uniform({}, 0.5, 2)},
                          .call = [call, dim](const std::vector<Tensor>& in) { return std::vector{call(in[0], dim)}; },
                          .reference =
                              [function](const std::vector<Array>& in) {
                                Array out{Shape{}};
                                out[0] = function(in[0][0]);
                                return std::vector{out};
                              }});
  op.refuses("dimension 1", Kind::shape, {"1"}, [call] { call(ones({}), 1); });
  return op;
}

std::vector<Operator> of_numbers() {
  const auto same = [](double x) { return x; };
  const auto first = [] { return zeros({}, DType::int64); };
  std::vector<Operator> all;
  all.push_back(of_number(
      "sum/number", [](const Tensor& x, std::int64_t dim) { return op::sum(x, dim); }, same));
  all.push_back(of_number(
      "mean/number", [](const Tensor& x, std::int64_t dim) { return op::mean(x, dim, true); }, same));
  all.push_back(of_number(
      "max/number", [](const Tensor& x, std::int64_t dim) { return op::max(x, dim); }, same));
  all.push_back(of_number(
      "prod/number", [](const Tensor& x, std::int64_t dim) { return op::prod(x, dim); }, same));
  all.push_back(of_number(
      "norm/number", [](const Tensor& x, std::int64_t dim) { return op::norm(x, 2, dim); }, same));
  all.push_back(of_number(
      "logsumexp/number", [](const Tensor& x, std::int64_t dim) { return op::logsumexp(x, dim); }, same));
  all.push_back(of_number(
      "cumsum/number", [](const Tensor& x, std::int64_t dim) { return op::cumsum(x, dim); }, same));
  all.push_back(of_number(
      "cumprod/number", [](const Tensor& x, std::int64_t dim) { return op::cumprod(x, dim); }, same));
  all.push_back(of_number(
      "softmax/number", [](const Tensor& x, std::int64_t dim) { return op::softmax(x, dim); },
      [](double) { return 1.0; }));
  all.push_back(of_number(
      "log_softmax/number", [](const Tensor& x, std::int64_t dim) { return op::log_softmax(x, dim); },
      [](double) { return 0.0; }));
  all.push_back(of_number(
      "gather/number", [first](const Tensor& x, std::int64_t dim) { return op::gather(x, dim, first()); }, same));
  all.push_back(of_number(
      "scatter/number",
      [first](const Tensor& x, std::int64_t dim) { return op::scatter(op::mul(x, 2), dim, first(), x); }, same));
  all.push_back(of_number(
      "scatter_add/number", [first](const Tensor& x, std::int64_t dim) { return op::scatter_add(x, dim, first(), x); },
      [](double x) { return 2 * x; }));
  all.push_back(of_number(
      "index_select/number",
      [](const Tensor& x, std::int64_t dim) { return op::index_select(x, dim, zeros({1}, DType::int64)); }, same));
  all.push_back(of_number(
      "topk/number", [](const Tensor& x, std::int64_t dim) { return op::topk(x, 1, dim).values; }, same));
  all.push_back(of_number(
      "flip/number", [](const Tensor& x, std::int64_t dim) { return op::flip(x, dim); }, same));
  all.push_back(of_number(
      "transpose/number", [](const Tensor& x, std::int64_t dim) { return op::transpose(x, dim, 0); }, same));
  all.push_back(of_number(
      "squeeze/number", [](const Tensor& x, std::int64_t dim) { return op::squeeze(x, dim); }, same));
  return all;
}

// Positions have no gradient.
Operator position_of_number(const char* name, Tensor (*call)(const Tensor&, std::int64_t, bool)) {
  Operator op{.name = name};
  op.samples.push_back(
      {.name = "of a number",
       .arguments = {uniform({})},
       .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0], -1, false)}; },
       .reference = [](const std::vector<Array>&) { return std::vector{Array(Shape{}, 0, DType::int64)}; },
       .gradient = false,
       .exact = true});
  return op;
}

}  // namespace

std::vector<Operator> option_cases() {
  std::vector<Operator> all;
  all.push_back(nll("nll/weights", true, {{5, 4}, {17, 3}, {2, 4, 3}}));
  all.push_back(nll("nll/positions", false, {{2, 5, 3}, {2, 4, 3, 5}}));
  all.push_back(binary("binary_cross_entropy_with_logits/weights", true));
  all.push_back(binary("binary_cross_entropy", false));
  const auto append = [&all](std::vector<Operator> more) {
    for (Operator& op : more) all.push_back(std::move(op));
  };
  append(images());
  all.push_back(same_padding());
  using op::Interpolation;
  all.push_back(resized("interpolate/others",
                        {{.mode = Interpolation::nearest_exact},
                         {.mode = Interpolation::bicubic},
                         {.mode = Interpolation::bicubic, .align_corners = true}},
                        false));
  all.push_back(resized("interpolate_by",
                        {{},
                         {.mode = Interpolation::nearest_exact},
                         {.mode = Interpolation::bilinear},
                         {.mode = Interpolation::bilinear, .align_corners = true},
                         {.mode = Interpolation::bicubic}},
                        true));
  using MaybeDType = std::optional<DType>;
  all.push_back(converting(
      "sum/dtype", [](const Tensor& x, MaybeDType dtype) { return op::sum(x, 1, false, dtype); }, 5));
  all.push_back(converting("mean/dtype", [](const Tensor& x, MaybeDType dtype) { return op::mean(x, 1, false, dtype); },
                           5, {DType::float32}));
  all.push_back(converting(
      "prod/dtype", [](const Tensor& x, MaybeDType dtype) { return op::prod(x, 1, false, dtype); }, 5));
  all.push_back(converting(
      "cumsum/dtype", [](const Tensor& x, MaybeDType dtype) { return op::cumsum(x, 1, dtype); }, 5));
  all.push_back(converting(
      "cumprod/dtype", [](const Tensor& x, MaybeDType dtype) { return op::cumprod(x, 1, dtype); }, 5));
  all.push_back(converting("softmax/dtype", [](const Tensor& x, MaybeDType dtype) { return op::softmax(x, 1, dtype); },
                           5, {DType::float32}));
  all.push_back(converting("log_softmax/dtype",
                           [](const Tensor& x, MaybeDType dtype) { return op::log_softmax(x, 1, dtype); }, 5,
                           {DType::float32}));
  all.push_back(narrow_index("index_select/int32",
                             [](const Tensor& x, const Tensor& i) { return op::index_select(x, 1, i); }, {7}));
  all.push_back(
      narrow_index("gather/int32", [](const Tensor& x, const Tensor& i) { return op::gather(x, 0, i); }, {3, 4}));
  all.push_back(narrow_index("scatter/int32",
                             [](const Tensor& x, const Tensor& i) { return op::scatter(x, 0, i, x.slice(0, 0, 1)); },
                             {1, 4}));
  all.push_back(
      narrow_index("embedding/int32", [](const Tensor& x, const Tensor& i) { return op::embedding(x, i); }, {2, 3}));
  append(of_numbers());
  all.push_back(position_of_number("argmax/number", op::argmax));
  all.push_back(position_of_number("argmin/number", op::argmin));
  return all;
}

}  // namespace tern::testing
