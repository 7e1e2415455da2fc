#include <array>
#include <optional>

#include "cuda/fused_rows.cuh"
#include "cuda/products/gemv.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"
#include "cuda/products/sliced.cuh"
#include "cuda/products/slots.cuh"
#include "cuda/streams.cuh"

namespace tern::cuda::products {
namespace {

using kernels::Linear;
using kernels::Matmul;

// Above this many multiply-adds the library's larger tiles beat our fused kernels, on an H200. With few rows a tile
// sums little per weight that it writes.
bool prefers_library(const Problem& p) {
  if (p.precision == Precision::strict) return p.work() > (p.m <= 128 ? 6e7 : 1.2e8);
  const bool weight_alone = p.gradients.a == 0 && p.m <= 512;
  return p.work() > (p.m <= 32 ? 1.5e7 : weight_alone ? 8e7 : 6e7);
}
// The weight's gradient has the outputs as rows; both have the inputs as columns.
bool fits_own(const Problem& p) {
  return p.in == Element::float32 && fits_tiles(p.m, p.k, p.n, 1) && fits_tiles(p.n, p.k, p.m, 1);
}

// ---- through the activation ----

// g = grad_y * activation'(y) (if g is needed) and its column sums (if needed): 32 columns per block.
constexpr int sum_rows = 32;
constexpr std::int64_t many_rows = 256;
template <class T>
__global__ void through_kernel(T* g, T* sums, const T* __restrict__ grad_y, const T* __restrict__ y, std::int64_t rows,
                               std::int64_t out, Activation activation) {
  __shared__ T partial[sum_rows][33];
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  begin_kernel();
  T sum = 0;
  if (column < out)
#pragma unroll 4
    for (std::int64_t row = threadIdx.y; row < rows; row += sum_rows) {
      T value = grad_y[row * out + column];
      if (activation != Activation::none) value = through_activation(value, y[row * out + column], activation);
      if (g != nullptr) g[row * out + column] = value;
      sum += value;
    }
  if (sums == nullptr) return;
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= out) return;
  T total = 0;
  for (int i = 0; i < sum_rows; ++i) total += partial[i][threadIdx.x];
  sums[column] = total;
}

/// Many rows are split over blocks, whose sums stay in `partials` until add_sums(); for few rows one block handles 32
/// columns.
template <class T>
class Through {
 public:
  Through(Context& context, T* g, T* sums, const T* grad_y, const T* y, const Problem& p)
      : sums_(sums),
        columns_(p.n),
        splits_(std::is_same_v<T, float> && p.m >= many_rows && p.n <= most_through_channels),
        slices_(splits_ && sums != nullptr ? row_slices({p.m, p.n, p.n}) : 0),
        partials_(context, static_cast<std::size_t>(slices_ * p.n) * sizeof(T)) {
    if constexpr (std::is_same_v<T, float>)
      if (splits_) {
        through_rows(context, g, partials_.as<float>(), grad_y, y, Rows{p.m, p.n, p.n}, p.activation);
        return;
      }
    launch(context, Grid(static_cast<unsigned>(ceil_div(p.n, 32)), dim3(32, sum_rows)), through_kernel<T>, g, sums,
           grad_y, y, p.m, p.n, p.activation);
  }
  void add_sums(const Context& context) const {
    if (slices_ > 0) sum_slices<T>(context, nullptr, sums_, partials_.as<T>(), slices_, 0, columns_);
  }

