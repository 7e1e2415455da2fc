#include "tern/operators/reduction.hpp"

#include <algorithm>

#include "operators/composed.hpp"
#include "operators/layout.hpp"
#include "operators/traced.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// How a reduction sees its input: [outer, length, inner] along `length`.
struct Plan {
  Tensor input;  // contiguous, reduced dimensions adjacent
  kernels::Axis axis;
  Shape reduced;                    // the result's shape
  Shape kept;                       // the same with size 1 for every reduced dimension
  std::vector<std::int64_t> order;  // the permutation of the dimensions; empty if there is none
};

Plan plan(const char* op, const Tensor& x, const Dims& dims, bool keep_dims) {
  check_defined(op, "the input", x);
  bool reduces[Shape::max_rank] = {};
  for (std::int64_t dim : dims) {
    const int place = dim_of(op, dim, x.rank());
    expects<ShapeError>(!reduces[place], op, ": dimension ", dim, " is named twice");
    reduces[place] = true;
  }
  if (dims.empty()) std::fill_n(reduces, x.rank(), true);
  Plan result;
  int first = -1, last = -1, count = 0;
  for (int i = 0; i < x.rank(); ++i) {
    if (reduces[i]) {
      if (first < 0) first = i;
      last = i;
      ++count;
    }
    result.kept.push_back(reduces[i] ? 1 : x.shape()[i]);
    if (!reduces[i] || keep_dims) result.reduced.push_back(result.kept.back());
  }
  const bool images = layout_of(x) == Layout::channels_last && reduces[2] && reduces[3] && !reduces[1];
  if (images || (layout_of(x) == Layout::channels_last && count == 1 && reduces[1])) {
    // Planes, or channels, in memory order: kept and reduced dimensions keep their order.
    result.order = {0, 2, 3, 1};
    const std::int64_t planes = x.shape()[2] * x.shape()[3];
    (reduces[0] ? result.axis.length : result.axis.outer) *= x.shape()[0];
    (images ? result.axis.length : result.axis.outer) *= planes;
    (images ? result.axis.inner : result.axis.length) *= x.shape()[1];
    result.input = x.detach().permute(result.order);
    return result;
  }
  if (count == last - first + 1 || count == 0) {
    for (int i = 0; i < x.rank(); ++i)
      (i < first ? result.axis.outer : i <= last ? result.axis.length : result.axis.inner) *= x.shape()[i];
    result.input = x.detach().contiguous();
    return result;
  }
  // The reduced dimensions are not adjacent: moved to the end first.
  for (int i = 0; i < x.rank(); ++i)
    if (!reduces[i]) result.order.push_back(i), result.axis.outer *= x.shape()[i];
  for (int i = 0; i < x.rank(); ++i)
    if (reduces[i]) result.order.push_back(i), result.axis.length *= x.shape()[i];
  result.input = x.detach().permute(result.order).contiguous();
  return result;
}

// Converts a gradient from the plan's input layout to x's.
Tensor unplan(const Tensor& gradient, const std::vector<std::int64_t>& order) {
  if (order.empty()) return gradient;
  std::vector<std::int64_t> back(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    back[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return gradient.permute(back);
}

template <class Slot, class... Parameters>
Tensor reduce(const char* op, const Plan& plan, Slot slot, Parameters... parameters) {
  Tensor out(plan.reduced, plan.input.dtype());
  visit(op, out.dtype(), [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(out), call.in(plan.input), plan.axis, parameters...);
  });
  return out;
}

// The input of `any` and `all`: floating elements become whether they are nonzero.
Tensor integers(const char* op, const Tensor& x) {
  check_defined(op, "the input", x);
  return is_floating(x.dtype()) ? truths(op, x) : x;
}

// For integers: into Out.
template <class Out, class Slot>
Tensor reduce_integers(const char* op, const Plan& plan, Slot slot) {
  Tensor out(plan.reduced, dtype_of<Out>);
  visit(op, plan.input.dtype(), slot, [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.template out_as<Out>(out), call.in(plan.input), plan.axis);
  });
  return out;
}

#define SLOT(name) [](const auto& table) -> decltype((table.reduction.name)) { return table.reduction.name; }
// A slot for which the tables of floating dtypes have another result type.
#define INTEGER_SLOT(name)                                                                      \
  []<class T>(const kernels::Operators<T>& table) -> decltype((table.reduction.name)) requires( \
                                                      std::is_integral_v<T>) {                  \
    return table.reduction.name;                                                                \
  }

