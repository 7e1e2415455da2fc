#pragma once
// Reverse-mode differentiation. A public operator ends with
//
//     if (autograd::recording(a, b))
//       autograd::record("mul", out, {a, b}, [a = Saved(a), b = Saved(b)](const Tensor& grad) { ... });
//
// This file knows no operator by name.

#include <functional>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern {

/// The calling thread records nothing while one of these lives.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;
  ~NoGrad();

 private:
  bool outer_;
};

namespace autograd {

/// One gradient per input of the operator, in the same order; undefined for an input that needs none.
using Gradients = std::vector<Tensor>;
using Backward = std::function<Gradients(const Tensor& grad)>;

/// An operator's input or output that backward needs. Changing its elements in place between forward and backward is an
/// AutogradError.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor);
  /// The tensor, detached from the graph.
  const Tensor& get() const;
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

/// Whether the calling thread records.
bool enabled();

/// Whether an operator on these inputs must record.
template <class... Tensors>
bool recording(const Tensors&... inputs) {
  return (inputs.requires_grad() || ...) && enabled();
}
bool recording(const std::vector<Tensor>& inputs);

/// Records `out` as the result of `inputs`. `backward` computes the gradients of the inputs from the gradient of `out`,
/// in the mode of the current scope. It returns one gradient per input, with that input's shape and dtype; otherwise
/// Tensor::backward throws AutogradError.
void record(const char* name, Tensor& out, std::vector<Tensor> inputs, Backward backward);

/// The float32 leaf that was rounded to x in 16 bits, or x if there is none. An operator that records the leaf in x's
/// place computes its gradient without rounding it.
Tensor unrounded(const Tensor& x);

/// The same for a view that shows each element of `x` once. A later slice of `out` then knows its place in x's
/// gradient.
void record_view(const char* name, Tensor& out, const Tensor& x, Backward backward);

/// Records `out` as a slice of `x`: what `part` shows of a contiguous tensor of x's shape. Slices of one tensor add to
/// one gradient of x's size, in the order in which backward reaches them, so each costs only its own elements.
struct Part {
  Shape shape, strides;
  std::int64_t offset = 0;
};
void record_part(const char* name, Tensor& out, const Tensor& x, Part part);

/// Records `outs` as the results of `x`. `backward` gets one gradient per result, undefined where a result does not
/// lead to the loss. Another backward may call it again, so it must not save elements.
void record_all(const char* name, std::vector<Tensor>& outs, const Tensor& x,
                std::function<Tensor(const Gradients& grads)> backward);

/// True for the 1 that Tensor::backward() starts with. An operator may have computed its gradients for that value
/// already.
bool is_first_gradient(const Tensor& gradient);

/// Whether the operator being recorded needs the gradient of this input.
inline bool needs(const Tensor& input) { return input.requires_grad(); }

}  // namespace autograd
}  // namespace tern
