// Stored numbers one by one, and pooling: one thread per number of the result, or per four channels of it.

#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/quantized/rescale.cuh"

namespace tern::cuda {
namespace {

using kernels::AdaptivePool2d;
using kernels::Conv2d;
using kernels::Pool2d;
using kernels::QuantizedImages;

/// Calls function(i) for each i in [0, n).
template <class Function>
__global__ void each_kernel(std::int64_t n, Function function) {
  begin_kernel();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n;
       i += std::int64_t{gridDim.x} * blockDim.x)
    function(i);
}
template <class Function>
void each(const Context& context, std::int64_t n, const Function& function) {
  if (n > 0) launch(context, Grid(blocks_for(n), 256), each_kernel<Function>, n, function);
}

/// The place in [N, C, P] of number i of [N, P, C].
__device__ __forceinline__ std::int64_t channels_first(std::int64_t i, const QuantizedImages& s) {
  const std::int64_t c = i % s.C, p = i / s.C % s.P, n = i / (s.C * s.P);
  return (n * s.C + c) * s.P + p;
}

struct QuantizeEach {
  std::uint8_t* out;
  const float* in;
  QuantizedImages sizes;
  Rescale rescale;
  __device__ void operator()(std::int64_t i) const {
    out[i] = stored(__fmul_rn(in[channels_first(i, sizes)], rescale.x_scale), rescale);
  }
};
/// A thread stores the few channels of a position, whose planes neighbours read side by side.
struct QuantizePixel {
  std::uint8_t* out;
  const float* in;
  std::uint32_t C;
  Divisor<std::uint32_t> P;
  Rescale rescale;
  __device__ void operator()(std::int64_t i) const {
    auto image = static_cast<std::uint32_t>(i);
    const std::uint32_t p = P.split(image);
    const float* const from = in + static_cast<std::int64_t>(image) * C * P.value() + p;
    std::uint8_t* const to = out + i * C;
    for (std::uint32_t c = 0; c < C; ++c)
      to[c] = stored(__fmul_rn(from[static_cast<std::int64_t>(c) * P.value()], rescale.x_scale), rescale);
  }
};
struct DequantizeEach {
  float* out;
  const std::uint8_t* in;
  QuantizedImages sizes;
  Rescale rescale;
  __device__ void operator()(std::int64_t i) const {
    out[channels_first(i, sizes)] = worth(in[i], rescale.x_zero, rescale.x_scale);
  }
};
struct AddEach {
  std::uint8_t* out;
  const std::uint8_t *a, *b;
  Rescale rescale;
  __device__ void operator()(std::int64_t i) const {
    out[i] = stored(
        __fadd_rn(worth(a[i], rescale.x_zero, rescale.x_scale), worth(b[i], rescale.other_zero, rescale.other_scale)),
        rescale);
  }
};
struct RescaleEach {
  std::uint8_t* out;
  const std::uint8_t* in;
  std::int64_t columns, out_columns;
  Rescale rescale;
  __device__ void operator()(std::int64_t i) const {
    out[i / columns * out_columns + i % columns] = stored(worth(in[i], rescale.x_zero, rescale.x_scale), rescale);
  }
};

/// One side of a window: positions inside of the plane, and how many count.
struct Side {
  std::int64_t begin, end, count;
};
__device__ __forceinline__ std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
__device__ __forceinline__ std::int64_t smaller(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
__device__ Side side(std::int64_t o, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                     std::int64_t size) {
  const std::int64_t begin = o * stride - padding, end = smaller(begin + kernel, size + padding);
  return {larger(begin, 0), smaller(end, size), end - begin};
}
__device__ Side part(std::int64_t o, std::int64_t parts, std::int64_t size) {
  const std::int64_t begin = o * size / parts, end = ((o + 1) * size + parts - 1) / parts;
  return {begin, end, end - begin};
}
__device__ Side rows_of(const Pool2d& s, std::int64_t oh) { return side(oh, s.KH, s.stride_h, s.pad_h, s.H); }
__device__ Side columns_of(const Pool2d& s, std::int64_t ow) { return side(ow, s.KW, s.stride_w, s.pad_w, s.W); }
__device__ Side rows_of(const AdaptivePool2d& s, std::int64_t oh) { return part(oh, s.OH, s.H); }
__device__ Side columns_of(const AdaptivePool2d& s, std::int64_t ow) { return part(ow, s.OW, s.W); }
__device__ bool counts_padding(const Pool2d& s) { return s.count_include_pad; }
__device__ bool counts_padding(const AdaptivePool2d&) { return true; }

struct MaxEach {
  std::uint8_t* out;
  const std::uint8_t* in;
  Pool2d s;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t c = i % s.channels, ow = i / s.channels % s.OW, oh = i / (s.channels * s.OW) % s.OH;
    const std::uint8_t* const image = in + i / (s.channels * s.OW * s.OH) * s.H * s.W * s.channels + c;
    std::uint8_t best = 0;
    for (std::int64_t kh = 0; kh < s.KH; ++kh)
      for (std::int64_t kw = 0; kw < s.KW; ++kw) {
        const std::int64_t h = oh * s.stride_h - s.pad_h + kh * s.dilation_h;
        const std::int64_t w = ow * s.stride_w - s.pad_w + kw * s.dilation_w;
        if (h < 0 || h >= s.H || w < 0 || w >= s.W) continue;
        const std::uint8_t number = image[(h * s.W + w) * s.channels];
        best = number > best ? number : best;
      }
    out[i] = best;
  }
};

/// The same for `Words` times four channels: item i is those of one position of the result.
template <int Words>
struct MaxWords {
  std::uint8_t* out;
  const std::uint8_t* in;
  Pool2d s;
  Divisor<std::uint32_t> packs, OW, OH;
  struct alignas(4 * Words) Channels {
    std::uint32_t word[Words];
  };
  __device__ void operator()(std::int64_t i) const {
    auto rest = static_cast<std::uint32_t>(i);
    const int c = static_cast<int>(packs.split(rest)) * 4 * Words, C = static_cast<int>(s.channels);
    const int w0 = static_cast<int>(OW.split(rest)) * static_cast<int>(s.stride_w) - static_cast<int>(s.pad_w);
    const int h0 = static_cast<int>(OH.split(rest)) * static_cast<int>(s.stride_h) - static_cast<int>(s.pad_h);
    const int H = static_cast<int>(s.H), W = static_cast<int>(s.W);
    const std::uint8_t* const image = in + static_cast<std::int64_t>(rest) * H * W * C + c;
    Channels best{};
    for (int kh = 0; kh < static_cast<int>(s.KH); ++kh)
      for (int kw = 0; kw < static_cast<int>(s.KW); ++kw) {
        const int h = h0 + kh * static_cast<int>(s.dilation_h), w = w0 + kw * static_cast<int>(s.dilation_w);
        if (h < 0 || h >= H || w < 0 || w >= W) continue;
        const Channels here = *reinterpret_cast<const Channels*>(image + (h * W + w) * C);
#pragma unroll
        for (int word = 0; word < Words; ++word) best.word[word] = __vmaxu4(best.word[word], here.word[word]);
      }
    reinterpret_cast<Channels*>(out)[i] = best;
  }
};

template <class Pool>
struct MeanEach {
  std::uint8_t* out;
  const std::uint8_t* in;
  Pool s;
  Rescale rescale;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t c = i % s.channels, ow = i / s.channels % s.OW, oh = i / (s.channels * s.OW) % s.OH;
    const std::uint8_t* const image = in + i / (s.channels * s.OW * s.OH) * s.H * s.W * s.channels + c;
    const Side rows = rows_of(s, oh), columns = columns_of(s, ow);
    std::uint32_t sum = 0;
    constexpr int at_once = 8;  // loads in flight
    for (std::int64_t h = rows.begin; h < rows.end; ++h)
      for (std::int64_t w = columns.begin; w < columns.end; w += at_once)
#pragma unroll
        for (int i = 0; i < at_once; ++i)
          if (w + i < columns.end)
            sum += static_cast<std::uint32_t>(image[(h * s.W + w + i) * s.channels] - rescale.x_zero);
    const std::int64_t count =
        counts_padding(s) ? rows.count * columns.count : (rows.end - rows.begin) * (columns.end - columns.begin);
    const float t = __fmul_rn(__int2float_rn(static_cast<std::int32_t>(sum)), rescale.x_scale);
    out[i] = stored(__fdiv_rn(t, static_cast<float>(count)), rescale);
  }
};

