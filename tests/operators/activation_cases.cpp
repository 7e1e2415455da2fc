// Activations: elementwise ones, and softmax along any dimension.

#include <algorithm>
#include <limits>

#include "support/activated.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) {
  if (std::isnan(x)) return x;
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
}
double gelu(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double relu(double x) { return std::isnan(x) ? x : std::max(x, 0.0); }

Operator pointwise(const char* name, std::function<Tensor(const Tensor&)> call,
                   std::function<double(double)> function) {
  Operator op{.name = name, .ulps = 6};
  const Call run = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; };
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{9}, Shape{17}, Shape{33}, Shape{4097}, Shape{7, 11},
                             Shape{3, 0, 2}, Shape{2, 3, 5, 1}})
    op.samples.push_back(
        {.name = message(shape), .arguments = {uniform(shape, -4, 4)}, .call = run, .reference = each(function)});
  op.samples.push_back(
      {.name = "far from 0", .arguments = {uniform({67}, -90, 90)}, .call = run, .reference = each(function)});
  op.samples.push_back(
      {.name = "expanded view", .arguments = {expanded({3, 1}, {3, 7})}, .call = run, .reference = each(function)});
  op.samples.push_back({.name = "special values",
                        .arguments = {listed({28}, special_values())},
                        .call = run,
                        .reference = each(function),
                        .gradient = false});
  op.samples.push_back({.name = "large",
                        .arguments = {uniform({300007}, -4, 4)},
                        .call = run,
                        .reference = each(function),
                        .large = true});
  op.refuses("integers", Kind::dtype, {"int64"}, [call] { call(ones({3}, DType::int64)); });
  return op;
}

// Softmax of one dimension; `logarithm` of it instead.
Array softmax_of(const Array& x, std::int64_t dim, bool logarithm) {
  const int place = static_cast<int>(dim < 0 ? dim + x.shape.rank() : dim);
  Array result(x.shape);
  for_each_position(x.shape, [&](Shape position) {
    if (position[place] != 0) return;
    const auto along = [&](auto body) {
      for (position[place] = 0; position[place] < x.shape[place]; ++position[place]) body();
    };
    double largest = -std::numeric_limits<double>::infinity(), total = 0;
    along([&] {
      largest = std::isnan(x.at(position)) || std::isnan(largest) ? std::nan("") : std::max(largest, x.at(position));
    });
    along([&] { total += std::exp(x.at(position) - largest); });
    along([&] {
      const double shifted = x.at(position) - largest;
      result.at(position) = logarithm ? shifted - std::log(total) : std::exp(shifted) / total;
    });
  });
  return result;
}