template <class Slot>
Tensor extreme(const char* op, const Tensor& x, const Dims& dims, bool keep_dims, Slot slot) {
  const Plan p = plan(op, x, dims, keep_dims);
  expects<ShapeError>(p.axis.length > 0, op, ": no elements to choose from (input ", x.shape(), ")");
  Tensor out(p.reduced, x.dtype());
  const bool records = recording(x);
  Tensor index = records ? Tensor(p.reduced, DType::int64) : Tensor{};
  visit(op, x.dtype(), slot, [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(out), records ? call.template out_as<std::int64_t>(index) : nullptr,
                       call.in(p.input), p.axis);
  });
  if (records)
    record(op, out, {x},
           [op, index = Saved(index), axis = p.axis, order = p.order, shape = p.input.shape()](const Tensor& grad) {
             const Tensor whole_grad = grad.contiguous();
             Tensor grad_in(shape, grad.dtype());
             visit(op, grad.dtype(), [&]<class T>() {
               const Call<T> call;
               call.table().reduction.extreme_backward(call.context(), call.out(grad_in), call.in(whole_grad),
                                                       call.template in_as<std::int64_t>(index.get()), axis);
             });
             return Gradients{unplan(grad_in, order)};
           });
  return out;
}

template <class Slot>
Tensor position(const char* op, const Tensor& x, std::int64_t dim, bool keep_dims, Slot slot) {
  const Plan p = plan(op, x, {dim}, keep_dims);
  expects<ShapeError>(p.axis.length > 0, op, ": no elements to choose from (input ", x.shape(), ")");
  Tensor index(p.reduced, DType::int64);
  visit(op, x.dtype(), slot, [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), static_cast<T*>(nullptr), call.template out_as<std::int64_t>(index),
                       call.in(p.input), p.axis);
  });
  return index;
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keep_dims, std::optional<DType> dtype) {
  if (traces()) return traced("sum", x, dims, keep_dims, dtype);
  if (dtype) return sum(converted("sum", x, *dtype), dims, keep_dims);
  const Plan p = plan("sum", x, dims, keep_dims);
  if (!is_floating(x.dtype())) return reduce_integers<std::int64_t>("sum", p, INTEGER_SLOT(sum));
  Tensor out = reduce("sum", p, SLOT(sum));
  if (recording(x))
    record("sum", out, {x}, [kept = p.kept, shape = x.shape()](const Tensor& grad) {
      return Gradients{grad.reshape(kept).expand(shape)};
    });
  return out;
}

Tensor mean(const Tensor& x, const Dims& dims, bool keep_dims, std::optional<DType> dtype) {
  if (traces()) return traced("mean", x, dims, keep_dims, dtype);
  if (dtype) return mean(converted("mean", x, *dtype), dims, keep_dims);
  const Plan p = plan("mean", x, dims, keep_dims);
  Tensor out = reduce("mean", p, SLOT(mean));
  if (recording(x))
    record("mean", out, {x}, [kept = p.kept, shape = x.shape(), length = p.axis.length](const Tensor& grad) {
      return Gradients{div(grad, static_cast<double>(length)).reshape(kept).expand(shape)};
    });
  return out;
}

Tensor var(const Tensor& x, const Dims& dims, std::int64_t correction, bool keep_dims) {
  if (traces()) return traced("var", x, dims, correction, keep_dims);
  expects<NumericError>(correction >= 0, "var: correction ", correction, ", expected at least 0");
  const Plan p = plan("var", x, dims, keep_dims);
  Tensor out = reduce("var", p, SLOT(var), correction);
  if (recording(x))
    record("var", out, {x}, [input = Saved(p.input), axis = p.axis, order = p.order, correction](const Tensor& grad) {
      const Tensor whole_grad = grad.contiguous();
      Tensor grad_in(input.get().shape(), grad.dtype());
      visit("var", grad.dtype(), [&]<class T>() {
        const Call<T> call;
        call.table().reduction.var_backward(call.context(), call.out(grad_in), call.in(whole_grad),
                                            call.in(input.get()), axis, correction);
      });
      return Gradients{unplan(grad_in, order)};
    });
  return out;
}

