#pragma once
// Reverse-mode differentiation. A public operator ends with
//
//     if (autograd::recording(a, b))
//       autograd::record("mul", out, {a, b}, [a = Saved(a), b = Saved(b)](const Tensor& grad) { ... });
//
// and this file knows no operator by name.

#include <functional>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern {

/// While one of these lives, the calling thread records nothing.
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

/// One gradient per input of the operator, in their order; undefined where an input needs none.
using Gradients = std::vector<Tensor>;
using Backward = std::function<Gradients(const Tensor& grad)>;

/// What backward needs of an operator's input or output: the elements as they were. A change in place between forward
/// and backward is an AutogradError.
class Saved {
 public:
  Saved() = default;
  explicit Saved(const Tensor& tensor);
  /// The tensor, cut from the graph.
  const Tensor& get() const;
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
  std::uint64_t version_ = 0;
};

/// Whether the calling thread records at all.
bool enabled();

/// Whether an operator on these inputs must record.
template <class... Tensors>
bool recording(const Tensors&... inputs) {
  return (inputs.requires_grad() || ...) && enabled();
}
bool recording(const std::vector<Tensor>& inputs);

/// Makes `out` the result of `inputs`: `backward` turns its gradient into theirs, in the mode of the present scope. It
/// gives one gradient for each of `inputs`, of that one's shape and dtype; else Tensor::backward throws AutogradError.
void record(const char* name, Tensor& out, std::vector<Tensor> inputs, Backward backward);

/// The same for a view that shows each element of `x` once: what is cut from `out` later finds its place in x's
/// gradient.
void record_view(const char* name, Tensor& out, const Tensor& x, Backward backward);

/// Makes `out` a part of `x`: what `part` shows of a contiguous tensor of x's shape. Parts of one tensor are added, in
/// the order in which backward comes to them, to one gradient of its size: each costs what it holds.
struct Part {
  Shape shape, strides;
  std::int64_t offset = 0;
};
void record_part(const char* name, Tensor& out, const Tensor& x, Part part);

/// Makes `outs` the results of `x`. `backward` gets a gradient for each of them, undefined where nothing led to the
/// loss. It may be called again by another backward, so it must not save elements.
void record_all(const char* name, std::vector<Tensor>& outs, const Tensor& x,
                std::function<Tensor(const Gradients& grads)> backward);

/// True for the 1 that Tensor::backward() begins with: an operator may have the gradients for it ready.
bool is_first_gradient(const Tensor& gradient);

/// True when the operator being recorded needs the gradient of this input at all.
inline bool needs(const Tensor& input) { return input.requires_grad(); }

}  // namespace autograd
}  // namespace tern
