// Compiled for AVX2: nothing in it runs where kernels() finds none. Two taps of the kernel are interleaved and widened,
// so that one instruction multiplies and adds them exactly.

#if TERN_AVX2_BUILT
#include "vectorized/quantized/finish256.hpp"
#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

void depthwise256(const DepthwiseRow& row);  // as in rows256.hpp

namespace {

constexpr std::int64_t block = depthwise_words.block, step_bytes = block * group_size;

/// Writes the sums of a block of channels, or fewer. Vector q has channels 4 q ... and 16 + 4 q ...
class Writer {
 public:
  Writer(const DepthwiseRow& row, std::int64_t channel)
      : row_(row), count_(row.channels - channel), rescaler_(row.rescale, row.real == nullptr) {
    for (int q = 0; q < 4; ++q) scale_[q] = _mm256_loadu_ps(row.scale + channel + 8 * q);
    small_ = rescaler_.is_small(scale_, 4);
  }

  void operator()(const __m256i* sum, std::int64_t at) const {
    if (row_.real != nullptr)
      write_real(sum, at);
    else if (row_.other != nullptr)
      small_ ? write<true, true>(sum, at) : write<true, false>(sum, at);
    else
      small_ ? write<false, true>(sum, at) : write<false, false>(sum, at);
  }

 private:
  template <bool adds, bool small>
  void write(const __m256i* sum, std::int64_t at) const {
    __m256i other[4], number[4];
    if constexpr (adds) unpack(other, row_.other + at);
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) number[q] = rescaler_.number<small>(sum[q], scale_[q], adds ? other + q : nullptr);
    // Packing undoes the interleaving.
    const __m256i bytes =
        rescaler_.bytes(_mm256_packs_epi32(number[0], number[1]), _mm256_packs_epi32(number[2], number[3]));
    if (count_ >= block) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(row_.y + at), bytes);
    store_bytes(row_.y + at, _mm256_castsi256_si128(bytes), count_);
    if (count_ > 16) store_bytes(row_.y + at + 16, _mm256_extracti128_si256(bytes, 1), count_ - 16);
  }

  void unpack(__m256i* out, const std::uint8_t* from) const {
    const __m128i low = load_bytes(from, count_), none = _mm_setzero_si128();
    const __m256i bytes = _mm256_set_m128i(count_ > 16 ? load_bytes(from + 16, count_ - 16) : none, low);
    const __m256i zeros = _mm256_setzero_si256();
    const __m256i a = _mm256_unpacklo_epi8(bytes, zeros), b = _mm256_unpackhi_epi8(bytes, zeros);
    out[0] = _mm256_unpacklo_epi16(a, zeros), out[1] = _mm256_unpackhi_epi16(a, zeros);
    out[2] = _mm256_unpacklo_epi16(b, zeros), out[3] = _mm256_unpackhi_epi16(b, zeros);
  }

  void write_real(const __m256i* sum, std::int64_t at) const {
    alignas(32) float results[block];
    for (int q = 0; q < 4; ++q) {
      const __m256 t = rescaler_.real(sum[q], scale_[q]);
      _mm_store_ps(results + 4 * q, _mm256_castps256_ps128(t));
      _mm_store_ps(results + 16 + 4 * q, _mm256_extractf128_ps(t, 1));
    }
    __builtin_memcpy(row_.real + at, results,
                     static_cast<std::size_t>(count_ < block ? count_ : block) * sizeof(float));
  }

  const DepthwiseRow& row_;
  std::int64_t count_;
  Rescaler rescaler_;
  __m256 scale_[4];
  bool small_;
};

/// `count` positions from p on: weights are loaded once for all.
template <int count>
void run_positions(const DepthwiseRow& row, std::int64_t channel, const std::int8_t* weight, std::int64_t p,
                   const Writer& write) {
  __m256i sum[count][4];
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q)
#pragma GCC unroll 2
    for (int i = 0; i < count; ++i) sum[i][q] = load(row.bias + channel + 8 * q);
  const std::int64_t at = p * row.step + channel, steps = depthwise_words.steps(row.KH, row.KW);
  const __m256i none = _mm256_setzero_si256();
  for (std::int64_t step = 0; step < steps; ++step, weight += step_bytes)
#pragma GCC unroll 2
    for (int i = 0; i < count; ++i) {
      const __m256i a = load(row.taps[2 * step] + at + i * row.step),
                    b = load(row.taps[2 * step + 1] + at + i * row.step);
      const __m256i low = _mm256_unpacklo_epi8(a, b), high = _mm256_unpackhi_epi8(a, b);
      const __m256i pairs[4] = {_mm256_unpacklo_epi8(low, none), _mm256_unpackhi_epi8(low, none),
                                _mm256_unpacklo_epi8(high, none), _mm256_unpackhi_epi8(high, none)};
#pragma GCC unroll 4
      for (int q = 0; q < 4; ++q)
        sum[i][q] = _mm256_add_epi32(sum[i][q], _mm256_madd_epi16(pairs[q], load(weight + 32 * q)));
    }
#pragma GCC unroll 2
  for (int i = 0; i < count; ++i) write(sum[i], (p + i) * row.pitch + channel);
}

}  // namespace

void depthwise256(const DepthwiseRow& row) {
  const std::int64_t block_bytes = depthwise_words.steps(row.KH, row.KW) * step_bytes;
  for (std::int64_t channel = 0; channel < row.channels; channel += block) {
    const std::int8_t* const weight = row.weight + channel / block * block_bytes;
    const Writer write(row, channel);
    std::int64_t p = 0;
    for (; p + 2 <= row.positions; p += 2) run_positions<2>(row, channel, weight, p, write);
    if (p < row.positions) run_positions<1>(row, channel, weight, p, write);
  }
}

}  // namespace tern::vectorized::int8
#endif
