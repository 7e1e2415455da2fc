// Gradients of convolutions of few input channels, channels first, as products by cuBLASLt for each image: a window has
// few elements, so they are rows of a product whose other factor is y's gradient as it lies. The gradient of x adds the
// terms of its taps afterwards; that of the weight writes the windows out first, and adds the images.

#include <algorithm>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/planes.cuh"
#include "cuda/convolution/planes_copies.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/convolution/single.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"

namespace tern::cuda::convolution {
namespace {

/// An image's windows: `rows` by positions of y. Rows are (channel, kernel row, kernel column), then zeros.
struct Windows {
  int rows, real_rows, H, W, OH, OW;
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  Divide of_rows, of_KH, of_KW, of_C, of_H, of_W, of_OH, of_OW, of_stride_h, of_stride_w;
};

__global__ void windows_kernel(float* to, const float* x, std::uint32_t count, const __grid_constant__ Windows s) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
#pragma unroll 2
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count; i += step) {
    std::uint32_t n = i;
    const int ow = static_cast<int>(s.of_OW.split(n)), oh = static_cast<int>(s.of_OH.split(n));
    auto c = s.of_rows.split(n);
    float value = 0;
    if (static_cast<int>(c) < s.real_rows) {
      const int kw = static_cast<int>(s.of_KW.split(c)), kh = static_cast<int>(s.of_KH.split(c));
      const int h = oh * s.stride_h - s.pad_h + kh * s.dilation_h, w = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
      const bool inside = static_cast<unsigned>(h) < static_cast<unsigned>(s.H) &&
                          static_cast<unsigned>(w) < static_cast<unsigned>(s.W);
      const std::int64_t plane = static_cast<std::int64_t>(n) * s.of_C.value() + c;
      if (inside) value = x[(plane * s.H + h) * s.W + w];
    }
    to[i] = value;
  }
}

/// Where position `at` of x is read through a tap; -1: nowhere.
__device__ __forceinline__ int position_of(int at, int tap, int pad, int dilation, const Divide& stride, int count) {
  const int padded = at + pad - tap * dilation;
  if (padded < 0) return -1;
  int position, rest;
  stride.split(padded, position, rest);
  return rest == 0 && position < count ? position : -1;
}

/// x's gradient from the terms of its taps.
__global__ void fold_planes_kernel(float* x, const float* terms, std::uint32_t count,
                                   const __grid_constant__ Windows s) {
  begin_kernel();
  const int KH = static_cast<int>(s.of_KH.value()), KW = static_cast<int>(s.of_KW.value());
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count;
       i += static_cast<std::uint32_t>(global_threads())) {
    std::uint32_t n = i;
    const int w = static_cast<int>(s.of_W.split(n)), h = static_cast<int>(s.of_H.split(n));
    const int c = static_cast<int>(s.of_C.split(n));
    const float* const from = terms + (static_cast<std::int64_t>(n) * s.rows + c * (KH * KW)) * (s.OH * s.OW);
    float sum = 0;
    for (int kh = 0; kh < KH; ++kh) {
      const int oh = position_of(h, kh, s.pad_h, s.dilation_h, s.of_stride_h, s.OH);
      if (oh < 0) continue;
#pragma unroll 4
      for (int kw = 0; kw < KW; ++kw) {
        const int ow = position_of(w, kw, s.pad_w, s.dilation_w, s.of_stride_w, s.OW);
        if (ow >= 0) sum += from[(static_cast<std::int64_t>(kh * KW + kw) * s.OH + oh) * s.OW + ow];
      }
    }
    x[i] = sum;
  }
}

// ---- the products ----

constexpr std::int64_t lanes = 4;
std::int64_t length_of(const Problem& p) { return p.C * p.KH * p.KW; }
std::int64_t rows_of(const Problem& p) { return ceil_div(length_of(p), lanes) * lanes; }
std::int64_t area_of(const Problem& p) { return p.OH * p.OW; }
bool copies_weight(const Problem& p) { return p.pass == Pass::grad_x && rows_of(p) != length_of(p); }
bool adds_images(const Problem& p) { return p.pass == Pass::grad_weight && (p.N > 1 || rows_of(p) != length_of(p)); }

