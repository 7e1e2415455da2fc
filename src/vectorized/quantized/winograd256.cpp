// Compiled for AVX2: nothing in it runs where kernels() finds none. See winograd.hpp.

#if TERN_AVX2_BUILT
#include "vectorized/quantized/rows256.hpp"
#include "vectorized/quantized/winograd.hpp"

namespace tern::vectorized::int8 {

extern const WinogradKernels winograd256;

namespace {

inline __m256i add(__m256i a, __m256i b) { return _mm256_add_epi16(a, b); }
inline __m256i sub(__m256i a, __m256i b) { return _mm256_sub_epi16(a, b); }
inline __m256i twice(__m256i a) { return _mm256_add_epi16(a, a); }
inline __m256i four_times(__m256i a) { return _mm256_slli_epi16(a, 2); }

/// Six 16-bit numbers in each lane.
inline void transform_six(__m256i* out, std::int64_t apart, const __m256i* d) {
  const __m256i from4 = sub(d[4], d[2]), from3 = twice(sub(d[3], d[1]));
  out[0] = add(sub(four_times(sub(d[0], d[2])), d[2]), d[4]);
  out[apart] = sub(add(d[3], d[4]), four_times(add(d[1], d[2])));
  out[2 * apart] = add(four_times(sub(d[1], d[2])), sub(d[4], d[3]));
  out[3 * apart] = add(from4, from3);
  out[4 * apart] = sub(from4, from3);
  out[5 * apart] = add(sub(four_times(sub(d[1], d[3])), d[3]), d[5]);
}

void transform(std::int16_t* out, std::int64_t apart, const std::uint8_t* in, std::int64_t row, std::int64_t pixel,
               std::int64_t channels) {
  for (std::int64_t c = 0; c < channels; c += transformed_unit) {
    __m256i half[frequencies];  // rows transformed: [frequency of rows][column]
    for (std::int64_t j = 0; j < patch_size; ++j) {
      __m256i d[patch_size];
#pragma GCC unroll 6
      for (std::int64_t i = 0; i < patch_size; ++i)
        d[i] = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i * row + j * pixel + c)));
      transform_six(half + j, patch_size, d);
    }
    for (std::int64_t i = 0; i < patch_size; ++i) {
      __m256i results[patch_size];
      transform_six(results, 1, half + i * patch_size);
#pragma GCC unroll 6
      for (std::int64_t j = 0; j < patch_size; ++j)
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + (i * patch_size + j) * apart + c), results[j]);
    }
  }
}

/// The sums of M tiles at one frequency.
template <int M>
void multiply_tiles(std::int32_t* sums, const std::int16_t* number, const std::int16_t* weight, std::int64_t channels) {
  __m256i sum[M][2] = {};
  const std::uint8_t* line[M];
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i) line[i] = reinterpret_cast<const std::uint8_t*>(number + i * channels);
  add_run<Words, M>(sum, line, reinterpret_cast<const std::int8_t*>(weight), channels / 2);
#pragma GCC unroll 8
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < 2; ++j)
      _mm256_store_si256(reinterpret_cast<__m256i*>(sums + i * panel_columns + 8 * j), sum[i][j]);
}

inline __m256i sum_of(__m256i a, __m256i b) { return _mm256_add_epi32(a, b); }
inline __m256i difference(__m256i a, __m256i b) { return _mm256_sub_epi32(a, b); }
template <int by>
__m256i shifted(__m256i a) {
  return _mm256_slli_epi32(a, by);
}

/// Six sums in each lane to 24 y0, 12 y1, 6 y2, 6 y3.
inline void four_of(__m256i* y, std::int64_t apart, const __m256i* m) {
  const __m256i s12 = sum_of(m[1], m[2]), d21 = difference(m[2], m[1]);
  const __m256i s34 = sum_of(m[3], m[4]), d34 = difference(m[3], m[4]);
  y[0] = sum_of(sum_of(shifted<1>(m[0]), shifted<2>(difference(m[0], s12))), s34);
  y[apart] = sum_of(shifted<1>(d21), d34);
  y[2 * apart] = difference(s34, s12);
  y[3 * apart] = sum_of(sum_of(d21, shifted<1>(sum_of(d34, m[5]))), shifted<2>(m[5]));
}

/// The outputs of one tile for eight columns, [row][column of the tile], two vectors apart.
void outputs_of(__m256i (*y)[2], const std::int32_t* sums, std::int64_t apart, __m256i bias) {
  const __m256i inverse = _mm256_set1_epi32(954437177);  // of 9 modulo 2^32
  __m256i half[tile_size * patch_size];
  for (std::int64_t j = 0; j < patch_size; ++j) {
    __m256i m[patch_size];
#pragma GCC unroll 6
    for (std::int64_t i = 0; i < patch_size; ++i) m[i] = load(sums + (i * patch_size + j) * apart);
    four_of(half + j, patch_size, m);
  }
#pragma GCC unroll 4
  for (int i = 0; i < tile_size; ++i) {
    constexpr int powers[tile_size] = {3, 2, 1, 1};
    __m256i whole[tile_size];
    four_of(whole, 1, half + i * patch_size);
#pragma GCC unroll 4
    for (int j = 0; j < tile_size; ++j)
      y[i * tile_size + j][0] =
          sum_of(_mm256_srai_epi32(_mm256_mullo_epi32(whole[j], inverse), powers[i] + powers[j]), bias);
  }
}

void multiply_panel(const TileBlock& block) {
  using Tiles = void (*)(std::int32_t*, const std::int16_t*, const std::int16_t*, std::int64_t);
  static constexpr Tiles by_tiles[tile_rows] = {multiply_tiles<1>, multiply_tiles<2>, multiply_tiles<3>,
                                                multiply_tiles<4>, multiply_tiles<5>, multiply_tiles<6>};
  for (std::int64_t f = 0; f < frequencies; ++f)
    for (std::int64_t tile = 0; tile < block.tiles;) {
      const std::int64_t left = block.tiles - tile, parts = (left + tile_rows - 1) / tile_rows;
      const std::int64_t count = (left + parts - 1) / parts, at = f * block.tiles + tile;
      by_tiles[count - 1](block.sums + at * panel_columns, block.number + at * block.channels,
                          block.weight + f * block.channels * panel_columns, block.channels);
      tile += count;
    }
  const Panel panel(block.out, 0);
  for (std::int64_t i = 0; i < block.tiles; ++i) {
    const Tile& tile = block.tile[i];
    __m256i y[tile_size * tile_size][2];
    for (int half = 0; half < 2; ++half)
      outputs_of(reinterpret_cast<__m256i(*)[2]>(&y[0][half]), block.sums + i * panel_columns + 8 * half,
                 block.tiles * panel_columns, panel.bias[half]);
    for (std::int64_t row = 0; row < tile.rows; ++row)
      panel.finish(block.out, y + row * tile_size, static_cast<int>(tile.columns), tile.at + row * block.line);
  }
}

}  // namespace

const WinogradKernels winograd256{.transform = transform, .multiply = multiply_panel};

}  // namespace tern::vectorized::int8
#endif
