#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/depthwise_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>

#include "vectorized/clip.hpp"
#include "vectorized/convolution/depthwise_kernels.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using kernels::Activation;
using vectorized::HWY_NAMESPACE::clipped;
using vectorized::HWY_NAMESPACE::load_columns;
using vectorized::HWY_NAMESPACE::load_first;
using vectorized::HWY_NAMESPACE::store_columns;

template <class T>
using Vector = hn::Vec<hn::ScalableTag<T>>;

inline constexpr int most_outputs = 6;  // sums of a run that are in registers together
inline constexpr int most_taps = 7;     // of a row of the kernel, for the gradient of the weights

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
  for (const DepthwiseTap *tap = run.taps, *end = tap + run.tap_count; tap != end; ++tap)
    multiply_all<0, Whole, Masks, R, V, T>(sum, in + tap->in, mask + tap->in, step, weights + tap->weight, rest);
  T* out = run.out + first * run.out_step + c;
  for (int i = 0; i < R; ++i, out += run.out_step)
    for (int v = 0; v < V; ++v)
      store_columns(activated<T>(sum[v][i], run.activation), d, out + v * lanes, Whole ? run.channels : rest);
}

/// Few outputs are few chains of sums: then several vectors of channels together.
template <bool Masks, int R, class T>
HWY_INLINE void outputs_of_all(const DepthwiseRun<T>& run, std::int64_t first) {
  constexpr int together = R == 1 ? 6 : R == 2 ? 3 : R == 3 ? 2 : 1;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  std::int64_t c = 0;
  if constexpr (together > 1)
    for (; c + together * lanes <= run.channels; c += together * lanes)
      outputs_of<true, Masks, R, together>(run, first, c);
  for (; c + lanes <= run.channels; c += lanes) outputs_of<true, Masks, R, 1>(run, first, c);
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

// ---- a row of the kernel over adjacent inputs: each is loaded once for all its taps --------------------------------

/// The products of input J with the taps [K, Taps): tap K belongs to output J - K.
template <int J, int K, int R, int Taps, class T>
HWY_INLINE void multiply_taps(Vector<T> (&sum)[R], Vector<T> in, const Vector<T> (&weights)[Taps]) {
  if constexpr (K < Taps) {
    if constexpr (J >= K && J - K < R) sum[J - K] = hn::MulAdd(in, weights[K], sum[J - K]);
    multiply_taps<J, K + 1, R, Taps, T>(sum, in, weights);
  }
}

template <int J, int R, int Taps, class T>
HWY_INLINE void multiply_line(Vector<T> (&sum)[R], const T* in, std::int64_t step, const Vector<T> (&weights)[Taps]) {
  if constexpr (J < R + Taps - 1) {
    multiply_taps<J, 0, R, Taps, T>(sum, hn::LoadU(hn::ScalableTag<T>(), in), weights);
    multiply_line<J + 1, R, Taps, T>(sum, in + step, step, weights);
  }
}

template <int K, int Taps, class T>
HWY_INLINE void load_weights(Vector<T> (&weights)[Taps], const T* from, std::int64_t step) {
  if constexpr (K < Taps) {
    weights[K] = hn::LoadU(hn::ScalableTag<T>(), from + K * step);
    load_weights<K + 1, Taps, T>(weights, from, step);
  }
}

/// R outputs of whole vectors of channels; `run` is in order: a tap's input lies one step behind that of the tap
/// before.
template <int R, int Taps, class T>
void slide(const DepthwiseRun<T>& run, std::int64_t first, std::int64_t channels) {
  const hn::ScalableTag<T> d;
  const std::int64_t weight_step = run.taps[1].weight - run.taps[0].weight;
  for (std::int64_t c = 0; c < channels; c += static_cast<std::int64_t>(hn::Lanes(d))) {
    Vector<T> sum[R], weights[Taps];
    const Vector<T> start = run.bias == nullptr ? hn::Zero(d) : hn::LoadU(d, run.bias + c);
    for (int i = 0; i < R; ++i) sum[i] = start;
    const T* const in = run.in + first * run.in_step + c;
    for (std::int64_t tap = 0; tap < run.tap_count; tap += Taps) {
      load_weights<0, Taps, T>(weights, run.weights + c + run.taps[tap].weight, weight_step);
      multiply_line<0, R, Taps, T>(sum, in + run.taps[tap].in, run.in_step, weights);
    }
    T* out = run.out + first * run.out_step + c;
    for (int i = 0; i < R; ++i, out += run.out_step) hn::StoreU(activated<T>(sum[i], run.activation), d, out);
  }
}

inline constexpr std::int64_t many = HWY_TARGET == HWY_AVX3 ? 12 : 6, some = many / 2;

/// As many outputs as these tiles cover, of whole vectors of channels: their number.
template <int Taps, class T>
std::int64_t slide_all(DepthwiseRun<T> run, std::int64_t channels) {
  const std::int64_t covered = run.outputs / some * some;
  if (run.taps[1].in - run.taps[0].in == -run.in_step) {  // the same from the last output to the first
    run.in += (covered - 1) * run.in_step;
    run.out += (covered - 1) * run.out_step;
    run.in_step = -run.in_step;
    run.out_step = -run.out_step;
  }
  std::int64_t first = 0;
  for (; first + many <= covered; first += many) slide<many, Taps>(run, first, channels);
  for (; first < covered; first += some) slide<some, Taps>(run, first, channels);
  return covered;
}

/// The number of outputs that it covered.
template <class T>
std::int64_t slide_by_taps(const DepthwiseRun<T>& run, std::int64_t channels) {
  if (run.row_taps == 3) return slide_all<3>(run, channels);
  return run.row_taps == 5 ? slide_all<5>(run, channels) : slide_all<7>(run, channels);
}

/// The channels from `channel` on.
template <class T>
DepthwiseRun<T> behind(DepthwiseRun<T> run, std::int64_t channel) {
  run.out += channel;
  run.in += channel;
  run.weights += channel;
  if (run.bias != nullptr) run.bias += channel;
  run.channels -= channel;
  return run;
}

template <bool Masks, class T>
void run_by(const DepthwiseRun<T>& run);

/// All of a run without a mask.
template <class T>
void run_sliding(DepthwiseRun<T> run) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t channels = run.channels / lanes * lanes, covered = slide_by_taps(run, channels);
  if (channels < run.channels) {
    DepthwiseRun<T> rest = behind(run, channels);
    rest.outputs = covered;
    run_by<false>(rest);
  }
  run.in += covered * run.in_step;
  run.out += covered * run.out_step;
  run.outputs -= covered;
  if (run.outputs > 0) run_by<false>(run);
}

