// Optimiser steps, several in a row, over tensors of several sizes at once.

#include <algorithm>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
constexpr int steps = 3;
constexpr double learning_rate = 0.125;

Tensor number_like(const Tensor& like, double value) { return full({}, value, scalar_of(like.dtype())); }

std::vector<Argument> arguments_of(const std::vector<Shape>& shapes) {
  std::vector<Argument> arguments;
  for (const Shape& shape : shapes) arguments.push_back(constant(uniform(shape)));
  for (const Shape& shape : shapes) arguments.push_back(constant(uniform(shape)));
  return arguments;
}

std::vector<Tensor> clones(const std::vector<Tensor>& in, std::size_t begin, std::size_t end) {
  std::vector<Tensor> result;
  for (std::size_t i = begin; i < end; ++i) result.push_back(in[i].clone());
  return result;
}

std::vector<Tensor> like(const std::vector<Tensor>& tensors, double value) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(full(tensor.shape(), value, scalar_of(tensor.dtype())));
  return result;
}

const std::vector<std::vector<Shape>>& shape_sets() {
  static const std::vector<std::vector<Shape>> all{
      {{}}, {{1}, {9}}, {{17}, {0}, {33}}, {{3, 5}, {5}, {7, 11, 2}, {4097}}, {{196, 784}, {196}, {10, 196}, {10}}};
  return all;
}

Sample sgd_sample(const std::vector<Shape>& shapes, const kernels::Sgd& options, const std::string& name, bool large) {
  const std::size_t count = shapes.size();
  return {.name = name,
          .arguments = arguments_of(shapes),
          .call =
              [count, options](const std::vector<Tensor>& in) {
                std::vector<Tensor> parameters = clones(in, 0, count), gradients = clones(in, count, 2 * count),
                                    momenta;
                // What is not yet written may hold anything.
                if (options.momentum != 0) momenta = like(parameters, std::nan(""));
                const Tensor rate = number_like(parameters[0], learning_rate);
                for (int step = 0; step < steps; ++step) {
                  kernels::Sgd now = options;
                  now.first_step = step == 0;
                  op::sgd(parameters, gradients, momenta, rate, now);
                }
                parameters.insert(parameters.end(), momenta.begin(), momenta.end());
                return parameters;
              },
          .reference =
              [count, options](const std::vector<Array>& in) {
                std::vector<Array> parameters(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count)),
                    momenta = parameters;
                for (std::size_t i = 0; i < count; ++i)
                  for (std::int64_t j = 0; j < parameters[i].size(); ++j) {
                    double& p = parameters[i][j];
                    double& v = momenta[i][j];
                    for (int step = 0; step < steps; ++step) {
                      double g = in[count + i][j] + options.weight_decay * p;
                      if (options.momentum != 0) {
                        v = step == 0 ? g : options.momentum * v + (1 - options.dampening) * g;
                        g = options.nesterov ? g + options.momentum * v : v;
                      }
                      p -= learning_rate * g;
                    }
                  }
                if (options.momentum != 0) parameters.insert(parameters.end(), momenta.begin(), momenta.end());
                return parameters;
              },
          .gradient = false,
          .terms = 3,
          .large = large,
          .scalars_from = static_cast<int>(count),
          .roundings = steps};
}

Operator sgd() {
  Operator op{.name = "sgd"};
  struct Use {
    const char* name;
    kernels::Sgd options;
  };
  for (const Use& use : {Use{"plain", {}}, Use{"momentum", {.momentum = 0.9}}, Use{"decay", {.weight_decay = 0.01}},
                         Use{"momentum, decay", {.momentum = 0.9, .weight_decay = 0.01}},
                         Use{"dampening", {.momentum = 0.9, .dampening = 0.5}},
                         Use{"nesterov", {.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}}})
    for (const auto& shapes : shape_sets())
      op.samples.push_back(sgd_sample(shapes, use.options,
                                      message(use.name, " over ", shapes.size(), " from ", shapes[0]),
                                      shapes.size() == 4 && shapes[0].rank() == 2 && shapes[0][0] > 100));
  const auto rate = [] { return full({}, 0.1); };
  op.refuses("lists of different lengths", Kind::shape, {"1", "2"}, [=] {
    op::sgd({ones({2})}, {ones({2}), ones({2})}, {}, rate(), {});
  });
  op.refuses("shapes that differ", Kind::shape, {"[2]", "[3]"},
             [=] { op::sgd({ones({2})}, {ones({3})}, {}, rate(), {}); });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"},
             [=] { op::sgd({ones({2})}, {ones({2}, DType::float64)}, {}, rate(), {}); });
  op.refuses("learning rate of two elements", Kind::shape, {"learning rate"},
             [] { op::sgd({ones({2})}, {ones({2})}, {}, ones({2}), {}); });
  op.refuses("strided parameter", Kind::shape, {"contiguous"}, [=] {
    op::sgd({ones({4, 3}).transpose(0, 1)}, {ones({3, 4})}, {}, rate(), {});
  });
  return op;
}

