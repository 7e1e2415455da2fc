// Elementwise operators: with one input, and with two, comparisons and a selection over broadcasts; compiled once per
// instruction set: include it after hwy/highway.h (see targets.hpp).

#if defined(TERN_VECTORIZED_BROADCAST_MAPS_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TERN_VECTORIZED_BROADCAST_MAPS_HPP
#undef TERN_VECTORIZED_BROADCAST_MAPS_HPP
#else
#define TERN_VECTORIZED_BROADCAST_MAPS_HPP
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <utility>

#include "vectorized/broadcast.hpp"
#include "vectorized/simd.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {

using kernels::Broadcast;

/// The rough cost of one element in nanoseconds.
inline constexpr double streamed = 0.3;

/// Slots that are one operation of each element, and their gradients, which read the input or the output.
template <const double& nanoseconds, class Op, class T>
void unary(Context& context, T* out, const T* in, std::int64_t n) {
  map_parallel(context, nanoseconds, Op{}, out, n, in);
}
template <const double& nanoseconds, class Op, class T>
void unary_backward(Context& context, T* grad_in, const T* grad_out, const T* saved, std::int64_t n) {
  map_parallel(context, nanoseconds, Op{}, grad_in, n, grad_out, saved);
}

// ---- loops over contiguous arrays ----------------------------------------------------------------------------------

template <class Op, class T>
void map_two(T* out, const T* a, const T* b, std::int64_t n) {
  map(Op{}, out, n, a, b);
}

/// op over rows (broadcast.hpp), each as in map.
template <class Op, class T, class... In, std::size_t... k>
HWY_INLINE void map_rows(std::index_sequence<k...>, const Op& op, T* out, const Rows& rows, const In*... in) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = rows.n, last = n - lanes;
  HWY_ALIGN T repeated[sizeof...(In)][hn::MaxLanes(d)];
  const std::int64_t steps[]{(rows.repeated[k] ? 0 : -1)...};  // masks of an index
  for (std::int64_t row = 0; row < rows.count; ++row, out += n) {
    ((rows.repeated[k] ? hn::Store(hn::Set(d, *in), d, repeated[k]) : void()), ...);
    const T* const from[]{(rows.repeated[k] ? repeated[k] : in)...};
    if (n < lanes) {
      store_first(op(d, rows.repeated[k] ? hn::Load(d, repeated[k]) : load_first(d, from[k], n)...), d, out, n);
    } else {
      const auto end = op(d, hn::LoadU(d, from[k] + (last & steps[k]))...);
      for (std::int64_t i = 0; i < last; i += lanes)
        hn::StoreU(op(d, hn::LoadU(d, from[k] + (i & steps[k]))...), d, out + i);
      hn::StoreU(end, d, out + last);
    }
    ((in += rows.stride[k]), ...);
  }
}
template <class Op, class T>
HWY_NOINLINE void rows_of_two(T* out, const T* a, const T* b, const Rows& rows) {
  map_rows(std::make_index_sequence<2>(), Op{}, out, rows, a, b);
}

/// Lanes of 0 or 1 as bytes.
template <class D, class M>
HWY_INLINE auto bytes_of(D d, M mask) {
  const hn::RebindToUnsigned<D> unsigned_tag;
  const hn::Rebind<std::uint8_t, D> byte_tag;
  return hn::TruncateTo(byte_tag,
                        hn::And(hn::BitCast(unsigned_tag, hn::VecFromMask(d, mask)), hn::Set(unsigned_tag, 1)));
}

template <class Op, class T>
void compare_two(bool* out, const T* a, const T* b, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const hn::Rebind<std::uint8_t, decltype(d)> byte_tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto* bytes = reinterpret_cast<std::uint8_t*>(out);
  const Op op;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(bytes_of(d, op(hn::LoadU(d, a + i), hn::LoadU(d, b + i))), byte_tag, bytes + i);
  if (i < n)
    store_first(bytes_of(d, op(load_first(d, a + i, n - i), load_first(d, b + i, n - i))), byte_tag, bytes + i, n - i);
}

/// The mask of nonzero bytes.
template <class D, class VBytes>
HWY_INLINE auto mask_of(D d, VBytes bytes) {
  const hn::Rebind<std::uint32_t, D> word_tag;
  const auto words = hn::PromoteTo(word_tag, bytes);
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::RebindMask(d, hn::Ne(words, hn::Zero(word_tag)));
  } else {
    const hn::RebindToUnsigned<D> wide_tag;
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(wide_tag, words), hn::Zero(wide_tag)));
  }
}

template <class T>
void choose(T* out, const T* a, const T* b, const bool* condition, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const hn::Rebind<std::uint8_t, decltype(d)> byte_tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(condition);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::IfThenElse(mask_of(d, hn::LoadU(byte_tag, bytes + i)), hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d,
               out + i);
  if (i < n)
    store_first(hn::IfThenElse(mask_of(d, load_first(byte_tag, bytes + i, n - i)), load_first(d, a + i, n - i),
                               load_first(d, b + i, n - i)),
                d, out + i, n - i);
}

// ---- over broadcasts -----------------------------------------------------------------------------------------------

template <class Op, class T>
void binary(Context& context, T* out, const T* a, const T* b, const Broadcast& shape) {
  broadcast(context, streamed, shape, LoopOfRows<T, T, T>{{map_two<Op, T>, out}, rows_of_two<Op, T>}, a, b);
}

template <class Op, class T>
void comparison(Context& context, bool* out, const T* a, const T* b, const Broadcast& shape) {
  broadcast(context, streamed, shape, Loop<bool, T, T>{compare_two<Op, T>, out}, a, b);
}

template <class T>
void where(Context& context, T* out, const T* a, const T* b, const bool* condition, const Broadcast& shape) {
  broadcast(context, streamed, shape, Loop<T, T, T, bool>{choose<T>, out}, a, b, condition);
}

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // per-target guard
