// Arithmetic: one loop per operation, one walk for all broadcasts.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/arithmetic.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "kernels/families.hpp"
#include "kernels/gradient.hpp"
#include "vectorized/broadcast_maps.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/math.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

// Rough costs of one element in nanoseconds, in addition to `streamed`.
constexpr double root = 0.8, exponential = 0.8, logarithm = 1.2, error_function = 1.6, trigonometric = 8, raised = 20;

// ---- operations of vectors -----------------------------------------------------------------------------------------

// clang-format off
struct Add { template <class D, class V> HWY_INLINE V operator()(D, V a, V b) const { return hn::Add(a, b); } };
struct Sub { template <class D, class V> HWY_INLINE V operator()(D, V a, V b) const { return hn::Sub(a, b); } };
struct Mul { template <class D, class V> HWY_INLINE V operator()(D, V a, V b) const { return hn::Mul(a, b); } };
struct Div { template <class D, class V> HWY_INLINE V operator()(D, V a, V b) const { return hn::Div(a, b); } };
struct MulAdd { template <class D, class V> HWY_INLINE V operator()(D, V a, V b, V c) const {
  return hn::Add(hn::Mul(a, b), c); } };
struct Maximum { template <class D, class V> HWY_INLINE V operator()(D, V a, V b) const { return larger(a, b); } };
struct Minimum { template <class D, class V> HWY_INLINE V operator()(D, V a, V b) const { return smaller(a, b); } };

struct Equal { template <class V> HWY_INLINE auto operator()(V a, V b) const { return hn::Eq(a, b); } };
struct NotEqual { template <class V> HWY_INLINE auto operator()(V a, V b) const {
  return hn::Not(hn::Eq(a, b)); } };  // Highway's Ne is false for NaN on some instruction sets
struct Less { template <class V> HWY_INLINE auto operator()(V a, V b) const { return hn::Lt(a, b); } };
struct LessEqual { template <class V> HWY_INLINE auto operator()(V a, V b) const { return hn::Le(a, b); } };
struct Greater { template <class V> HWY_INLINE auto operator()(V a, V b) const { return hn::Gt(a, b); } };
struct GreaterEqual { template <class V> HWY_INLINE auto operator()(V a, V b) const { return hn::Ge(a, b); } };

struct AddAll { template <class D, class V, class... More> HWY_INLINE V operator()(D, V sum, More... more) const {
  ((sum = hn::Add(sum, more)), ...);
  return sum; } };

struct Neg { template <class D, class V> HWY_INLINE V operator()(D, V x) const { return hn::Neg(x); } };
struct Exp { template <class D, class V> HWY_INLINE V operator()(D d, V x) const {
  return HWY_NAMESPACE::exp(d, x); } };
struct Log { template <class D, class V> HWY_INLINE V operator()(D d, V x) const {
  return HWY_NAMESPACE::log(d, x); } };
struct Erf { template <class D, class V> HWY_INLINE V operator()(D d, V x) const {
  return HWY_NAMESPACE::erf(d, x); } };
struct Sqrt { template <class D, class V> HWY_INLINE V operator()(D, V x) const { return hn::Sqrt(x); } };
struct Abs { template <class D, class V> HWY_INLINE V operator()(D, V x) const { return hn::Abs(x); } };
struct Floor { template <class D, class V> HWY_INLINE V operator()(D, V x) const { return hn::Floor(x); } };
struct Ceil { template <class D, class V> HWY_INLINE V operator()(D, V x) const { return hn::Ceil(x); } };
struct Round { template <class D, class V> HWY_INLINE V operator()(D, V x) const { return hn::Round(x); } };
struct Square { template <class D, class V> HWY_INLINE V operator()(D, V x) const { return hn::Mul(x, x); } };
struct Cube { template <class D, class V> HWY_INLINE V operator()(D, V x) const {
  return hn::Mul(hn::Mul(x, x), x); } };
struct Inverse { template <class D, class V> HWY_INLINE V operator()(D d, V x) const {
  return hn::Div(hn::Set(d, hn::TFromD<D>(1)), x); } };
// clang-format on

template <class T>
struct Clamp {
  T low, high;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const V above = hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
    return hn::IfThenElse(hn::Gt(above, hn::Set(d, high)), hn::Set(d, high), above);
  }
};

template <class T>
struct Affine {
  T scale, shift;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return hn::Add(hn::Mul(hn::Set(d, scale), x), hn::Set(d, shift));
  }
};

struct SqrtBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V grad_out, V out) const {
    return hn::Div(grad_out, hn::Add(out, out));
  }
};

