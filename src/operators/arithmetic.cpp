#include "tern/operators/arithmetic.hpp"

#include "autograd/gradient_sum.hpp"
#include "operators/composed.hpp"
#include "operators/layout.hpp"
#include "operators/traced.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

// out = slot(a, b) over the broadcast shape, a truth or of the dtype of a; `slot` selects a slot of the table.
template <bool is_truth = false, class Slot>
Tensor binary(const char* op, const Tensor& a, const Tensor& b, Slot slot) {
  check_dtypes(op, a, b);
  const Shape shape = a.shape() == b.shape() ? a.shape() : broadcast(op, a.shape(), b.shape());
  const Layout layout = common_layout(shape, {&a, &b});
  Tensor out = empty_in(layout, shape, is_truth ? DType::boolean : a.dtype());
  const kernels::Broadcast sizes = make_broadcast(shape, {&a, &b}, layout);
  visit(op, a.dtype(), slot, [&]<class T>() {
    using Out = std::conditional_t<is_truth, bool, T>;
    const Call<T> call;
    slot(call.table())(call.context(), call.template out_as<Out>(out), call.in(a), call.in(b), sizes);
  });
  return out;
}

template <class Slot>
Tensor comparison(const char* op, const Tensor& a, const Tensor& b, Slot slot) {
  return binary<true>(op, a, b, slot);
}

// Integers cannot be divided by 0. A device that runs asynchronously detects it itself.
void check_divisor(const char* op, const Tensor& a, const Tensor& b) {
  check_dtypes(op, a, b);
  check_not_bool(op, a);
  if (is_floating(b.dtype()) || !mode_of(op).on_host() || a.numel() == 0 || b.numel() == 0) return;
  expects<NumericError>(all(b).item<bool>(), op, ": a divisor is 0, and ", b.dtype(), " has no infinity");
}

template <class Slot>
Gradients select_backward(const char* op, const Tensor& grad, const Tensor& a, const Tensor& b, Slot slot) {
  const Layout layout = common_layout(grad.shape(), {&a, &b});
  const Tensor whole_grad = in_layout(grad, layout);
  Tensor grad_a = empty_in(layout, grad.shape(), grad.dtype()), grad_b = empty_in(layout, grad.shape(), grad.dtype());
  const kernels::Broadcast sizes = make_broadcast(grad.shape(), {&a, &b}, layout);
  visit(op, grad.dtype(), [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(grad_a), call.out(grad_b), call.in(whole_grad), call.in(a), call.in(b),
                       sizes);
  });
  return {sum_to(grad_a, a.shape()), sum_to(grad_b, b.shape())};
}

template <class Slot, class Back>
Tensor select(const char* op, const Tensor& a, const Tensor& b, Slot slot, Back back) {
  Tensor out = binary(op, a, b, slot);
  if (recording(a, b))
    record(op, out, {a, b}, [op, back, a = Saved(a), b = Saved(b)](const Tensor& grad) {
      return select_backward(op, grad, a.get(), b.get(), back);
    });
  return out;
}

}  // namespace

#define SLOT(name) [](const auto& table) -> decltype((table.arithmetic.name)) { return table.arithmetic.name; }

Tensor add(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("add", a, b);
  Tensor out = binary("add", a, b, SLOT(add));
  if (recording(a, b))
    record("add", out, {a, b},
           [a_shape = a.shape(), b_shape = b.shape(), a_needs = needs(a), b_needs = needs(b)](const Tensor& grad) {
             return Gradients{a_needs ? sum_to(grad, a_shape) : Tensor{}, b_needs ? sum_to(grad, b_shape) : Tensor{}};
           });
  return out;
}

