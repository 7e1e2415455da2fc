// Losses: each reduction, ignored labels, smoothing, and logits far from 0.

#include <algorithm>
#include <limits>

#include "operators/losses.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using op::CrossEntropyOptions;

const char* name_of(Reduce reduce) { return reduce == Reduce::none ? "each" : reduce == Reduce::sum ? "sum" : "mean"; }
constexpr Reduce reductions[]{Reduce::mean, Reduce::sum, Reduce::none};

Array finished(const std::vector<double>& losses, std::int64_t counted, Reduce reduce, const Shape& shape) {
  Array result(reduce == Reduce::none ? shape : Shape{});
  if (reduce == Reduce::none) {
    result.values = losses;
    return result;
  }
  for (const double loss : losses) result[0] += loss;
  if (reduce == Reduce::mean) result[0] /= static_cast<double>(counted);
  return result;
}

// -sum(target * log_probabilities) for each row; the target is the label, smoothed.
Array from_log_probabilities(const Array& rows, const Array& labels, const CrossEntropyOptions& options) {
  const std::int64_t classes = rows.size(1);
  std::vector<double> losses;
  std::int64_t counted = 0;
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    const auto label = static_cast<std::int64_t>(labels[row]);
    double loss = 0;
    if (label != options.ignore_index) {
      ++counted;
      for (std::int64_t c = 0; c < classes; ++c) {
        const double target =
            (c == label ? 1 - options.label_smoothing : 0) + options.label_smoothing / static_cast<double>(classes);
        if (target != 0) loss -= target * rows[row * classes + c];
      }
    }
    losses.push_back(loss);
  }
  return finished(losses, counted, options.reduce, {rows.size(0)});
}

Array log_softmax(const Array& x) {
  Array result = x;
  const std::int64_t classes = x.size(1);
  for (std::int64_t row = 0; row < x.size(0); ++row) {
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, x[row * classes + c]);
    for (std::int64_t c = 0; c < classes; ++c) total += std::exp(x[row * classes + c] - largest);
    for (std::int64_t c = 0; c < classes; ++c)
      result[row * classes + c] = x[row * classes + c] - largest - std::log(total);
  }
  return result;
}

using LabelLoss = Tensor (*)(const Tensor&, const Tensor&, const CrossEntropyOptions&);

