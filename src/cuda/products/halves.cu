// Products of 16-bit arrays: by the library, with float32 sums. Alignments that it refuses are converted for the
// kernels of float32.

#include <algorithm>
#include <array>
#include <optional>

#include "cuda/cuda.hpp"
#include "cuda/fused_rows.cuh"
#include "cuda/halves.cuh"
#include "cuda/products/gemv.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"
#include "cuda/products/slots.cuh"
#include "cuda/streams.cuh"

namespace tern::cuda::products {
namespace {

using kernels::Linear;
using kernels::Matmul;

const kernels::Dot<float>& of_float() {
  static const kernels::Dot<float> kernels = dot<float>();
  return kernels;
}

// ---- the algorithm ----

/// Whether the library adds the bias and applies the activation. With other sizes it rounds before it adds.
bool fuses(const Problem& p) {
  const auto whole = [](std::int64_t size) { return size % 8 == 0; };
  return p.inputs.bias != 0 && (p.activation == Activation::none || p.activation == Activation::relu) && whole(p.n) &&
         whole(p.k) && p.inputs.a % 16 == 0 && p.inputs.b % 16 == 0 && p.inputs.out % 16 == 0 &&
         next_algorithm(p, -1) >= 0;
}
/// The library's part of it. Without its epilogue it writes float32, and a second kernel rounds.
Problem part(const Problem& p) {
  if (p.activation == Activation::none && p.inputs.bias == 0) return p;
  Problem whole = p;
  whole.slot = Slot::matmul;
  if (fuses(whole)) return whole;
  whole.activation = Activation::none;
  whole.inputs.bias = 0;
  whole.inputs.out = 256;
  whole.out = Element::float32;
  return whole;
}

struct LibraryParts {
  void *wide, *rest;
  std::size_t bytes;
  LibraryParts(const Problem& p, const Problem& mine, int plan, void* workspace) {
    Parts parts(workspace);
    wide = mine.out == p.out ? nullptr : parts.take(static_cast<std::size_t>(p.m * p.n) * sizeof(float));
    rest = parts.take(algorithm_workspace(mine, plan));
    bytes = parts.bytes();
  }
};

template <class T>
__global__ void bias_activation_kernel(T* y, const float* in, const T* bias, std::int64_t count,
                                       Divisor<std::uint32_t> out, std::int64_t columns, Activation activation) {
  begin_kernel();
  const bool narrow = count < (std::int64_t{1} << 31);
  for (std::int64_t i = global_thread(); i < count; i += global_threads()) {
    const std::int64_t row = narrow ? out.quotient(static_cast<std::uint32_t>(i)) : i / columns;
    put(y[i], activate(bias == nullptr ? in[i] : in[i] + widened(bias[i - row * columns]), activation));
  }
}

void run_library(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  const Problem mine = part(p);
  const LibraryParts parts(p, mine, plan, workspace);
  if (mine.out == p.out) return run_algorithm(context, mine, arrays, plan, parts.rest);
  run_algorithm(context, mine, {parts.wide, arrays.a, arrays.b}, plan, parts.rest);
  const std::int64_t count = p.m * p.n;
  with_elements(p.out, arrays.out, [&]<class T>(T* y) {
    if constexpr (is_half<T>) {
      const auto* const in = static_cast<const float*>(parts.wide);
      const auto* const bias = static_cast<const T*>(arrays.bias);
      if (p.n % 4 == 0 && cuda::aligned<4>(y))
        return finish_rows(context, y, in, bias, Rows{p.m, p.n, p.n}, p.activation);
      launch(context, Grid(blocks_for(count), 256), bias_activation_kernel<T>, y, in, bias, count,
             Divisor<std::uint32_t>(p.n), p.n, p.activation);
    }
  });
}

const Algorithm library{
    .name = "library",
    .fits = [](const Problem& p) { return next_algorithm(part(p), -1) >= 0; },
    .workspace = [](const Problem& p, int plan) { return LibraryParts(p, part(p), plan, nullptr).bytes; },
    .run = run_library,
    .next_plan = [](const Problem& p, int plan) { return next_algorithm(part(p), plan); }};
constexpr std::array by_library{&library};
constexpr std::array forward{&padded_first, &library, &padded_last};

// ---- the gradient of a weight from few rows: writing it takes the time ----

constexpr int outer_threads = 256, outer_rows = 32;  // rows of out of a block
/// Adjacent columns of a thread: it writes 16 bytes of a row.
template <class Out>
constexpr int outer_lanes = 16 / sizeof(Out);

/// out [m, n] = a^T b, for a [k, m] and b [k, n].
template <class Out, class T>
__global__ void __launch_bounds__(outer_threads)
    outer_kernel(Out* out, const T* a, const T* b, std::int64_t m, std::int64_t n, int k) {
  begin_kernel();
  constexpr int lanes = outer_lanes<Out>;
  const std::int64_t column = (blockIdx.x * std::int64_t{outer_threads} + threadIdx.x) * lanes;
  if (column >= n) return;
  Pack<float, lanes> factors[most_gemv];
#pragma unroll
  for (int i = 0; i < most_gemv; ++i)
    if (i < k) factors[i] = load<lanes>(b + i * n + column);
  const std::int64_t first = blockIdx.y * std::int64_t{outer_rows}, end = min(first + outer_rows, m);
#pragma unroll 4
  for (std::int64_t row = first; row < end; ++row) {
    Pack<float, lanes> sum{};
#pragma unroll
    for (int i = 0; i < most_gemv; ++i) {
      if (i >= k) continue;
      const float factor = widened(a[i * m + row]);
#pragma unroll
      for (int lane = 0; lane < lanes; ++lane)
        sum.value[lane] = ::fmaf(factor, factors[i].value[lane], sum.value[lane]);
    }
    store<lanes>(out + row * n + column, sum);
  }
}

void run_outer(Context& context, const Problem& p, const Arrays& arrays, int, void*) {
  const auto run = [&]<class Out, class T>(Out* out, const T* a) {
    launch(context,
           Grid(dim3(static_cast<unsigned>(ceil_div(p.n, outer_lanes<Out> * outer_threads)),
                     static_cast<unsigned>(ceil_div(p.m, outer_rows))),
                outer_threads),
           outer_kernel<Out, T>, out, a, static_cast<const T*>(arrays.b), p.m, p.n, static_cast<int>(p.k));
  };
  with_elements(p.in, const_cast<void*>(arrays.a), [&]<class T>(const T* a) {
    if constexpr (is_half<T>)
      p.out == p.in ? run(static_cast<T*>(arrays.out), a) : run(static_cast<float*>(arrays.out), a);
  });
}

const Algorithm gemv_gradient{.name = "gemv",
                              .fits =
                                  [](const Problem& p) {
                                    return p.transpose_a && !p.transpose_b && p.batch == 1 && p.k <= most_gemv &&
                                           p.n % 8 == 0 && p.m <= std::int64_t{65535} * outer_rows &&
                                           p.inputs.out % 16 == 0 && p.inputs.b % 16 == 0;
                                  },
                              .run = run_outer};
constexpr std::array by_gemv{&gemv_gradient};

void set_inputs(Problem& problem, const Arrays& arrays) {
  problem.inputs = {alignment_of(arrays.out), alignment_of(arrays.a), alignment_of(arrays.b),
                    alignment_of(arrays.bias)};
}

/// Whether it ran.
bool run(Context& context, const char* decision, Problem problem, const Arrays& arrays) {
  set_inputs(problem, arrays);
  if (problem.k == 0) return false;
  if (!library.fits(problem) && !padded_first.fits(problem) && !padded_last.fits(problem)) return false;
  Prepared<Problem, Arrays>(context, decision, forward, problem, arrays).run(context);
  return true;
}

// ---- the slots ----

template <class T>
void matmul(Context& context, T* out, const T* a, const T* b, const Matmul& shape) {
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0) return;
  if (run(context, "matmul", problem_of(context, Slot::matmul, element_of<T>, shape), {out, a, b})) return;
  InFloat arrays(context);
  const std::int64_t count = shape.batch * shape.m * shape.n;
  const auto span = [&](std::int64_t rows, std::int64_t columns, std::int64_t stride) {
    return rows * columns == 0 ? 0 : (shape.batch - 1) * stride + rows * columns;
  };
  float* const to = arrays.out(out, count);
  of_float().matmul(context, to, arrays.in(a, span(shape.m, shape.k, shape.stride_a)),
                    arrays.in(b, span(shape.k, shape.n, shape.stride_b)), shape);
  arrays.round(out, to, count);
}

template <class T>
void linear(Context& context, T* y, const T* x, const T* weight, const T* bias, const Linear& shape) {
  if (shape.rows == 0 || shape.out == 0) return;
  if (run(context, "linear", problem_of<T>(context, Slot::linear, shape), {y, x, weight, bias})) return;
  InFloat arrays(context);
  float* const to = arrays.out(y, shape.rows * shape.out);
  of_float().linear(context, to, arrays.in(x, shape.rows * shape.in), arrays.in(weight, shape.out * shape.in),
                    arrays.in(bias, shape.out), shape);
  arrays.round(y, to, shape.rows * shape.out);
}

template <class T>
void backward_in_float(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                       const T* weight, const T* y, const Linear& shape) {
  InFloat arrays(context);
  const bool wide = shape.wide_parameters;
  const std::int64_t images = shape.rows * shape.in, weights = shape.out * shape.in, outputs = shape.rows * shape.out;
  float* const to_x = arrays.out(grad_x, images);
  float* const to_weight = wide ? reinterpret_cast<float*>(grad_weight) : arrays.out(grad_weight, weights);
  float* const to_bias = wide ? reinterpret_cast<float*>(grad_bias) : arrays.out(grad_bias, shape.out);
  of_float().linear_backward(context, to_x, to_weight, to_bias, arrays.in(grad_y, outputs), arrays.in(x, images),
                             arrays.in(weight, weights), arrays.in(y, outputs), shape);
  arrays.round(grad_x, to_x, images);
  if (wide) return;
  arrays.round(grad_weight, to_weight, weights);
  arrays.round(grad_bias, to_bias, shape.out);
}

// ---- a backward pass by its products ----

/// Through an activation g is a copy.
Problem product_of(const Problem& layer, bool of_weight) {
  constexpr std::uint32_t of_workspace = 256;
  Matmul shape{.m = layer.m, .n = layer.k, .k = layer.n};
  if (of_weight) shape = {.m = layer.n, .n = layer.k, .k = layer.m, .transpose_a = true};
  Problem product{shape};
  product.in = layer.in;
  product.out = of_weight ? layer.out : layer.in;
  product.precision = layer.precision;
  product.deterministic = layer.deterministic;
  product.rule = layer.rule;
  product.device = layer.device;
  const std::uint32_t g = layer.activation == Activation::none ? layer.gradients.out : of_workspace;
  product.inputs = of_weight ? Problem::Alignments{layer.gradients.b, g, layer.inputs.a}
                             : Problem::Alignments{layer.gradients.a, g, layer.inputs.b};
  return product;
}

template <class T>
void run_products(Context& context, const Problem& p, const Gradients& to, Candidates<Problem, Arrays> for_weight) {
  const Rows rows{p.m, p.n, p.n};
  const bool masked = p.activation != Activation::none, bias = to.grad_bias != nullptr;
  const Scratch made(context, masked ? static_cast<std::size_t>(p.m * p.n) * sizeof(T) : 0);
  const void* const g = masked ? made.as<void>() : to.grad_y;
  const std::int64_t slices = bias ? row_slices(rows) : 0;
  const Scratch partials(context, static_cast<std::size_t>(slices * p.n) * sizeof(float));
  if (masked || bias)
    through_rows(context, made.as<T>(), partials.as<float>(), static_cast<const T*>(to.grad_y),
                 masked ? static_cast<const T*>(to.y) : nullptr, rows, p.activation);
  using Half = Prepared<Problem, Arrays>;
  std::optional<Half> data, weights;
  if (to.grad_x != nullptr)
    data.emplace(context, nullptr, by_library, product_of(p, false), Arrays{to.grad_x, g, to.weight});
  if (to.grad_weight != nullptr)
    weights.emplace(context, nullptr, for_weight, product_of(p, true), Arrays{to.grad_weight, g, to.x});
  run_side_by_side(context, data, weights, [&](const Context& where) {
    if (bias) sum_bias(where, static_cast<T*>(to.grad_bias), p.out != p.in, partials.as<float>(), slices, p.n);
  });
}
void run_products(Context& context, const Problem& p, const Gradients& to, Candidates<Problem, Arrays> for_weight) {
  if (p.in == Element::bfloat16) return run_products<BFloat16>(context, p, to, for_weight);
  run_products<Float16>(context, p, to, for_weight);
}

bool fits_products(const Problem& p) {
  return p.work() > 0 && p.n <= most_through_channels && (p.gradients.a == 0 || library.fits(product_of(p, false))) &&
         (p.gradients.b == 0 || library.fits(product_of(p, true)));
}

using Backward = cuda::Algorithm<Problem, Gradients>;
const Backward padded_backward_first{
    .name = "padded",
    .fits = [](const Problem& p) { return fits_padded_backward(p) && prefers_padded_backward(p); },
    .run = [](Context& context, const Problem& p, const Gradients& to, int,
              void*) { padded_backward(context, p, to); }};
const Backward padded_backward_last{.name = "padded", .fits = fits_padded_backward, .run = padded_backward_first.run};
const Backward gemv_backward_halves{.name = "gemv",
                                    .fits =
                                        [](const Problem& p) {
                                          return p.gradients.b != 0 && gemv_gradient.fits(product_of(p, true)) &&
                                                 fits_products(p);
                                        },
                                    .run = [](Context& context, const Problem& p, const Gradients& to, int,
                                              void*) { run_products(context, p, to, by_gemv); }};
const Backward library_backward{.name = "library",
                                .fits = fits_products,
                                .run = [](Context& context, const Problem& p, const Gradients& to, int, void*) {
                                  run_products(context, p, to, by_library);
                                }};
constexpr std::array backward{&padded_backward_first, &gemv_backward_halves, &library_backward, &padded_backward_last};

template <class T>
void linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Linear& shape) {
  Problem problem = problem_of<T>(context, Slot::linear_backward, shape);
  if (shape.wide_parameters) problem.out = Element::float32;
  problem.inputs = {alignment_of(y), alignment_of(x), alignment_of(weight)};
  problem.gradients = {alignment_of(grad_y), alignment_of(grad_x), alignment_of(grad_weight), alignment_of(grad_bias)};
  const auto fits = [&](const Backward* algorithm) { return algorithm->fits(problem); };
  if (std::none_of(backward.begin(), backward.end(), fits))
    return backward_in_float(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, shape);
  Prepared<Problem, Gradients>(context, "linear_backward", backward, problem,
                               Gradients{grad_x, grad_weight, grad_bias, grad_y, x, weight, y})
      .run(context);
}

template <class T>
kernels::Dot<T> of_halves() {
  return {.matmul = matmul<T>, .linear = linear<T>, .linear_backward = linear_backward<T>};
}

}  // namespace
}  // namespace tern::cuda::products

namespace tern::cuda {

template <>
kernels::Dot<BFloat16> dot<BFloat16>() {
  return products::of_halves<BFloat16>();
}
template <>
kernels::Dot<Float16> dot<Float16>() {
  return products::of_halves<Float16>();
}

}  // namespace tern::cuda
