// Forward convolutions of few positions and long sums, channels last: the windows are written out in the weight's own
// order, and a product by cuBLASLt follows, which divides long sums among blocks. The weight, which is larger, is read
// as it lies.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/implicit.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/convolution/windows.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr int block_channels = 64, threads = 256, most_taps = 128;

/// C: of a group.
struct Patches {
  int C, H, W, taps, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  std::int64_t pitch;  ///< of x
  Divisor<std::uint32_t> OW, OH, KW;
};

/// A block writes 64 channels of a position's window in a group, [C, KH, KW], through shared memory.
__global__ void __launch_bounds__(threads)
    patches_kernel(float* out, const float* x, const __grid_constant__ Patches s) {
  extern __shared__ float window[];
  auto image = static_cast<std::uint32_t>(blockIdx.x);
  const int ow = static_cast<int>(s.OW.split(image)), oh = static_cast<int>(s.OH.split(image));
  const int first = static_cast<int>(blockIdx.y) * block_channels, channels = min(block_channels, s.C - first);
  begin_kernel();
  const int thread = static_cast<int>(threadIdx.x), c = thread % block_channels;
  for (int tap = thread / block_channels; tap < s.taps; tap += threads / block_channels) {
    int kh, kw;
    s.KW.split(tap, kh, kw);
    const int h = oh * s.stride_h - s.pad_h + kh * s.dilation_h, w = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
    const bool inside = c < channels && h >= 0 && h < s.H && w >= 0 && w < s.W;
    const std::int64_t position = (static_cast<std::int64_t>(image) * s.H + h) * s.W + w;
    window[c * s.taps + tap] = inside ? x[position * s.pitch + blockIdx.z * s.C + first + c] : 0.0f;
  }
  __syncthreads();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.z) * gridDim.x + blockIdx.x;
  float* const to = out + (row * s.C + first) * s.taps;
  for (int i = thread; i < channels * s.taps; i += threads) to[i] = window[i];
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  using Divide = Divisor<std::uint32_t>;
  const std::int64_t C = p.C / p.groups;
  const Patches sizes{i(C),          i(p.H),       i(p.W),       i(p.KH * p.KW),  i(p.stride_h),
                      i(p.stride_w), i(p.pad_h),   i(p.pad_w),   i(p.dilation_h), i(p.dilation_w),
                      p.x_channels,  Divide(p.OW), Divide(p.OH), Divide(p.KW)};
  const dim3 blocks(static_cast<unsigned>(p.positions()), static_cast<unsigned>(ceil_div(C, block_channels)),
                    static_cast<unsigned>(p.groups));
  windows::run(context, p, arrays, plan, workspace, [&](float* out) {
    launch(context, Grid(blocks, threads, sizeof(float) * static_cast<std::size_t>(block_channels * sizes.taps)),
           patches_kernel, out, static_cast<const float*>(arrays.x), sizes);
  });
}

bool fits(const Problem& p) {
  constexpr std::int64_t side = std::int64_t{1} << 15;
  if (p.groups > most_engine_groups || p.C / p.groups % 4 != 0 || (p.groups > 1 && p.O / p.groups % 4 != 0))
    return false;
  return windows::fits(p) && p.tensor_cores() && card().code >= 80 && p.KH * p.KW <= most_taps && p.C < 64 * side &&
         p.H < side && p.W < side && p.KH * p.dilation_h < side && p.KW * p.dilation_w < side &&
         p.inputs.weight % 16 == 0 && (p.groups == 1 || (p.inputs.y % 16 == 0 && p.y_channels % 4 == 0));
}

/// Against packing the weight for an engine, or for an implicit product. Microseconds on an H200.
bool pays(const Problem& p) {
  constexpr double bytes_rate = 3e6, product_rate = 130e6, large_engine_rate = 50e6, engine_rate = 120e6,
                   engine_launch = 10, launch = 4;
  constexpr std::int64_t short_sum = 256;
  const bool by_engines = has_engines() && (p.groups > 1 || p.O % engine_lanes == 0);
  const bool starves = !by_engines || starves_library(p);
  if (p.precision != Precision::tf32 || (!starves && (is_common(p) || windows::length_of(p) < short_sum)) ||
      !implicit_fits(in_lanes(p, 4)))
    return false;
  const auto seconds = [](std::int64_t floats) { return static_cast<double>(floats) * sizeof(float) / bytes_rate; };
  const auto work = static_cast<double>(p.outputs()) * static_cast<double>(windows::length_of(p));
  const double here = seconds(2 * windows::elements_of(p) + p.weights()) + work / product_rate +
                      static_cast<double>(1 + p.groups) * launch;
  const double rate = p.KH * p.KW >= 49 ? large_engine_rate : engine_rate;
  const double own = 1.4 * implicit_time(p), library = starves ? library_time(p) : work / rate + engine_launch;
  const double there = seconds(2 * p.weights()) + launch + (by_engines ? std::min(library, own) : own);
  // Products of groups follow one another, and short ones leave much of the card idle.
  const double clearly = p.groups > 1 ? 1.6 : 1;
  return clearly * here < there;
}
bool fits_first(const Problem& p) { return fits(p) && pays(p); }
bool fits_last(const Problem& p) { return fits(p) && !pays(p); }

}  // namespace

const Algorithm patches_forward_first{"product", fits_first, windows::workspace, run, windows::next_plan};
const Algorithm patches_forward_last{"product", fits_last, windows::workspace, run, windows::next_plan};

}  // namespace tern::cuda::convolution