Tensor max(const Tensor& x, const Dims& dims, bool keep_dims) {
  if (traces()) return traced("max", x, dims, keep_dims);
  return extreme("max", x, dims, keep_dims, SLOT(max));
}
Tensor min(const Tensor& x, const Dims& dims, bool keep_dims) {
  if (traces()) return traced("min", x, dims, keep_dims);
  return extreme("min", x, dims, keep_dims, SLOT(min));
}
Tensor argmax(const Tensor& x, std::int64_t dim, bool keep_dims) {
  if (traces()) return traced("argmax", x, dim, keep_dims);
  return position("argmax", x, dim, keep_dims, SLOT(max));
}
Tensor argmin(const Tensor& x, std::int64_t dim, bool keep_dims) {
  if (traces()) return traced("argmin", x, dim, keep_dims);
  return position("argmin", x, dim, keep_dims, SLOT(min));
}

Tensor any(const Tensor& x, const Dims& dims, bool keep_dims) {
  if (traces()) return traced("any", x, dims, keep_dims);
  return reduce_integers<bool>("any", plan("any", integers("any", x), dims, keep_dims), SLOT(any));
}
Tensor all(const Tensor& x, const Dims& dims, bool keep_dims) {
  if (traces()) return traced("all", x, dims, keep_dims);
  return reduce_integers<bool>("all", plan("all", integers("all", x), dims, keep_dims), SLOT(all));
}

Shape reduced_shape(const char* op, const Tensor& x, const Dims& dims, bool keep_dims) {
  check_defined(op, "the input", x);
  Shape kept = x.shape();
  bool reduces[Shape::max_rank] = {};
  for (const std::int64_t dim : dims) {
    const int place = dim_of(op, dim, x.rank());
    expects<ShapeError>(!reduces[place], op, ": dimension ", dim, " is named twice");
    reduces[place] = true;
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    const bool goes = dims.empty() || reduces[i];
    if (!goes || keep_dims) shape.push_back(goes ? 1 : kept[i]);
  }
  return shape;
}

namespace {

// Whether dimension i of `rank` is one of `dims`.
bool reduces(const char* op, const Dims& dims, int i, int rank) {
  return dims.empty() || std::ranges::any_of(dims, [&](std::int64_t dim) { return dim_of(op, dim, rank) == i; });
}

// The product along one dimension, which is kept.
Tensor product_along(const Tensor& x, int dim) {
  std::int64_t size = x.shape()[dim];
  if (size == 0) return add(sum(x, dim, true), 1);
  Tensor left = x;
  for (; size > 1; size = size / 2 + size % 2) {
    const Tensor odd = left.slice(dim, 1, size, 2), pairs = mul(left.slice(dim, 0, size - size % 2, 2), odd);
    left = size % 2 == 0 ? pairs : cat({pairs, left.slice(dim, size - 1, size)}, dim);
  }
  return left;
}

}  // namespace

Tensor prod(const Tensor& x, const Dims& dims, bool keep_dims, std::optional<DType> dtype) {
  if (traces()) return traced("prod", x, dims, keep_dims, dtype);
  check_defined("prod", "the input", x);
  if (dtype) return prod(x.to(*dtype), dims, keep_dims);
  if (!is_floating(x.dtype()))
    return reduce_integers<std::int64_t>("prod", plan("prod", x, dims, keep_dims), SLOT(prod));
  return compose("prod", x, [&](const Tensor& wide) {
    const Shape shape = reduced_shape("prod", wide, dims, keep_dims);
    Tensor left = wide;
    for (int i = 0; i < wide.rank(); ++i)
      if (reduces("prod", dims, i, wide.rank())) left = product_along(left, i);
    return (left.shared_storage() == wide.shared_storage() ? copy(left) : left).reshape(shape);
  });
}

#undef INTEGER_SLOT
#undef SLOT

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (traces()) return traced("sum_to", x, shape);
  check_defined("sum_to", "the input", x);
  if (x.shape() == shape) return x;
  expects<ShapeError>(shape.rank() <= x.rank() && broadcast("sum_to", x.shape(), shape) == x.shape(), "sum_to: ", shape,
                      " does not broadcast to ", x.shape());
  Dims dims;
  const int lead = x.rank() - shape.rank();
  for (int i = 0; i < x.rank(); ++i)
    if (i < lead || (shape[i - lead] == 1 && x.shape()[i] != 1)) dims.push_back(i);
  return dims.empty() ? x.reshape(shape) : sum(x, dims, true).reshape(shape);
}

}  // namespace tern::operators
