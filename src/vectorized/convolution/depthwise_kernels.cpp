#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/depthwise_kernels.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "core/built.hpp"
#include "vectorized/clip.hpp"
#include "vectorized/convolution/depthwise_kernels.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernels::Activation;
using vectorized::HWY_NAMESPACE::clipped;
using vectorized::HWY_NAMESPACE::load_first;
using vectorized::HWY_NAMESPACE::store_columns;

template <class T>
using Vector = hn::Vec<hn::ScalableTag<T>>;

inline constexpr int most_outputs = 6;  // sums of a run that are in registers together
inline constexpr int most_taps = 9;     // of a row of the kernel, for the gradient of the weights

/// A vector of channels, or the first `rest` ones.
template <bool Whole, class T>
HWY_INLINE Vector<T> load(const T* from, std::int64_t rest) {
  const hn::ScalableTag<T> d;
  if constexpr (Whole)
    return hn::LoadU(d, from);
  else
    return load_first(d, from, rest);
}

template <bool Whole, bool Masks, class T>
HWY_INLINE Vector<T> load_masked(const T* from, const T* mask, std::int64_t rest) {
  const hn::ScalableTag<T> d;
  const auto value = load<Whole>(from, rest);
  if constexpr (Masks)
    return hn::IfThenZeroElse(hn::Le(load<Whole>(mask, rest), hn::Zero(d)), value);
  else
    return value;
}

// The loops over the sums are template recursions, so that each sum has a constant index and stays in a register.

template <bool Whole, bool Masks, int I, int R, class T>
HWY_INLINE void multiply(Vector<T> (&sum)[R], const T* in, const T* mask, std::int64_t step, Vector<T> weight,
                         std::int64_t rest) {
  if constexpr (I < R) {
    sum[I] = hn::MulAdd(load_masked<Whole, Masks>(in + I * step, mask + I * step, rest), weight, sum[I]);
    multiply<Whole, Masks, I + 1, R, T>(sum, in, mask, step, weight, rest);
  }
}

template <int J, bool Whole, bool Masks, int R, int V, class T>
HWY_INLINE void multiply_all(Vector<T> (&sum)[V][R], const T* in, const T* mask, std::int64_t step, const T* weights,
                             std::int64_t rest) {
  if constexpr (J < V) {
    const hn::ScalableTag<T> d;
    const auto at = J * static_cast<std::int64_t>(hn::Lanes(d));
    multiply<Whole, Masks, 0, R, T>(sum[J], in + at, mask + at, step, hn::LoadU(d, weights + at), rest);
    multiply_all<J + 1, Whole, Masks, R, V, T>(sum, in, mask, step, weights, rest);
  }
}

template <class T>
HWY_INLINE Vector<T> activated(Vector<T> value, Activation activation) {
  const hn::ScalableTag<T> d;
  if (!clips(activation)) return value;
  return clipped(d, value, hn::Set(d, top_of<T>(activation)));
}

/// R outputs of V vectors of channels from `c` on.
template <bool Whole, bool Masks, int R, int V, class T>
HWY_INLINE void outputs_of(const DepthwiseRun<T>& run, std::int64_t first, std::int64_t c) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t rest = run.channels - c, step = run.in_step, at = first * step + c;
  Vector<T> sum[V][R];
  for (int v = 0; v < V; ++v) {
    const Vector<T> start = run.bias == nullptr ? hn::Zero(d) : load<Whole>(run.bias + c + v * lanes, rest);
    for (int i = 0; i < R; ++i) sum[v][i] = start;
  }
  const T* const in = run.in + at;
  const T* const mask = Masks ? run.mask + at : in;
  const T* const weights = run.weights + c;
  if (run.ahead != 0)
    for (const DepthwiseTap *tap = run.taps + run.first_ahead, *end = run.taps + run.tap_count; tap < end; ++tap)
      for (int i = 0; i < R; ++i) hwy::Prefetch(in + tap->in + run.ahead + i * step);
  for (const DepthwiseTap *tap = run.taps, *end = tap + run.tap_count; tap != end; ++tap)
    multiply_all<0, Whole, Masks, R, V, T>(sum, in + tap->in, mask + tap->in, step, weights + tap->weight, rest);
  T* out = run.out + first * run.out_step + c;
  for (int i = 0; i < R; ++i, out += run.out_step)
    for (int v = 0; v < V; ++v)
      store_columns(activated<T>(sum[v][i], run.activation), d, out + v * lanes, Whole ? run.channels : rest);
}