products::Problem product_of(const Problem& p) {
  const std::int64_t area = area_of(p), rows = rows_of(p);
  products::Problem product;
  product.batch = p.N;
  if (p.pass == Pass::grad_x)
    product.m = rows, product.n = area, product.k = p.O, product.transpose_a = true;
  else
    product.m = p.O, product.n = rows, product.k = area, product.transpose_b = true, product.stride_a = p.O * area;
  product.stride_b = (p.pass == Pass::grad_x ? p.O : rows) * area;
  product.precision = p.precision == Precision::bf16 ? Precision::tf32 : p.precision;
  product.deterministic = p.deterministic;
  product.device = p.device;
  const std::uint32_t each = area % lanes == 0 ? 16 : 4;  // of an image
  product.inputs = {each, each, each, 0};
  return product;
}

Windows windows_of(const Problem& p) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  return {i(rows_of(p)),
          i(length_of(p)),
          i(p.H),
          i(p.W),
          i(p.OH),
          i(p.OW),
          i(p.stride_h),
          i(p.stride_w),
          i(p.pad_h),
          i(p.pad_w),
          i(p.dilation_h),
          i(p.dilation_w),
          Divide(rows_of(p)),
          Divide(p.KH),
          Divide(p.KW),
          Divide(p.C),
          Divide(p.H),
          Divide(p.W),
          Divide(p.OH),
          Divide(p.OW),
          Divide(p.stride_h),
          Divide(p.stride_w)};
}

int next_plan(const Problem& p, int plan) { return products::next_algorithm(product_of(p), plan); }

struct Workspace {
  float *weight, *windows, *images;  ///< the last two: [N, rows, positions], [N, O, rows]
  void* rest;
  std::size_t bytes;
  Workspace(const Problem& p, int plan, void* block) {
    Parts parts(block);
    const auto take = [&](bool needed, std::int64_t count) {
      return needed ? static_cast<float*>(parts.take(static_cast<std::size_t>(count) * sizeof(float))) : nullptr;
    };
    weight = take(copies_weight(p), p.O * rows_of(p));
    windows = take(true, p.N * rows_of(p) * area_of(p));
    images = take(adds_images(p), p.N * p.O * rows_of(p));
    rest = parts.take(products::algorithm_workspace(product_of(p), plan));
    bytes = parts.bytes();
  }
};
std::size_t workspace(const Problem& p, int plan) { return Workspace(p, plan, nullptr).bytes; }

void run_grad_x(Context& context, const Problem& p, const Arrays& arrays, int plan, void* block) {
  const Workspace in(p, plan, block);
  const void* weight = arrays.weight;
  if (copies_weight(p)) {
    products::pad(context, Element::float32, in.weight, weight, {1, p.O, length_of(p), p.O, rows_of(p)});
    weight = in.weight;
  }
  products::run_algorithm(context, product_of(p), {in.windows, weight, arrays.y}, plan, in.rest);
  launch(context, Grid(blocks_for(p.images()), 256), fold_planes_kernel, static_cast<float*>(arrays.x),
         static_cast<const float*>(in.windows), static_cast<std::uint32_t>(p.images()), windows_of(p));
}

void run_grad_weight(Context& context, const Problem& p, const Arrays& arrays, int plan, void* block) {
  const auto* const g = static_cast<const float*>(arrays.y);
  if (arrays.bias != nullptr) sum_planes(context, static_cast<float*>(arrays.bias), g, p.N, p.O, area_of(p));
  if (arrays.weight == nullptr) return;
  const Workspace in(p, plan, block);
  const std::int64_t count = p.N * rows_of(p) * area_of(p);
  launch(context, Grid(blocks_for(count), 256), windows_kernel, in.windows, static_cast<const float*>(arrays.x),
         static_cast<std::uint32_t>(count), windows_of(p));
  auto* const weight = static_cast<float*>(arrays.weight);
  products::run_algorithm(context, product_of(p), {adds_images(p) ? in.images : weight, g, in.windows}, plan, in.rest);
  if (!adds_images(p)) return;
  launch(context, Grid(static_cast<unsigned>(ceil_div(p.weights(), 256)), 256), sum_images_kernel<float>, weight,
         static_cast<const float*>(in.images), static_cast<std::uint32_t>(p.weights()), Divide(length_of(p)),
         static_cast<int>(p.N), p.O * rows_of(p), static_cast<int>(rows_of(p)), 1);
}