void quantize(Context& context, std::uint8_t* out, const float* in, const QuantizedImages& s, const Rescale& rescale) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (s.C <= 4 && s.N * s.C * s.P < most)
    each(context, s.N * s.P,
         QuantizePixel{out, in, static_cast<std::uint32_t>(s.C), Divisor<std::uint32_t>(s.P), rescale});
  else
    each(context, s.N * s.C * s.P, QuantizeEach{out, in, s, rescale});
}
void dequantize(Context& context, float* out, const std::uint8_t* in, const QuantizedImages& s,
                const Rescale& rescale) {
  each(context, s.N * s.C * s.P, DequantizeEach{out, in, s, rescale});
}
void conv2d(Context& context, std::uint8_t* y, const std::uint8_t* x, const std::int8_t* weight,
            const std::int32_t* bias, const float* scale, const std::uint8_t* other, const Conv2d& sizes,
            const Rescale& rescale) {
  quantized_convolution(context, {y, nullptr, x, weight, bias, scale, other}, sizes, rescale);
}
void conv2d_float(Context& context, float* y, const std::uint8_t* x, const std::int8_t* weight,
                  const std::int32_t* bias, const float* scale, const Conv2d& sizes, const Rescale& rescale) {
  quantized_convolution(context, {nullptr, y, x, weight, bias, scale, nullptr}, sizes, rescale);
}
void add(Context& context, std::uint8_t* out, const std::uint8_t* a, const std::uint8_t* b, std::int64_t n,
         const Rescale& rescale) {
  each(context, n, AddEach{out, a, b, rescale});
}
void rescale(Context& context, std::uint8_t* out, const std::uint8_t* in, std::int64_t rows, std::int64_t columns,
             std::int64_t out_columns, const Rescale& how) {
  each(context, rows * columns, RescaleEach{out, in, columns, out_columns, how});
}
void max_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const Pool2d& s) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const std::int64_t outputs = s.planes * s.OH * s.OW;
  if (outputs == 0) return;
  using Divide = Divisor<std::uint32_t>;
  const bool small = outputs < most && s.planes * (s.H + s.KH * s.dilation_h) * (s.W + s.KW * s.dilation_w) < most;
  const auto in_packs = [&](std::int64_t bytes) {
    return small && s.channels % bytes == 0 && reinterpret_cast<std::uintptr_t>(out) % bytes == 0 &&
           reinterpret_cast<std::uintptr_t>(in) % bytes == 0;
  };
  // Few threads leave multiprocessors empty.
  if (in_packs(16) && outputs / 16 >= 512ll * card().multiprocessors)
    each(context, outputs / 16, MaxWords<4>{out, in, s, Divide(s.channels / 16), Divide(s.OW), Divide(s.OH)});
  else if (in_packs(4))
    each(context, outputs / 4, MaxWords<1>{out, in, s, Divide(s.channels / 4), Divide(s.OW), Divide(s.OH)});
  else
    each(context, outputs, MaxEach{out, in, s});
}
void avg_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const Pool2d& s, const Rescale& rescale) {
  each(context, s.planes * s.OH * s.OW, MeanEach<Pool2d>{out, in, s, rescale});
}
void adaptive_avg_pool2d(Context& context, std::uint8_t* out, const std::uint8_t* in, const AdaptivePool2d& s,
                         const Rescale& rescale) {
  each(context, s.planes * s.OH * s.OW, MeanEach<AdaptivePool2d>{out, in, s, rescale});
}

}  // namespace

kernels::Quantized quantized() {
  return {.quantize = quantize,
          .dequantize = dequantize,
          .conv2d = conv2d,
          .conv2d_float = conv2d_float,
          .add = add,
          .rescale = rescale,
          .max_pool2d = max_pool2d,
          .avg_pool2d = avg_pool2d,
          .adaptive_avg_pool2d = adaptive_avg_pool2d};
}

}  // namespace tern::cuda
