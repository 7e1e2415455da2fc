#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/depthwise_line.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

#include "vectorized/clip.hpp"
#include "vectorized/convolution/depthwise_line.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using vectorized::HWY_NAMESPACE::clipped;
using vectorized::HWY_NAMESPACE::load_first;
using vectorized::HWY_NAMESPACE::store_columns;

template <class T>
using LineVector = hn::Vec<hn::ScalableTag<T>>;

// Sums that stay in registers beside the weights of a row, and of some channels of a vector.
inline constexpr int most_sums = HWY_TARGET == HWY_AVX3 ? 14 : 6, most_rest_sums = HWY_TARGET == HWY_AVX3 ? 8 : 6;

// The loops over sums and taps are template recursions, so that each has a constant index and stays in a register.

template <int K, int Taps, class T>
HWY_INLINE void load_taps(LineVector<T> (&weights)[Taps], const T* from, std::int64_t step) {
  if constexpr (K < Taps) {
    weights[K] = hn::LoadU(hn::ScalableTag<T>(), from + K * step);
    load_taps<K + 1, Taps, T>(weights, from, step);
  }
}

/// The products of input J with the taps [K, Taps): tap K belongs to output J - K.
template <int J, int K, int R, int Taps, class T>
HWY_INLINE void multiply_taps(LineVector<T> (&sum)[R], LineVector<T> in, const LineVector<T> (&weights)[Taps]) {
  if constexpr (K < Taps) {
    if constexpr (J >= K && J - K < R) sum[J - K] = hn::MulAdd(in, weights[K], sum[J - K]);
    multiply_taps<J, K + 1, R, Taps, T>(sum, in, weights);
  }
}

template <bool Whole, int J, int R, int Taps, class T>
HWY_INLINE void multiply_inputs(LineVector<T> (&sum)[R], const T* in, std::int64_t step, std::uint32_t inside,
                                const LineVector<T> (&weights)[Taps], std::int64_t rest) {
  if constexpr (J < R + Taps - 1) {
    const hn::ScalableTag<T> d;
    if ((inside & (std::uint32_t{1} << J)) != 0) {
      if constexpr (Whole)
        multiply_taps<J, 0, R, Taps, T>(sum, hn::LoadU(d, in + J * step), weights);
      else
        multiply_taps<J, 0, R, Taps, T>(sum, load_first(d, in + J * step, rest), weights);
    }
    multiply_inputs<Whole, J + 1, R, Taps, T>(sum, in, step, inside, weights, rest);
  }
}

/// R outputs: of whole vectors of channels, or of the last channels, which are less.
template <bool Whole, int Taps, int R, class T>
void line(const DepthwiseLine<T>& run, std::int64_t first, std::int64_t last) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const bool clips = vectorized::clips(run.activation);
  const auto top = hn::Set(d, top_of<T>(run.activation));
  for (std::int64_t c = first; c < last; c += lanes) {
    const std::int64_t rest = last - c;
    LineVector<T> sum[R], weights[Taps];
    LineVector<T> start = hn::Zero(d);
    if (run.bias != nullptr) start = Whole ? hn::LoadU(d, run.bias + c) : load_first(d, run.bias + c, rest);
    for (int i = 0; i < R; ++i) sum[i] = start;
    for (const DepthwiseTap *row = run.rows, *end = row + run.row_count; row != end; ++row) {
      load_taps<0, Taps, T>(weights, run.weights + c + row->weight, run.weight_step);
      multiply_inputs<Whole, 0, R, Taps, T>(sum, run.in + c + row->in, run.in_step, run.inside, weights, rest);
    }
    T* out = run.out + c;
    for (int i = 0; i < R; ++i, out += run.out_step) {
      const auto value = clips ? clipped(d, sum[i], top) : sum[i];
      if constexpr (Whole)
        hn::StoreU(value, d, out);
      else
        store_columns(value, d, out, rest);
    }
  }
}

template <class T>
using LineFunction = void (*)(const DepthwiseLine<T>&, std::int64_t, std::int64_t);

template <bool Whole, int Taps, class T, int... R>
constexpr std::array<LineFunction<T>, sizeof...(R)> line_table(std::integer_sequence<int, R...>) {
  return {&line<Whole, Taps, R + 1, T>...};
}

template <bool Whole, int Taps, class T>
LineFunction<T> line_of(std::int64_t outputs) {
  static constexpr auto table =
      line_table<Whole, Taps, T>(std::make_integer_sequence < int, Whole ? most_sums : most_rest_sums > ());
  return table[static_cast<std::size_t>(outputs - 1)];
}

template <int Taps, class T>
void run_taps(const DepthwiseLine<T>& run) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t whole = run.channels / lanes * lanes;
  if (whole > 0) line_of<true, Taps, T>(run.outputs)(run, 0, whole);
  if (whole == run.channels) return;
  DepthwiseLine<T> part = run;
  for (std::int64_t first = 0; first < run.outputs; first += most_rest_sums) {
    part.outputs = std::min<std::int64_t>(most_rest_sums, run.outputs - first);
    part.out = run.out + first * run.out_step;
    part.in = run.in + first * run.in_step;
    part.inside = run.inside >> first;
    line_of<false, Taps, T>(part.outputs)(part, whole, run.channels);
  }
}

template <class T>
void run(const DepthwiseLine<T>& line) {
  if (line.taps == 3) return run_taps<3>(line);
  if (line.taps == 5) return run_taps<5>(line);
  line.taps == 7 ? run_taps<7>(line) : run_taps<9>(line);
}

template <class T>
const DepthwiseLineKernels<T>& kernels() {
  static constexpr DepthwiseLineKernels<T> table{.most_outputs = most_sums, .run = run<T>};
  return table;
}

const DepthwiseLineKernels<float>& kernels_float() { return kernels<float>(); }
const DepthwiseLineKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

TERN_DISPATCHED(depthwise_line_kernels, kernels)

}  // namespace tern::vectorized::convolution
#endif
