// Convolutions whose windows do not overlap, of few input channels, such as the patches of a vision transformer: the
// windows are written out in the order of the weight, and a product by cuBLASLt follows.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/products/library.cuh"

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

struct Activated {
  Activation activation;
  __device__ float operator()(float value) const { return activate(value, activation); }
};

bool in_epilogue(const Problem& p) { return p.activation == Activation::none || p.activation == Activation::relu; }

std::int64_t length_of(const Problem& p) { return p.C * p.KH * p.KW; }

products::Problem product_of(const Problem& p) {
  constexpr std::uint32_t of_workspace = 256;
  products::Problem product;
  product.m = p.positions(), product.n = p.O, product.k = length_of(p);
  product.transpose_b = true;
  product.pitch = p.y_channels;
  product.activation = in_epilogue(p) ? p.activation : Activation::none;
  product.precision = p.precision == Precision::bf16 ? Precision::tf32 : p.precision;
  product.deterministic = p.deterministic;
  product.device = p.device;
  product.inputs = {p.inputs.y, of_workspace, p.inputs.weight, p.inputs.bias};
  return product;
}

std::size_t windows_bytes(const Problem& p) {
  return static_cast<std::size_t>(p.positions() * length_of(p)) * sizeof(float);
}

int next_plan(const Problem& p, int plan) { return products::next_algorithm(product_of(p), plan); }

/// The windows, then the product's workspace.
std::size_t workspace(const Problem& p, int plan) {
  Parts parts(nullptr);
  parts.take(windows_bytes(p));
  parts.take(products::algorithm_workspace(product_of(p), plan));
  return parts.bytes();
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const bool apart = p.KH == p.stride_h && p.KW == p.stride_w && p.KH * p.KW > 1 && p.pad_h == 0 && p.pad_w == 0 &&
                     p.dilation_h == 1 && p.dilation_w == 1;
  return apart && p.channels_last() && p.element == Element::float32 && p.groups == 1 && p.C > 0 && p.C <= 4 &&
         length_of(p) % 4 == 0 && p.positions() * length_of(p) < most && p.inputs.bias != 0 &&
         p.inputs.bias % 16 == 0 && (in_epilogue(p) || p.y_channels == p.O);
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  const products::Problem product = product_of(p);
  Parts parts(workspace);
  auto* const windows = static_cast<float*>(parts.take(windows_bytes(p)));
  void* const rest = parts.take(products::algorithm_workspace(product, plan));
  using Divide = Divisor<std::uint32_t>;
  const std::int64_t count = p.positions() * length_of(p);
  launch(context, Grid(blocks_for(count), 256), windows_kernel, windows, static_cast<const float*>(arrays.x),
         static_cast<std::uint32_t>(count),
         WindowPlace{Divide(p.KW), Divide(p.KH), Divide(p.C), Divide(p.OW), Divide(p.OH), static_cast<int>(p.H),
                     static_cast<int>(p.W)});
  products::run_algorithm(context, product, {arrays.y, windows, arrays.weight, arrays.bias}, plan, rest);
  auto* const y = static_cast<float*>(arrays.y);
  if (!in_epilogue(p)) map(context, p.outputs(), Activated{p.activation}, y, y);
}

}  // namespace

const Algorithm im2col_forward{"product", fits, workspace, run, next_plan};

}  // namespace tern::cuda::convolution
