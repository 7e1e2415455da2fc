// Depthwise convolutions of stored numbers: a thread computes four channels of a few positions. The four numbers that
// it loads for a tap belong to four channels; those of four taps are transposed, so that one instruction adds four
// products of a channel.

#include "cuda/elementwise.cuh"
#include "cuda/quantized/problem.cuh"

namespace tern::cuda::eight_bits {
namespace {

struct Depthwise {
  QuantizedArrays arrays;
  Rescale rescale;
  int C, H, W, OW, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, pitch;
  int items;  // fours of channels, times strips, times rows of all images
  Divisor<std::uint32_t> fours, strips, OH;
};

/// sum + the products of four unsigned and four signed numbers.
__device__ __forceinline__ std::int32_t add_products(std::uint32_t a, std::uint32_t b, std::int32_t sum) {
  asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(a), "r"(b));
  return sum;
}

/// Byte j of four words becomes word j.
__device__ __forceinline__ void transpose(std::uint32_t (&words)[4]) {
  const std::uint32_t low_01 = __byte_perm(words[0], words[1], 0x5140),
                      low_23 = __byte_perm(words[2], words[3], 0x5140),
                      high_01 = __byte_perm(words[0], words[1], 0x7362),
                      high_23 = __byte_perm(words[2], words[3], 0x7362);
  words[0] = __byte_perm(low_01, low_23, 0x5410), words[1] = __byte_perm(low_01, low_23, 0x7632);
  words[2] = __byte_perm(high_01, high_23, 0x5410), words[3] = __byte_perm(high_01, high_23, 0x7632);
}

/// `Run` adjacent positions of a row per thread, for K x K windows.
template <int K, int Run>
__global__ void __launch_bounds__(128) depthwise_kernel(const __grid_constant__ Depthwise p) {
  begin_kernel();
  constexpr int taps = K * K, groups = (taps + 3) / 4;
  const auto item = static_cast<std::uint32_t>(blockIdx.x) * 128 + threadIdx.x;
  if (item >= static_cast<std::uint32_t>(p.items)) return;
  std::uint32_t row = item;
  const int c = static_cast<int>(p.fours.split(row)) * 4;
  const int first = static_cast<int>(p.strips.split(row)) * Run;
  std::uint32_t image = row;  // row: of all images
  const int oh = static_cast<int>(p.OH.split(image));
  // The weights of a channel are adjacent, those of four channels 4 K K numbers.
  std::uint32_t lines[taps];
#pragma unroll
  for (int i = 0; i < taps; ++i)
    lines[i] = __ldg(reinterpret_cast<const std::uint32_t*>(p.arrays.weight + c * taps) + i);
  std::uint32_t weights[4][groups];
#pragma unroll
  for (int channel = 0; channel < 4; ++channel)
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      const int at = channel * taps + group * 4, word = at / 4, left = taps - group * 4;
      const std::uint32_t next = word + 1 < taps ? lines[word + 1 < taps ? word + 1 : 0] : 0;
      std::uint32_t four = __funnelshift_r(lines[word], next, static_cast<unsigned>(at % 4 * 8));
      if (left < 4) four &= (1u << (8 * left)) - 1;
      weights[channel][group] = four;
    }
  const Fours channels(p.arrays, p.rescale, c);
  const std::uint32_t padding = static_cast<std::uint32_t>(p.rescale.x_zero) * 0x01010101u;
  const int h0 = oh * p.stride_h - p.pad_h;
  const std::uint8_t* const x = p.arrays.x + (static_cast<std::int64_t>(image) * p.H * p.W) * p.C + c;
#pragma unroll
  for (int run = 0; run < Run; ++run) {
    const int ow = first + run;
    if (ow >= p.OW) break;
    const int w0 = ow * p.stride_w - p.pad_w;
    std::int32_t sums[4] = {};
    const std::int64_t at = (static_cast<std::int64_t>(row) * p.OW + ow) * p.pitch + c;
    const std::uint32_t added = channels.fetch(at);
#pragma unroll
    for (int group = 0; group < groups; ++group) {
      std::uint32_t words[4] = {};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int tap = group * 4 + i;
        if (tap >= taps) break;
        const int h = h0 + tap / K * p.dilation_h, w = w0 + tap % K * p.dilation_w;
        const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(p.H) &&
                            static_cast<unsigned>(w) < static_cast<unsigned>(p.W);
        words[i] = inside ? *reinterpret_cast<const std::uint32_t*>(x + (h * p.W + w) * p.C) : padding;
      }
      transpose(words);
#pragma unroll
      for (int channel = 0; channel < 4; ++channel)
        sums[channel] = add_products(words[channel], weights[channel][group], sums[channel]);
    }
    channels.finish(at, sums, added);
  }
}

/// The alignments of the other arrays are known when it runs: four channels at once need whole words everywhere.
bool fits(const Problem& p) {
  return p.groups == p.C && p.O == p.C && p.C > 0 && p.C % 4 == 0 && p.KH == p.KW && (p.KH == 3 || p.KH == 5) &&
         p.x % 4 == 0 && p.weight % 4 == 0 && p.whole && p.small();
}

template <int K>
void run_windows(Context& context, const Problem& problem, const Arrays& arrays) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  using Divide = Divisor<std::uint32_t>;
  // Few positions: one per thread.
  const bool many = problem.positions() * problem.C / 4 >= 2048 * static_cast<std::int64_t>(card().multiprocessors);
  const int run = many ? 4 : 1;
  Depthwise p{};
  p.arrays = arrays.of, p.rescale = arrays.rescale;
  p.C = i(problem.C), p.H = i(problem.H), p.W = i(problem.W), p.OW = i(problem.OW), p.pitch = i(problem.pitch());
  p.stride_h = i(problem.stride_h), p.stride_w = i(problem.stride_w);
  p.pad_h = i(problem.pad_h), p.pad_w = i(problem.pad_w);
  p.dilation_h = i(problem.dilation_h), p.dilation_w = i(problem.dilation_w);
  const std::int64_t fours = problem.C / 4, strips = ceil_div(problem.OW, run);
  p.items = i(problem.N * problem.OH * strips * fours);
  p.fours = Divide(fours), p.strips = Divide(strips), p.OH = Divide(problem.OH);
  launch(context, Grid(static_cast<unsigned>(ceil_div(p.items, 128)), 128),
         many ? depthwise_kernel<K, 4> : depthwise_kernel<K, 1>, p);
}

void run(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  problem.KH == 3 ? run_windows<3>(context, problem, arrays) : run_windows<5>(context, problem, arrays);
}

}  // namespace

const Algorithm depthwise{.name = "depthwise", .fits = fits, .run = run};

}  // namespace tern::cuda::eight_bits