Operator adam() {
  Operator op{.name = "adam", .ulps = 8};
  struct Use {
    const char* name;
    kernels::Adam options;
  };
  for (const Use& use : {Use{"plain", {}}, Use{"decay", {.weight_decay = 0.01}},
                         Use{"decoupled decay", {.weight_decay = 0.01, .decoupled = true}},
                         Use{"other betas", {.beta1 = 0.5, .beta2 = 0.75, .epsilon = 0.01}}})
    for (const auto& shapes : shape_sets()) {
      const std::size_t count = shapes.size();
      op.samples.push_back(
          {.name = message(use.name, " over ", count, " from ", shapes[0]),
           .arguments = arguments_of(shapes),
           .call =
               [count, options = use.options](const std::vector<Tensor>& in) {
                 std::vector<Tensor> parameters = clones(in, 0, count), gradients = clones(in, count, 2 * count);
                 std::vector<Tensor> first = like(parameters, 0), second = like(parameters, 0);
                 const Tensor rate = number_like(parameters[0], learning_rate), step = zeros({}, DType::int64);
                 for (int i = 0; i < steps; ++i) op::adam(parameters, gradients, first, second, rate, step, options);
                 parameters.insert(parameters.end(), first.begin(), first.end());
                 parameters.insert(parameters.end(), second.begin(), second.end());
                 parameters.push_back(step);
                 return parameters;
               },
           .reference =
               [count, options = use.options](const std::vector<Array>& in) {
                 std::vector<Array> parameters(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(count)), first,
                     second;
                 for (const Array& parameter : parameters) {
                   first.emplace_back(parameter.shape);
                   second.emplace_back(parameter.shape);
                 }
                 for (std::size_t i = 0; i < count; ++i)
                   for (std::int64_t j = 0; j < parameters[i].size(); ++j)
                     for (int t = 1; t <= steps; ++t) {
                       double &p = parameters[i][j], &m = first[i][j], &v = second[i][j];
                       double g = in[count + i][j];
                       if (options.decoupled)
                         p -= learning_rate * options.weight_decay * p;
                       else
                         g += options.weight_decay * p;
                       m = options.beta1 * m + (1 - options.beta1) * g;
                       v = options.beta2 * v + (1 - options.beta2) * g * g;
                       p -= learning_rate * (m / (1 - std::pow(options.beta1, t))) /
                            (std::sqrt(v / (1 - std::pow(options.beta2, t))) + options.epsilon);
                     }
                 parameters.insert(parameters.end(), first.begin(), first.end());
                 parameters.insert(parameters.end(), second.begin(), second.end());
                 parameters.emplace_back(Shape{}, steps, DType::int64);
                 return parameters;
               },
           .gradient = false,
           .terms = 3,
           .large = count == 4 && shapes[0].rank() == 2 && shapes[0][0] > 100,
           .scalars_from = static_cast<int>(count),
           .roundings = steps});
    }
  const auto rate = [] { return full({}, 0.1); };
  const auto step = [] { return zeros({}, DType::int64); };
  op.refuses("lists of different lengths", Kind::shape, {"1", "0"},
             [=] { op::adam({ones({2})}, {ones({2})}, {}, {}, rate(), step(), {}); });
  op.refuses("shapes that differ", Kind::shape, {"[2]", "[3]"},
             [=] { op::adam({ones({2})}, {ones({3})}, {ones({2})}, {ones({2})}, rate(), step(), {}); });
  op.refuses("step that is not int64", Kind::dtype, {"int64"},
             [=] { op::adam({ones({2})}, {ones({2})}, {ones({2})}, {ones({2})}, rate(), zeros({}), {}); });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"},
             [=] { op::adam({ones({2})}, {ones({2}, DType::float64)}, {ones({2})}, {ones({2})}, rate(), step(), {}); });
  return op;
}

}  // namespace

std::vector<Operator> update_cases() { return {sgd(), adam()}; }

}  // namespace tern::testing