Operator label_loss(const char* name, LabelLoss call, bool fused) {
  Operator op{.name = name, .ulps = 8};
  const auto add = [&](const std::string& label, Argument x, Argument targets, const CrossEntropyOptions& options,
                       bool gradient = true, bool large = false) {
    const auto classes = static_cast<double>(x.shape[1]), rows = static_cast<double>(x.shape[0]);
    op.samples.push_back(
        {.name = message(x.shape, " ", name_of(options.reduce), label),
         .arguments = {std::move(x), std::move(targets)},
         .call = [call, options](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1], options)}; },
         .reference =
             [options, fused](const std::vector<Array>& in) {
               return std::vector{from_log_probabilities(fused ? log_softmax(in[0]) : in[0], in[1], options)};
             },
         .gradient = gradient,
         .terms = std::max({2.0, std::sqrt(classes), options.reduce == Reduce::none ? 1 : std::sqrt(rows)}),
         .gradient_terms = std::max(2.0, std::sqrt(classes)),
         // (softmax - target) * g, and no |g| is above 1.
         .gradient_magnitude =
             [each_row = options.reduce == Reduce::mean ? 2 / rows : 2](const std::vector<Array>&) { return each_row; },
         .large = large,
         .scalars_from = 0});
  };
  const auto scores = [&](const Shape& shape) { return fused ? uniform(shape, -3, 3) : uniform(shape, -5, -0.1); };
  for (const Shape& shape : {Shape{1, 1}, Shape{1, 10}, Shape{7, 10}, Shape{17, 3}, Shape{33, 2}, Shape{5, 33},
                             Shape{2, 1031}, Shape{128, 10}})
    for (const Reduce reduce : reductions) add("", scores(shape), labels({shape[0]}, shape[1]), {.reduce = reduce});
  // Rows that cuda reads in parts, and more of them than it has blocks for.
  for (const Shape& shape : {Shape{2, 2051}, Shape{3, 4097}, Shape{1, 9001}, Shape{300, 2053}})
    add("", scores(shape), labels({shape[0]}, shape[1]), {}, true, shape[0] > 3);
  add("", scores({1, 50257}), labels({1}, 50257), {.reduce = Reduce::none}, true, true);
  // More rows than a block has threads for.
  for (const Shape& shape : {Shape{129, 10}, Shape{300, 3}, Shape{1000, 12}, Shape{70, 40}})
    for (const Reduce reduce : {Reduce::mean, Reduce::sum}) {
      add("", scores(shape), labels({shape[0]}, shape[1]), {.reduce = reduce});
      add(" with an ignored class", scores(shape), labels({shape[0]}, shape[1]), {.ignore_index = 1, .reduce = reduce});
    }
  add(" by several turns", scores({3000, 10}), labels({3000}, 10), {}, true, true);
  for (const Reduce reduce : reductions) {
    Argument some_ignored = listed({6}, {0, -100, 2, 3, -100, 1});
    some_ignored.dtype = DType::int64;
    some_ignored.differentiable = false;
    add(" with ignored rows", scores({6, 4}), some_ignored, {.reduce = reduce});
    Argument class_ignored = some_ignored;
    class_ignored.elements = {0, 1, 2, 3, 1, 1};
    add(" with an ignored class", scores({6, 4}), class_ignored, {.ignore_index = 1, .reduce = reduce});
    add(" no rows", scores({0, 4}), labels({0}, 4), {.reduce = reduce}, reduce != Reduce::mean);
    if (fused) {
      add(" smoothed", scores({7, 10}), labels({7}, 10), {.label_smoothing = 0.1, .reduce = reduce});
      add(" smoothed, ignored rows", scores({6, 4}), some_ignored, {.label_smoothing = 0.25, .reduce = reduce});
    }
  }
  Argument all_ignored = listed({3}, {-100});
  all_ignored.dtype = DType::int64;
  all_ignored.differentiable = false;
  add(" all ignored", scores({3, 4}), all_ignored, {.reduce = Reduce::sum});
  add(" all ignored", scores({3, 4}), all_ignored, {.reduce = Reduce::mean}, false);
  if (fused) {
    add(" large logits", listed({4, 3}, {1000, 0, -1000, 0, 1000, -1000, 90, -90, 0, 1e4, 1e4, 1e4}), labels({4}, 3),
        {.reduce = Reduce::none}, false);
    add(" certain", listed({3, 4}, {50, 0, 0, 0}), listed({3}, {0}), {.reduce = Reduce::none}, false);
    op.samples.back().arguments[1].dtype = DType::int64;
    add(" fully smoothed", scores({5, 7}), labels({5}, 7), {.label_smoothing = 1});
    add(" smoothed", scores({3, 4099}), labels({3}, 4099), {.ignore_index = 1, .label_smoothing = 0.1});
    std::vector<double> hidden(5001, -std::numeric_limits<double>::infinity());
    hidden[4100] = 2, hidden[4990] = -1;
    Argument possible = listed({2}, {4100, 4990});
    possible.dtype = DType::int64;
    possible.differentiable = false;
    add(" mostly impossible", listed({2, 5001}, hidden), possible, {.reduce = Reduce::none}, false);
  }
  add(" large", scores({20011, 17}), labels({20011}, 17), {}, true, true);
  op.refuses("a label too large", Kind::numeric, {"label 10", "position 1", "10)"}, [call] {
    call(zeros({2, 10}), tensor<std::int64_t>({3, 10}), {}).item();
  });
  op.refuses("a negative label", Kind::numeric, {"-1"}, [call] {
    call(zeros({2, 10}), tensor<std::int64_t>({-1, 2}), {}).item();
  });
  op.refuses("labels that are not int64", Kind::dtype, {"int32", "int64"}, [call] {
    call(zeros({2, 10}), zeros({2}, DType::int32), {});
  });
  op.refuses("another number of labels", Kind::shape, {"3 labels", "[2,10]"}, [call] {
    call(zeros({2, 10}), zeros({3}, DType::int64), {});
  });
  op.refuses("labels of two dimensions", Kind::shape, {"[2,1]"}, [call] {
    call(zeros({2, 10}), zeros({2, 1}, DType::int64), {});
  });
  op.refuses("one dimension", Kind::shape, {"[10]"}, [call] { call(zeros({10}), zeros({10}, DType::int64), {}); });
  op.refuses("integers", Kind::dtype, {"int32"}, [call] {
    call(zeros({2, 10}, DType::int32), zeros({2}, DType::int64), {});
  });
  if (fused)
    op.refuses("smoothing beyond 1", Kind::numeric, {"1.5"}, [call] {
      call(zeros({2, 10}), zeros({2}, DType::int64), {.label_smoothing = 1.5});
    });
  return op;
}

