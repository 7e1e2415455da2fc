// Convolutions whose windows do not overlap, of few input channels, such as the patches of a vision transformer: the
// windows are written out in the order of the weight, and a product by cuBLASLt follows.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/windows.cuh"

namespace tern::cuda::convolution {
namespace {

/// The source of an element of [positions, C, KH, KW] in [N, H, W, C].
struct WindowPlace {
  Divisor<std::uint32_t> KW, KH, C, OW, OH;
  int H, W;
  __device__ __forceinline__ std::int64_t operator()(std::uint32_t i) const {
    const std::uint32_t kw = KW.split(i), kh = KH.split(i), c = C.split(i), ow = OW.split(i), oh = OH.split(i);
    const std::int64_t row = static_cast<std::int64_t>(i) * H + oh * KH.value() + kh;
    return (row * W + ow * KW.value() + kw) * C.value() + c;
  }
};

__global__ void windows_kernel(float* out, const float* x, std::uint32_t count,
                               const __grid_constant__ WindowPlace at) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads()))
    out[i] = x[at(i)];
}

bool fits(const Problem& p) {
  const bool apart = p.KH == p.stride_h && p.KW == p.stride_w && p.pad_h == 0 && p.pad_w == 0 && p.dilation_h == 1 &&
                     p.dilation_w == 1;
  return apart && p.groups == 1 && p.C <= 4 && windows::fits(p) && windows::length_of(p) % 4 == 0;
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  using Divide = Divisor<std::uint32_t>;
  const std::int64_t count = p.positions() * windows::length_of(p);
  windows::run(context, p, arrays, plan, workspace, [&](float* out) {
    launch(context, Grid(blocks_for(count), 256), windows_kernel, out, static_cast<const float*>(arrays.x),
           static_cast<std::uint32_t>(count),
           WindowPlace{Divide(p.KW), Divide(p.KH), Divide(p.C), Divide(p.OW), Divide(p.OH), static_cast<int>(p.H),
                       static_cast<int>(p.W)});
  });
}

}  // namespace

const Algorithm im2col_forward{"product", fits, windows::workspace, run, windows::next_plan};

}  // namespace tern::cuda::convolution
