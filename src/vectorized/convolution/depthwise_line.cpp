#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/depthwise_line.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

#include "vectorized/convolution/line_tile.hpp"
#include "vectorized/dispatched.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
// Sums that stay in registers beside the weights of a row, and of some channels of a vector.
inline constexpr int most_sums = HWY_TARGET == HWY_AVX3 ? 14 : 6, most_rest_sums = HWY_TARGET == HWY_AVX3 ? 8 : 6;

/// R outputs: of whole vectors of channels, or of the last channels, which are less.
template <bool IsWhole, int Stride, int Taps, int R, class T>
void line(const DepthwiseLine<T>& run, std::int64_t first, std::int64_t last) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  for (std::int64_t c = first; c < last; c += lanes) {
    LineVector<T> sum[R], weights[Taps];
    if (run.ahead != 0 && run.row_count > 0) {
      const T* next = run.in + c + run.rows[run.row_count - 1].in + run.ahead;
      for (int i = 0; i < (R - 1) * Stride + Taps; ++i, next += run.in_step) hwy::Prefetch(next);
    }
    start_line<R, T>(sum, run.bias == nullptr ? nullptr : run.bias + c, IsWhole, last - c);
    for (const DepthwiseTap *row = run.rows, *end = row + run.row_count; row != end; ++row) {
      load_taps<0, Taps, T>(weights, run.weights + c + row->weight, run.weight_step);
      const T* const in = run.in + c + row->in;
      if constexpr (IsWhole)
        multiply_inputs<Stride, 0, R, Taps, T>(sum, in, run.in_step, run.inside, weights, Whole<T>());
      else
        multiply_inputs<Stride, 0, R, Taps, T>(sum, in, run.in_step, run.inside, weights, First<T>{last - c});
    }
    finish_line<IsWhole, R, T>(sum, run.out + c, run.out_step, run.activation, last - c);
  }
}

template <class T>
using LineFunction = void (*)(const DepthwiseLine<T>&, std::int64_t, std::int64_t);

template <bool IsWhole, int Stride, int Taps, class T, int... R>
constexpr std::array<LineFunction<T>, sizeof...(R)> line_table(std::integer_sequence<int, R...>) {
  return {&line<IsWhole, Stride, Taps, R + 1, T>...};
}

/// The outputs in parts of as many as there are kernels for.
template <bool IsWhole, int Stride, int Taps, class T>
void run_parts(const DepthwiseLine<T>& run, std::int64_t begin, std::int64_t end) {
  constexpr int most = std::min(IsWhole ? most_sums : most_rest_sums, most_unrolled);
  static constexpr auto table = line_table<IsWhole, Stride, Taps, T>(std::make_integer_sequence<int, most>());
  in_parts<most, Stride>(
      run, [&](const DepthwiseLine<T>& part) { table[static_cast<std::size_t>(part.outputs - 1)](part, begin, end); });
}

template <int Stride, int Taps, class T>
void run_taps(const DepthwiseLine<T>& run) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
  const std::int64_t whole = run.channels / lanes * lanes;
  if (whole > 0) run_parts<true, Stride, Taps, T>(run, 0, whole);
  if (whole < run.channels) run_parts<false, Stride, Taps, T>(run, whole, run.channels);
}

template <int Stride, class T>
void run_by(const DepthwiseLine<T>& line) {
  if constexpr (Stride == 1)
    if (line.taps == 3) return run_taps<Stride, 3>(line);
  if (line.taps == 5) return run_taps<Stride, 5>(line);
  line.taps == 7 ? run_taps<Stride, 7>(line) : run_taps<Stride, 9>(line);
}

template <class T>
void run(const DepthwiseLine<T>& line) {
  line.stride == 1 ? run_by<1>(line) : run_by<2>(line);
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
