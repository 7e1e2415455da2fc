// Normalisations: each window of channels, training and inference, with and without weights.

#include <algorithm>

#include "support/activated.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

std::int64_t area_of(const Shape& shape) {
  std::int64_t area = 1;
  for (int i = 2; i < shape.rank(); ++i) area *= shape[i];
  return area;
}

Array response_normalised(const Array& x, const op::LocalResponseNormOptions& options) {
  Array y(x.shape);
  const std::int64_t C = x.size(1), area = area_of(x.shape);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t place = i % area, c = i / area % C, image = i / area / C;
    double sum = 0;
    for (std::int64_t j = c - options.size / 2; j < c - options.size / 2 + options.size; ++j)
      if (j >= 0 && j < C) sum += x[(image * C + j) * area + place] * x[(image * C + j) * area + place];
    y[i] = x[i] / std::pow(options.k + options.alpha / static_cast<double>(options.size) * sum, options.beta);
  }
  return y;
}

Operator local_response_norm() {
  Operator op{.name = "local_response_norm", .ulps = 8};
  struct Use {
    Shape x;
    op::LocalResponseNormOptions options = {};
    bool large = false;
  };
  for (const Use& use :
       {Use{{1, 1, 1}}, Use{{2, 7, 3, 3}}, Use{{2, 7, 3, 3}, {.size = 5, .alpha = 0.5}},
        Use{{2, 6, 5}, {.size = 3, .alpha = 1}}, Use{{1, 5, 4, 3}, {.size = 4, .alpha = 2, .beta = 0.5, .k = 2}},
        Use{{3, 4, 1}, {.size = 2, .alpha = 1}}, Use{{1, 9, 17}, {.size = 1, .alpha = 1, .beta = 1}},
        Use{{2, 3, 2, 2}, {.size = 9, .alpha = 3}}, Use{{0, 3, 2, 2}, {.alpha = 1}}, Use{{2, 0, 2, 2}, {.alpha = 1}},
        Use{{1, 33, 5, 7}, {.size = 5, .alpha = 1, .k = 2}}, Use{{1, 2, 1031}, {.size = 3, .alpha = 1}},
        Use{{2, 4, 3, 3}, {.size = 5, .alpha = 1}}, Use{{1, 8, 5, 7}, {.size = 5, .alpha = 1, .k = 2}},
        Use{{2, 36, 5, 5}, {.size = 5, .alpha = 1}}, Use{{1, 8, 2, 3}, {.size = 5, .alpha = 1, .beta = 0.6}},
        Use{{2, 96, 5, 3}, {.alpha = 1}}, Use{{4, 64, 27, 27}, {.size = 5, .alpha = 0.5, .k = 2}, true}})
    op.samples.push_back(
        {.name = message(use.x, " size ", use.options.size, " alpha ", use.options.alpha, " beta ", use.options.beta,
                         " k ", use.options.k),
         .arguments = {uniform(use.x, -2, 2)},
         .call = [options = use.options](
                     const std::vector<Tensor>& in) { return std::vector{op::local_response_norm(in[0], options)}; },
         .reference = [options = use.options](
                          const std::vector<Array>& in) { return std::vector{response_normalised(in[0], options)}; },
         .gradient_terms = static_cast<double>(use.options.size) * 2,
         .large = use.large,
         .scalars_from = 1});
  op.refuses("one dimension", Kind::shape, {"[5]"}, [] { op::local_response_norm(ones({5})); });
  op.refuses("size 0", Kind::shape, {"size 0"}, [] { op::local_response_norm(ones({1, 5, 2, 2}), {.size = 0}); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::local_response_norm(ones({1, 5, 2}, DType::int32)); });
  return op;
}

struct Statistics {
  double mean = 0, var = 0;
  double count = 0;
};

Statistics statistics_of(const Array& x, std::int64_t channel) {
  const std::int64_t C = x.size(1), area = area_of(x.shape);
  Statistics result;
  for (std::int64_t i = 0; i < x.size(); ++i)
    if (i / area % C == channel) {
      result.mean += x[i];
      ++result.count;
    }
  result.mean /= result.count;
  for (std::int64_t i = 0; i < x.size(); ++i)
    if (i / area % C == channel) result.var += (x[i] - result.mean) * (x[i] - result.mean);
  result.var /= result.count;
  return result;
}

// Inputs: x, running mean, running variance, weight and bias or neither, and what is added or nothing.
bool is_affine(std::size_t inputs) { return inputs >= 5; }
bool has_added(std::size_t inputs) { return inputs % 2 == 0; }

