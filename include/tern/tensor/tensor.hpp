#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/convert.hpp"
#include "tern/core/dtype.hpp"
#include "tern/core/shape.hpp"
#include "tern/tensor/storage.hpp"

namespace tern {

namespace autograd {
struct Node;
struct Handle;
}  // namespace autograd
class Tensor;

/// Dimensions, negative ones counted from the end; an empty list means all of them. A single number is one dimension.
class Dims {
 public:
  Dims() = default;
  template <std::integral I>
  Dims(I dim) requires(!std::same_as<I, bool>) : dims_{static_cast<std::int64_t>(dim)} {}
  Dims(std::initializer_list<std::int64_t> dims) : dims_(dims) {}
  Dims(std::vector<std::int64_t> dims) : dims_(std::move(dims)) {}

  auto begin() const { return dims_.begin(); }
  auto end() const { return dims_.end(); }
  std::size_t size() const { return dims_.size(); }
  bool empty() const { return dims_.empty(); }
  void push_back(std::int64_t dim) { dims_.push_back(dim); }

 private:
  std::vector<std::int64_t> dims_;
};

/// How `backward` treats the graph.
struct BackwardOptions {
  bool retain_graph = false;  ///< keep the graph for another backward
  /// Called as soon as the gradient of a leaf is complete: the rest of this backward adds nothing to it.
  std::function<void(const Tensor& leaf)> complete = {};
};

/// A view of shared storage: dtype, shape, strides and offset (in elements). Copying a Tensor copies the handle. Views
/// (reshape, slice, transpose, permute, expand) share the storage. The storage decides where the bytes live: operators
/// run in the mode of the scope, and the bytes move there automatically, once.
class Tensor {
 public:
  /// No tensor: `defined()` is false, as it is for a moved-from handle. Every other use throws Error, except
  /// `requires_grad` (false), `is`, `detach` (undefined) and printing.
  Tensor() = default;
  /// A new storage with uninitialised elements.
  explicit Tensor(const Shape& shape, DType dtype = DType::float32);
  /// A view of `storage`. Throws ShapeError unless all its elements lie inside.
  Tensor(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape, const Shape& strides, std::int64_t offset);

  /// There is no conversion to bool: `if (x > 0)` would test whether x > 0 is a tensor. Use defined() or item<bool>().
  bool defined() const { return body_ != nullptr; }
  const Shape& shape() const { return checked("shape").shape; }
  const Shape& strides() const { return checked("strides").strides; }
  std::int64_t offset() const { return checked("offset").offset; }
  DType dtype() const { return checked("dtype").dtype; }
  int rank() const { return checked("rank").shape.rank(); }
  /// Size of one dimension; negative counts from the end.
  std::int64_t size(std::int64_t dim) const { return shape()[normalize_dim("size", dim, rank())]; }
  std::int64_t numel() const { return checked("numel").numel; }
  bool is_contiguous() const { return checked("is_contiguous").contiguous; }
  Storage& storage() const { return *checked("storage").storage; }
  const std::shared_ptr<Storage>& shared_storage() const { return checked("shared_storage").storage; }
  /// True when both handles are the same tensor (not merely equal values).
  bool is(const Tensor& other) const { return body_ == other.body_; }

  // ---- values on the host: these wait for the device ----
  /// The one element of a one-element tensor, converted to T (core/convert.hpp). Throws ShapeError otherwise.
  template <class T = double>
  T item() const {
    return element().to<T>();
  }
  /// All elements in row-major order. Throws DTypeError unless T is the tensor's element type.
  template <class T>
  std::vector<T> to_vector() const;
  /// All elements in row-major order, as double, from any dtype.
  std::vector<double> values() const;
  /// The elements of a contiguous tensor, in place. `write` makes the copies on devices stale and counts as one change
  /// at the time of the call. Write before anything uses the tensor again, and call it again for the next change: a
  /// write through an old span reaches no device, and backward does not notice it.
  template <class T>
  std::span<const T> read() const {
    return {static_cast<const T*>(host_pointer(dtype_of<T>, false)), static_cast<std::size_t>(numel())};
  }
  template <class T>
  std::span<T> write() {
    return {static_cast<T*>(const_cast<void*>(host_pointer(dtype_of<T>, true))), static_cast<std::size_t>(numel())};
  }

