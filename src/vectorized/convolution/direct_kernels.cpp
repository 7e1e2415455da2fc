#include "vectorized/targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/convolution/direct_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "vectorized/convolution/direct_kernels.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::convolution::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using vectorized::HWY_NAMESPACE::clipped;
using vectorized::HWY_NAMESPACE::load_first;
using vectorized::HWY_NAMESPACE::store_first;

template <class T>
using Vector = hn::Vec<hn::ScalableTag<T>>;

// Sums that are in registers together, beside their vectors of the input and a weight.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr int most_sums = 24, most_outputs = 8;
#else
inline constexpr int most_sums = 12, most_outputs = 4;
#endif
inline constexpr int most_vectors = 8;

template <class T>
HWY_INLINE std::int64_t lanes() {
  return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>()));
}

// The loops over the sums are template recursions, so that each has a constant index and lives in a register.

template <int J, int V, class T>
HWY_INLINE void load(Vector<T> (&in)[V], const T* from) {
  if constexpr (J < V) {
    in[J] = hn::LoadU(hn::ScalableTag<T>(), from + J * lanes<T>());
    load<J + 1, V, T>(in, from);
  }
}

template <int I, int R, int V, class T>
HWY_INLINE void multiply(Vector<T> (&sum)[R * V], const Vector<T> (&in)[V], const T* weights, std::int64_t row) {
  if constexpr (I < R * V) {
    sum[I] = hn::MulAdd(hn::Set(hn::ScalableTag<T>(), weights[I / V * row]), in[I % V], sum[I]);
    multiply<I + 1, R, V, T>(sum, in, weights, row);
  }
}

template <int I, int R, int V, class T>
HWY_INLINE void start(Vector<T> (&sum)[R * V], const T* bias) {
  if constexpr (I < R * V) {
    const hn::ScalableTag<T> d;
    sum[I] = bias == nullptr ? hn::Zero(d) : hn::Set(d, bias[I / V]);
    start<I + 1, R, V, T>(sum, bias);
  }
}

template <bool Whole, int I, int R, int V, class T>
HWY_INLINE void store(const Vector<T> (&sum)[R * V], const DirectBlock<T>& block, T* out, std::int64_t rest) {
  if constexpr (I < R * V) {
    const hn::ScalableTag<T> d;
    auto value = sum[I];
    if (block.relu) value = clipped(d, value, hn::Set(d, block.top));
    T* const to = out + I / V * block.out_row + I % V * lanes<T>();
    if constexpr (Whole)
      hn::StoreU(value, d, to);
    else
      store_first(value, d, to, rest);
    store<Whole, I + 1, R, V, T>(sum, block, out, rest);
  }
}

/// R outputs at V vectors of positions from `p` on, or at the `rest` positions that fill no vector.
template <bool Whole, int R, int V, class T>
HWY_NOINLINE void tile(const DirectBlock<T>& block, std::int64_t o, std::int64_t p, std::int64_t rest) {
  Vector<T> sum[R * V], in[V];
  start<0, R, V, T>(sum, block.bias == nullptr ? nullptr : block.bias + o);
  const T* weights = block.weights + o * block.weight_row;
  const T* const from = block.in + p;
  for (std::int64_t k = 0; k < block.taps; ++k, ++weights) {
    if constexpr (Whole)
      load<0, V, T>(in, from + block.offsets[k]);
    else
      in[0] = load_first(hn::ScalableTag<T>(), from + block.offsets[k], rest);
    multiply<0, R, V, T>(sum, in, weights, block.weight_row);
  }
  store<Whole, 0, R, V, T>(sum, block, block.out + o * block.out_row + p, rest);
}

template <int R, class T>
void outputs(const DirectBlock<T>& block, std::int64_t o) {
  constexpr int vectors = most_sums / R < most_vectors ? most_sums / R : most_vectors;
  const std::int64_t one = lanes<T>();
  std::int64_t p = 0;
  for (; p + vectors * one <= block.positions; p += vectors * one) tile<true, R, vectors>(block, o, p, 0);
  if constexpr (vectors > 2)
    for (; p + vectors / 2 * one <= block.positions; p += vectors / 2 * one) tile<true, R, vectors / 2>(block, o, p, 0);
  for (; p + one <= block.positions; p += one) tile<true, R, 1>(block, o, p, 0);
  if (p < block.positions) tile<false, R, 1>(block, o, p, block.positions - p);
}

/// `count` outputs from `o` on, at most R.
template <int R, class T>
void some_outputs(const DirectBlock<T>& block, std::int64_t o, std::int64_t count) {
  if (count == R) return outputs<R>(block, o);
  if constexpr (R > 1) some_outputs<R - 1>(block, o, count);
}

template <class T>
void run(const DirectBlock<T>& block) {
  const std::int64_t tiles = (block.outputs + most_outputs - 1) / most_outputs;  // of nearly equal height
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t first = block.outputs * t / tiles;
    some_outputs<most_outputs>(block, first, block.outputs * (t + 1) / tiles - first);
  }
}

template <class T>
void copy_every_second(T* out, const T* in, std::int64_t n) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<T> d;
  for (; i + lanes<T>() < n; i += lanes<T>())  // with an element to spare: the last one read is beside the last of n
    hn::StoreU(hn::ConcatEven(d, hn::LoadU(d, in + 2 * i + lanes<T>()), hn::LoadU(d, in + 2 * i)), d, out + i);
#endif
  for (; i < n; ++i) out[i] = in[2 * i];
}

template <class T>
const DirectKernels<T>& kernels() {
  static constexpr DirectKernels<T> table{.run = run<T>, .copy_every_second = copy_every_second<T>};
  return table;
}

const DirectKernels<float>& kernels_float() { return kernels<float>(); }
const DirectKernels<double>& kernels_double() { return kernels<double>(); }

}  // namespace
}  // namespace tern::vectorized::convolution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized::convolution {

TERN_DISPATCHED(direct_kernels, kernels)

}  // namespace tern::vectorized::convolution
#endif
