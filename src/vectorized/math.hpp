// Elementary functions of vectors, a few units in the last place from the exact value and with IEEE 754's special
// cases; compiled once per instruction set (see targets.hpp).

#if defined(TERN_VECTORIZED_MATH_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_MATH_HPP
#undef TERN_VECTORIZED_MATH_HPP
#else
#define TERN_VECTORIZED_MATH_HPP
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V, std::size_t size>
HWY_INLINE V polynomial(D d, V x, const hn::TFromD<D> (&coefficients)[size]) {
  // Even and odd powers separately: two independent chains.
  const V square = hn::Mul(x, x);
  V even = hn::Set(d, coefficients[(size - 1) & ~std::size_t{1}]);
  V odd = hn::Set(d, coefficients[(size - 2) | std::size_t{1}]);
  for (std::size_t i = (size - 1) & ~std::size_t{1}; i >= 2; i -= 2)
    even = hn::MulAdd(even, square, hn::Set(d, coefficients[i - 2]));
  for (std::size_t i = (size - 2) | std::size_t{1}; i >= 3; i -= 2)
    odd = hn::MulAdd(odd, square, hn::Set(d, coefficients[i - 2]));
  return hn::MulAdd(odd, x, even);
}

template <class T>
struct ExpNumbers;
template <>
struct ExpNumbers<float> {
  static constexpr int mantissa_bits = 23;
  static constexpr float magic = 0x1.8p23f;  // adding it leaves an integer in the low bits of the sum
  static constexpr float ordinary = 87, lowest = -105, highest = 90;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float coefficients[] = {0.5f, 0.1666657689f, 0.0416665545f, 0.008363194882f, 0.001392620336f};
};
template <>
struct ExpNumbers<double> {
  static constexpr int mantissa_bits = 52;
  static constexpr double magic = 0x1.8p52;
  static constexpr double ordinary = 708, lowest = -746, highest = 710;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  static constexpr double coefficients[] = {0.500000000000000102,     0.166666666666666675,   0.0416666666666240377,
                                            0.0083333333333300549,    0.00138888889172587583, 0.000198412698630882544,
                                            0.0000248015212259864325, 2.7557268406190795e-6,  2.76201217173819352e-7,
                                            2.51004110820149011e-8};
};

/// exp(x) = 2^n e^r with n the integer nearest to x / log 2, and e^r = 1 + r + r^2 q(r), q interpolated at Chebyshev
/// nodes of |r| <= log(2) / 2 (1e-8 and 2e-17 relative): r, and in `shifted` n, added to the number that rounds it.
template <class D, class V>
HWY_INLINE V exp_remainder(D d, V x, V& shifted) {
  using T = hn::TFromD<D>;
  using Numbers = ExpNumbers<T>;
  const V magic = hn::Set(d, Numbers::magic);
  shifted = hn::MulAdd(x, hn::Set(d, T(1.442695040888963407359924681)), magic);
  const V n = hn::Sub(shifted, magic);
  const V r = hn::NegMulAdd(n, hn::Set(d, Numbers::ln2_high), x);
  return hn::NegMulAdd(n, hn::Set(d, Numbers::ln2_low), r);
}
/// e^r.
template <class D, class V>
HWY_INLINE V exp_of_remainder(D d, V r) {
  using T = hn::TFromD<D>;
  const V higher = hn::MulAdd(hn::Mul(r, r), polynomial(d, r, ExpNumbers<T>::coefficients), r);
  return hn::Add(higher, hn::Set(d, T(1)));
}
/// 2^n e^r, if it is an ordinary number: n is added to the exponent.
template <class D, class V>
HWY_INLINE V exp_of_parts(D d, V r, V shifted) {
  constexpr int bits = ExpNumbers<hn::TFromD<D>>::mantissa_bits;
  const hn::RebindToSigned<D> integers;
  return hn::BitCast(
      d, hn::Add(hn::BitCast(integers, exp_of_remainder(d, r)), hn::ShiftLeft<bits>(hn::BitCast(integers, shifted))));
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  using T = hn::TFromD<D>;
  using Numbers = ExpNumbers<T>;
  V shifted;
  if (hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, Numbers::ordinary)))) {
    const V r = exp_remainder(d, x, shifted);
    return exp_of_parts(d, r, shifted);
  }

  // Results beyond the normal range round once, in the second of two multiplications.
  const hn::RebindToSigned<D> integers;
  const V magic = hn::Set(d, Numbers::magic), one = hn::Set(d, T(1));
  const V bounded = hn::Min(hn::Max(x, hn::Set(d, Numbers::lowest)), hn::Set(d, Numbers::highest));
  const V power = exp_of_remainder(d, exp_remainder(d, bounded, shifted)), n = hn::Sub(shifted, magic);
  const auto power_of_two = [&](V integer) HWY_ATTR {
    return hn::BitCast(d, hn::Add(hn::ShiftLeft<Numbers::mantissa_bits>(hn::BitCast(integers, hn::Add(integer, magic))),
                                  hn::BitCast(integers, one)));
  };
  const V half = hn::Sub(hn::MulAdd(n, hn::Set(d, T(0.5)), magic), magic);
  const V result = hn::Mul(hn::Mul(power, power_of_two(half)), power_of_two(hn::Sub(n, half)));
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}
/// Highway's Log is for positive finite arguments.
template <class D, class V>
HWY_INLINE V log(D d, V x) {
  using T = hn::TFromD<D>;
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const V zero = hn::Zero(d), top = hn::Set(d, infinity);
  V result = hn::IfThenElse(hn::Lt(x, top), hn::Log(d, x), x);
  result = hn::IfThenElse(hn::Eq(x, zero), hn::Neg(top), result);
  return hn::IfThenElse(hn::Lt(x, zero), hn::Set(d, std::numeric_limits<T>::quiet_NaN()), result);
}

