#pragma once
// Shared by the public operators: checks, dtype dispatch, pointers in the scope's memory, broadcast descriptions.

#include <functional>
#include <limits>

#include "core/built.hpp"
#include "modes/observed.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/kernels/movement.hpp"
#include "tern/tensor/create.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::operators {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

using autograd::Gradients;
using autograd::needs;
using autograd::record;
using autograd::Saved;

/// autograd::recording. False in a library that only answers, so that the compiler leaves out what follows from it.
template <class... Inputs>
[[gnu::always_inline]] inline bool recording(const Inputs&... inputs) {
  if constexpr (built::whole)
    return autograd::recording(inputs...);
  else
    return false;
}

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

/// normalize_dim, but a rank-0 tensor has the dimension 0 of its one element.
inline int dim_of(const char* op, std::int64_t dim, int rank) {
  return rank == 0 && (dim == 0 || dim == -1) ? 0 : normalize_dim(op, dim, rank);
}

/// Throws for bool, which has no such operator.
inline void check_not_bool(const char* op, const Tensor& x) {
  check_defined(op, "the input", x);
  expects<DTypeError>(x.dtype() != DType::boolean, op,
                      ": inputs are bool, which have only logic, comparisons, sums and "
                      "choices; convert with to(...)");
}

/// A scalar tensor with the dtype of `like`.
inline Tensor number_like(const Tensor& like, double value) {
  Tensor number(Shape{}, like.dtype());
  number.fill_(value);
  return number;
}

/// Whether an integer dtype, or bool, can represent the value.
bool is_a(DType dtype, double value);

/// A scalar argument beside x: rounded to a floating dtype; an integer dtype must represent it.
Tensor number_beside(const char* op, const Tensor& x, double value);

/// During its lifetime, products in this scope keep the digits of `dtype` although it was converted to float32: float16
/// has digits that bfloat16 would drop.
class Unshortened {
 public:
  explicit Unshortened(DType dtype);
  Unshortened(const Unshortened&) = delete;
  Unshortened& operator=(const Unshortened&) = delete;
  ~Unshortened() { precision_ = outer_; }

 private:
  Precision& precision_;
  const Precision outer_;
};

/// Calls work() so that its kernel computes in float32 on tensors of the 16-bit `dtype`.
void in_float32(DType dtype, const std::function<void()>& work);
[[noreturn]] void throw_no_compute_type(const char* op, DType dtype);
[[noreturn]] void throw_no_integer_type(const char* op, DType dtype);

/// `mode` if `op` is its own, else the mode that it borrows the operator from.
const Mode& fallback(const Mode& mode, const char* op);

/// Calls work() in a Device of the mode.
void run_in(const Mode& mode, const std::function<void()>& work);

/// Calls f.template operator()<T>() with the compute type of `dtype`. If the scope's mode has no table for it, the
/// inner mode's is used, and otherwise float: every tensor of `dtype` whose pointer f takes is then converted to
/// float32 (conversion.cpp).
template <class F>
void with_type(const char* op, DType dtype, F&& f) {
  const bool computes = kernels::with_compute_type(dtype, [&]<class T>() {
    if constexpr (!std::is_same_v<T, Scalar<T>>) {
      const Mode& mode = *current_scope().mode;
      if (mode.table<T>() == nullptr) {
        if (mode.inner != nullptr) return run_in(tern::mode(mode.inner), [&] { with_type(op, dtype, f); });
        return in_float32(dtype, [&] { f.template operator()<float>(); });
      }
    }
    f.template operator()<T>();
  });
  if (!computes) throw_no_compute_type(op, dtype);
}

/// Whether the tables of floating and of integer dtypes have the slot that `Slot` selects.
template <class Slot>
inline constexpr bool takes_floating = std::is_invocable_v<Slot, const kernels::Operators<float>&>;
template <class Slot>
inline constexpr bool takes_integers = std::is_invocable_v<Slot, const kernels::Operators<std::int32_t>&>;

/// The same for a slot in one or both. If the scope's mode has no table for an integer dtype, the inner mode or the
/// reference computes.
template <class Slot, class F>
void with_type(const char* op, DType dtype, const Slot& slot, F&& f) {
  if constexpr (takes_integers<Slot>) {
    if (!is_floating(dtype)) {
      const bool takes = kernels::with_integer_type(dtype, [&]<class T>() {
        if (const Mode& mode = *current_scope().mode; mode.table<T>() == nullptr)
          return run_in(mode.inner != nullptr ? tern::mode(mode.inner) : reference_mode(),
                        [&] { with_type(op, dtype, slot, f); });
        f.template operator()<T>();
      });
      if (!takes) throw_no_integer_type(op, dtype);
      return;
    }
  }
  if constexpr (takes_floating<Slot>)
    with_type(op, dtype, f);
  else
    throw_no_integer_type(op, dtype);
}

/// The mode that runs `op` in the scope: its own, or the one that it borrows the operator from.
inline const Mode& mode_of(const char* op) {
  const Mode& mode = *current_scope().mode;
  return mode.inner == nullptr ? mode : fallback(mode, op);
}

/// Calls f() in the mode that runs `op`.
template <class F>
void where_it_runs(const char* op, F&& f) {
  if (const Mode& mode = mode_of(op); &mode != current_scope().mode) [[unlikely]]
    run_in(mode, f);
  else
    f();
}

/// Runs the operator `op`: with_type, reported to observers.
template <class F>
void visit(const char* op, DType dtype, F&& f) {
  where_it_runs(op, [&] {
    if (!observed()) [[likely]]
      with_type(op, dtype, f);
    else
      observe(op, dtype, [&](DType compute) { with_type(op, compute, f); });
  });
}