// ---- when ----

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31, most_elements = std::int64_t{1} << 28, longest = 1024,
                         side = std::int64_t{1} << 14, most_images = 65535;
  const auto whole_array = [](std::uint32_t alignment) { return alignment == 0 || alignment % 16 == 0; };
  if (p.channels_last() || p.pools || p.groups != 1 || p.element != Element::float32 || p.stored != Element::float32 ||
      p.C == 0 || p.KH * p.KW == 1 || length_of(p) > longest)
    return false;
  // Rows of y's gradient that begin anywhere are slow on tensor cores.
  if (p.tensor_cores() && (card().code < 80 || area_of(p) % lanes != 0)) return false;
  return p.N <= most_images && p.images() < most && p.outputs() < most && p.N * p.O * rows_of(p) < most_elements &&
         p.N * rows_of(p) * area_of(p) < most_elements &&
         std::max({p.H, p.W, p.OH, p.OW, p.pad_h, p.pad_w, p.KH * p.dilation_h, p.KW * p.dilation_w, p.stride_h,
                   p.stride_w}) < side &&
         whole_array(p.inputs.x) && whole_array(p.inputs.y) && whole_array(p.inputs.weight);
}

/// Microseconds on an H200.
double time_of(const Problem& p) {
  constexpr double bytes_rate = 3e6, launched = 2.5, side = 64;
  // Multiply-adds of a multiprocessor, which one block alone does not reach.
  const double rate = p.tensor_cores() ? 0.8e6 : 0.15e6;
  const products::Problem product = product_of(p);
  const auto tiles = [](std::int64_t size) { return std::ceil(static_cast<double>(size) / side); };
  const double blocks = tiles(product.m) * tiles(product.n) * static_cast<double>(product.batch);
  const double busiest = std::max(2.0, std::ceil(blocks / card().multiprocessors));
  const double work = busiest * side * side * static_cast<double>(product.k) / rate;
  const auto windows = static_cast<double>(p.N * rows_of(p) * area_of(p));
  const double images = adds_images(p) ? static_cast<double>(p.N * p.O * rows_of(p)) : 0;
  const double read = static_cast<double>(p.outputs()) * (p.pass == Pass::grad_weight ? 2 : 1);  // by the bias's sum
  return std::max(work, read * sizeof(float) / bytes_rate) + 2 * (windows + images) * sizeof(float) / bytes_rate +
         4 * launched;
}

/// Against multiply-adds from one plane (single*.cu), which reach a small part of the card's rate.
bool pays(const Problem& p) {
  constexpr double x_rate = 4e6, weight_rate = 2e6;
  constexpr std::int64_t few = 32;  // outputs, which kernels for small planes take whole
  if (!single::fits(p) || p.C != 1 || p.O <= few) return false;
  const bool back = p.pass == Pass::grad_x;
  const auto positions = static_cast<double>(p.N * (back ? p.H * p.W : area_of(p)));
  const double there = positions * static_cast<double>(p.weights()) / (back ? x_rate : weight_rate);
  return time_of(p) < there;
}
bool fits_first(const Problem& p) { return fits(p) && pays(p); }
bool fits_last(const Problem& p) { return fits(p) && !pays(p); }

}  // namespace

const Algorithm taps_grad_x_first{"fold", fits_first, workspace, run_grad_x, next_plan};
const Algorithm taps_grad_x_last{"fold", fits_last, workspace, run_grad_x, next_plan};
const Algorithm taps_grad_weight_first{"product", fits_first, workspace, run_grad_weight, next_plan};
const Algorithm taps_grad_weight_last{"product", fits_last, workspace, run_grad_weight, next_plan};

}  // namespace tern::cuda::convolution
