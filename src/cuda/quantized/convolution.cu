// Convolutions of stored numbers: the algorithms, and the general one: a product whose first factor is gathered from
// the image, and for groups one thread per output.

#include <array>

#include "cuda/cuda.hpp"
#include "cuda/quantized/problem.cuh"

namespace tern::cuda::eight_bits {
namespace {

constexpr int tile = 64, depth = 32, row_bytes = 48, threads = 128;

/// sum += a b over a warp: 16 x 8 from 16 x 32 (uint8) and 32 x 8 (int8). For lane l with g = l / 4 and t = l % 4: a
/// has the words (row g, word t), (g + 8, t), (g, t + 4), (g + 8, t + 4), b the words (t, column g), (t + 4, g), and
/// the sum (row, column) = (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1).
__device__ __forceinline__ void multiply_add(std::int32_t (&sum)[4], const std::uint32_t (&a)[4],
                                             const std::uint32_t (&b)[2]) {
#if __CUDA_ARCH__ >= 800
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  // The words of the other lanes come by shuffles.
  const int lane = static_cast<int>(threadIdx.x % 32), g = lane / 4, t = lane % 4;
  for (int word = 0; word < 8; ++word)
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t of_row = __shfl_sync(0xffffffff, a[i / 2 + (word / 4) * 2], g * 4 + word % 4);
      const std::uint32_t of_column = __shfl_sync(0xffffffff, b[word / 4], (2 * t + i % 2) * 4 + word % 4);
      asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum[i]) : "r"(of_row), "r"(of_column));
    }
#endif
}

/// Where the sum of one output position begins in the image.
struct Position {
  std::int64_t image;
  int h, w;
  bool exists;
};

__device__ __forceinline__ Position position_of(std::int64_t p, const kernels::Conv2d& s) {
  const std::int64_t area = s.OH * s.OW;
  const auto in_image = static_cast<int>(p % area);
  return {p / area, static_cast<int>(in_image / s.OW * s.stride_h - s.pad_h),
          static_cast<int>(in_image % s.OW * s.stride_w - s.pad_w), p < s.N * area};
}

/// Four numbers of the first factor from k on; `whole` says that they are four channels of one tap at a word's address.
template <bool whole>
__device__ __forceinline__ std::uint32_t gathered(const std::uint8_t* x, const Position& at, int k, int K,
                                                  const kernels::Conv2d& s, std::uint32_t zero) {
  const auto C = static_cast<int>(s.C);
  std::uint32_t word = 0;
#pragma unroll
  for (int i = 0; i < (whole ? 1 : 4); ++i) {
    const int tap = (k + i) / C, c = (k + i) % C;
    const int h = at.h + tap / static_cast<int>(s.KW) * static_cast<int>(s.dilation_h);
    const int w = at.w + tap % static_cast<int>(s.KW) * static_cast<int>(s.dilation_w);
    const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
    const bool reads = at.exists && k + i < K;
    const std::uint8_t* const from = x + ((at.image * s.H + h) * s.W + w) * C + c;
    if constexpr (whole) {
      if (reads) word = inside ? *reinterpret_cast<const std::uint32_t*>(from) : zero * 0x01010101u;
    } else {
      if (reads) word |= (inside ? std::uint32_t{*from} : zero) << (8 * i);
    }
  }
  return word;
}

template <bool whole>
__device__ __forceinline__ std::uint32_t weights_of(const std::int8_t* weight, std::int64_t o, int k, int K,
                                                    std::int64_t O) {
  std::uint32_t word = 0;
  if (o >= O) return word;
  const std::int8_t* const from = weight + o * K + k;
  if constexpr (whole) {
    if (k < K) word = *reinterpret_cast<const std::uint32_t*>(from);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (k + i < K) word |= static_cast<std::uint32_t>(static_cast<std::uint8_t>(from[i])) << (8 * i);
  }
  return word;
}