  // ---- views and copies (recorded by autograd; see operators/shape.hpp) ----
  /// One size may be -1, which is then computed. Copies only if strides cannot express the shape.
  Tensor reshape(const Shape& shape) const;
  /// Merges the dimensions from `begin` to the last into one.
  Tensor flatten(std::int64_t begin = 0) const;
  /// Elements [begin, end) of one dimension, every `step`-th. Negative positions count from the end, and positions
  /// outside are left out, as in Python. A negative step counts down from `begin` to above `end` and copies.
  Tensor slice(std::int64_t dim, std::int64_t begin, std::int64_t end = std::numeric_limits<std::int64_t>::max(),
               std::int64_t step = 1) const;
  /// The i-th slice along the first dimension, without that dimension; negative counts from the end. Throws ShapeError
  /// if out of range.
  Tensor operator[](std::int64_t i) const;
  /// Iterates over these slices: `for (const Tensor& row : x)`.
  class Rows;
  Rows begin() const;
  Rows end() const;
  Tensor transpose(std::int64_t a, std::int64_t b) const;
  /// A matrix with its dimensions exchanged. Tensors of fewer dimensions stay as they are; more are a ShapeError.
  Tensor t() const;
  Tensor permute(const std::vector<std::int64_t>& order) const;
  /// Repeats dimensions of size 1 without a copy; -1 keeps a size.
  Tensor expand(const Shape& shape) const;
  /// Removes all dimensions of size 1, or the one named, whose size must be 1.
  Tensor squeeze() const;
  Tensor squeeze(std::int64_t dim) const;
  Tensor unsqueeze(std::int64_t dim) const;
  /// Itself if contiguous, else a copy.
  Tensor contiguous() const;
  Tensor clone() const;
  /// Converted elements; itself if the dtype is the same.
  Tensor to(DType dtype) const;