std::vector<Array> batch_normalised(const std::vector<Array>& in, const op::BatchNormOptions& options) {
  const Array& x = in[0];
  const std::int64_t C = x.size(1), area = area_of(x.shape);
  Array y(x.shape), running_mean = in[1], running_var = in[2];
  for (std::int64_t c = 0; c < C; ++c) {
    Statistics used{in[1][c], in[2][c]};
    if (options.training && x.size() > 0) {
      used = statistics_of(x, c);
      const double unbiased = used.count > 1 ? used.var * used.count / (used.count - 1) : used.var;
      running_mean[c] = (1 - options.momentum) * running_mean[c] + options.momentum * used.mean;
      running_var[c] = (1 - options.momentum) * running_var[c] + options.momentum * unbiased;
    }
    for (std::int64_t i = 0; i < x.size(); ++i)
      if (i / area % C == c) {
        const double normal = (x[i] - used.mean) / std::sqrt(used.var + options.epsilon);
        y[i] = is_affine(in.size()) ? normal * in[3][c] + in[4][c] : normal;
        if (has_added(in.size())) y[i] += in.back()[i];
        y[i] = activated(options.activation, y[i]);
      }
  }
  return {y, running_mean, running_var};
}

// inverse * weight * (g - mean g - normal * mean(g * normal)), and no |g| is above 1.
double batch_norm_gradient_magnitude(const std::vector<Array>& in, const op::BatchNormOptions& options) {
  const Array& x = in[0];
  const std::int64_t C = x.size(1), area = area_of(x.shape);
  double largest = 0;
  for (std::int64_t c = 0; c < C; ++c) {
    const Statistics used = options.training ? statistics_of(x, c) : Statistics{in[1][c], in[2][c]};
    const double inverse = 1 / std::sqrt(used.var + options.epsilon);
    for (std::int64_t i = 0; i < x.size(); ++i)
      if (i / area % C == c) {
        const double weight = is_affine(in.size()) ? std::abs(in[3][c]) : 1;
        largest = std::max(largest, inverse * weight * (2 + std::abs(x[i] - used.mean) * inverse));
      }
  }
  return largest;
}

