#include <array>
#include <compare>
#include <limits>
#include <optional>
#include <utility>

#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/library.cuh"
#include "cuda/products.cuh"
#include "cuda/streams.cuh"
#include "cuda/timing.cuh"
#include "tern/kernels/ways.hpp"

namespace tern::cuda {
namespace {

using kernels::Linear;
using kernels::Matmul;

bool aligned(const void* pointer, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0 && stride % 4 == 0;
}

// ---- what the library does not fuse ----

template <class T>
__global__ void bias_activation_kernel(T* y, const T* bias, std::int64_t count, std::int64_t out,
                                       Activation activation) {
  begin_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = activate(bias == nullptr ? y[i] : y[i] + bias[i % out], activation);
}

// g = grad_y * activation'(y) (when g is wanted) and its column sums (when they are): 32 columns per block.
constexpr int sum_rows = 32;
constexpr std::int64_t many_rows = 2048;
template <class T>
__global__ void through_kernel(T* g, T* sums, const T* __restrict__ grad_y, const T* __restrict__ y, std::int64_t rows,
                               std::int64_t out, Activation activation) {
  __shared__ T partial[sum_rows][33];
  begin_kernel();
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
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

template <class T>
void through(Context& context, T* g, T* sums, const T* grad_y, const T* y, const Linear& shape) {
  if constexpr (std::is_same_v<T, float>) {
    // Many rows are split over blocks; a few are one block's work per 32 columns.
    if (shape.rows >= many_rows && shape.out % 4 == 0 && aligned(grad_y, 4) && aligned(y, 4) && aligned(g, 4)) {
      const Rows wide{shape.rows, shape.out, shape.out};
      const std::int64_t slices = sums == nullptr ? 0 : row_slices(wide);
      const Scratch partials(context, static_cast<std::size_t>(slices * shape.out) * sizeof(float));
      through_rows(context, g, partials.as<float>(), grad_y, y, wide, shape.activation);
      if (sums != nullptr) sum_slices<float>(context, nullptr, sums, partials.as<float>(), slices, 0, shape.out);
      return;
    }
  }
  launch(context, Grid(static_cast<unsigned>(ceil_div(shape.out, 32)), dim3(32, sum_rows)), through_kernel<T>, g, sums,
         grad_y, y, shape.rows, shape.out, shape.activation);
}

struct ToBf16 {
  __device__ bf16 operator()(float value) const { return __float2bfloat16_rn(value); }
};

/// An array rounded to bfloat16.
class Rounded {
 public:
  Rounded(Context& context, const float* array, std::int64_t count)
      : scratch_(context, static_cast<std::size_t>(count) * sizeof(bf16)) {
    map_packed<4>(context, count, ToBf16{}, scratch_.as<bf16>(), array);
  }
  const bf16* data() const { return scratch_.as<bf16>(); }

 private:
  Scratch scratch_;
};

// Its units want rows of whole 16 bytes; other products keep to TF32.
bool in_bf16(const Context& context, std::int64_t m, std::int64_t n, std::int64_t k) {
  return context.precision == Precision::bf16 && m % 8 == 0 && n % 8 == 0 && k % 8 == 0;
}

template <class T, class In>
void library_matmul(Context& context, T* out, const In* a, const In* b, const Matmul& shape) {
  if constexpr (std::is_same_v<In, float>) {
    if (in_bf16(context, shape.m, shape.n, shape.k)) {
      const Rounded left(context, a, (shape.stride_a == 0 ? 1 : shape.batch) * shape.m * shape.k);
      const Rounded right(context, b, (shape.stride_b == 0 ? 1 : shape.batch) * shape.k * shape.n);
      return library_matmul(context, out, left.data(), right.data(), shape);
    }
  }
  const LibraryPlan plan = library_plan(context, out, a, b, shape);
  const Scratch workspace(context, plan.workspace());
  library_product(plan, stream_of(context), workspace.as<void>(), out, a, b);
}

// ---- which way ----

bool fits_own(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / 2;
  return m < most && n < most && k < most && batch < 65536 && ceil_div(m, 32) * ceil_div(n, 32) < most / 8;
}

// Above this many multiply-adds the library's larger tiles win over what we fuse; only the library has tf32 units.
bool prefers_library(const Context& context, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch) {
  const double work =
      static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  return work > (context.precision != Precision::strict ? 4e7 : 2.2e8);
}

/// Everything that the choice between our kernel and the library may read: the slot, its sizes and flags, and the
/// arrays that it was given.
struct ProductKey {
  enum class Slot : std::uint8_t { matmul, linear, linear_backward } slot;
  std::array<std::int64_t, 8> sizes;
  Precision precision;
  std::array<std::uint32_t, 7> arrays;  // alignment_of each
  auto operator<=>(const ProductKey&) const = default;
};

template <class... Arrays>
ProductKey key_of(const Context& context, const Matmul& shape, const Arrays*... arrays) {
  const auto& [batch, m, n, k, transpose_a, transpose_b, stride_a, stride_b] = shape;
  return {ProductKey::Slot::matmul,
          {batch, m, n, k, transpose_a, transpose_b, stride_a, stride_b},
          context.precision,
          {alignment_of(arrays)...}};
}
template <class... Arrays>
ProductKey key_of(const Context& context, ProductKey::Slot slot, const Linear& shape, const Arrays*... arrays) {
  const auto& [rows, in, out, activation] = shape;
  return {slot, {rows, in, out, static_cast<std::int64_t>(activation)}, context.precision, {alignment_of(arrays)...}};
}

// Our kernel or the library. Under `deterministic` a rule on sizes decides, so that every process sums alike; else the
// first call outside a recording times both (outputs are overwritten, so repeating is harmless).
template <class Own, class Library>
void run_better(const Context& context, const char* decision, const ProductKey& key, bool rule_says_library,
                const Own& own, const Library& library) {
  struct Better;
  const std::string_view forced = forced_way(context, decision);
  bool by_library = forced == "library";
  if (forced.empty())
    by_library = (fastest<Better>(context, key, 2, [&](std::size_t i) {
                    return std::optional((i == 0) == rule_says_library ? microseconds(context, library)
                                                                       : microseconds(context, own));
                  }) == 0) == rule_says_library;
  took_way(context, decision, by_library ? "library" : "own");
  if (by_library)
    library();
  else
    own();
}

Factor factor(const float* data, std::int64_t stride, const float* mask = nullptr) {
  return {data, mask, stride, aligned(data, stride) && aligned(mask, stride)};
}

// ---- the slots ----

template <class T>
void matmul(Context& context, T* out, const T* a, const T* b, const Matmul& shape) {
  const auto& [batch, m, n, k, transpose_a, transpose_b, stride_a, stride_b] = shape;
  if (batch == 0 || m == 0 || n == 0) return;
  if (k == 0) {
    check(cudaMemsetAsync(out, 0, static_cast<std::size_t>(batch * m * n) * sizeof(T), stream_of(context)), "clearing");
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (fits_own(m, n, k, batch)) {
      Product product;
      product.a = factor(a, transpose_a ? m : k);
      product.b = factor(b, transpose_b ? k : n);
      product.a.aligned = product.a.aligned && (batch == 1 || stride_a % 4 == 0);
      product.b.aligned = product.b.aligned && (batch == 1 || stride_b % 4 == 0);
      product.out = out;
      product.aligned_out = aligned(out, n);
      product.m = static_cast<int>(m);
      product.n = static_cast<int>(n);
      product.k = static_cast<int>(k);
      const bool row_by_row = !transpose_a && transpose_b;
      return run_better(
          context, "matmul", key_of(context, shape, out, a, b), prefers_library(context, m, n, k, batch),
          [&] {
            own_product(context, product, transpose_a, transpose_b, choose_product(context, m, n, k, batch, row_by_row),
                        batch, stride_a, stride_b);
          },
          [&] { library_matmul(context, out, a, b, shape); });
    }
  }
  took_way(context, "matmul", "library");
  library_matmul(context, out, a, b, shape);
}

template <class T>
void library_linear(Context& context, T* y, const T* x, const T* weight, const T* bias, const Linear& shape) {
  const auto& [rows, in, out, activation] = shape;
  if (in == 0)
    check(cudaMemsetAsync(y, 0, static_cast<std::size_t>(rows * out) * sizeof(T), stream_of(context)), "clearing");
  else
    library_matmul(context, y, x, weight, Matmul{.m = rows, .n = out, .k = in, .transpose_b = true});
  if (bias != nullptr || activation != Activation::none)
    launch(context, Grid(blocks_for(rows * out), 256), bias_activation_kernel<T>, y, bias, rows * out, out, activation);
}

template <class T>
void linear(Context& context, T* y, const T* x, const T* weight, const T* bias, const Linear& shape) {
  const auto& [rows, in, out, activation] = shape;
  if (rows == 0 || out == 0) return;
  if constexpr (std::is_same_v<T, float>) {
    if (fits_own(rows, out, in, 1)) {
      Product product;
      product.a = factor(x, in);
      product.b = factor(weight, in);
      product.out = y;
      product.aligned_out = aligned(y, out);
      product.bias = bias;
      product.m = static_cast<int>(rows);
      product.n = static_cast<int>(out);
      product.k = static_cast<int>(in);
      product.activation = activation;
      return run_better(
          context, "linear", key_of(context, ProductKey::Slot::linear, shape, y, x, weight, bias),
          prefers_library(context, rows, out, in, 1),
          [&] { own_product(context, product, false, true, choose_product(context, rows, out, in, 1, true)); },
          [&] { library_linear(context, y, x, weight, bias, shape); });
    }
  }
  took_way(context, "linear", "library");
  library_linear(context, y, x, weight, bias, shape);
}

// Both products in one launch.
void own_linear_backward(Context& context, float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y,
                         const float* x, const float* weight, const float* y, const Linear& shape) {
  const auto& [rows, in, out, activation] = shape;
  const float* mask = activation == Activation::none ? nullptr : y;
  if (grad_bias != nullptr && grad_weight == nullptr) through<float>(context, nullptr, grad_bias, grad_y, y, shape);
  if (grad_weight == nullptr && grad_x == nullptr) return;
  Product for_weight, for_data;
  if (grad_weight != nullptr) {
    for_weight.a = factor(grad_y, out, mask);
    for_weight.b = factor(x, in);
    for_weight.out = grad_weight;
    for_weight.aligned_out = aligned(grad_weight, in);
    for_weight.sums = grad_bias;
    for_weight.m = static_cast<int>(out);
    for_weight.n = static_cast<int>(in);
    for_weight.k = static_cast<int>(rows);
    for_weight.through = activation;
  }
  if (grad_x != nullptr) {
    for_data.a = factor(grad_y, out, mask);
    for_data.b = factor(weight, in);
    for_data.out = grad_x;
    for_data.aligned_out = aligned(grad_x, in);
    for_data.m = static_cast<int>(rows);
    for_data.n = static_cast<int>(in);
    for_data.k = static_cast<int>(out);
    for_data.through = activation;
  }
  own_backward(context, for_weight, for_data,
               choose_backward(context, rows, in, out, grad_weight != nullptr, grad_x != nullptr));
}

template <class T, class In>
void library_gradients(Context& context, T* grad_x, T* grad_weight, const In* g, const In* x, const In* weight,
                       const Linear& shape) {
  const Matmul weight_shape{.m = shape.out, .n = shape.in, .k = shape.rows, .transpose_a = true};
  const Matmul data_shape{.m = shape.rows, .n = shape.in, .k = shape.out};
  if (grad_weight == nullptr || grad_x == nullptr || !may_fork(context)) {
    if (grad_weight != nullptr) library_matmul(context, grad_weight, g, x, weight_shape);
    if (grad_x != nullptr) library_matmul(context, grad_x, g, weight, data_shape);
    return;
  }
  // Independent of each other: in a replayed step they run side by side.
  const LibraryPlan weight_plan = library_plan(context, grad_weight, g, x, weight_shape);
  const LibraryPlan data_plan = library_plan(context, grad_x, g, weight, data_shape);
  const Scratch weight_workspace(context, weight_plan.workspace()), data_workspace(context, data_plan.workspace());
  const cudaStream_t side = fork(context);
  library_product(weight_plan, side, weight_workspace.as<void>(), grad_weight, g, x);
  library_product(data_plan, stream_of(context), data_workspace.as<void>(), grad_x, g, weight);
  join(context);
}

template <class T>
void library_linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                             const T* weight, const T* y, const Linear& shape) {
  const auto& [rows, in, out, activation] = shape;
  const bool masked = activation != Activation::none;
  const Scratch masked_gradient(context, masked ? static_cast<std::size_t>(rows * out) * sizeof(T) : 0);
  const T* g = masked ? masked_gradient.as<T>() : grad_y;
  if (masked || grad_bias != nullptr) through(context, masked_gradient.as<T>(), grad_bias, grad_y, y, shape);
  if constexpr (std::is_same_v<T, float>) {
    if (in_bf16(context, rows, in, out)) {
      const Rounded rounded_g(context, g, rows * out), rounded_x(context, x, grad_weight == nullptr ? 0 : rows * in),
          rounded_weight(context, weight, grad_x == nullptr ? 0 : out * in);
      return library_gradients(context, grad_x, grad_weight, rounded_g.data(), rounded_x.data(), rounded_weight.data(),
                               shape);
    }
  }
  library_gradients(context, grad_x, grad_weight, g, x, weight, shape);
}

template <class T>
void linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Linear& shape) {
  const auto& [rows, in, out, activation] = shape;
  const auto clear = [&](T* array, std::int64_t count) {
    if (array != nullptr && count > 0)
      check(cudaMemsetAsync(array, 0, static_cast<std::size_t>(count) * sizeof(T), stream_of(context)), "clearing");
  };
  if (rows == 0 || in == 0 || out == 0) {
    clear(grad_x, rows * in);
    clear(grad_weight, out * in);
    if (grad_bias != nullptr && out > 0) through<T>(context, nullptr, grad_bias, grad_y, y, shape);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (fits_own(rows, in, out, 1) && fits_own(out, in, rows, 1))
      return run_better(
          context, "linear_backward",
          key_of(context, ProductKey::Slot::linear_backward, shape, grad_x, grad_weight, grad_bias, grad_y, x, weight,
                 y),
          prefers_library(context, rows, in, out, 1),
          [&] { own_linear_backward(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, shape); },
          [&] { library_linear_backward(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, shape); });
  }
  took_way(context, "linear_backward", "library");
  library_linear_backward(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, shape);
}

}  // namespace

template <class T>
kernels::Dot<T> dot() {
  return {.matmul = matmul<T>, .linear = linear<T>, .linear_backward = linear_backward<T>};
}

template kernels::Dot<float> dot<float>();
template kernels::Dot<double> dot<double>();

}  // namespace tern::cuda