 private:
  T* sums_;
  std::int64_t columns_;
  bool splits_;
  std::int64_t slices_;
  Scratch partials_;
};

// ---- the algorithms ----

constexpr std::array by_library{&library_algorithm};

/// The product for the gradient of the weight, and for that of x.
Problem product_of(const Problem& layer, bool of_weight) {
  Matmul shape{.m = layer.m, .n = layer.k, .k = layer.n};
  if (of_weight) shape = {.m = layer.n, .n = layer.k, .k = layer.m, .transpose_a = true};
  Problem product{shape};
  product.in = layer.in;
  product.out = layer.out;
  product.precision = layer.precision;
  product.deterministic = layer.deterministic;
  product.device = layer.device;
  return product;
}

/// Both products in one launch(weight, data).
template <class Launch>
void run_together(Context& context, const Problem& p, const Gradients& to, const Launch& launch_both) {
  const auto* const grad_y = static_cast<const float*>(to.grad_y);
  const auto* const y = static_cast<const float*>(to.y);
  const float* const mask = p.activation == Activation::none ? nullptr : y;
  if (to.grad_bias != nullptr && to.grad_weight == nullptr)
    Through<float>(context, nullptr, static_cast<float*>(to.grad_bias), grad_y, y, p).add_sums(context);
  if (to.grad_weight == nullptr && to.grad_x == nullptr) return;
  Product for_weight, for_data;
  if (to.grad_weight != nullptr) {
    for_weight.a = factor(grad_y, p.n, mask);
    for_weight.b = factor(to.x, p.k);
    for_weight.out = static_cast<float*>(to.grad_weight);
    for_weight.aligned_out = aligned(to.grad_weight, p.k);
    for_weight.sums = static_cast<float*>(to.grad_bias);
    for_weight.m = static_cast<int>(p.n);
    for_weight.n = static_cast<int>(p.k);
    for_weight.k = static_cast<int>(p.m);
    for_weight.through = p.activation;
  }
  if (to.grad_x != nullptr) {
    for_data.a = factor(grad_y, p.n, mask);
    for_data.b = factor(to.weight, p.k);
    for_data.out = static_cast<float*>(to.grad_x);
    for_data.aligned_out = aligned(to.grad_x, p.k);
    for_data.m = static_cast<int>(p.m);
    for_data.n = static_cast<int>(p.k);
    for_data.k = static_cast<int>(p.n);
    for_data.through = p.activation;
  }
  launch_both(for_weight, for_data);
}

void run_own_backward(Context& context, const Problem& p, const Gradients& to, int, void*) {
  run_together(context, p, to, [&](const Product& weight, const Product& data) {
    own_backward(context, weight, data, p, tiling_of_backward(context, p));
  });
}
void run_sliced_backward(Context& context, const Problem& p, const Gradients& to, int, void*) {
  run_together(context, p, to, [&](const Product& weight, const Product& data) {
    products::sliced_backward(context, weight, data, p);
  });
}
void run_padded_backward(Context& context, const Problem& p, const Gradients& to, int, void*) {
  padded_backward(context, p, to);
}
void run_gemv_backward(Context& context, const Problem& p, const Gradients& to, int, void*) {
  run_together(context, p, to,
               [&](const Product& weight, const Product& data) { gemv_backward(context, weight, data); });
}

template <class T>
void run_library_backward(Context& context, const Problem& p, const Gradients& to) {
  // With few rows, rounding the weight takes longer than reading it as TF32.
  const bool masked = p.activation != Activation::none, rounds = in_bf16(p) && p.m > 32;
  const Scratch masked_gradient(context, masked ? static_cast<std::size_t>(p.m * p.n) * sizeof(T) : 0);
  const auto* const grad_y = static_cast<const T*>(to.grad_y);
  std::optional<Through<T>> through;
  if (masked || to.grad_bias != nullptr)
    through.emplace(context, masked_gradient.as<T>(), static_cast<T*>(to.grad_bias), grad_y,
                    static_cast<const T*>(to.y), p);
  const void *g = masked ? masked_gradient.as<T>() : grad_y, *x = to.x, *weight = to.weight;

  // The factors that are read, rounded if requested.
  const auto bytes = [&](bool read, std::int64_t count) { return rounds && read ? rounded_bytes(count) : 0; };
  const bool for_weight = to.grad_weight != nullptr, for_x = to.grad_x != nullptr;
  const Scratch rounded_g(context, bytes(true, p.m * p.n)), rounded_x(context, bytes(for_weight, p.m * p.k)),
      rounded_weight(context, bytes(for_x, p.n * p.k));
  if (rounds) {
    round(context, rounded_g.as<void>(), g, p.m * p.n);
    if (for_weight) round(context, rounded_x.as<void>(), x, p.m * p.k);
    if (for_x) round(context, rounded_weight.as<void>(), weight, p.n * p.k);
    g = rounded_g.as<void>();
    x = rounded_x.as<void>();
    weight = rounded_weight.as<void>();
  }

  using Half = Prepared<Problem, Arrays>;
  const auto prepare = [&](std::optional<Half>& half, bool of_weight, const Arrays& arrays) {
    Problem product = product_of(p, of_weight);
    if (rounds) product.in = Element::bfloat16;
    product.inputs = {alignment_of(arrays.out), alignment_of(arrays.a), alignment_of(arrays.b)};
    half.emplace(context, nullptr, by_library, product, arrays);
  };
  std::optional<Half> to_weight, to_x;
  if (for_weight) prepare(to_weight, true, {to.grad_weight, g, x});
  if (for_x) prepare(to_x, false, {to.grad_x, g, weight});
  run_side_by_side(context, to_x, to_weight, [&](const Context& where) {
    if (through) through->add_sums(where);
  });
}

void run_library_backward_of(Context& context, const Problem& p, const Gradients& to, int, void*) {
  p.in == Element::float64 ? run_library_backward<double>(context, p, to) : run_library_backward<float>(context, p, to);
}

using Backward = cuda::Algorithm<Problem, Gradients>;
const Backward library_backward_first{.name = "library",
                                      .fits = [](const Problem& p) { return !fits_own(p) || prefers_library(p); },
                                      .run = run_library_backward_of};
const Backward library_backward_last{.name = "library",
                                     .fits = [](const Problem& p) { return fits_own(p) && !prefers_library(p); },
                                     .run = run_library_backward_of};
const Backward padded_backward_first{
    .name = "padded",
    .fits = [](const Problem& p) { return fits_padded_backward(p) && prefers_padded_backward(p); },
    .run = run_padded_backward};
const Backward padded_backward_last{.name = "padded", .fits = fits_padded_backward, .run = run_padded_backward};
const Backward own_backward_algorithm{.name = "own", .fits = fits_own, .run = run_own_backward};
const Backward sliced_backward_first{
    .name = "sliced",
    .fits = [](const Problem& p) { return fits_sliced_backward(p) && prefers_sliced_backward(p); },
    .run = run_sliced_backward};
const Backward sliced_backward_last{.name = "sliced", .fits = fits_sliced_backward, .run = run_sliced_backward};
const Backward gemv_backward_algorithm{.name = "gemv", .fits = fits_gemv_backward, .run = run_gemv_backward};
constexpr std::array backward{&gemv_backward_algorithm, &sliced_backward_first,  &padded_backward_first,
                              &library_backward_first,  &own_backward_algorithm, &library_backward_last,
                              &sliced_backward_last,    &padded_backward_last};

}  // namespace