Operator softmax(const char* name, Tensor (*call)(const Tensor&, std::int64_t), bool logarithm) {
  Operator op{.name = name, .ulps = 8};
  struct Use {
    Shape shape;
    std::int64_t dim;
  };
  const auto add = [&](const char* label, Argument argument, std::int64_t dim, bool gradient, bool large) {
    const auto length =
        static_cast<double>(argument.shape[static_cast<int>(dim < 0 ? dim + argument.shape.rank() : dim)]);
    op.samples.push_back(
        {.name = message(label, argument.shape, " along ", dim),
         .arguments = {argument},
         .call = [call, dim](const std::vector<Tensor>& in) { return std::vector{call(in[0], dim)}; },
         .reference =
             [dim, logarithm](const std::vector<Array>& in) { return std::vector{softmax_of(in[0], dim, logarithm)}; },
         .gradient = gradient,
         .terms = std::max(1.0, std::sqrt(length)),
         .gradient_terms = std::max(1.0, length),
         .large = large});
  };
  for (const Use& use : {Use{{1}, 0}, Use{{10}, -1}, Use{{0, 5}, 1}, Use{{5, 0}, 0}, Use{{3, 1}, 1}, Use{{1, 9}, 1},
                         Use{{4, 17}, -1}, Use{{4, 33}, 1}, Use{{7, 11}, 0}, Use{{2, 5, 3}, 1}, Use{{2, 3, 5, 7}, -2},
                         Use{{3, 5, 2}, 0}, Use{{2, 1031}, 1}, Use{{13, 10}, 1}, Use{{9, 4, 17}, 1}, Use{{4097, 2}, 0}})
    add("", uniform(use.shape, -3, 3), use.dim, true, false);
  // Rows that groups, warps and blocks of cuda hold in registers or, the last, read twice.
  for (const Shape& shape : {Shape{5, 1}, Shape{3, 31}, Shape{3, 36}, Shape{7, 49}, Shape{3, 257}, Shape{3, 1023},
                             Shape{2, 1025}, Shape{2, 1536}, Shape{2, 4097}, Shape{1, 9001}})
    add("", uniform(shape, -3, 3), 1, true, false);
  const double infinity = std::numeric_limits<double>::infinity();
  add("large logits ", listed({3, 4}, {1000, 999, -1000, 0, -1e4, -1e4, -1e4, -1e4, 88, 89, 90, 1}), 1, false, false);
  add("infinities ", listed({4, 3}, {0, -infinity, 1, -infinity, -infinity, -infinity, 0, infinity, 1, 2, 2, 2}), 1,
      false, false);
  add("NaN ", listed({2, 9}, {0, 1, std::nan(""), 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0}), 1, false, false);
  add("large ", uniform({3001, 101}, -3, 3), 1, true, true);
  // As many rows as cuda wants for a warp each.
  for (const std::int64_t width : {77, 257}) add("many ", uniform({2049, width}, -3, 3), 1, width < 100, true);
  for (const std::int64_t width : {49, 3001, 9001}) {
    std::vector<double> hidden(static_cast<std::size_t>(width), -infinity);
    hidden[hidden.size() - 9] = 2, hidden[hidden.size() - 2] = -1;
    add("mostly impossible ", listed({2, width}, hidden), 1, false, false);
  }
  add("large inner ", uniform({3, 101, 1001}, -3, 3), 1, true, true);
  op.refuses("a dimension outside", Kind::shape, {"2"}, [call] { call(ones({3, 4}), 2); });
  op.refuses("more than no dimension", Kind::shape, {"1"}, [call] { call(ones({}), 1); });
  op.refuses("integers", Kind::dtype, {"int32"}, [call] { call(ones({3}, DType::int32), 0); });
  return op;
}

Operator activate() {
  Operator op{.name = "activate", .ulps = 6, .gradient_scale = 1};
  struct Use {
    const char* name;
    Activation activation;
    double (*function)(double);
  };
  for (const Use& use :
       {Use{"none", Activation::none, [](double x) { return x; }}, Use{"relu", Activation::relu, relu},
        Use{"sigmoid", Activation::sigmoid, sigmoid},
        Use{"tanh", Activation::tanh, [](double x) { return std::tanh(x); }},
        Use{"relu6", Activation::relu6, [](double x) { return activated(Activation::relu6, x); }},
        Use{"gelu", Activation::gelu, [](double x) { return activated(Activation::gelu, x); }},
        Use{"silu", Activation::silu, [](double x) { return activated(Activation::silu, x); }},
        Use{"hardswish", Activation::hardswish, [](double x) { return activated(Activation::hardswish, x); }}})
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{33}, Shape{3, 5}})
      op.samples.push_back(
          {.name = message(use.name, " ", shape),
           .arguments = {uniform(shape, -4, 4)},
           .call = [activation = use.activation](
                       const std::vector<Tensor>& in) { return std::vector{op::activate(in[0], activation)}; },
           .reference = each(use.function)});
  return op;
}

}  // namespace

std::vector<Operator> activation_cases() {
  std::vector<Operator> all;
  all.push_back(pointwise("relu", op::relu, relu));
  all.push_back(pointwise(
      "leaky_relu", [](const Tensor& x) { return op::leaky_relu(x, 0.125); },
      [](double x) { return x > 0 ? x : 0.125 * x; }));
  all.push_back(pointwise("sigmoid", op::sigmoid, [](double x) { return std::isnan(x) ? x : sigmoid(x); }));
  all.back().gradient_scale = 1;
  all.push_back(pointwise("tanh", op::tanh, [](double x) { return std::tanh(x); }));
  all.back().gradient_scale = 1;
  all.push_back(pointwise(
      "softplus", [](const Tensor& x) { return op::softplus(x); }, softplus));
  all.push_back(pointwise("gelu", op::gelu, gelu));
  all.push_back(softmax(
      "softmax", [](const Tensor& x, std::int64_t dim) { return op::softmax(x, dim); }, false));
  all.push_back(softmax(
      "log_softmax", [](const Tensor& x, std::int64_t dim) { return op::log_softmax(x, dim); }, true));
  all.push_back(activate());
  return all;
}

}  // namespace tern::testing
