// Indexing and dropout. Dropout computes its Philox counters in vectors, with the bits of core/random.hpp.

#include "vectorized/targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "vectorized/shape.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "vectorized/argsort.hpp"
#include "vectorized/dispatched.hpp"
#include "vectorized/simd.hpp"
#include "vectorized/vectorized.hpp"

HWY_BEFORE_NAMESPACE();
namespace tern::vectorized::HWY_NAMESPACE {
namespace {

// Rough costs of one element in nanoseconds.
constexpr double streamed = 0.2, random_word = 0.8;

struct Add {
  template <class D, class V>
  HWY_INLINE V operator()(D /*d*/, V a, V b) const {
    return hn::Add(a, b);
  }
};

// ---- Philox --------------------------------------------------------------------------------------------------------

constexpr std::int64_t word_block = 1024;  // words generated at a time
constexpr std::int64_t word_slack = 64;    // what the last vector may write beyond them

#if HWY_TARGET != HWY_SCALAR
/// The 64-bit products of the low halves of 64-bit lanes.
template <class V>
HWY_INLINE V low_product(V a, V b) {
  const hn::Repartition<std::uint32_t, hn::DFromV<V>> half;
  return hn::MulEven(hn::BitCast(half, a), hn::BitCast(half, b));
}
#endif

/// The words 4 * counter ... of the stream (seed, offset): at least 4 * counters of them, in whole vectors.
HWY_NOINLINE void generate_words(std::uint32_t* words, std::uint64_t seed, std::uint64_t offset, std::uint64_t counter,
                                 std::int64_t counters) {
#if HWY_TARGET == HWY_SCALAR || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
  for (std::int64_t i = 0; i < counters; ++i) {
    const random::Words four = random::philox(seed, counter + static_cast<std::uint64_t>(i), offset);
    std::copy_n(four.word, 4, words + 4 * i);
  }
#else
  // A 32-bit word is in the low half of a 64-bit lane. MulEven ignores the high halves.
  const hn::ScalableTag<std::uint64_t> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto multiplier0 = hn::Set(d, 0xD2511F53u), multiplier1 = hn::Set(d, 0xCD9E8D57u);
  const auto low = hn::Set(d, 0xFFFFFFFFu);
  for (std::int64_t i = 0; i < counters; i += lanes) {
    auto c0 = hn::Add(hn::Set(d, counter + static_cast<std::uint64_t>(i)), hn::Iota(d, 0));
    auto c1 = hn::ShiftRight<32>(c0), c2 = hn::Set(d, offset), c3 = hn::Set(d, offset >> 32);
    std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto p0 = low_product(multiplier0, c0), p1 = low_product(multiplier1, c2);
      c0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p1), c1), hn::Set(d, k0));
      c2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(p0), c3), hn::Set(d, k1));
      c1 = p1;
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const auto first = hn::Or(hn::And(c0, low), hn::ShiftLeft<32>(c1));
    const auto second = hn::Or(hn::And(c2, low), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(first, second, d, reinterpret_cast<std::uint64_t*>(words + 4 * i));
  }
#endif
}

/// The words as lanes as wide as T.
template <class D>
HWY_INLINE auto load_words(D /*d*/, const std::uint32_t* words) {
  const hn::Rebind<std::uint32_t, D> narrow;
  if constexpr (sizeof(hn::TFromD<D>) == 4)
    return hn::LoadU(narrow, words);
  else
    return hn::PromoteTo(hn::RebindToUnsigned<D>(), hn::LoadU(narrow, words));
}

/// out = word >> 8 >= threshold ? in / divisor : 0. Reads words up to a whole vector.
template <class T>
HWY_NOINLINE void drop(T* out, const T* in, std::int64_t n, const std::uint32_t* words, std::int64_t threshold,
                       T divisor) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> integers;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto limit = hn::Set(integers, static_cast<hn::TFromD<decltype(integers)>>(threshold - 1));
  const auto quotient = hn::Set(d, divisor);
  for (std::int64_t i = 0; i < n; i += lanes) {
    const auto keep = hn::Gt(hn::BitCast(integers, hn::ShiftRight<8>(load_words(d, words + i))), limit);
    const auto value = hn::Div(load_columns(d, in + i, n - i), quotient);
    store_columns(hn::IfThenElseZero(hn::RebindMask(d, keep), value), d, out + i, n - i);
  }
}

// ---- the slots -----------------------------------------------------------------------------------------------------

template <class T>
void gather_backward(Context& context, T* grad_in, const T* grad_out, const std::int64_t* index, std::int64_t rows,
                     std::int64_t in_rows, std::int64_t columns) {
  // A thread owns rows of grad_in and searches for their terms, so every sum runs in the order of i.
  const double work = static_cast<double>(rows + in_rows) * static_cast<double>(columns) * streamed;
  parallel_for(context, in_rows, work / static_cast<double>(std::max<std::int64_t>(1, in_rows)),
               [&](std::int64_t begin, std::int64_t end) {
                 std::fill(grad_in + begin * columns, grad_in + end * columns, T(0));
                 for (std::int64_t row = 0; row < rows; ++row) {
                   if (index[row] < begin || index[row] >= end) continue;
                   T* to = grad_in + index[row] * columns;
                   map(Add{}, to, columns, static_cast<const T*>(to), grad_out + row * columns);
                 }
               });
}

template <class T>
void one_hot(Context& context, T* out, const std::int64_t* labels, std::int64_t rows, std::int64_t classes) {
  parallel_for(context, rows, 2 + streamed * static_cast<double>(classes), [&](std::int64_t begin, std::int64_t end) {
    std::fill(out + begin * classes, out + end * classes, T(0));
    for (std::int64_t row = begin; row < end; ++row)
      if (labels[row] >= 0 && labels[row] < classes) out[row * classes + labels[row]] = T(1);
  });
}

template <class T>
void dropout(Context& context, T* out, const T* in, std::int64_t n, double probability, const random::Key& key) {
  const std::uint64_t offset = key.offset + (key.base != nullptr ? *key.base : 0);
  // uniform = (word >> 8) * 2^-24 >= probability, in whole numbers.
  const auto threshold = static_cast<std::int64_t>(std::ceil(probability * 0x1p24));
  const T divisor = static_cast<T>(1 - probability);
  parallel_for(context, n, random_word, [&](std::int64_t begin, std::int64_t end) {
    alignas(64) std::uint32_t words[word_block + word_slack];
    while (begin < end) {
      const std::int64_t skipped = begin % 4;  // of the first counter's words
      const std::int64_t count = std::min(word_block - skipped, end - begin);
      generate_words(words, key.seed, offset, static_cast<std::uint64_t>(begin / 4), (skipped + count + 3) / 4);
      drop(out + begin, in + begin, count, words + skipped, threshold, divisor);
      begin += count;
    }
  });
}

template <class T>
kernels::Shape<T> table() {
  return {.gather_backward = gather_backward<T>, .argsort = argsort<T>, .one_hot = one_hot<T>, .dropout = dropout<T>};
}

}  // namespace

kernels::Shape<float> shape_float() { return table<float>(); }
kernels::Shape<double> shape_double() { return table<double>(); }

}  // namespace tern::vectorized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tern::vectorized {

TERN_DISPATCHED(shape, shape)

}  // namespace tern::vectorized
#endif
