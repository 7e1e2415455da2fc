// The sums of lines (depthwise_line.hpp), compiled once per instruction set: include it after hwy/highway.h.

#if defined(TERN_VECTORIZED_LINE_TILE_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_LINE_TILE_HPP
#undef TERN_VECTORIZED_LINE_TILE_HPP
#else
#define TERN_VECTORIZED_LINE_TILE_HPP
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "vectorized/clip.hpp"
#include "vectorized/convolution/depthwise_line.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using vectorized::HWY_NAMESPACE::clipped;
using vectorized::HWY_NAMESPACE::load_first;
using vectorized::HWY_NAMESPACE::store_columns;

/// Sums of a kernel, at most. A small library for listed operators has fewer kernels; the sums are the same.
#ifdef TERN_ANSWERS
inline constexpr int most_unrolled = 3;
#else
inline constexpr int most_unrolled = 16;
#endif

/// Calls kernel(part) for parts of at most `most` outputs of a line.
template <int most, int Stride, class Line, class Kernel>
void in_parts(const Line& line, const Kernel& kernel) {
  if (line.outputs <= most) return kernel(line);
  Line part = line;
  for (std::int64_t first = 0; first < line.outputs; first += most) {
    part.outputs = std::min<std::int64_t>(most, line.outputs - first);
    part.out = line.out + first * line.out_step;
    part.in = line.in + first * Stride * line.in_step;
    part.inside = line.inside >> first * Stride;
    kernel(part);
  }
}

template <class T>
using LineVector = hn::Vec<hn::ScalableTag<T>>;

template <int K, int Taps, class T>
HWY_INLINE void load_taps(LineVector<T> (&weights)[Taps], const T* from, std::int64_t step) {
  if constexpr (K < Taps) {
    weights[K] = hn::LoadU(hn::ScalableTag<T>(), from + K * step);
    load_taps<K + 1, Taps, T>(weights, from, step);
  }
}

// The loops over sums, taps and inputs are template recursions without exception: an array that a loop indexes goes to
// memory, with a flag for each sum that tells whether it was changed.

// How inputs are loaded: a vector of channels, or the first ones.
template <class T>
struct Whole {
  HWY_INLINE LineVector<T> operator()(const T* from) const { return hn::LoadU(hn::ScalableTag<T>(), from); }
};
template <class T>
struct First {
  std::int64_t count;
  HWY_INLINE LineVector<T> operator()(const T* from) const { return load_first(hn::ScalableTag<T>(), from, count); }
};
/// The products of input J with the taps [K, Taps): tap K belongs to output (J - K) / Stride.
template <int Stride, int J, int K, int R, int Taps, class T>
HWY_INLINE void multiply_taps(LineVector<T> (&sum)[R], LineVector<T> in, const LineVector<T> (&weights)[Taps]) {
  if constexpr (K < Taps) {
    if constexpr (J >= K && (J - K) % Stride == 0 && J - K < R * Stride)
      sum[(J - K) / Stride] = hn::MulAdd(in, weights[K], sum[(J - K) / Stride]);
    multiply_taps<Stride, J, K + 1, R, Taps, T>(sum, in, weights);
  }
}

/// Keeps the compiler from computing what follows from a value before the loop: all of it fits into no registers.
template <class V>
HWY_INLINE void in_turn([[maybe_unused]] V& value) {
#if HWY_COMPILER_GCC || HWY_COMPILER_CLANG
  asm("" : "+r"(value));
#endif
}

template <int Stride, int J, int R, int Taps, class T, class Load>
HWY_INLINE void multiply_inputs(LineVector<T> (&sum)[R], const T* in, std::int64_t step, std::uint64_t inside,
                                const LineVector<T> (&weights)[Taps], const Load& load) {
  if constexpr (J < (R - 1) * Stride + Taps) {
    in_turn(in);
    if constexpr (J == 0) in_turn(inside);
    if ((inside & (std::uint64_t{1} << J)) != 0) multiply_taps<Stride, J, 0, R, Taps, T>(sum, load(in), weights);
    multiply_inputs<Stride, J + 1, R, Taps, T>(sum, in + step, step, inside, weights, load);
  }
}

template <int I, int R, class T>
HWY_INLINE void start_sums(LineVector<T> (&sum)[R], LineVector<T> start) {
  if constexpr (I < R) {
    sum[I] = start;
    start_sums<I + 1, R, T>(sum, start);
  }
}

template <int R, class T>
HWY_INLINE void start_line(LineVector<T> (&sum)[R], const T* bias, bool whole, std::int64_t rest) {
  const hn::ScalableTag<T> d;
  LineVector<T> start = hn::Zero(d);
  if (bias != nullptr) start = whole ? hn::LoadU(d, bias) : load_first(d, bias, rest);
  start_sums<0, R, T>(sum, start);
}

/// From what is in `out`.
template <int I, int R, class T>
HWY_INLINE void load_sums(LineVector<T> (&sum)[R], const T* out, std::int64_t step, bool whole, std::int64_t rest) {
  if constexpr (I < R) {
    const hn::ScalableTag<T> d;
    sum[I] = whole ? hn::LoadU(d, out) : load_first(d, out, rest);
    load_sums<I + 1, R, T>(sum, out + step, step, whole, rest);
  }
}

template <bool Clips, bool Whole, int I, int R, class T>
HWY_INLINE void store_sums(const LineVector<T> (&sum)[R], T* out, std::int64_t step, LineVector<T> top,
                           std::int64_t rest) {
  if constexpr (I < R) {
    const hn::ScalableTag<T> d;
    auto value = sum[I];
    if constexpr (Clips) value = clipped(d, value, top);
    if constexpr (Whole)
      hn::StoreU(value, d, out);
    else
      store_columns(value, d, out, rest);
    store_sums<Clips, Whole, I + 1, R, T>(sum, out + step, step, top, rest);
  }
}

template <bool Whole, int R, class T>
HWY_INLINE void finish_line(const LineVector<T> (&sum)[R], T* out, std::int64_t step, kernels::Activation activation,
                            std::int64_t rest) {
  const auto top = hn::Set(hn::ScalableTag<T>(), top_of<T>(activation));
  if (clips(activation))
    store_sums<true, Whole, 0, R, T>(sum, out, step, top, rest);
  else
    store_sums<false, Whole, 0, R, T>(sum, out, step, top, rest);
}

}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