template <class T>
void linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Linear& shape) {
  Problem problem = problem_of<T>(context, Slot::linear_backward, shape);
  const auto clear = [&](T* array, std::int64_t count) {
    if (array != nullptr && count > 0)
      check(cudaMemsetAsync(array, 0, static_cast<std::size_t>(count) * sizeof(T), stream_of(context)), "clearing");
  };
  if (problem.work() == 0) {
    clear(grad_x, shape.rows * shape.in);
    clear(grad_weight, shape.out * shape.in);
    if (grad_bias != nullptr && shape.out > 0)
      Through<T>(context, nullptr, grad_bias, grad_y, y, problem).add_sums(context);
    return;
  }
  problem.inputs = {alignment_of(y), alignment_of(x), alignment_of(weight)};
  problem.gradients = {alignment_of(grad_y), alignment_of(grad_x), alignment_of(grad_weight), alignment_of(grad_bias)};
  Prepared<Problem, Gradients>(context, "linear_backward", backward, problem,
                               Gradients{grad_x, grad_weight, grad_bias, grad_y, x, weight, y})
      .run(context);
}

template void linear_backward<float>(Context&, float*, float*, float*, const float*, const float*, const float*,
                                     const float*, const Linear&);
template void linear_backward<double>(Context&, double*, double*, double*, const double*, const double*, const double*,
                                      const double*, const Linear&);

}  // namespace tern::cuda::products