/// The last V vectors of channels or fewer; how far it came.
template <bool Masks, int R, int V, class T>
HWY_INLINE std::int64_t last_vectors(const DepthwiseRun<T>& run, std::int64_t first, std::int64_t c) {
  if constexpr (V > 0) {
    constexpr auto lanes = static_cast<std::int64_t>(hn::MaxLanes(hn::ScalableTag<T>()));
    if (c + V * lanes > run.channels) return last_vectors<Masks, R, V - 1>(run, first, c);
    outputs_of<true, Masks, R, V>(run, first, c);
    c += V * lanes;
  }
  return c;
}

/// Few outputs are few chains of sums: then several vectors of channels together.
template <bool Masks, int R, class T>
HWY_INLINE void outputs_of_all(const DepthwiseRun<T>& run, std::int64_t first) {
  constexpr int together = R == 1 ? 6 : R == 2 ? 3 : 2;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  std::int64_t c = 0;
  for (; c + together * lanes <= run.channels; c += together * lanes)
    outputs_of<true, Masks, R, together>(run, first, c);
  c = last_vectors<Masks, R, together - 1>(run, first, c);
  if (c < run.channels) outputs_of<false, Masks, R, 1>(run, first, c);
}

template <bool Masks, int R, class T>
HWY_INLINE void last_outputs(const DepthwiseRun<T>& run, std::int64_t first) {
  if constexpr (R > 0) {
    if (run.outputs - first == R)
      outputs_of_all<Masks, R>(run, first);
    else
      last_outputs<Masks, R - 1>(run, first);
  }
}

template <bool Masks, class T>
void run_by(const DepthwiseRun<T>& run) {
  std::int64_t first = 0;
  for (; first + most_outputs <= run.outputs; first += most_outputs) outputs_of_all<Masks, most_outputs>(run, first);
  last_outputs<Masks, most_outputs - 1>(run, first);
}

template <class T>
void run(const DepthwiseRun<T>& run) {
  run.mask == nullptr ? run_by<false>(run) : run_by<true>(run);
}

/// Taps of a vector of channels from `c` on.
template <bool Whole, bool Masks, int Taps, class T>
HWY_INLINE void gradient_of(const DepthwiseGradient<T>& p, std::int64_t c) {
  const hn::ScalableTag<T> d;
  const std::int64_t rest = p.channels - c;
  Vector<T> sum[Taps];
  for (int i = 0; i < Taps; ++i) sum[i] = hn::Zero(d);
  const T *in = p.in + c, *g = p.g + c, *mask = Masks ? p.mask + c : g;
  for (std::int64_t i = 0; i < p.positions; ++i, in += p.in_step, g += p.g_step, mask += p.g_step)
    multiply<Whole, false, 0, Taps, T>(sum, in, in, p.tap_step, load_masked<Whole, Masks>(g, mask, rest), rest);
  T* to = p.sums + c;
  for (int i = 0; i < Taps; ++i, to += p.sum_step) hn::StoreU(hn::Add(hn::LoadU(d, to), sum[i]), d, to);
}

template <bool Masks, int Taps, class T>
void gradient_by(const DepthwiseGradient<T>& p) {
  if constexpr (Taps > 0) {
    if (p.tap_count != Taps) return gradient_by<Masks, Taps - 1>(p);
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
    std::int64_t c = 0;
    for (; c + lanes <= p.channels; c += lanes) gradient_of<true, Masks, Taps>(p, c);
    if (c < p.channels) gradient_of<false, Masks, Taps>(p, c);
  }
}

template <class T>
void gradient(const DepthwiseGradient<T>& p) {
  p.mask == nullptr ? gradient_by<false, most_taps>(p) : gradient_by<true, most_taps>(p);
}

template <class T>
const DepthwiseKernels<T>& kernels() {
  static constexpr DepthwiseKernels<T> table{
      .lanes = HWY_TARGET == HWY_SCALAR ? 1 : static_cast<std::int64_t>(HWY_MAX_BYTES / sizeof(T)),
      .most_taps = most_taps,
      .run = run<T>,
      .gradient = built::whole ? gradient<T> : nullptr};
  return table;
}

const DepthwiseKernels<float>& kernels_float() { return kernels<float>(); }
const DepthwiseKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

TERN_DISPATCHED(depthwise_kernels, kernels)

}  // namespace tern::vectorized::convolution
#endif