  // ---- operators as methods; operators/*.hpp defines them, and more ----
  Tensor sum(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor mean(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor var(const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false) const;
  Tensor std(const Dims& dims = {}, std::int64_t correction = 1, bool keep_dims = false) const;
  Tensor max(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor min(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor prod(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor norm(double order = 2, const Dims& dims = {}, bool keep_dims = false) const;
  Tensor any(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor all(const Dims& dims = {}, bool keep_dims = false) const;
  Tensor argmax(std::int64_t dim = -1, bool keep_dims = false) const;
  Tensor argmin(std::int64_t dim = -1, bool keep_dims = false) const;
  Tensor argsort(std::int64_t dim = -1, bool descending = false) const;
  Tensor cumsum(std::int64_t dim) const;
  Tensor matmul(const Tensor& other) const;
  Tensor relu() const;
  Tensor sigmoid() const;
  Tensor tanh() const;
  Tensor softmax(std::int64_t dim = -1) const;
  Tensor log_softmax(std::int64_t dim = -1) const;
  Tensor exp() const;
  Tensor log() const;
  Tensor sqrt() const;
  Tensor square() const;
  Tensor abs() const;
  Tensor pow(double exponent) const;
  Tensor clamp(double low, double high) const;
  Tensor masked_fill(const Tensor& mask, double value) const;
  Tensor index_select(std::int64_t dim, const Tensor& index) const;
  Tensor gather(std::int64_t dim, const Tensor& index) const;
  Tensor flip(const Dims& dims) const;

  // ---- changes in place ----
  // A view whose elements share memory (an expanded one) cannot be written: ShapeError.
  Tensor& fill_(Number value);
  /// Copies `source`, broadcast and converted, into this tensor; a view writes through. Not recorded: a source that
  /// requires a gradient is an AutogradError, except under NoGrad.
  Tensor& copy_(const Tensor& source);

  // ---- autograd ----
  bool requires_grad() const { return body_ && (body_->requires_grad || body_->node); }
  /// Marks a leaf whose gradient `backward` fills in. Floating dtypes only.
  Tensor& set_requires_grad(bool value = true);
  bool is_leaf() const { return !checked("is_leaf").node; }
  /// The accumulated gradient; undefined before a backward and after zero_grad.
  const Tensor& grad() const {
    const std::unique_ptr<Tensor>& gradient = checked("grad").gradient;
    if (detail::observer != nullptr) [[unlikely]]
      tell([&](Observer& observer) { observer.gradient(*this, false); });
    return gradient ? *gradient : undefined();
  }
  /// Takes `gradient`, detached from its graph, without a copy: the caller shares its elements.
  void set_grad(Tensor gradient);
  void zero_grad() {
    std::unique_ptr<Tensor>& gradient = checked("zero_grad").gradient;
    if (detail::observer != nullptr) [[unlikely]]
      tell([&](Observer& observer) { observer.gradient(*this, true); });
    gradient.reset();
  }
  /// Adds the gradient of this one-element tensor to the gradient of every leaf that led to it. A tensor of more
  /// elements needs `gradient`, of its shape and dtype. A leaf's gradient shares its elements with no other tensor.
  /// Throws AutogradError on a second call (unless retained).
  void backward(const BackwardOptions& options = {}) const;
  void backward(const Tensor& gradient, const BackwardOptions& options = {}) const;
  /// The same elements, detached from the graph.
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
  /// What all handles of one tensor share; null for an undefined one.
  const Body* body() const { return body_.get(); }
  /// The number of handles of this tensor.
  std::int64_t handles() const { return body_.use_count(); }

 private:
  friend struct autograd::Handle;
  explicit Tensor(std::shared_ptr<Body> body) : body_(std::move(body)) {}
  Body& checked(const char* use) const {
    if (body_ == nullptr) [[unlikely]]
      throw_undefined(use);
    return *body_;
  }
  [[noreturn, gnu::cold, gnu::noinline]] static void throw_undefined(const char* use);
  static const Tensor& undefined();
  Number element() const;
  const void* host_pointer(DType dtype, bool writes) const;

  std::shared_ptr<Body> body_;
};

/// Walks the first dimension.
class Tensor::Rows {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Tensor;
  using difference_type = std::ptrdiff_t;
  using pointer = void;
  using reference = Tensor;

  Rows() = default;
  Rows(Tensor of, std::int64_t row) : of_(std::move(of)), row_(row) {}
  Tensor operator*() const { return of_[row_]; }
  Rows& operator++() {
    ++row_;
    return *this;
  }
  Rows operator++(int) { return {of_, row_++}; }
  bool operator==(const Rows& other) const { return row_ == other.row_; }

 private:
  Tensor of_;
  std::int64_t row_ = 0;
};

template <class T>
std::vector<T> Tensor::to_vector() const {
  const Tensor whole = detach().contiguous();
  const auto elements = whole.read<T>();
  return std::vector<T>(elements.begin(), elements.end());
}

/// How a tensor is printed.
struct PrintOptions {
  int precision = 4;              ///< digits after the point
  int width = 80;                 ///< columns of a line; a longer row continues on the next line
  std::int64_t threshold = 1000;  ///< a tensor of more elements is abbreviated to its edges
  std::int64_t edge = 3;          ///< elements shown at both ends of each dimension when abbreviated
};
/// A line such as "float32 [2,3] in host" with the memories that hold the elements, then the elements in rows, as NumPy
/// and torch print them. Printing moves nothing and counts as no use; it waits for a device that computes them.
std::string to_string(const Tensor& tensor, const PrintOptions& options = {});
std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);

}  // namespace tern
