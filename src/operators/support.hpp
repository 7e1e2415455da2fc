#pragma once
// What the public operators share: checks, the dtype switch, pointers in the scope's memory, broadcast descriptions.

#include "device/profiler.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/tensor.hpp"
#include "tern/kernels/movement.hpp"

namespace tern::operators {

using autograd::Gradients;
using autograd::needs;
using autograd::record;
using autograd::recording;
using autograd::Saved;

/// Throws unless the tensor is defined; `which` names the argument.
inline void check_defined(const char* op, const char* which, const Tensor& x) {
  expects(x.defined(), op, ": ", which, " is undefined");
}

/// Throws unless both are defined and of one compute dtype.
inline void check_dtypes(const char* op, const Tensor& a, const Tensor& b) {
  check_defined(op, "the first input", a);
  check_defined(op, "the second input", b);
  expects<DTypeError>(a.dtype() == b.dtype(), op, ": inputs are ", a.dtype(), " and ", b.dtype(),
                      "; convert one with to(...)");
}

inline void check_rank(const char* op, const char* which, const Tensor& x, int rank) {
  check_defined(op, which, x);
  expects<ShapeError>(x.rank() == rank, op, ": ", which, " has shape ", x.shape(), ", expected ", rank, " dimensions");
}

/// Calls f.template operator()<T>() with the compute type of `dtype`.
template <class F>
void with_type(const char* op, DType dtype, F&& f) {
  if (dtype == DType::float32)
    f.template operator()<float>();
  else if (dtype == DType::float64)
    f.template operator()<double>();
  else
    throw DTypeError(
        message(op, ": inputs are ", dtype, "; operators compute in float32 and float64, convert with to(...)"));
}

/// The work of the operator `op`: with_type, seen by a Profile.
template <class F>
void visit(const char* op, DType dtype, F&& f) {
  const ProfileSpan span(op);
  with_type(op, dtype, std::forward<F>(f));
}

/// One use of the scope by an operator: the table of a compute type, its context, and pointers in its memory.
template <class T>
class Call {
 public:
  Call() : scope_(current_scope()) {}
  const kernels::Operators<T>& table() const { return scope_.mode->template table<T>(); }
  Context& context() const { return scope_.context; }

  // These are inlined by force: with the test for a Profile they would be calls, which operators on few elements
  // notice.
  /// The first element for reading; null for an undefined tensor. Contiguous unless the kernel takes strides.
  [[gnu::always_inline]] const T* in(const Tensor& x) const { return x.defined() ? in_as<T>(x) : nullptr; }
  /// The first element of a new tensor, to be overwritten whole; null for an undefined tensor.
  [[gnu::always_inline]] T* out(Tensor& x) const { return x.defined() ? out_as<T>(x) : nullptr; }
  /// The first element for reading and writing.
  T* inout(const Tensor& x) const {
    if (!x.defined()) return nullptr;
    touch(x, sizeof(T), 2);
    return static_cast<T*>(x.storage().update(scope_)) + x.offset();
  }
  template <class U>
  [[gnu::always_inline]] const U* in_as(const Tensor& x) const {
    touch(x, sizeof(U), 1);
    return static_cast<const U*>(x.storage().read(scope_)) + x.offset();
  }
  template <class U>
  [[gnu::always_inline]] U* out_as(Tensor& x) const {
    touch(x, sizeof(U), 1);
    return static_cast<U*>(x.storage().write(scope_));
  }
  /// Tells a Profile what the operator computes by its definition.
  void flops(std::int64_t count) const {
    if (ProfileRecorder::any()) [[unlikely]]
      ProfileRecorder::count_flops(static_cast<double>(count));
  }
  /// Tells a Profile that of a tensor whose pointer it saw only `part` of `whole` is read or written.
  void only(const Tensor& x, std::int64_t part, std::int64_t whole) const {
    if (ProfileRecorder::any()) [[unlikely]]
      ProfileRecorder::count_bytes(x, sizeof(T), static_cast<double>(part) / static_cast<double>(whole) - 1);
  }

 private:
  [[gnu::always_inline]] static void touch(const Tensor& x, std::size_t element, int times) {
    if (ProfileRecorder::any()) [[unlikely]]
      ProfileRecorder::count_bytes(x, element, times);
  }

  Scope& scope_;
};

/// What a backward needs only where `condition` holds.
inline Saved saved_if(bool condition, const Tensor& tensor) { return condition ? Saved(tensor) : Saved(); }

/// `count` elements side by side, of each of `inputs` tensors.
kernels::Broadcast run_of(std::int64_t count, std::size_t inputs);
/// Tensors read with their own strides over an output of `shape`, neighbouring dimensions merged.
kernels::Broadcast make_broadcast(const Shape& shape, std::initializer_list<const Tensor*> inputs);

/// True when two elements of a view may share a place: a dimension steps over less than the smaller ones reach.
bool may_overlap(const Tensor& x);

/// Copies `in` (expanded to out's shape already) into the view `out`. Any dtype, one for both.
void copy_elements(const Tensor& out, const Tensor& in);

/// Labels and indices: contiguous int64 [n]; on host modes checked against [0, bound) except `ignored`.
Tensor checked_labels(const char* op, const Tensor& labels, std::int64_t bound, std::int64_t ignored);

}  // namespace tern::operators
