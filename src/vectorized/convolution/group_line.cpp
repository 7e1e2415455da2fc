#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/group_line.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <utility>

#include "vectorized/convolution/group_line.hpp"
#include "vectorized/convolution/line_tile.hpp"
#include "vectorized/dispatched.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

/// Sums that stay in registers beside the weights of a row and an input. Those of float64 are not tuned.
template <class T>
constexpr int most_sums(int taps) {
  if (HWY_TARGET == HWY_SCALAR || sizeof(T) == 8) return 4;
  return HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 14 : taps == 3 ? 10 : taps == 5 ? 8 : 7;
}
template <class T>
std::int64_t most_outputs(std::int64_t taps) {
  return most_sums<T>(static_cast<int>(taps));
}

// How an input is loaded: one channel for all lanes, or for each lane one of a vector.
template <class T>
struct Same {
  HWY_INLINE LineVector<T> operator()(const T* from) const { return hn::Set(hn::ScalableTag<T>(), *from); }
};
template <class T>
using Places = decltype(hn::SetTableIndices(hn::ScalableTag<T>(), std::declval<const PlaceOf<T>*>()));
template <class T>
struct Spread {
  Places<T> places;
  HWY_INLINE LineVector<T> operator()(const T* from) const {
    return hn::TableLookupLanes(hn::LoadU(hn::ScalableTag<T>(), from), places);
  }
};

/// R outputs of the lanes.
template <bool Spreads, int Stride, int Taps, int R, class T>
void line(const GroupLine<T>& run) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const bool whole = run.channels == lanes;
  LineVector<T> sum[R], weights[Taps];
  if (run.accumulate)
    load_sums<0, R, T>(sum, run.out, run.out_step, whole, run.channels);
  else
    start_line<R, T>(sum, run.bias, whole, run.channels);
  for (const DepthwiseTap *row = run.rows, *end = row + run.row_count; row != end; ++row) {
    const T *from = run.weights + row->weight, *in = run.in + row->in;
    for (std::int64_t c = 0; c < run.depth; ++c, from += run.depth_step) {
      load_taps<0, Taps, T>(weights, from, run.weight_step);
      if constexpr (Spreads)
        multiply_inputs<Stride, 0, R, Taps, T>(sum, in, run.in_step, run.inside, weights,
                                               Spread<T>{hn::SetTableIndices(d, run.places + c * lanes)});
      else
        multiply_inputs<Stride, 0, R, Taps, T>(sum, in + c, run.in_step, run.inside, weights, Same<T>());
    }
  }
  if (whole)
    finish_line<true, R, T>(sum, run.out, run.out_step, run.activation, run.channels);
  else
    finish_line<false, R, T>(sum, run.out, run.out_step, run.activation, run.channels);
}

template <class T>
using LineFunction = void (*)(const GroupLine<T>&);

template <bool Spreads, int Stride, int Taps, class T, int... R>
constexpr std::array<LineFunction<T>, sizeof...(R)> table_of(std::integer_sequence<int, R...>) {
  return {&line<Spreads, Stride, Taps, R + 1, T>...};
}

template <bool Spreads, int Stride, int Taps, class T>
void run_taps(const GroupLine<T>& line) {
  constexpr int most = std::min(most_sums<T>(Taps), most_unrolled);
  static constexpr auto table = table_of<Spreads, Stride, Taps, T>(std::make_integer_sequence<int, most>());
  in_parts<most, Stride>(line,
                         [](const GroupLine<T>& part) { table[static_cast<std::size_t>(part.outputs - 1)](part); });
}

template <bool Spreads, int Stride, class T>
void run_by(const GroupLine<T>& line) {
  if (line.taps == 3) return run_taps<Spreads, Stride, 3>(line);
  line.taps == 5 ? run_taps<Spreads, Stride, 5>(line) : run_taps<Spreads, Stride, 7>(line);
}

template <class T>
void run(const GroupLine<T>& line) {
  if (line.places == nullptr) return line.stride == 1 ? run_by<false, 1>(line) : run_by<false, 2>(line);
  line.stride == 1 ? run_by<true, 1>(line) : run_by<true, 2>(line);
}

template <class T>
const GroupLineKernels<T>& kernels() {
  static constexpr GroupLineKernels<T> table{.most_outputs = most_outputs<T>, .run = run<T>};
  return table;
}

const GroupLineKernels<float>& kernels_float() { return kernels<float>(); }
const GroupLineKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

TERN_DISPATCHED(group_line_kernels, kernels)

}  // namespace tern::vectorized::convolution
#endif