Tensor add_all(const std::vector<Tensor>& tensors) {
  if (traces()) return traced("add_all", tensors);
  expects<ShapeError>(!tensors.empty(), "add_all: no tensors");
  check_defined("add_all", "an input", tensors[0]);
  const Layout layout = layout_of(tensors[0]);
  std::vector<Tensor> parts;
  for (const Tensor& tensor : tensors) {
    check_dtypes("add_all", tensors[0], tensor);
    expects<ShapeError>(tensor.shape() == tensors[0].shape(), "add_all: shapes ", tensors[0].shape(), " and ",
                        tensor.shape(), " differ");
    parts.push_back(in_layout(tensor, layout));
  }
  if (!is_floating(tensors[0].dtype())) {
    Tensor sum = tensors[0].clone();
    for (std::size_t i = 1; i < tensors.size(); ++i) sum = add(sum, tensors[i]);
    return sum;
  }
  constexpr std::size_t at_once = 8;
  if (tensors.size() > at_once && scalar_of(tensors[0].dtype()) != tensors[0].dtype()) {
    // For 16 bits: each kernel would round a sum that is passed from kernel to kernel.
    std::vector<Tensor> wide;
    for (const Tensor& tensor : tensors) wide.push_back(tensor.to(DType::float32));
    return add_all(wide).to(tensors[0].dtype());
  }
  const Tensor none;
  Tensor sum = parts.size() > 1 ? parts[0] : copy_in(layout, parts[0]);
  for (std::size_t next = 1; next < parts.size(); next += at_once - 1) {
    Tensor out = empty_in(layout_of(sum), sum.shape(), sum.dtype());
    const auto part = [&](std::size_t i) -> const Tensor& { return next + i < parts.size() ? parts[next + i] : none; };
    visit("add_all", sum.dtype(), [&]<class T>() {
      const Call<T> call;
      call.table().arithmetic.add_all(call.context(), call.out(out), call.in(sum), call.in(part(0)), call.in(part(1)),
                                      call.in(part(2)), call.in(part(3)), call.in(part(4)), call.in(part(5)),
                                      call.in(part(6)), out.numel());
    });
    sum = out;
  }
  if (recording(tensors))
    record("add_all", sum, tensors, [count = tensors.size()](const Tensor& grad) { return Gradients(count, grad); });
  return sum;
}

Tensor sub(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("sub", a, b);
  check_dtypes("sub", a, b);
  check_not_bool("sub", a);
  Tensor out = binary("sub", a, b, SLOT(sub));
  if (recording(a, b))
    record(
        "sub", out, {a, b},
        [a_shape = a.shape(), b_shape = b.shape(), a_needs = needs(a), b_needs = needs(b)](const Tensor& grad) {
          return Gradients{a_needs ? sum_to(grad, a_shape) : Tensor{}, b_needs ? neg(sum_to(grad, b_shape)) : Tensor{}};
        });
  return out;
}

Tensor mul(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("mul", a, b);
  Tensor out = binary("mul", a, b, SLOT(mul));
  if (recording(a, b))
    record("mul", out, {a, b},
           [a = saved_if(needs(b), a), b = saved_if(needs(a), b), a_shape = a.shape(),
            b_shape = b.shape()](const Tensor& grad) {
             return Gradients{b.defined() ? sum_to(mul(grad, b.get()), a_shape) : Tensor{},
                              a.defined() ? sum_to(mul(grad, a.get()), b_shape) : Tensor{}};
           });
  return out;
}

Tensor mul_add(const Tensor& a, const Tensor& b, const Tensor& c) {
  if (traces()) return traced("mul_add", a, b, c);
  constexpr const char* name = "mul_add";
  check_dtypes(name, a, b);
  check_dtypes(name, a, c);
  const Shape shape = broadcast(name, broadcast(name, a.shape(), b.shape()), c.shape());
  if (!is_floating(a.dtype())) return add(mul(a, b), c);
  const Layout layout = common_layout(shape, {&a, &b, &c});
  Tensor out = empty_in(layout, shape, a.dtype());
  const kernels::Broadcast sizes = make_broadcast(shape, {&a, &b, &c}, layout);
  visit(name, a.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().arithmetic.mul_add(call.context(), call.out(out), call.in(a), call.in(b), call.in(c), sizes);
  });
  if (recording(a, b, c))
    record(name, out, {a, b, c},
           [a = saved_if(needs(b), a), b = saved_if(needs(a), b), a_shape = a.shape(), b_shape = b.shape(),
            c_shape = c.shape(), c_needs = needs(c)](const Tensor& grad) {
             return Gradients{b.defined() ? sum_to(mul(grad, b.get()), a_shape) : Tensor{},
                              a.defined() ? sum_to(mul(grad, a.get()), b_shape) : Tensor{},
                              c_needs ? sum_to(grad, c_shape) : Tensor{}};
           });
  return out;
}

Tensor div(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("div", a, b);
  check_divisor("div", a, b);
  Tensor out = binary("div", a, b, SLOT(div));
  if (recording(a, b))
    record("div", out, {a, b},
           [a_shape = a.shape(), b = Saved(b), out = saved_if(needs(b), out), a_needs = needs(a)](const Tensor& grad) {
             const Tensor scaled = div(grad, b.get());
             return Gradients{a_needs ? sum_to(scaled, a_shape) : Tensor{},
                              out.defined() ? neg(sum_to(mul(scaled, out.get()), b.get().shape())) : Tensor{}};
           });
  return out;
}

Tensor maximum(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("maximum", a, b);
  return select("maximum", a, b, SLOT(maximum), SLOT(maximum_backward));
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("minimum", a, b);
  return select("minimum", a, b, SLOT(minimum), SLOT(minimum_backward));
}

