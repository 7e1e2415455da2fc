#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tern/core/dtype.hpp"
#include "tern/core/shape.hpp"
#include "tern/core/storage.hpp"

namespace tern {

namespace autograd {
struct Node;
}
class Tensor;

/// How `backward` treats the graph.
struct BackwardOptions {
  bool retain_graph = false;  ///< keep the graph for another backward
};

/// A view of shared storage: dtype, shape, strides and offset (in elements). Copying a Tensor copies the handle.
/// Views (reshape, slice, transpose, permute, expand) share the storage. Where the bytes live is the storage's
/// business: operators run in the mode of the scope, and the bytes come over by themselves, once.
class Tensor {
 public:
  /// No tensor: `defined()` is false.
  Tensor() = default;
  /// Uninitialised elements of a new storage.
  explicit Tensor(const Shape& shape, DType dtype = DType::float32);
  /// A view of `storage`.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape, const Shape& strides, std::int64_t offset);

  bool defined() const { return body_ != nullptr; }
  explicit operator bool() const { return defined(); }
  const Shape& shape() const { return body_->shape; }
  const Shape& strides() const { return body_->strides; }
  std::int64_t offset() const { return body_->offset; }
  DType dtype() const { return body_->dtype; }
  int rank() const { return body_->shape.rank(); }
  /// Size of one dimension; negative counts from the end.
  std::int64_t size(std::int64_t dim) const { return body_->shape[normalize_dim("size", dim, rank())]; }
  std::int64_t numel() const { return body_->numel; }
  bool is_contiguous() const { return body_->contiguous; }
  Storage& storage() const { return *body_->storage; }
  const std::shared_ptr<Storage>& shared_storage() const { return body_->storage; }
  /// True when both handles are the same tensor (not merely equal values).
  bool is(const Tensor& other) const { return body_ == other.body_; }

  // ---- values on the host: these wait for the device ----
  /// The one element of a one-element tensor, converted to T. Throws ShapeError otherwise.
  template <class T = double>
  T item() const {
    return static_cast<T>(item_as_double());
  }
  /// All elements in row-major order. Throws DTypeError unless T is the tensor's element type.
  template <class T>
  std::vector<T> to_vector() const;
  /// All elements in row-major order, as double, from any dtype.
  std::vector<double> values() const;
  /// The elements of a contiguous tensor, in place. `write` makes the copies on devices stale.
  template <class T>
  std::span<const T> read() const {
    return {static_cast<const T*>(host_pointer(dtype_of<T>, false)), static_cast<std::size_t>(numel())};
  }
  template <class T>
  std::span<T> write() {
    return {static_cast<T*>(const_cast<void*>(host_pointer(dtype_of<T>, true))), static_cast<std::size_t>(numel())};
  }

  // ---- views and copies (recorded by autograd; see operators/shape.hpp) ----
  /// One size may be -1: it is computed. Copies only when the strides cannot express the shape.
  Tensor reshape(const Shape& shape) const;
  /// Merges the dimensions from `begin` to the last into one.
  Tensor flatten(std::int64_t begin = 0) const;
  /// Elements [begin, end) of one dimension, every `step`-th; negative positions count from the end.
  Tensor slice(std::int64_t dim, std::int64_t begin, std::int64_t end, std::int64_t step = 1) const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  Tensor permute(const std::vector<std::int64_t>& order) const;
  /// Repeats dimensions of size 1 without a copy.
  Tensor expand(const Shape& shape) const;
  Tensor squeeze(std::int64_t dim) const;
  Tensor unsqueeze(std::int64_t dim) const;
  /// Itself when contiguous, else a copy.
  Tensor contiguous() const;
  Tensor clone() const;
  /// Converted elements; itself when the dtype is the same.
  Tensor to(DType dtype) const;

  // ---- changes in place ----
  Tensor& fill_(double value);
  /// Copies `source`, broadcast and converted, into this tensor (a view writes through).
  Tensor& copy_(const Tensor& source);

  // ---- autograd ----
  bool requires_grad() const { return body_ && (body_->requires_grad || body_->node); }
  /// Marks a leaf whose gradient `backward` fills in. Floating dtypes only.
  Tensor& set_requires_grad(bool value = true);
  bool is_leaf() const { return !body_->node; }
  /// The accumulated gradient; undefined before a backward and after zero_grad.
  const Tensor& grad() const {
    if (detail::listener != nullptr) [[unlikely]]
      detail::listener->gradient(*this, false);
    return body_->gradient ? *body_->gradient : undefined();
  }
  void set_grad(Tensor gradient);
  void zero_grad() {
    if (detail::listener != nullptr) [[unlikely]]
      detail::listener->gradient(*this, true);
    body_->gradient.reset();
  }
  /// The gradient of this one-element tensor in every leaf that led to it, added to what is there. `gradient` is
  /// required for more than one element. Throws AutogradError on a second call (unless retained).
  void backward(const BackwardOptions& options = {}) const;
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const;
  /// The same elements, cut from the graph.
  Tensor detach() const;

  struct Body {
    std::shared_ptr<Storage> storage;
    Shape shape, strides;
    std::int64_t offset = 0;
    std::int64_t numel = 0;
    DType dtype = DType::float32;
    bool contiguous = true;
    bool requires_grad = false;
    std::shared_ptr<autograd::Node> node;
    std::unique_ptr<Tensor> gradient;
  };
  const std::shared_ptr<Body>& body() const { return body_; }

 private:
  static const Tensor& undefined();
  double item_as_double() const;
  const void* host_pointer(DType dtype, bool writes) const;

  std::shared_ptr<Body> body_;
};

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor whole = detach().contiguous();
  const auto elements = whole.read<T>();
  return std::vector<T>(elements.begin(), elements.end());
}

/// "tensor float32 [2,3]" and up to a few values.
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

}  // namespace tern
