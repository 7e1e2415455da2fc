#include "cuda/convolutions.cuh"
#include "cuda/cuda.hpp"
#include "cuda/fused_rows.cuh"
#include "cuda/streams.cuh"
#include "tern/kernels/ways.hpp"

namespace tern::cuda {
namespace {

template <class T>
__global__ void through_kernel(T* g, const T* grad_y, const T* y, std::int64_t count, Activation activation) {
  begin_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    g[i] = through_activation(grad_y[i], y[i], activation);
}

template <class T>
__global__ void bias_only_kernel(T* grad_bias, const T* g, std::int64_t N, std::int64_t O, std::int64_t area) {
  begin_kernel();
  const std::int64_t o = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (o >= O) return;
  T sum = 0;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t i = 0; i < area; ++i) sum += g[(n * O + o) * area + i];
  grad_bias[o] = sum;
}

template <class T>
void clear(const Context& context, T* array, std::int64_t count) {
  if (array == nullptr || count == 0) return;
  check(cudaMemsetAsync(array, 0, static_cast<std::size_t>(count) * sizeof(T), stream_of(context)), "clearing");
}

/// Whether a decision about a convolution in the order of the shape takes the direct kernel, which fits.
bool goes_direct(const Context& context, const char* decision, bool fits) {
  const bool direct = fits && forced_way(context, decision) != "general";
  took_way(context, decision, direct ? "direct" : "general");
  return direct;
}

template <class T>
kernels::Layout layout(const Context& context, const Conv2d& shape) {
  const std::string_view forced = forced_way(context, "conv2d");
  if (forced == "general" || forced == "direct") return kernels::Layout::channels_first;
  const bool library = std::is_same_v<T, float> && library_conv2d_fits(shape);
  return library ? kernels::Layout::channels_last : kernels::Layout::channels_first;
}

template <class T>
void conv2d(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  if (shape.N * shape.O * shape.OH * shape.OW == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    if (shape.layout == kernels::Layout::channels_last) return library_conv2d(context, y, x, weight, bias, shape);
    if (goes_direct(context, "conv2d", direct_conv2d_fits(shape)))
      return direct_conv2d(context, y, x, weight, bias, shape);
  } else {
    took_way(context, "conv2d", "general");
  }
  general_conv2d(context, y, x, weight, bias, shape);
}

template <class T>
void grad_x_on(const Context& context, cudaStream_t stream, T* grad_x, const T* g, const T* weight,
               const Conv2d& shape) {
  if constexpr (std::is_same_v<T, float>) {
    if (goes_direct(context, "conv2d_grad_x", direct_grad_x_fits(shape)))
      return direct_grad_x(context, stream, grad_x, g, weight, shape);
  } else {
    took_way(context, "conv2d_grad_x", "general");
  }
  general_grad_x(context, stream, grad_x, g, weight, shape);
}

template <class T>
void grad_weight_and_bias(Context& context, bool direct, T* grad_weight, T* grad_bias, T* partials, std::int64_t slices,
                          const T* g, const T* x, const Conv2d& shape) {
  const std::int64_t weights = shape.O * (shape.C / shape.groups) * shape.KH * shape.KW;
  if constexpr (std::is_same_v<T, float>)
    if (direct) direct_grad_weight(context, partials, g, x, slices, shape);
  if (!direct) general_grad_weight(context, partials, g, x, slices, shape);
  sum_slices(context, grad_weight, grad_bias, partials, slices, weights, shape.O);
}

template <class T>
void conv2d_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Conv2d& shape) {
  const std::int64_t outputs = shape.N * shape.O * shape.OH * shape.OW;
  const std::int64_t weights = shape.O * (shape.C / shape.groups) * shape.KH * shape.KW;
  const std::int64_t inputs = shape.N * shape.C * shape.H * shape.W;
  if (outputs == 0) {
    clear(context, grad_x, inputs);
    clear(context, grad_weight, weights);
    clear(context, grad_bias, shape.O);
    return;
  }
  if constexpr (std::is_same_v<T, float>)
    if (shape.layout == kernels::Layout::channels_last)
      return library_conv2d_backward(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, shape);
  const bool masked = shape.activation != Activation::none;
  const Scratch masked_gradient(context, masked ? static_cast<std::size_t>(outputs) * sizeof(T) : 0);
  const T* g = grad_y;
  if (masked) {
    g = masked_gradient.as<T>();
    launch(context, Grid(blocks_for(outputs), 256), through_kernel<T>, masked_gradient.as<T>(), grad_y, y, outputs,
           shape.activation);
  }
  if (weights == 0) {
    // No input channels: the output is the bias alone.
    if (grad_bias != nullptr)
      launch(context, Grid(blocks_for(shape.O), 256), bias_only_kernel<T>, grad_bias, g, shape.N, shape.O,
             shape.OH * shape.OW);
    return;
  }
  const bool want_weight = grad_weight != nullptr || grad_bias != nullptr;
  const bool direct = want_weight && goes_direct(context, "conv2d_grad_weight",
                                                 std::is_same_v<T, float> && direct_grad_weight_fits(shape));
  const std::int64_t slices = !want_weight ? 0 : direct ? direct_slices(shape) : general_slices(shape);
  const Scratch partials(context, static_cast<std::size_t>(slices * (weights + shape.O)) * sizeof(T));

  // The two halves are independent: in a replayed step they run side by side.
  const bool beside = want_weight && grad_x != nullptr && may_fork(context);
  if (grad_x != nullptr) {
    const cudaStream_t stream = beside ? fork(context) : stream_of(context);
    grad_x_on(context, stream, grad_x, g, weight, shape);
  }
  if (want_weight) grad_weight_and_bias(context, direct, grad_weight, grad_bias, partials.as<T>(), slices, g, x, shape);
  if (beside) join(context);
}

}  // namespace

template <class T>
kernels::Conv<T> conv() {
  return {.layout = layout<T>, .conv2d = conv2d<T>, .conv2d_backward = conv2d_backward<T>};
}

template kernels::Conv<float> conv<float>();
template kernels::Conv<double> conv<double>();

}  // namespace tern::cuda
