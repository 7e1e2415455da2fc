// Compiled for AVX-512 with VNNI: nothing in it runs where kernels() finds none. Four rows of the image are
// interleaved, so that one instruction adds a column of the kernel; with stride 1 each column of the image is
// interleaved once.

#if TERN_AVX512_VNNI_BUILT
#include "vectorized/quantized/rows512.hpp"

namespace tern::vectorized::int8 {

namespace {

constexpr std::int64_t depthwise_block = depthwise_bytes.block;

/// 64 channels of up to four rows, the four bytes of a channel side by side: part q has the channels 16 l + 4 q ...
struct Column {
  __m512i part[4];
};

inline Column interleave(const std::uint8_t* const* rows, std::int64_t count, std::int64_t at, __mmask64 bytes) {
  const auto load = [&](std::int64_t i) {
    return i < count ? _mm512_maskz_loadu_epi8(bytes, rows[i] + at) : _mm512_setzero_si512();
  };
  const __m512i a = load(0), b = load(1), c = load(2), d = load(3);
  const __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
  const __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
  return {{_mm512_unpacklo_epi16(ab_low, cd_low), _mm512_unpackhi_epi16(ab_low, cd_low),
           _mm512_unpacklo_epi16(ab_high, cd_high), _mm512_unpackhi_epi16(ab_high, cd_high)}};
}

/// Writes the sums of 64 channels or fewer.
class Writer {
 public:
  Writer(const DepthwiseRow& row, std::int64_t channel) : finish_(row), left_(row.channels - channel) {
    for (int q = 0; q < 4; ++q) scale_[q] = _mm512_loadu_ps(row.scale + channel + 16 * q);
    bytes_ = left_ >= depthwise_block ? ~__mmask64{0} : (__mmask64{1} << left_) - 1;
  }
  __mmask64 bytes() const { return bytes_; }

  void operator()(const __m512i* sum, std::int64_t at) const {
    __m512 t[4];
    for (int q = 0; q < 4; ++q) t[q] = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[q]), scale_[q]);
    if (finish_.real != nullptr || finish_.other != nullptr) return write_in_order(t, at);
    // Packing undoes the interleaving.
    const __m512i low = _mm512_packs_epi32(finish_.stored(t[0]), finish_.stored(t[1]));
    const __m512i high = _mm512_packs_epi32(finish_.stored(t[2]), finish_.stored(t[3]));
    _mm512_mask_storeu_epi8(finish_.y + at, bytes_, _mm512_packus_epi16(low, high));
  }

 private:
  void write_in_order(const __m512* t, std::int64_t at) const {
    const __m512 a = _mm512_shuffle_f32x4(t[0], t[1], 0x44), b = _mm512_shuffle_f32x4(t[2], t[3], 0x44);
    const __m512 c = _mm512_shuffle_f32x4(t[0], t[1], 0xee), d = _mm512_shuffle_f32x4(t[2], t[3], 0xee);
    const __m512 order[4]{_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd),
                          _mm512_shuffle_f32x4(c, d, 0x88), _mm512_shuffle_f32x4(c, d, 0xdd)};
    for (int q = 0; q < 4; ++q)
      if (left_ > 16 * q) finish_.write(order[q], at + 16 * q, first_lanes(left_ - 16 * q));
  }

  Finish finish_;
  std::int64_t left_;
  __mmask64 bytes_;
  __m512 scale_[4];
};

inline void add(__m512i* sum, const Column& column, const std::int8_t* weight) {
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) sum[q] = _mm512_dpbusd_epi32(sum[q], column.part[q], _mm512_loadu_si512(weight + 64 * q));
}

void any_block(const DepthwiseRow& row, std::int64_t channel, const std::int8_t* weights) {
  const Writer write(row, channel);
  for (std::int64_t p = 0; p < row.positions; ++p) {
    __m512i sum[4];
    for (int q = 0; q < 4; ++q) sum[q] = _mm512_loadu_si512(row.bias + channel + 16 * q);
    const std::int8_t* weight = weights;
    for (std::int64_t kw = 0; kw < row.KW; ++kw)
      for (std::int64_t kh = 0; kh < row.KH; kh += 4, weight += depthwise_block * 4)
        add(sum, interleave(row.x + kh, row.KH - kh, p * row.step + kw * row.column + channel, write.bytes()), weight);
    write(sum, p * row.pitch + channel);
  }
}

/// Kernels of 3 x 3 with stride 1: columns are used three times.
void rolling_block(const DepthwiseRow& row, std::int64_t channel, const std::int8_t* weights) {
  const Writer write(row, channel);
  const auto column = [&](std::int64_t i) { return interleave(row.x, 3, i * row.step + channel, write.bytes()); };
  Column first = column(0), second = column(1);
  for (std::int64_t p = 0; p < row.positions; ++p) {
    const Column third = column(p + 2);
    __m512i sum[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; ++q) sum[q] = _mm512_loadu_si512(row.bias + channel + 16 * q);
    add(sum, first, weights);
    add(sum, second, weights + depthwise_block * 4);
    add(sum, third, weights + depthwise_block * 8);
    write(sum, p * row.pitch + channel);
    first = second;
    second = third;
  }
}

}  // namespace

void depthwise512(const DepthwiseRow& row) {
  const std::int64_t block_bytes = row.KW * row.groups() * depthwise_block * 4;
  const bool rolls = row.KH == 3 && row.KW == 3 && row.step == row.column;
  for (std::int64_t channel = 0; channel < row.channels; channel += depthwise_block) {
    const std::int8_t* const weights = row.weight + channel / depthwise_block * block_bytes;
    if (rolls)
      rolling_block(row, channel, weights);
    else
      any_block(row, channel, weights);
  }
}

}  // namespace tern::vectorized::int8
#endif
