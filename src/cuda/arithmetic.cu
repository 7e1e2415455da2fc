#include "cuda/broadcast_maps.cuh"
#include "cuda/cuda.hpp"
#include "tern/kernels/arithmetic.hpp"

namespace tern::cuda {
namespace {

// ---- the element functions ----

struct Add {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a * b;
  }
};
struct Div {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a / b;
  }
};
// a + b propagates the NaN of either side.
struct Maximum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return isnan(a) || isnan(b) ? a + b : (b > a ? b : a);
  }
};
struct Minimum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return isnan(a) || isnan(b) ? a + b : (b < a ? b : a);
  }
};
struct Power {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return ::pow(a, b);
  }
};
struct Fmod {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return ::fmod(a, b);
  }
};
struct Equal {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Less {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  __device__ bool operator()(T a, T b) const {
    return a >= b;
  }
};

template <class T>
struct Neg {
  __device__ T operator()(T x) const { return -x; }
};
template <class T>
struct Exp {
  __device__ T operator()(T x) const { return ::exp(x); }
};
template <class T>
struct Log {
  __device__ T operator()(T x) const { return ::log(x); }
};
template <class T>
struct Sqrt {
  __device__ T operator()(T x) const { return ::sqrt(x); }
};
template <class T>
struct Abs {
  __device__ T operator()(T x) const { return ::fabs(x); }
};
template <class T>
struct Sin {
  __device__ T operator()(T x) const { return ::sin(x); }
};
template <class T>
struct Cos {
  __device__ T operator()(T x) const { return ::cos(x); }
};
template <class T>
struct Erf {
  __device__ T operator()(T x) const { return ::erf(x); }
};
template <class T>
struct Floor {
  __device__ T operator()(T x) const { return ::floor(x); }
};
template <class T>
struct Ceil {
  __device__ T operator()(T x) const { return ::ceil(x); }
};
template <class T>
struct Round {
  __device__ T operator()(T x) const { return ::rint(x); }
};
template <class T>
struct Pow {
  T exponent;
  __device__ T operator()(T x) const { return exponent == T(2) ? x * x : ::pow(x, exponent); }
};
template <class T>
struct Clamp {
  T low, high;
  __device__ T operator()(T x) const {
    const T raised = x < low ? low : x;
    return high < raised ? high : raised;
  }
};
template <class T>
struct Affine {
  T scale, shift;
  // The intrinsics keep the compiler from fusing the two roundings.
  __device__ float operator()(float x) const { return __fadd_rn(__fmul_rn(scale, x), shift); }
  __device__ double operator()(double x) const { return __dadd_rn(__dmul_rn(scale, x), shift); }
};

template <class T>
struct SqrtBackward {
  __device__ T operator()(T grad_out, T out) const { return grad_out / (2 * out); }
};
template <class T>
struct AbsBackward {
  __device__ T operator()(T grad_out, T in) const {
    return in > 0 ? grad_out : in < 0 ? -grad_out : in == 0 ? T(0) : in;
  }
};
template <class T>
struct PowBackward {
  T exponent;
  __device__ T operator()(T grad_out, T in) const {
    if (exponent == 0) return 0;
    if (exponent == T(2)) return grad_out * (2 * in);
    return grad_out * (exponent * ::pow(in, exponent - 1));
  }
};
template <class T>
struct ClampBackward {
  T low, high;
  __device__ T operator()(T grad_out, T in) const { return in >= low && in <= high ? grad_out : T(0); }
};

// ---- over broadcasts ----

template <class T>
struct MulAddMap {
  T* out;
  Operand<T> a, b, c;
  // The intrinsics keep the compiler from fusing the two roundings.
  static __device__ float rounded(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }
  static __device__ double rounded(double a, double b, double c) { return __dadd_rn(__dmul_rn(a, b), c); }
  template <int V, class At>
  __device__ void run(std::int64_t position, const At& at) const {
    const auto left = at.template get<V, 0>(a), right = at.template get<V, 1>(b), added = at.template get<V, 2>(c);
    Pack<Scalar<T>, V> result;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      result.value[lane] = rounded(left.value[lane], right.value[lane], added.value[lane]);
    store<V>(out + position, result);
  }
};

template <class T>
void mul_add(Context& context, T* out, const T* a, const T* b, const T* c, const Broadcast& sizes) {
  constexpr int V = pack_size<T>;
  broadcast<V>(context, sizes, 3, aligned<V>(out) && aligned<V>(a) && aligned<V>(b) && aligned<V>(c),
               MulAddMap<T>{out, operand(a, sizes, 0), operand(b, sizes, 1), operand(c, sizes, 2)});
}

/// The losing side gets nothing; equal sides get half each.
template <class Loses, class T>
struct SelectMap {
  T *grad_a, *grad_b;
  const T* grad_out;
  Operand<T> a, b;
  template <int V, class At>
  __device__ void run(std::int64_t position, const At& at) const {
    const auto left = at.template get<V, 0>(a), right = at.template get<V, 1>(b);
    const auto gradient = load<V>(grad_out + position);
    using S = Scalar<T>;
    Pack<S, V> to_a, to_b;
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      const S x = left.value[lane], y = right.value[lane], g = gradient.value[lane];
      const S share = x == y ? g / 2 : g;
      to_a.value[lane] = Loses{}(x, y) ? S(0) : share;
      to_b.value[lane] = Loses{}(y, x) ? S(0) : share;
    }
    store<V>(grad_a + position, to_a);
    store<V>(grad_b + position, to_b);
  }
};