/// The same for an operator that accepts integers if their tables have its slot.
template <class Slot, class F>
void visit(const char* op, DType dtype, const Slot& slot, F&& f) {
  where_it_runs(op, [&] {
    if (!observed()) [[likely]]
      with_type(op, dtype, slot, f);
    else
      observe(op, dtype, [&](DType compute) { with_type(op, compute, slot, f); });
  });
}

/// Runs an operator that only moves elements, for any dtype.
template <class F>
void visit_any(const char* op, DType dtype, F&& f) {
  where_it_runs(op, [&] {
    if (!observed()) [[likely]]
      f();
    else
      observe(op, dtype, [&](DType) { f(); });
  });
}

/// One use of the scope by an operator: its context, and pointers in its memory.
class AnyCall {
 public:
  AnyCall() : scope_(current_scope()), observed_(OperatorCall::open()) {}
  Context& context() const { return scope_.context; }
  const kernels::Movement& movement() const { return scope_.mode->movement; }

  // Forced inline: because of the test for observers they would become calls, which operators on few elements notice.
  // `part`: the fraction of the elements that the kernel reads, for observers.
  /// The first element, for reading. Contiguous unless the kernel takes strides.
  template <class U>
  [[gnu::always_inline]] const U* in_as(const Tensor& x, double part = 1) const {
    if (void* const elsewhere = use(x, Role::in, sizeof(U), part)) [[unlikely]]
      return static_cast<const U*>(elsewhere);
    return static_cast<const U*>(x.storage().read(scope_)) + x.offset();
  }
  template <class U>
  const U* in_as(Tensor&&, double = 1) const = delete;  // observers read it after the call
  /// The first element of a new tensor or of a slice of one, which will be overwritten completely.
  template <class U>
  [[gnu::always_inline]] U* out_as(Tensor& x) const {
    if (void* const elsewhere = use(x, Role::out, sizeof(U), 1)) [[unlikely]]
      return static_cast<U*>(elsewhere);
    return static_cast<U*>(x.storage().write(scope_)) + x.offset();
  }
  /// The first element, for reading and writing.
  template <class U>
  U* inout_as(const Tensor& x) const {
    if (void* const elsewhere = use(x, Role::inout, sizeof(U), 1)) [[unlikely]]
      return static_cast<U*>(elsewhere);
    return static_cast<U*>(x.storage().update(scope_)) + x.offset();
  }

  // The same for elements of any dtype.
  const std::byte* bytes_in(const Tensor& x, double part = 1) const;
  std::byte* bytes_out(Tensor& x) const;
  /// For a view; the elements around it are unchanged.
  std::byte* bytes_into(const Tensor& x) const;

 protected:
  [[gnu::always_inline]] void* use(const Tensor& x, Role role, std::size_t element, double part) const {
    return observed_ == nullptr ? nullptr : observed_->use({&x, role, element, part});
  }

  Scope& scope_;
  OperatorCall* observed_;  // null: no observer
};

/// The same with the table of a compute type.
template <class T>
class Call : public AnyCall {
 public:
  const kernels::Operators<T>& table() const { return *scope_.mode->template table<T>(); }

  /// Null for an undefined tensor.
  [[gnu::always_inline]] const T* in(const Tensor& x, double part = 1) const {
    return x.defined() ? in_as<T>(x, part) : nullptr;
  }
  const T* in(Tensor&&, double = 1) const = delete;
  [[gnu::always_inline]] T* out(Tensor& x) const { return x.defined() ? out_as<T>(x) : nullptr; }
  T* inout(const Tensor& x) const { return x.defined() ? inout_as<T>(x) : nullptr; }
  // The same for scalars: statistics, losses, moments.
  const Scalar<T>* scalars_in(const Tensor& x) const { return x.defined() ? in_as<Scalar<T>>(x) : nullptr; }
  const Scalar<T>* scalars_in(Tensor&&) const = delete;
  Scalar<T>* scalars_out(Tensor& x) const { return x.defined() ? out_as<Scalar<T>>(x) : nullptr; }
  Scalar<T>* scalars_inout(const Tensor& x) const { return x.defined() ? inout_as<Scalar<T>>(x) : nullptr; }
  /// The operator's floating-point operations by definition, for observers.
  void flops(std::int64_t count) const {
    if (observed_ != nullptr) [[unlikely]]
      observed_->add_flops(static_cast<double>(count));
  }
};

/// The key of a stream for an operator.
random::Key draw(Generator& generator);

/// Saved for a backward that needs it only if `condition` holds.
inline Saved saved_if(bool condition, const Tensor& tensor) { return condition ? Saved(tensor) : Saved(); }

/// `count` contiguous elements for each of `inputs` tensors.
kernels::Broadcast run_of(std::int64_t count, std::size_t inputs);
/// Tensors with their own strides over an output of `shape`, adjacent dimensions merged. The output is in the order of
/// its shape or, for channels_last, of [N, H, W, C].
kernels::Broadcast make_broadcast(const Shape& shape, std::initializer_list<const Tensor*> inputs,
                                  kernels::Layout layout = kernels::Layout::channels_first);

/// Whether two elements of a view may share a place: a dimension's stride is smaller than the extent of the inner ones.
bool may_overlap(const Tensor& x);

/// Copies `in` (already expanded to out's shape) into the view `out`. Both have one dtype, any.
void copy_elements(const Tensor& out, const Tensor& in);

/// Labels and indices: contiguous int64 [n]; host modes check them against [0, bound), except `ignored`.
Tensor checked_labels(const char* op, const Tensor& labels, std::int64_t bound, std::int64_t ignored,
                      const char* which = "label");

}  // namespace tern::operators