namespace {

Tensor power(const Tensor& a, const Tensor& b) {
  Tensor out = binary("pow", a, b, SLOT(power));
  if (!recording(a, b)) return out;
  record("pow", out, {a, b},
         [a = Saved(a), b = Saved(b), out = saved_if(needs(b), out), a_needs = needs(a)](const Tensor& grad) {
           const Tensor &base = a.get(), &exponent = b.get();
           const Tensor zero = number_like(grad, 0);
           Gradients gradients(2);
           if (a_needs) {
             const Tensor slope = mul(exponent, pow(base, sub(exponent, 1)));
             gradients[0] = sum_to(mul(grad, where(equal(exponent, zero), zero, slope)), base.shape());
           }
           if (out.defined()) {
             const Tensor stays = where(greater_equal(exponent, zero), equal(base, zero).to(grad.dtype()), zero);
             const Tensor flat = not_equal(stays, zero);
             const Tensor logarithm = log(where(flat, number_like(grad, 1), base));
             const Tensor slope = where(flat, zero, mul(out.get(), logarithm));
             gradients[1] = sum_to(mul(grad, slope), exponent.shape());
           }
           return gradients;
         });
  return out;
}

Tensor rest_of_division(const Tensor& a, const Tensor& b) {
  check_divisor("fmod", a, b);
  Tensor out = binary("fmod", a, b, SLOT(fmod));
  if (!recording(a, b)) return out;
  record("fmod", out, {a, b},
         [a = Saved(a), b = Saved(b), out = saved_if(needs(b), out), a_needs = needs(a)](const Tensor& grad) {
           Gradients gradients(2);
           if (a_needs) gradients[0] = sum_to(grad, a.get().shape());
           if (out.defined()) {
             const Tensor quotient = round(div(sub(a.get(), out.get()), b.get()));
             gradients[1] = neg(sum_to(mul(grad, quotient), b.get().shape()));
           }
           return gradients;
         });
  return out;
}

}  // namespace

Tensor pow(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("pow", a, b);
  return in_scalars("pow", a, b, power);
}
Tensor fmod(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("fmod", a, b);
  return in_scalars("fmod", a, b, rest_of_division);
}

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("bitwise_and", a, b);
  return binary("bitwise_and", a, b, SLOT(bitwise_and));
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("bitwise_or", a, b);
  return binary("bitwise_or", a, b, SLOT(bitwise_or));
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("bitwise_xor", a, b);
  return binary("bitwise_xor", a, b, SLOT(bitwise_xor));
}

Tensor equal(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("equal", a, b);
  return comparison("equal", a, b, SLOT(equal));
}
Tensor not_equal(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("not_equal", a, b);
  return comparison("not_equal", a, b, SLOT(not_equal));
}
Tensor less(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("less", a, b);
  return comparison("less", a, b, SLOT(less));
}
Tensor less_equal(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("less_equal", a, b);
  return comparison("less_equal", a, b, SLOT(less_equal));
}
Tensor greater(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("greater", a, b);
  return comparison("greater", a, b, SLOT(greater));
}
Tensor greater_equal(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("greater_equal", a, b);
  return comparison("greater_equal", a, b, SLOT(greater_equal));
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (traces()) return traced("where", condition, a, b);
  check_dtypes("where", a, b);
  check_defined("where", "the condition", condition);
  expects<DTypeError>(condition.dtype() == DType::boolean, "where: the condition is ", condition.dtype(),
                      ", expected bool");
  const Shape shape = broadcast("where", broadcast("where", a.shape(), b.shape()), condition.shape());
  const Layout layout = common_layout(shape, {&a, &b, &condition});
  Tensor out = empty_in(layout, shape, a.dtype());
  const kernels::Broadcast sizes = make_broadcast(shape, {&a, &b, &condition}, layout);
  const auto slot = SLOT(where);
  visit("where", a.dtype(), slot, [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(out), call.in(a), call.in(b), call.template in_as<bool>(condition),
                       sizes);
  });
  if (recording(a, b))
    record("where", out, {a, b},
           [condition = Saved(condition), a_shape = a.shape(), b_shape = b.shape(), a_needs = needs(a),
            b_needs = needs(b)](const Tensor& grad) {
             const Tensor zero = number_like(grad, 0);
             return Gradients{a_needs ? sum_to(where(condition.get(), grad, zero), a_shape) : Tensor{},
                              b_needs ? sum_to(where(condition.get(), zero, grad), b_shape) : Tensor{}};
           });
  return out;
}

#undef SLOT

}  // namespace tern::operators

namespace tern {

Tensor autograd::sum_of(const std::vector<Tensor>& gradients) {
  return gradients.size() == 2 ? operators::add(gradients[0], gradients[1]) : operators::add_all(gradients);
}

void autograd::add_to(const Tensor& part, const Tensor& gradient) {
  operators::copy_elements(part, operators::add(part, gradient.to(part.dtype())));
}

}  // namespace tern
