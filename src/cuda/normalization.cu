#include "cuda/batch_norm.cuh"
#include "cuda/cuda.hpp"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda {
namespace {

using kernels::BatchNorm;
using kernels::LocalResponseNorm;

// ---- local response normalisation ----

template <class T>
struct Response {
  std::int64_t C, area;
  int size;
  T k, scale, beta;  ///< scale: alpha / size
  explicit Response(const LocalResponseNorm& sizes)
      : C(sizes.C),
        area(sizes.area),
        size(static_cast<int>(sizes.size)),
        k(static_cast<T>(sizes.k)),
        scale(static_cast<T>(sizes.alpha / static_cast<double>(sizes.size))),
        beta(static_cast<T>(sizes.beta)) {}
};

/// base^0.75 from two square roots, each rounded once.
template <class T>
__device__ T power_three_quarters(T base) {
  const T root = ::sqrt(base);
  return root * ::sqrt(root);
}

/// How many channels a thread of the usual window (5 channels, beta 0.75) computes, from registers.
inline constexpr int strip = 8;

template <class T>
__global__ void local_response_norm_strip_kernel(std::int64_t threads, Response<T> p, T* y, const T* x) {
  begin_kernel();
  const std::int64_t strips = (p.C + strip - 1) / strip;
  for (std::int64_t i = global_thread(); i < threads; i += global_threads()) {
    const std::int64_t position = i % p.area, first = i / p.area % strips * strip, n = i / p.area / strips;
    const std::int64_t base = n * p.C * p.area + position;
    T in[strip + 4];
#pragma unroll
    for (int j = 0; j < strip + 4; ++j) {
      const std::int64_t c = first + j - 2;
      in[j] = c >= 0 && c < p.C ? x[base + c * p.area] : T(0);
    }
#pragma unroll
    for (int j = 0; j < strip; ++j) {
      if (first + j >= p.C) break;
      T sum = 0;
#pragma unroll
      for (int window = 0; window < 5; ++window) sum += in[j + window] * in[j + window];
      y[base + (first + j) * p.area] = in[j + 2] / power_three_quarters(p.k + p.scale * sum);
    }
  }
}

template <class T>
__global__ void local_response_norm_backward_strip_kernel(std::int64_t threads, Response<T> p, T* grad_x,
                                                          const T* grad_y, const T* x, const T* y) {
  begin_kernel();
  const std::int64_t strips = (p.C + strip - 1) / strip;
  for (std::int64_t i = global_thread(); i < threads; i += global_threads()) {
    const std::int64_t position = i % p.area, first = i / p.area % strips * strip, n = i / p.area / strips;
    const std::int64_t base = n * p.C * p.area + position;
    T in[strip + 8], share[strip + 4], direct[strip];
#pragma unroll
    for (int j = 0; j < strip + 8; ++j) {
      const std::int64_t c = first + j - 4;
      in[j] = c >= 0 && c < p.C ? x[base + c * p.area] : T(0);
    }
#pragma unroll
    for (int j = 0; j < strip + 4; ++j) {
      const std::int64_t c = first + j - 2;
      const bool inside = c >= 0 && c < p.C;
      T sum = 0;
#pragma unroll
      for (int window = 0; window < 5; ++window) sum += in[j + window] * in[j + window];
      const T denominator = p.k + p.scale * sum, gradient = inside ? grad_y[base + c * p.area] : T(0);
      share[j] = inside ? gradient * y[base + c * p.area] / denominator : T(0);
      if (j >= 2 && j < strip + 2) direct[j - 2] = gradient / power_three_quarters(denominator);
    }
#pragma unroll
    for (int j = 0; j < strip; ++j) {
      if (first + j >= p.C) break;
      T sum = 0;
#pragma unroll
      for (int window = 0; window < 5; ++window) sum += share[j + window];
      grad_x[base + (first + j) * p.area] = direct[j] - 2 * p.scale * p.beta * in[j + 4] * sum;
    }
  }
}

template <class T>
__device__ T denominator_at(const Response<T>& p, const T* x, std::int64_t c) {
  const std::int64_t begin = c - p.size / 2;
  T sum = 0;
  for (std::int64_t j = max(begin, std::int64_t{0}); j < min(begin + p.size, p.C); ++j)
    sum += x[j * p.area] * x[j * p.area];
  return p.k + p.scale * sum;
}

template <class T>
__global__ void local_response_norm_kernel(std::int64_t n, Response<T> p, T* y, const T* x) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < n; i += global_threads()) {
    const std::int64_t c = i / p.area % p.C;
    y[i] = x[i] / ::pow(denominator_at(p, x + i - c * p.area, c), p.beta);
  }
}

template <class T>
__global__ void local_response_norm_backward_kernel(std::int64_t n, Response<T> p, T* grad_x, const T* grad_y,
                                                    const T* x, const T* y) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < n; i += global_threads()) {
    const std::int64_t c = i / p.area % p.C, base = i - c * p.area;
    // The channels whose windows hold c.
    const std::int64_t begin = c + p.size / 2 - p.size + 1;
    T sum = 0;
    for (std::int64_t j = max(begin, std::int64_t{0}); j < min(begin + p.size, p.C); ++j)
      sum += grad_y[base + j * p.area] * y[base + j * p.area] / denominator_at(p, x + base, j);
    grad_x[i] = grad_y[i] / ::pow(denominator_at(p, x + base, c), p.beta) - 2 * p.scale * p.beta * x[i] * sum;
  }
}

