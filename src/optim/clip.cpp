#include "tern/optim/clip.hpp"

#include "optim/sum_of_squares.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/tensor/create.hpp"

namespace tern::optim {

namespace {

Tensor sum_of_own(const std::vector<Tensor>& squares) {
  Tensor sum;
  for (const Tensor& square : squares)
    if (square.defined()) sum = sum.defined() ? sum + square : square;
  return sum;
}

}  // namespace

Tensor clip_by_sum(const std::vector<Tensor>& parameters, double max_norm,
                   const std::function<Tensor(const std::vector<Tensor>&, const std::vector<Tensor>&)>& sum_of) {
  expects(max_norm >= 0, "clip_grad_norm: max_norm is ", max_norm, ", it must not be negative");
  const NoGrad no_grad;
  // In float64, whose range holds the square of every float32.
  std::vector<Tensor> squares;
  bool wide = false;
  for (const Tensor& parameter : parameters) {
    wide = wide || parameter.dtype() == DType::float64;
    squares.emplace_back();
    if (!parameter.grad().defined()) continue;
    const Tensor gradient = parameter.grad().to(DType::float64);
    squares.back() = operators::sum(gradient * gradient).reshape({1});
  }
  const Tensor sum = sum_of(parameters, squares);
  if (!sum.defined()) return scalar(0.0f);
  const Tensor norm = operators::sqrt(sum).reshape({});
  const Tensor factor = operators::clamp(max_norm / (norm + 1e-6), 0, 1);
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const Tensor gradient = parameter.grad().to(scalar_of(parameter.dtype()));
    Tensor(parameter).set_grad((gradient * factor.to(gradient.dtype())).to(parameter.dtype()));
  }
  return wide ? norm : norm.to(DType::float32);
}

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  const SumOfSquares over_ranks = sum_over_ranks.load();
  return clip_by_sum(parameters, max_norm, [&](const std::vector<Tensor>& all, const std::vector<Tensor>& squares) {
    return over_ranks != nullptr ? over_ranks(all, squares) : sum_of_own(squares);
  });
}

}  // namespace tern::optim