template <bool Masks, class T>
void run_by(const DepthwiseRun<T>& run) {
  std::int64_t first = 0;
  for (; first + most_outputs <= run.outputs; first += most_outputs) outputs_of_all<Masks, most_outputs>(run, first);
  last_outputs<Masks, most_outputs - 1>(run, first);
}

template <class T>
void run(const DepthwiseRun<T>& run) {
  const bool slides = run.row_taps == 3 || run.row_taps == 5 || run.row_taps == 7;
  if (run.mask != nullptr)
    run_by<true>(run);
  else if (slides && run.outputs >= some && run.channels >= static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>())))
    run_sliding(run);
  else
    run_by<false>(run);
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
      .gradient = gradient<T>};
  return table;
}

const DepthwiseKernels<float>& kernels_float() { return kernels<float>(); }
const DepthwiseKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

HWY_EXPORT(kernels_float);
HWY_EXPORT(kernels_double);

template <>
const DepthwiseKernels<float>& depthwise_kernels<float>() {
  static const DepthwiseKernels<float>& kernels = HWY_DYNAMIC_DISPATCH(kernels_float)();
  return kernels;
}
template <>
const DepthwiseKernels<double>& depthwise_kernels<double>() {
  static const DepthwiseKernels<double>& kernels = HWY_DYNAMIC_DISPATCH(kernels_double)();
  return kernels;
}

}  // namespace tern::vectorized::convolution
#endif