bool usual_window(const LocalResponseNorm& sizes) { return sizes.size == 5 && sizes.beta == 0.75; }

// ---- batch normalisation with running statistics ----

template <int V, class T>
__global__ void batch_norm_inference_kernel(std::int64_t packs, std::int64_t area_packs, BatchNorm sizes, T* y,
                                            const T* x, const T* weight, const T* bias, const T* mean, const T* var) {
  begin_kernel();
  for (std::int64_t i = global_thread(); i < packs; i += global_threads()) {
    const std::int64_t c = i / area_packs % sizes.C;
    const T deviation = ::sqrt(var[c] + static_cast<T>(sizes.epsilon)), centre = mean[c];
    const T scale = weight == nullptr ? T(1) : weight[c], shift = bias == nullptr ? T(0) : bias[c];
    auto values = load<V>(x + i * V);
#pragma unroll
    for (int lane = 0; lane < V; ++lane) values.value[lane] = (values.value[lane] - centre) / deviation * scale + shift;
    store<V>(y + i * V, values);
  }
}

// ---- the slots ----

template <class T>
void local_response_norm(Context& context, T* y, const T* x, const LocalResponseNorm& sizes) {
  const bool usual = usual_window(sizes);
  const std::int64_t n = sizes.N * (usual ? ceil_div(sizes.C, strip) : sizes.C) * sizes.area;
  launch(context, Grid(blocks_for(n, 128), 128),
         usual ? local_response_norm_strip_kernel<T> : local_response_norm_kernel<T>, n, Response<T>(sizes), y, x);
}

template <class T>
void local_response_norm_backward(Context& context, T* grad_x, const T* grad_y, const T* x, const T* y,
                                  const LocalResponseNorm& sizes) {
  const bool usual = usual_window(sizes);
  const std::int64_t n = sizes.N * (usual ? ceil_div(sizes.C, strip) : sizes.C) * sizes.area;
  launch(context, Grid(blocks_for(n, 128), 128),
         usual ? local_response_norm_backward_strip_kernel<T> : local_response_norm_backward_kernel<T>, n,
         Response<T>(sizes), grad_x, grad_y, x, y);
}

template <class T>
void batch_norm(Context& context, T* y, T* mean, T* inverse_deviation, T* running_mean, T* running_var, const T* x,
                const T* weight, const T* bias, const BatchNorm& sizes) {
  if (sizes.N * sizes.area == 0) return;
  BatchNormForward<T> pass;
  pass.y = y;
  pass.mean = mean;
  pass.inverse_deviation = inverse_deviation;
  pass.running_mean = running_mean;
  pass.running_var = running_var;
  pass.x = x;
  pass.weight = weight;
  pass.bias = bias;
  pass.epsilon = static_cast<T>(sizes.epsilon);
  pass.momentum = static_cast<T>(sizes.momentum);
  over_channels<T>(context, sizes, aligned<pack_size<T>>(x) && aligned<pack_size<T>>(y), pass);
}

template <class T>
void batch_norm_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                         const T* weight, const T* mean, const T* inverse_deviation, const BatchNorm& sizes) {
  const BatchNormBackward<T> pass{.grad_x = grad_x,
                                  .grad_weight = grad_weight,
                                  .grad_bias = grad_bias,
                                  .grad_y = grad_y,
                                  .x = x,
                                  .weight = weight,
                                  .mean = mean,
                                  .inverse_deviation = inverse_deviation,
                                  .count = static_cast<T>(sizes.N * sizes.area)};
  constexpr int V = pack_size<T>;
  over_channels<T>(context, sizes, aligned<V>(grad_x) && aligned<V>(grad_y) && aligned<V>(x), pass);
}

template <class T>
void batch_norm_inference(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* running_mean,
                          const T* running_var, const BatchNorm& sizes) {
  constexpr int V = pack_size<T>;
  const bool packable = aligned<V>(x) && aligned<V>(y) && sizes.area % V == 0;
  const std::int64_t area_packs = packable ? sizes.area / V : sizes.area, packs = sizes.N * sizes.C * area_packs;
  launch(context, Grid(blocks_for(packs), 256),
         packable ? batch_norm_inference_kernel<V, T> : batch_norm_inference_kernel<1, T>, packs, area_packs, sizes, y,
         x, weight, bias, running_mean, running_var);
}

}  // namespace

template <class T>
kernels::Normalization<T> normalization() {
  return {.local_response_norm = local_response_norm<T>,
          .local_response_norm_backward = local_response_norm_backward<T>,
          .batch_norm = batch_norm<T>,
          .batch_norm_backward = batch_norm_backward<T>,
          .batch_norm_inference = batch_norm_inference<T>};
}
template kernels::Normalization<float> normalization<float>();
template kernels::Normalization<double> normalization<double>();

}  // namespace tern::cuda