/// 64 positions by 64 channels per block of four warps, each of which has 32 x 32.
template <bool whole>
__global__ void __launch_bounds__(threads) product_kernel(QuantizedArrays arrays, kernels::Conv2d s, Rescale rescale) {
  __shared__ alignas(16) std::uint8_t first[tile * row_bytes];
  __shared__ alignas(16) std::uint8_t second[tile * row_bytes];
  begin_kernel();
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const std::int64_t row = std::int64_t{blockIdx.x} * tile, column = std::int64_t{blockIdx.y} * tile;
  const auto K = static_cast<int>(s.KH * s.KW * s.C);
  // Each thread loads one word of every 16th row.
  const int word = thread % 8, line = thread / 8;
  Position positions[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) positions[i] = position_of(row + line + 16 * i, s);
  std::int32_t sums[2][4][4] = {};
  for (int k = 0; k < K; k += depth) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = (line + 16 * i) * row_bytes + 4 * word;
      *reinterpret_cast<std::uint32_t*>(first + at) =
          gathered<whole>(arrays.x, positions[i], k + 4 * word, K, s, static_cast<std::uint32_t>(rescale.x_zero));
      *reinterpret_cast<std::uint32_t*>(second + at) =
          weights_of<whole>(arrays.weight, column + line + 16 * i, k + 4 * word, K, s.O);
    }
    __syncthreads();
    const int g = lane / 4, t = lane % 4;
    const auto word_at = [&](const std::uint8_t* from, int r, int w) {
      return *reinterpret_cast<const std::uint32_t*>(from + r * row_bytes + 4 * w);
    };
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int r = warp / 2 * 32 + i * 16 + g;
      const std::uint32_t a[4]{word_at(first, r, t), word_at(first, r + 8, t), word_at(first, r, t + 4),
                               word_at(first, r + 8, t + 4)};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int c = warp % 2 * 32 + j * 8 + g;
        const std::uint32_t b[2]{word_at(second, c, t), word_at(second, c, t + 4)};
        multiply_add(sums[i][j], a, b);
      }
    }
    __syncthreads();
  }
  const std::int64_t pitch = s.y_channels == 0 ? s.O : s.y_channels, rows = s.N * s.OH * s.OW;
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const std::int64_t r = row + warp / 2 * 32 + i * 16 + lane / 4 + e / 2 * 8;
        const std::int64_t o = column + warp % 2 * 32 + j * 8 + lane % 4 * 2 + e % 2;
        if (r < rows && o < s.O) finish(arrays, sums[i][j][e], r * pitch + o, o, rescale);
      }
}

/// One thread per output.
__global__ void grouped_kernel(QuantizedArrays arrays, kernels::Conv2d s, Rescale rescale) {
  begin_kernel();
  const std::int64_t inputs = s.C / s.groups, outputs = s.O / s.groups, n = s.N * s.OH * s.OW * s.O;
  const std::int64_t pitch = s.y_channels == 0 ? s.O : s.y_channels;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t o = i % s.O, position = i / s.O;
    const Position at = position_of(position, s);
    std::uint32_t sum = 0;
    for (std::int64_t kh = 0; kh < s.KH; ++kh)
      for (std::int64_t kw = 0; kw < s.KW; ++kw) {
        const std::int64_t h = at.h + kh * s.dilation_h, w = at.w + kw * s.dilation_w;
        const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
        const std::uint8_t* const x = arrays.x + ((at.image * s.H + h) * s.W + w) * s.C + o / outputs * inputs;
        const std::int8_t* const weight = arrays.weight + ((o * s.KH + kh) * s.KW + kw) * inputs;
        for (std::int64_t c = 0; c < inputs; ++c)
          sum += static_cast<std::uint32_t>((inside ? x[c] : rescale.x_zero) * weight[c]);
      }
    finish(arrays, static_cast<std::int32_t>(sum), position * pitch + o, o, rescale);
  }
}

void run_general(Context& context, const Problem& s, const Arrays& arrays, int, void*) {
  if (s.groups > 1) {
    launch(context, Grid(blocks_for(s.positions() * s.O), 256), grouped_kernel, arrays.of, s, arrays.rescale);
    return;
  }
  const dim3 blocks(static_cast<unsigned>(ceil_div(s.positions(), tile)), static_cast<unsigned>(ceil_div(s.O, tile)));
  const bool whole = s.C % 4 == 0 && s.x % 4 == 0 && s.weight % 4 == 0;
  launch(context, Grid(blocks, threads), whole ? product_kernel<true> : product_kernel<false>, arrays.of, s,
         arrays.rescale);
}

const Algorithm general{.name = "general", .run = run_general};

constexpr std::array algorithms{&depthwise, &boxes, &implicit, &general};

}  // namespace

std::string text_of(const Problem& p) {
  return message("quantized_conv2d [", p.N, ", ", p.C, ", ", p.H, ", ", p.W, "] to ", p.O, " channels, kernel ", p.KH,
                 'x', p.KW, ", groups ", p.groups);
}

}  // namespace tern::cuda::eight_bits

namespace tern::cuda {

void quantized_convolution(Context& context, const QuantizedArrays& arrays, const kernels::Conv2d& sizes,
                           const Rescale& rescale) {
  eight_bits::Problem problem{sizes};
  if (problem.positions() * problem.O == 0) return;
  problem.x = alignment_of(arrays.x), problem.weight = alignment_of(arrays.weight);
  problem.whole = eight_bits::finishes_fours(problem, arrays);
  problem.results = eight_bits::results_at_once(problem, arrays);
  problem.padded_with_zeros = rescale.x_zero == 0 || (problem.pad_h == 0 && problem.pad_w == 0);
  problem.device = card().device;
  // All give the same bits, so a program, which runs again and again, takes what a trial finds.
  Context trying = context;
  if (host_functions.weights_last != nullptr && host_functions.weights_last()) trying.deterministic = false;
  Prepared<eight_bits::Problem, eight_bits::Arrays>(trying, "quantized_conv2d", eight_bits::algorithms, problem,
                                                    {arrays, rescale})
      .run(context);
}

}  // namespace tern::cuda