template <class Loses, class T>
void select(Context& context, T* grad_a, T* grad_b, const T* grad_out, const T* a, const T* b, const Broadcast& sizes) {
  constexpr int V = pack_size<T>;
  const bool packable =
      aligned<V>(grad_a) && aligned<V>(grad_b) && aligned<V>(grad_out) && aligned<V>(a) && aligned<V>(b);
  broadcast<V>(context, sizes, 2, packable,
               SelectMap<Loses, T>{grad_a, grad_b, grad_out, operand(a, sizes, 0), operand(b, sizes, 1)});
}

// ---- the slots ----

template <class F, class T>
void unary(Context& context, T* out, const T* in, std::int64_t n) {
  map(context, n, F{}, out, in);
}

template <class T>
void pow(Context& context, T* out, const T* in, std::int64_t n, Scalar<T> exponent) {
  map(context, n, Pow<Scalar<T>>{exponent}, out, in);
}

template <class T>
void clamp(Context& context, T* out, const T* in, std::int64_t n, Scalar<T> low, Scalar<T> high) {
  map(context, n, Clamp<Scalar<T>>{low, high}, out, in);
}

template <class T>
void affine(Context& context, T* out, const T* in, std::int64_t n, Scalar<T> scale, Scalar<T> shift) {
  map(context, n, Affine<Scalar<T>>{scale, shift}, out, in);
}

struct AddAll {
  template <class T, class... More>
  __device__ T operator()(T sum, More... more) const {
    ((sum += more), ...);
    return sum;
  }
};

template <class T>
void add_all(Context& context, T* out, const T* a, const T* b, const T* c, const T* d, const T* e, const T* f,
             const T* g, const T* h, std::int64_t n) {
  const auto sum = [&](auto... in) { map(context, n, AddAll{}, out, in...); };
  if (h != nullptr) return sum(a, b, c, d, e, f, g, h);
  if (g != nullptr) return sum(a, b, c, d, e, f, g);
  if (f != nullptr) return sum(a, b, c, d, e, f);
  if (e != nullptr) return sum(a, b, c, d, e);
  if (d != nullptr) return sum(a, b, c, d);
  if (c != nullptr) return sum(a, b, c);
  sum(a, b);
}

template <class F, class T>
void unary_backward(Context& context, T* grad_in, const T* grad_out, const T* saved, std::int64_t n) {
  map(context, n, F{}, grad_in, grad_out, saved);
}

template <class T>
void pow_backward(Context& context, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> exponent) {
  map(context, n, PowBackward<Scalar<T>>{exponent}, grad_in, grad_out, in);
}

template <class T>
void clamp_backward(Context& context, T* grad_in, const T* grad_out, const T* in, std::int64_t n, Scalar<T> low,
                    Scalar<T> high) {
  map(context, n, ClampBackward<Scalar<T>>{low, high}, grad_in, grad_out, in);
}

}  // namespace

template <class T>
kernels::Arithmetic<T> arithmetic() {
  using S = Scalar<T>;
  return {.add = binary<Add, T, T>,
          .sub = binary<Sub, T, T>,
          .mul = binary<Mul, T, T>,
          .div = binary<Div, T, T>,
          .maximum = binary<Maximum, T, T>,
          .minimum = binary<Minimum, T, T>,
          .power = binary<Power, T, T>,
          .fmod = binary<Fmod, T, T>,
          .equal = binary<Equal, T, bool>,
          .not_equal = binary<NotEqual, T, bool>,
          .less = binary<Less, T, bool>,
          .less_equal = binary<LessEqual, T, bool>,
          .greater = binary<Greater, T, bool>,
          .greater_equal = binary<GreaterEqual, T, bool>,
          .where = where<T>,
          .mul_add = mul_add<T>,
          .neg = unary<Neg<S>, T>,
          .exp = unary<Exp<S>, T>,
          .log = unary<Log<S>, T>,
          .sqrt = unary<Sqrt<S>, T>,
          .abs = unary<Abs<S>, T>,
          .sin = unary<Sin<S>, T>,
          .cos = unary<Cos<S>, T>,
          .erf = unary<Erf<S>, T>,
          .floor = unary<Floor<S>, T>,
          .ceil = unary<Ceil<S>, T>,
          .round = unary<Round<S>, T>,
          .pow = pow<T>,
          .clamp = clamp<T>,
          .affine = affine<T>,
          .add_all = add_all<T>,
          .sqrt_backward = unary_backward<SqrtBackward<S>, T>,
          .abs_backward = unary_backward<AbsBackward<S>, T>,
          .pow_backward = pow_backward<T>,
          .clamp_backward = clamp_backward<T>,
          .maximum_backward = select<Less, T>,
          .minimum_backward = select<Greater, T>};
}
template kernels::Arithmetic<float> arithmetic<float>();
template kernels::Arithmetic<double> arithmetic<double>();
template kernels::Arithmetic<BFloat16> arithmetic<BFloat16>();
template kernels::Arithmetic<Float16> arithmetic<Float16>();

}  // namespace tern::cuda