using PointwiseLoss = Tensor (*)(const Tensor&, const Tensor&, Reduce);

Operator pointwise(const char* name, PointwiseLoss call, std::function<double(double, double)> function,
                   std::function<Argument(const Shape&)> targets, bool kinked) {
  Operator op{.name = name, .ulps = 6};
  const auto add = [&](const std::string& label, Argument x, Argument target, Reduce reduce, bool gradient = true,
                       bool large = false) {
    const auto count = static_cast<double>(element_count(x.shape));
    op.samples.push_back(
        {.name = message(x.shape, " ", name_of(reduce), label),
         .arguments = {x, constant(std::move(target))},
         .call = [call, reduce](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1], reduce)}; },
         .reference =
             [function, reduce](const std::vector<Array>& in) {
               std::vector<double> losses;
               for (std::int64_t i = 0; i < in[0].size(); ++i) losses.push_back(function(in[0][i], in[1][i]));
               return std::vector{finished(losses, in[0].size(), reduce, in[0].shape)};
             },
         .gradient = gradient,
         .terms = reduce == Reduce::none ? 1 : std::max(1.0, count),
         .large = large,
         .scalars_from = 0});
  };
  for (const Shape& shape :
       {Shape{}, Shape{1}, Shape{9}, Shape{17}, Shape{33}, Shape{4097}, Shape{7, 11}, Shape{2, 3, 5, 1}})
    for (const Reduce reduce : reductions) add("", uniform(shape, -3, 3), targets(shape), reduce);
  for (const Reduce reduce : reductions)
    add(" nothing", uniform({3, 0}), targets({3, 0}), reduce, reduce != Reduce::mean);
  if (!kinked) {
    add(" far from 0", uniform({67}, -90, 90), targets({67}), Reduce::none);
    op.samples.back().terms = 90;  // differences of numbers up to 90
  }
  add(" large", uniform({300007}, -3, 3), targets({300007}), Reduce::mean, true, true);
  add(" large", uniform({601, 499}, -3, 3), targets({601, 499}), Reduce::none, true, true);
  refuses_pairs(op, call);
  return op;
}

}  // namespace

std::vector<Operator> loss_cases() {
  std::vector<Operator> all;
  all.push_back(label_loss("cross_entropy", op::cross_entropy, true));
  all.push_back(label_loss("nll", op::nll, false));
  const auto anywhere = [](const Shape& shape) { return uniform(shape, -3, 3); };
  all.push_back(pointwise(
      "mse", op::mse, [](double x, double t) { return (x - t) * (x - t); }, anywhere, false));
  all.push_back(pointwise(
      "mae", op::mae, [](double x, double t) { return std::abs(x - t); }, anywhere, true));
  all.push_back(pointwise(
      "binary_cross_entropy_with_logits",
      [](const Tensor& x, const Tensor& t, Reduce reduce) {
        return op::binary_cross_entropy_with_logits(x, t, reduce);
      },
      [](double x, double t) { return std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x))); },
      [](const Shape& shape) { return uniform(shape, 0, 1); }, false));
  all.push_back(pointwise(
      "hinge", op::hinge, [](double x, double t) { return std::max(0.0, 1 - t * x); },
      [](const Shape& shape) {
        return listed(shape, {1, -1, -1, 1, 1, 1, -1});
      },
      true));
  return all;
}

}  // namespace tern::testing