Operator batch_norm() {
  Operator op{.name = "batch_norm", .ulps = 16};
  struct Use {
    Shape x;
    bool training, affine;
    op::BatchNormOptions options = {};
    bool large = false, frozen = false, added = false;
  };
  const auto add = [&](Use use, const char* label = "") {
    use.options.training = use.training;
    const Shape channels{use.x[1]};
    std::vector<Argument> arguments{uniform(use.x, -2, 2), scalars(uniform(channels)),
                                    scalars(uniform(channels, 0.5, 2))};
    if (use.affine) {
      arguments.push_back(uniform(channels, 0.5, 2));
      arguments.push_back(uniform(channels));
    }
    if (use.added) arguments.push_back(uniform(use.x, -2, 2));
    const auto count = static_cast<double>(use.x[0] * area_of(use.x));
    op.samples.push_back(
        {.name = message(use.x, use.training ? " training" : " inference", use.affine ? " affine" : "", label),
         .arguments = arguments,
         .call =
             [options = use.options](const std::vector<Tensor>& in) {
               Tensor mean = in[1].clone(), var = in[2].clone();
               const bool affine = is_affine(in.size());
               Tensor y = op::batch_norm(in[0], affine ? in[3] : Tensor{}, affine ? in[4] : Tensor{}, mean, var,
                                         options, has_added(in.size()) ? in.back() : Tensor{});
               return std::vector{y, mean, var};
             },
         .reference = [options = use.options](const std::vector<Array>& in) { return batch_normalised(in, options); },
         .gradient = use.training || use.frozen,
         .gradient_outputs = 1,
         .terms = std::max(2.0, std::sqrt(count)),
         .gradient_terms = std::max(4.0, count),
         .gradient_magnitude = [options = use.options](
                                   const std::vector<Array>& in) { return batch_norm_gradient_magnitude(in, options); },
         .large = use.large,
         .scalars_from = 1});
    if (use.frozen) op.samples.back().large_arguments = 1;  // the statistics divide, whatever comes of it
  };
  for (const bool training : {true, false})
    for (const bool affine : {true, false}) {
      add({{2, 1, 1, 1}, training, affine});
      add({{4, 3, 5, 7}, training, affine});
      add({{17, 9}, training, affine});
      add({{3, 2, 33}, training, affine});
      add({{5, 17, 2, 2}, training, affine});
      add({{5, 8, 3, 2}, training, affine});
      add({{3, 36, 5, 5}, training, affine});
      add({{2, 0, 3, 3}, training, affine});
      add({{1, 3, 9, 9}, training, affine, {.momentum = 0.5, .epsilon = 1e-2}}, " epsilon 0.01");
    }
  // Fine-tuning: a gradient through statistics that stay.
  for (const bool affine : {true, false})
    for (const Shape& x : {Shape{4, 3, 5, 7}, Shape{17, 9}, Shape{5, 8, 3, 2}, Shape{2, 0, 3, 3}})
      add({x, false, affine, {}, false, true}, " frozen");
  // With what follows in the same kernel.
  for (const bool training : {true, false})
    for (const bool affine : {true, false})
      for (const bool added : {true, false})
        for (const Shape& x : {Shape{4, 3, 5, 7}, Shape{17, 9}, Shape{5, 8, 3, 2}, Shape{3, 36, 5, 5}}) {
          const char* const label = added ? " added, relu" : " relu";
          add({x, training, affine, {.activation = Activation::relu}, false, false, added}, label);
          if (!training)
            add({x, training, affine, {.activation = Activation::relu}, false, true, added},
                added ? " frozen, added, relu" : " frozen, relu");
        }
  add({{4, 3, 5, 7}, true, true, {}, false, false, true}, " added");
  add({{4, 3, 5, 7}, false, true, {}, false, false, true}, " added");
  for (const bool training : {true, false})
    for (const bool added : {true, false})
      for (const Shape& x : {Shape{4, 3, 5, 7}, Shape{17, 9}, Shape{5, 8, 3, 2}, Shape{3, 36, 5, 5}})
        add({x, training, true, {.activation = Activation::relu6}, false, false, added},
            added ? " added, relu6" : " relu6");
  add({{5, 8, 3, 2}, true, true, {.activation = Activation::sigmoid}, false, false, true}, " added, sigmoid");
  op.samples.back().roundings = 2;
  for (const bool added : {true, false}) {  // channels of so many elements are shared out
    add({{23, 4, 29, 28}, true, true, {.activation = Activation::relu}, true, false, added},
        added ? " added, relu" : " relu");
    for (const Shape& x : {Shape{4000, 12}, Shape{757, 40}})
      add({x, true, true, {.activation = Activation::relu}, true, false, added}, added ? " added, relu" : " relu");
  }
  // inverse * weight is beyond float32's range (on the other side of 1, below it), what it leads to is inside.
  for (const bool training : {true, false}) {
    add({{2, 1, 1, 1}, training, true, {.epsilon = 1e-3}}, " large weight, equal x");
    op.samples.back().arguments[0] = listed({2, 1, 1, 1}, {0.5});
    op.samples.back().arguments[1] = scalars(listed({1}, {0.5}));
    op.samples.back().arguments[2] = scalars(listed({1}, {0}));
    op.samples.back().arguments[3] = listed({1}, {2e37});
    add({{2, 2, 1, 2}, training, true}, " large weight, large x");
    op.samples.back().arguments[0] = listed({2, 2, 1, 2}, {1e12, -2e12, 3e-3, 1e-3, 2e12, -1e12, -2e-3, 4e-3});
    op.samples.back().arguments[3] = listed({2}, {1e30, 1e-30});
    op.samples.back().smooth = false;        // a step of 1e-5 is nothing beside 1e12
    op.samples.back().gradient_terms *= 32;  // one is a difference of terms 600 times as large
  }
  add({{0, 3, 2, 2}, false, true});
  add({{1, 1, 4099}, true, true});
  add({{16, 20, 29, 31}, true, true, {}, true});
  add({{16, 20, 29, 31}, false, true, {}, true});
  op.samples.push_back(
      {.name = "no running statistics",
       .arguments = {uniform({4, 3, 5})},
       .call = [](const std::vector<Tensor>& in) { return std::vector{op::batch_norm(in[0], {}, {}, {}, {})}; },
       .reference =
           [](const std::vector<Array>& in) {
             const Array none({in[0].size(1)});
             return std::vector{batch_normalised({in[0], none, none}, {}).front()};
           },
       .terms = 4,
       .gradient_terms = 20});
  const auto channels = [](std::int64_t count) { return ones({count}); };
  op.refuses("one dimension", Kind::shape, {"[5]"},
             [=] { op::batch_norm(ones({5}), {}, {}, channels(5), channels(5)); });
  op.refuses("weight of another size", Kind::shape, {"[2]", "3"}, [=] {
    op::batch_norm(ones({2, 3, 4}), channels(2), channels(2), channels(3), channels(3));
  });
  op.refuses("statistics of another size", Kind::shape, {"[4]", "3"}, [=] {
    op::batch_norm(ones({2, 3, 4}), {}, {}, channels(4), channels(4));
  });
  op.refuses("inference without statistics", Kind::any, {"running"}, [] {
    op::batch_norm(ones({2, 3, 4}), {}, {}, {}, {}, {.training = false});
  });
  op.refuses("weight of another dtype", Kind::dtype, {"float32", "float64"}, [=] {
    op::batch_norm(ones({2, 3, 4}), ones({3}, DType::float64), ones({3}, DType::float64), channels(3), channels(3));
  });
  op.refuses("added of another shape", Kind::shape, {"added", "[2,3]", "[2,3,4]"}, [] {
    op::batch_norm(ones({2, 3, 4}), {}, {}, {}, {}, {}, ones({2, 3}));
  });
  op.refuses("added of another dtype", Kind::dtype, {"float32", "float64"}, [] {
    op::batch_norm(ones({2, 3, 4}), {}, {}, {}, {}, {}, ones({2, 3, 4}, DType::float64));
  });
  op.refuses("integers", Kind::dtype, {"int32"}, [=] {
    op::batch_norm(ones({2, 3, 4}, DType::int32), {}, {}, {}, {});
  });
  return op;
}

}  // namespace

std::vector<Operator> normalization_cases() { return {local_response_norm(), batch_norm()}; }

}  // namespace tern::testing