template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, hn::TFromD<D>(1));
  const V small = exp(d, hn::Neg(hn::Abs(x)));
  return hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(d)), small, one), hn::Add(one, small));
}

template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Tanh(d, x));
}

/// log(1 + exp(-|x|)).
template <class D, class V>
HWY_INLINE V log1p_of_exp_of_minus_abs(D d, V x) {
  const V small = exp(d, hn::Neg(hn::Abs(x)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Log1p(d, small));
}

/// log(1 + exp(x)).
template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  const V positive = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Zero(d));
  return hn::Add(positive, log1p_of_exp_of_minus_abs(d, x));
}

template <class T>
struct NormalTail;
template <>
struct NormalTail<float> {
  static constexpr float limit = 14.5f, middle = 4;
  static constexpr float coefficients[] = {0.7552851385f,    -0.6078966061f,   0.3871366798f,    -0.1865230059f,
                                           0.06040646975f,   -0.007527212912f, -0.003523574056f, 0.001569313645f,
                                           0.0001948018511f, -0.000122983157f};
};
template <>
struct NormalTail<double> {
  static constexpr double limit = 39, middle = 4.5;
  static constexpr double coefficients[] = {
      0.763230528970203258,      -0.640257760252620672,  0.446452517055644529,    -0.253141799950634527,
      0.111382596571752983,      -0.0338713261861647017, 0.00422361335235297724,  0.00174883067736582574,
      -0.000917746239098824469,  6.38043620587897159e-6, 0.000112041228834336091, -0.0000159303661197912421,
      -0.0000142307074595481754, 3.18405386990472446e-6, 2.13107417847164956e-6,  -4.92261202996603411e-7,
      -3.62354280762247429e-7,   5.67852873663364172e-8, 5.59704007392894798e-8,  -2.70353589295291382e-9,
      -4.69007795761491302e-9};
};

/// The normal distribution function Phi(x) = (1 + erf(x / sqrt 2)) / 2, accurate in the left tail as well, and its
/// density. With u = |x|: Phi(-u) = exp(-u^2 / 2) P(t) / (u + m), t = (u - m) / (u + m), where P interpolates
/// exp(u^2 / 2) Phi(-u) (u + m) at the Chebyshev nodes of t (the substitution of Shepherd and Laframboise,
/// "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity", 1981): 1e-8 and 3e-16 relative.
template <class D, class V>
HWY_INLINE V normal_distribution(D d, V x, V& density) {
  using T = hn::TFromD<D>;
  using Tail = NormalTail<T>;
  const V one = hn::Set(d, T(1)), half = hn::Set(d, T(0.5)), middle = hn::Set(d, Tail::middle);
  const V u = hn::Min(hn::Abs(x), hn::Set(d, Tail::limit));
  const V square = hn::Mul(u, u);
  const V lost = hn::MulSub(u, u, square);  // u^2 - square, exact with fused multiply-add
  const V gauss = exp(d, hn::Neg(hn::Mul(half, square)));
  const V corrected = hn::NegMulAdd(hn::Mul(half, lost), gauss, gauss);
  density = hn::Mul(corrected, hn::Set(d, T(0.398942280401432677939946)));
  const V inverse = hn::Div(one, hn::Add(u, middle));
  const V t = hn::Mul(hn::Sub(u, middle), inverse);
  const V tail = hn::Mul(corrected, hn::Mul(inverse, polynomial(d, t, Tail::coefficients)));
  return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), hn::Sub(one, tail), tail);
}

template <class T>
struct ErrorSeries;
template <>
struct ErrorSeries<float> {
  static constexpr float coefficients[] = {1.128379167f,     -0.376126389f,     0.1128379167f,    -0.02686617065f,
                                           0.005223977625f,  -0.0008548327023f, 0.0001205533298f, -1.492565036e-05f,
                                           1.646211437e-06f, -1.636584469e-07f, 1.480719282e-08f};
};
template <>
struct ErrorSeries<double> {
  static constexpr double coefficients[] = {
      1.12837916709551256,     -0.376126389031837538,    0.112837916709551261,    -0.0268661706451312522,
      0.00522397762544218793,  -0.000854832702345085333, 0.000120553329817896636, -1.49256503584062504e-05,
      1.64621143658892485e-06, -1.63658446912349245e-07, 1.48071928158792176e-08, -1.22905553017179284e-09,
      9.42275906465041125e-11, -6.71136685516411048e-12, 4.46322426328647749e-13, -2.7835162072109215e-14,
      1.6342614095367152e-15,  -9.06397084280867278e-17};
};

/// The error function erf(x). Up to |x| = 1 its series 2 x / sqrt(pi) times the sum of (-x^2)^n / (n! (2n + 1)), DLMF
/// 7.6.1, cut where a term is below 1e-9 and 1e-17 of the sum; beyond it 1 - 2 Phi(-sqrt(2) |x|), of which the second
/// term is less than 0.16. Within 4 units in the last place in both types.
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, T(1)), size = hn::Abs(x);
  const V inside = hn::Mul(x, polynomial(d, hn::Mul(x, x), ErrorSeries<T>::coefficients));
  V density;
  const V tail = normal_distribution(d, hn::Mul(size, hn::Set(d, T(-1.41421356237309504880169))), density);
  const V outside = hn::CopySign(hn::NegMulAdd(hn::Set(d, T(2)), tail, one), x);
  const V result = hn::IfThenElse(hn::Gt(size, one), outside, inside);
  return hn::IfThenElse(hn::IsNaN(x), x, result);
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