struct AbsBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    const V zero = hn::Zero(d), one = hn::Set(d, hn::TFromD<D>(1));
    // 0 for 0, NaN for NaN.
    const V sign = hn::IfThenElse(hn::Gt(in, zero), one, hn::IfThenElse(hn::Lt(in, zero), hn::Neg(one), in));
    return hn::Mul(grad_out, sign);
  }
};

template <class T>
struct ClampBackward {
  T low, high;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    return hn::IfThenElseZero(hn::And(hn::Ge(in, hn::Set(d, low)), hn::Le(in, hn::Set(d, high))), grad_out);
  }
};

/// grad * exponent * in^(exponent - 1) for the exponents 2 and 3.
template <class T>
struct SquareBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V grad_out, V in) const {
    return hn::Mul(hn::Add(grad_out, grad_out), in);
  }
};
template <class T>
struct CubeBackward {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V grad_out, V in) const {
    return hn::Mul(hn::Mul(grad_out, hn::Set(d, T(3))), hn::Mul(in, in));
  }
};

// ---- over broadcasts -----------------------------------------------------------------------------------------------

/// The loser gets nothing, equals get half each; if one is NaN neither loses, and both get all of it.
template <class Loses, class T>
void split_gradient(T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto half = hn::Set(d, T(0.5));
  const Loses loses;
  for (std::int64_t i = 0; i < n; i += lanes) {
    const bool whole = i + lanes <= n;
    const auto g = whole ? hn::LoadU(d, grad_out + i) : load_first(d, grad_out + i, n - i);
    const auto va = whole ? hn::LoadU(d, a + i) : load_first(d, a + i, n - i);
    const auto vb = whole ? hn::LoadU(d, b + i) : load_first(d, b + i, n - i);
    const auto share = hn::IfThenElse(hn::Eq(va, vb), hn::Mul(g, half), g);
    const auto to_a = hn::IfThenZeroElse(loses(va, vb), share);
    const auto to_b = hn::IfThenZeroElse(loses(vb, va), share);
    if (whole) {
      hn::StoreU(to_a, d, grad_a + i);
      hn::StoreU(to_b, d, grad_b + i);
    } else {
      store_first(to_a, d, grad_a + i, n - i);
      store_first(to_b, d, grad_b + i, n - i);
    }
  }
}

template <class T>
void multiply_add(T* out, const T* a, const T* b, const T* c, std::int64_t n) {
  map(MulAdd{}, out, n, a, b, c);
}

template <class T>
HWY_NOINLINE void rows_multiply_add(T* out, const T* a, const T* b, const T* c, const Rows& rows) {
  map_rows(std::make_index_sequence<3>(), MulAdd{}, out, rows, a, b, c);
}

template <class T>
struct SplitLoop {
  void (*loop)(T*, T*, const T*, const T*, const T*, std::int64_t);
  T *grad_a, *grad_b;
  const T* grad_out;
  void operator()(std::int64_t offset, std::int64_t n, const T* a, const T* b) const {
    loop(grad_a + offset, grad_b + offset, grad_out + offset, a, b, n);
  }
};

// ---- functions without vector code, element by element ---------------------------------------------

template <class T, T (*function)(T)>
void each(Context& context, T* out, const T* in, std::int64_t n) {
  parallel_for(context, n, trigonometric, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = function(in[i]);
  });
}
template <class T, T (*function)(T, T)>
void loop_of_two(T* out, const T* a, const T* b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = function(a[i], b[i]);
}
template <class T, T (*function)(T, T)>
void each_two(Context& context, T* out, const T* a, const T* b, const Broadcast& shape) {
  broadcast(context, raised, shape, Loop<T, T, T>{loop_of_two<T, function>, out}, a, b);
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
void mul_add(Context& context, T* out, const T* a, const T* b, const T* c, const Broadcast& shape) {
  broadcast(context, streamed, shape, LoopOfRows<T, T, T, T>{{multiply_add<T>, out}, rows_multiply_add<T>}, a, b, c);
}

template <class T>
void pow(Context& context, T* out, const T* in, std::int64_t n, T exponent) {
  if (exponent == T(2)) return map_parallel(context, streamed, Square{}, out, n, in);
  if (exponent == T(3)) return map_parallel(context, streamed, Cube{}, out, n, in);
  if (exponent == T(-1)) return map_parallel(context, streamed, Inverse{}, out, n, in);
  parallel_for(context, n, raised, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) out[i] = std::pow(in[i], exponent);
  });
}

template <class T>
void clamp(Context& context, T* out, const T* in, std::int64_t n, T low, T high) {
  map_parallel(context, streamed, Clamp<T>{low, high}, out, n, in);
}

