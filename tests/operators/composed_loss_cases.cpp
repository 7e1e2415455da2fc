// Losses that are composed of other operators.

#include <algorithm>

#include "operators/losses.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

constexpr Reduce reductions[]{Reduce::mean, Reduce::sum, Reduce::none};

// A loss of each pair of elements; both take a gradient unless `target_takes` is false.
Operator pointwise(const char* name, const Loss& call, std::function<double(double, double)> function, double low,
                   double high, double target_low, double target_high, bool target_takes = true) {
  Operator op{.name = name, .ulps = 8};
  const auto add = [&](const Shape& shape, Reduce reduce, const char* label, bool gradient, bool large = false) {
    const auto count = static_cast<double>(element_count(shape));
    Argument target = uniform(shape, target_low, target_high);
    op.samples.push_back(
        {.name = message(shape,
                         reduce == Reduce::none  ? " each"
                         : reduce == Reduce::sum ? " sum"
                                                 : " mean",
                         label),
         .arguments = {uniform(shape, low, high), target_takes ? target : constant(target)},
         .call = [call, reduce](const std::vector<Tensor>& in) { return std::vector{call(in[0], in[1], reduce)}; },
         .reference =
             [function, reduce](const std::vector<Array>& in) {
               Array out(reduce == Reduce::none ? in[0].shape : Shape{});
               for (std::int64_t i = 0; i < in[0].size(); ++i)
                 out[reduce == Reduce::none ? i : 0] += function(in[0][i], in[1][i]);
               if (reduce == Reduce::mean) out[0] /= static_cast<double>(in[0].size());
               return std::vector{out};
             },
         .gradient = gradient,
         .terms = reduce == Reduce::none ? 2 : std::max(2.0, count),
         .large = large,
         .scalars_from = 0});
  };
  for (const Shape& shape : {Shape{}, Shape{17}, Shape{7, 11}, Shape{2, 3, 5}})
    for (const Reduce reduce : reductions) add(shape, reduce, "", true);
  for (const Reduce reduce : reductions) add({3, 0}, reduce, " of nothing", reduce != Reduce::mean);
  add({100003}, Reduce::mean, " large", true, true);
  refuses_pairs(op, call);
  return op;
}

double huber(double error, double delta) {
  error = std::abs(error);
  return error <= delta ? 0.5 * error * error : delta * (error - 0.5 * delta);
}

Operator smooth_l1(const char* name, double beta) {
  return pointwise(
      name, [beta](const Tensor& x, const Tensor& t, Reduce reduce) { return op::smooth_l1(x, t, beta, reduce); },
      [beta](double x, double t) { return beta == 0 ? std::abs(x - t) : huber(x - t, beta) / beta; }, -3, 3, -3, 3);
}

Operator kl_div(const char* name, bool log_target) {
  Operator op = pointwise(
      name,
      [log_target](const Tensor& x, const Tensor& t, Reduce reduce) { return op::kl_div(x, t, log_target, reduce); },
      [log_target](double x, double t) {
        return log_target ? std::exp(t) * (t - x) : t == 0 ? 0 : t * (std::log(t) - x);
      },
      -4, -0.1, log_target ? -4 : 0.05, log_target ? -0.1 : 1);
  // The logarithm of a tiny x or a large target multiplies the target: more than the sum has room for.
  for (Sample& sample : op.samples) sample.large_arguments = 1;
  return op;
}

Operator focal(const char* name, double alpha, double gamma) {
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  return pointwise(
      name,
      [=](const Tensor& x, const Tensor& t, Reduce reduce) {
        return op::sigmoid_focal_loss(x, t, alpha, gamma, reduce);
      },
      [=](double x, double t) {
        const double cross = std::max(x, 0.0) - x * t + std::log1p(std::exp(-std::abs(x)));
        const double right = sigmoid(x) * t + (1 - sigmoid(x)) * (1 - t);
        return (alpha < 0 ? 1 : alpha * t + (1 - alpha) * (1 - t)) * std::pow(1 - right, gamma) * cross;
      },
      -4, 4, 0, 1, false);
}

