#include "tern/optim/clip.hpp"

#include "tern/autograd/tape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/tensor/create.hpp"

namespace tern::optim {

Tensor clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm) {
  expects(max_norm >= 0, "clip_grad_norm: max_norm is ", max_norm, ", it must not be negative");
  const NoGrad no_grad;
  Tensor squares;
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const Tensor gradient = parameter.grad().to(scalar_of(parameter.dtype()));
    const Tensor square = operators::sum(gradient * gradient);
    if (!squares.defined())
      squares = square;
    else if (squares.dtype() == square.dtype())
      squares = squares + square;
    else
      squares = squares.to(DType::float64) + square.to(DType::float64);
  }
  if (!squares.defined()) return scalar(0.0f);
  Tensor norm = operators::sqrt(squares);
  const Tensor factor = operators::clamp(max_norm / (norm + 1e-6), 0, 1);
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const Tensor gradient = parameter.grad().to(scalar_of(parameter.dtype()));
    Tensor(parameter).set_grad((gradient * factor.to(gradient.dtype())).to(parameter.dtype()));
  }
  return norm;
}

}  // namespace tern::optim