template <class T>
void affine(Context& context, T* out, const T* in, std::int64_t n, T scale, T shift) {
  map_parallel(context, streamed, Affine<T>{scale, shift}, out, n, in);
}

template <class T>
void add_all(Context& context, T* out, const T* a, const T* b, const T* c, const T* d, const T* e, const T* f,
             const T* g, const T* h, std::int64_t n) {
  const auto sum = [&](auto... in) {
    map_parallel(context, sizeof...(in) > 3 ? 2 * streamed : streamed, AddAll{}, out, n, in...);
  };
  if (h != nullptr) return sum(a, b, c, d, e, f, g, h);
  if (g != nullptr) return sum(a, b, c, d, e, f, g);
  if (f != nullptr) return sum(a, b, c, d, e, f);
  if (e != nullptr) return sum(a, b, c, d, e);
  if (d != nullptr) return sum(a, b, c, d);
  if (c != nullptr) return sum(a, b, c);
  sum(a, b);
}

template <class T>
void pow_backward(Context& context, T* grad_in, const T* grad_out, const T* in, std::int64_t n, T exponent) {
  if (exponent == T(2)) return map_parallel(context, streamed, SquareBackward<T>{}, grad_in, n, grad_out, in);
  if (exponent == T(3)) return map_parallel(context, streamed, CubeBackward<T>{}, grad_in, n, grad_out, in);
  parallel_for(context, n, raised, [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      grad_in[i] = exponent == T(0) ? T(0) : grad_out[i] * exponent * std::pow(in[i], exponent - 1);
  });
}

template <class T>
void clamp_backward(Context& context, T* grad_in, const T* grad_out, const T* in, std::int64_t n, T low, T high) {
  map_parallel(context, streamed, ClampBackward<T>{low, high}, grad_in, n, grad_out, in);
}

template <class Loses, class T>
void select_backward(Context& context, T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b,
                     const Broadcast& shape) {
  broadcast(context, 2 * streamed, shape, SplitLoop<T>{split_gradient<Loses, T>, grad_a, grad_b, grad_out}, a, b);
}

template <class T>
kernels::Arithmetic<T> table() {
  return {.add = binary<Add, T>,
          .sub = binary<Sub, T>,
          .mul = binary<Mul, T>,
          .div = binary<Div, T>,
          .maximum = binary<Maximum, T>,
          .minimum = binary<Minimum, T>,
          .power = kernels::seldom<each_two<T, std::pow>>(),
          .fmod = kernels::seldom<each_two<T, std::fmod>>(),
          .equal = kernels::seldom<comparison<Equal, T>>(),
          .not_equal = kernels::seldom<comparison<NotEqual, T>>(),
          .less = kernels::seldom<comparison<Less, T>>(),
          .less_equal = kernels::seldom<comparison<LessEqual, T>>(),
          .greater = kernels::seldom<comparison<Greater, T>>(),
          .greater_equal = kernels::seldom<comparison<GreaterEqual, T>>(),
          .where = kernels::seldom<where<T>>(),
          .mul_add = mul_add<T>,
          .neg = kernels::seldom<unary<streamed, Neg, T>>(),
          .exp = kernels::seldom<unary<exponential, Exp, T>>(),
          .log = kernels::seldom<unary<logarithm, Log, T>>(),
          .sqrt = kernels::seldom<unary<root, Sqrt, T>>(),
          .abs = kernels::seldom<unary<streamed, Abs, T>>(),
          .sin = kernels::seldom<each<T, std::sin>>(),
          .cos = kernels::seldom<each<T, std::cos>>(),
          .erf = kernels::seldom<unary<error_function, Erf, T>>(),
          .floor = kernels::seldom<unary<streamed, Floor, T>>(),
          .ceil = kernels::seldom<unary<streamed, Ceil, T>>(),
          .round = kernels::seldom<unary<streamed, Round, T>>(),
          .pow = kernels::seldom<pow<T>>(),
          .clamp = clamp<T>,
          .affine = affine<T>,
          .add_all = add_all<T>,
          .sqrt_backward = kernels::gradient<unary_backward<root, SqrtBackward, T>>(),
          .abs_backward = kernels::gradient<unary_backward<streamed, AbsBackward, T>>(),
          .pow_backward = kernels::gradient<pow_backward<T>>(),
          .clamp_backward = kernels::gradient<clamp_backward<T>>(),
          .maximum_backward = kernels::gradient<select_backward<Less, T>>(),
          .minimum_backward = kernels::gradient<select_backward<Greater, T>>()};
}

}  // namespace

kernels::Arithmetic<float> arithmetic_float() { return table<float>(); }
kernels::Arithmetic<double> arithmetic_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(arithmetic, arithmetic)

}  // namespace tern::vectorized
#endif