Operator cosine_similarity() {
  Operator op{.name = "cosine_similarity", .ulps = 8};
  struct Use {
    Shape a, b;
    std::int64_t dim;
  };
  const auto add = [&](const Use& use, Argument a, Argument b, const char* label) {
    const Shape shape = broadcast("reference", use.a, use.b);
    const int place = normalize_dim("reference", use.dim, shape.rank());
    const auto length = static_cast<double>(shape[place]);
    op.samples.push_back(
        {.name = message(use.a, ' ', use.b, " along ", use.dim, label),
         .arguments = {std::move(a), std::move(b)},
         .call = [dim = use.dim](
                     const std::vector<Tensor>& in) { return std::vector{op::cosine_similarity(in[0], in[1], dim)}; },
         .reference =
             [shape, place](const std::vector<Array>& in) {
               Shape kept = shape, reduced;
               kept[place] = 1;
               for (int i = 0; i < shape.rank(); ++i)
                 if (i != place) reduced.push_back(shape[i]);
               Array dot(kept), squares(kept), others(kept);
               for_each_position(shape, [&](const Shape& position) {
                 Shape own = position;
                 own[place] = 0;
                 const double x = broadcast_at(in[0], position), y = broadcast_at(in[1], position);
                 dot.at(own) += x * y;
                 squares.at(own) += x * x;
                 others.at(own) += y * y;
               });
               for (std::int64_t i = 0; i < dot.size(); ++i)
                 dot[i] /= std::max(std::sqrt(squares[i]), 1e-8) * std::max(std::sqrt(others[i]), 1e-8);
               dot.shape = reduced;
               return std::vector{dot};
             },
         .terms = length,
         .gradient_terms = 4 * static_cast<double>(element_count(shape))});
  };
  for (const Use& use : {Use{{5, 9}, {5, 9}, 1}, Use{{17}, {17}, 0}, Use{{4, 3, 7}, {4, 3, 7}, 1},
                         Use{{6, 1, 8}, {5, 8}, -1}, Use{{3, 33}, {3, 33}, -2}})
    add(use, uniform(use.a), uniform(use.b), "");
  add({{3, 4}, {3, 4}, 1}, listed({3, 4}, {0, 0, 0, 0, 1, 2, 3, 4}), uniform({3, 4}), " zeros");
  op.samples.back().gradient = false;  // a kink
  op.refuses("shapes that do not broadcast", Kind::shape, {"[2,3]", "[2,4]"}, [] {
    op::cosine_similarity(ones({2, 3}), ones({2, 4}));
  });
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::cosine_similarity(ones({3, 3}), ones({3, 3}), 2); });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::cosine_similarity(ones({2, 2}), ones({2, 2}, DType::float64));
  });
  return op;
}

// The loss of rows [rows, classes] by targets that are probabilities, each class with its weight, beside the weight of
// each row's label.
double row_loss(const double* scores, std::int64_t classes, std::int64_t stride, const std::vector<double>& targets) {
  double largest = scores[0], total = 0, loss = 0;
  for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, scores[c * stride]);
  for (std::int64_t c = 0; c < classes; ++c) total += std::exp(scores[c * stride] - largest);
  for (std::int64_t c = 0; c < classes; ++c)
    loss -= targets[static_cast<std::size_t>(c)] * (scores[c * stride] - largest - std::log(total));
  return loss;
}

