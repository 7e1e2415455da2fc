#pragma once

#include <cuda_runtime.h>

#include "cuda/elements.cuh"

namespace tern::cuda {

/// The standard normal distribution at x: its integral up to x, and exp(-x^2 / 2).
template <class T>
struct Normal {
  T below, bell;
};

__device__ __forceinline__ Normal<double> normal_at(double x) { return {::normcdf(x), ::exp(-0.5 * x * x)}; }

/// A third of normcdff's instructions, which take longer than the memory of an elementwise kernel. Both numbers are
/// within 5 eps, far from 0 too: the tail is exp(-x^2 / 2) by a polynomial in 1 / (1 + 0.3 |x|), and the exponent
/// carries what rounding takes off.
__device__ __forceinline__ Normal<float> normal_at(float x) {
  constexpr float log2e_half = -0.721347520f,
                  rest_of_log2e_half = static_cast<float>(-0.72134752044448170368 - double{log2e_half});
  const float far = ::fminf(::fabsf(x), 15.f), under = ::fmaf(0.3f, far, 1.f);
  float t = __fdividef(1.f, under);
  t = ::fmaf(t, ::fmaf(-under, t, 1.f), t);
  float tail = -0.02098466936f;
  tail = ::fmaf(tail, t, 0.1144021119f);
  tail = ::fmaf(tail, t, -0.2328354831f);
  tail = ::fmaf(tail, t, 0.1979216441f);
  tail = ::fmaf(tail, t, -0.08448128252f);
  tail = ::fmaf(tail, t, 0.09883084131f);
  tail = ::fmaf(tail, t, 0.07748577065f);
  tail = ::fmaf(tail, t, 0.1104231966f);
  tail = ::fmaf(tail, t, 0.1195501183f);
  tail = ::fmaf(tail, t, 0.1196877502f) * t;
  const float square = far * far, exponent = square * log2e_half;
  float lost = ::fmaf(square, log2e_half, -exponent);
  lost = ::fmaf(square, rest_of_log2e_half, lost);
  lost = ::fmaf(::fmaf(far, far, -square), log2e_half, lost);
  float bell = ::exp2f(exponent);
  bell = ::fmaf(bell, lost * 0.693147181f, bell);
  // As intrinsics: the same bits wherever this is compiled into.
  return {x < 0 ? __fmul_rn(tail, bell) : __fmaf_rn(-tail, bell, 1.f), bell};
}

/// For results of 16 bits: half of those instructions; both numbers are within 1e-5.
__device__ __forceinline__ Normal<float> nearly_normal_at(float x) {
  const float far = ::fminf(::fabsf(x), 15.f), t = __fdividef(1.f, ::fmaf(0.3f, far, 1.f));
  float tail = -0.07709737352f;
  tail = ::fmaf(tail, t, 0.2160367705f);
  tail = ::fmaf(tail, t, -0.01694760629f);
  tail = ::fmaf(tail, t, 0.1441960682f);
  tail = ::fmaf(tail, t, 0.1137420183f);
  tail = ::fmaf(tail, t, 0.1200742225f) * t;
  const float bell = ::exp2f(far * far * -0.721347520f);
  return {x < 0 ? tail * bell : ::fmaf(-tail, bell, 1.f), bell};
}

/// For elements of T.
template <class T>
__device__ __forceinline__ Normal<Scalar<T>> normal_of(Scalar<T> x) {
  if constexpr (is_half<T>)
    return nearly_normal_at(x);
  else
    return normal_at(x);
}

}  // namespace tern::cuda