// Labels or probabilities (`soft`), of [N, classes, d...], with the weights 0.5, 1, 1.5, ... or without.
Operator cross_entropy(const char* name, bool soft, bool weighted, const std::vector<Shape>& shapes) {
  Operator op{.name = name, .ulps = 8};
  constexpr std::int64_t ignored = 2;
  for (const Shape& shape : shapes)
    for (const double smoothing : {0.0, 0.2})
      for (const Reduce reduce : reductions) {
        Shape positions{shape[0]};
        for (int i = 2; i < shape.rank(); ++i) positions.push_back(shape[i]);
        const std::int64_t classes = shape[1], area = element_count(shape) / (shape[0] * classes);
        std::vector<double> weights;
        for (std::int64_t c = 0; c < classes; ++c) weights.push_back(0.5 * static_cast<double>(c + 1));
        std::vector<Argument> arguments{uniform(shape, -3, 3),
                                        soft ? uniform(shape, 0.1, 1) : labels(positions, classes)};
        if (weighted) arguments.push_back(constant(listed({classes}, weights)));
        const op::CrossEntropyOptions options{
            .ignore_index = soft ? -100 : ignored, .label_smoothing = smoothing, .reduce = reduce};
        op.samples.push_back({.name = message(shape, smoothing > 0 ? " smoothed" : "",
                                              reduce == Reduce::none  ? " each"
                                              : reduce == Reduce::sum ? " sum"
                                                                      : " mean"),
                              .arguments = arguments,
                              .call =
                                  [options](const std::vector<Tensor>& in) {
                                    op::CrossEntropyOptions own = options;
                                    if (in.size() > 2) own.weight = in[2];
                                    return std::vector{op::cross_entropy(in[0], in[1], own)};
                                  },
                              .reference =
                                  [=](const std::vector<Array>& in) {
                                    Array out(reduce == Reduce::none ? positions : Shape{});
                                    double counted = 0;
                                    for (std::int64_t row = 0; row < shape[0] * area; ++row) {
                                      const std::int64_t first = row / area * classes * area + row % area;
                                      const auto weight = [&](std::int64_t c) { return weighted ? in[2][c] : 1; };
                                      const auto label = soft ? -1 : static_cast<std::int64_t>(in[1][row]);
                                      if (label == ignored) continue;
                                      std::vector<double> targets;
                                      for (std::int64_t c = 0; c < classes; ++c) {
                                        const double target = soft ? in[1][first + c * area] : c == label ? 1 : 0;
                                        targets.push_back(weight(c) * ((1 - smoothing) * target +
                                                                       smoothing / static_cast<double>(classes)));
                                      }
                                      counted += soft ? 1 : weight(label);
                                      out[reduce == Reduce::none ? row : 0] += row_loss(
                                          &in[0].values[static_cast<std::size_t>(first)], classes, area, targets);
                                    }
                                    if (reduce == Reduce::mean) out[0] /= counted;
                                    return std::vector{out};
                                  },
                              .terms = static_cast<double>(reduce == Reduce::none ? classes : element_count(shape)),
                              .gradient_terms = 2 * static_cast<double>(element_count(shape)),
                              .scalars_from = 0,
                              .large_arguments = 1});
      }
  op.refuses("labels of another shape", Kind::shape, {"[4]"}, [] {
    op::cross_entropy(ones({2, 3, 5}), zeros({4}, DType::int64));
  });
  if (soft)
    op.refuses("probabilities of another shape", Kind::shape, {"[2,3]", "[2,4]"}, [] {
      op::cross_entropy(ones({2, 3}), ones({2, 4}));
    });
  if (weighted)
    op.refuses("weights of another number of classes", Kind::shape, {"[4]", "[3]"}, [] {
      op::cross_entropy(ones({2, 3}), zeros({2}, DType::int64), {.weight = ones({4})});
    });
  if (weighted)
    op.refuses("weights of another dtype", Kind::dtype, {"float64"}, [] {
      op::cross_entropy(ones({2, 3}), zeros({2}, DType::int64), {.weight = ones({3}, DType::float64)});
    });
  return op;
}

}  // namespace

std::vector<Operator> composed_loss_cases() {
  std::vector<Operator> all;
  all.push_back(pointwise(
      "huber", [](const Tensor& x, const Tensor& t, Reduce reduce) { return op::huber(x, t, 0.75, reduce); },
      [](double x, double t) { return huber(x - t, 0.75); }, -3, 3, -3, 3));
  all.back().refuses("no delta", Kind::numeric, {"delta 0"}, [] { op::huber(ones({2}), ones({2}), 0); });
  all.push_back(smooth_l1("smooth_l1", 0.5));
  all.push_back(smooth_l1("smooth_l1/absolute", 0));
  all.push_back(kl_div("kl_div", false));
  all.push_back(kl_div("kl_div/of logarithms", true));
  all.push_back(focal("sigmoid_focal_loss", 0.25, 2));
  all.push_back(focal("sigmoid_focal_loss/unweighted", -1, 1.5));
  all.push_back(cosine_similarity());
  all.push_back(cross_entropy("cross_entropy/weights", false, true, {{5, 4}, {17, 3}, {2, 4, 3}}));
  all.push_back(cross_entropy("cross_entropy/probabilities", true, false, {{5, 4}, {17, 3}, {2, 4, 3}}));
  all.push_back(cross_entropy("cross_entropy/weighted probabilities", true, true, {{5, 4}, {2, 4, 3}}));
  all.push_back(cross_entropy("cross_entropy/positions", false, false, {{2, 5, 3}, {2, 4, 3, 5}}));
  return all;
}

}  // namespace tern::testing
