#include <array>

#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/products/gemv.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"
#include "cuda/products/sliced.cuh"
#include "cuda/products/slots.cuh"
#include "cuda/streams.cuh"

namespace tern::cuda::products {

std::string text_of(const Problem& p) {
  constexpr const char* slots[]{"matmul", "linear", "linear_backward"};
  return message(slots[static_cast<int>(p.slot)], " ", p.batch, " times ", p.m, " x ", p.k, p.transpose_a ? "^T" : "",
                 " by ", p.k, " x ", p.n, p.transpose_b ? "^T, " : ", ", name_of(p.in), ", ", name_of(p.precision),
                 p.deterministic ? ", deterministic" : "", p.rule == tuning::Rule::plain ? ", plain cuts" : "",
                 p.device == 0 ? std::string() : message(", card ", p.device));
}

namespace {

using kernels::Linear;
using kernels::Matmul;

// ---- our own kernels ----

// Above this many multiply-adds the library's larger tiles beat our fused kernels, on an H200.
bool prefers_library(const Problem& p) {
  const bool strict = p.precision == Precision::strict;
  return p.work() > (strict ? 2.2e8 : p.slot == Slot::linear ? 1e8 : 1.6e7);
}
bool fits_own(const Problem& p) { return p.in == Element::float32 && fits_tiles(p.m, p.n, p.k, p.batch); }

Product product_of(const Problem& p, const Arrays& arrays) {
  Product product;
  product.a = factor(arrays.a, p.transpose_a ? p.m : p.k);
  product.b = factor(arrays.b, p.transpose_b ? p.k : p.n);
  product.a.aligned = product.a.aligned && (p.batch == 1 || p.stride_a % 4 == 0);
  product.b.aligned = product.b.aligned && (p.batch == 1 || p.stride_b % 4 == 0);
  product.out = static_cast<float*>(arrays.out);
  product.aligned_out = aligned(arrays.out, p.n);
  product.bias = static_cast<const float*>(arrays.bias);
  product.m = static_cast<int>(p.m);
  product.n = static_cast<int>(p.n);
  product.k = static_cast<int>(p.k);
  product.activation = p.activation;
  return product;
}

void run_own(Context& context, const Problem& p, const Arrays& arrays, int, void*) {
  own_product(context, product_of(p, arrays), p, tiling_of(context, p));
}
void run_sliced(Context& context, const Problem& p, const Arrays& arrays, int, void*) {
  sliced_product(context, product_of(p, arrays), p);
}
void run_gemv(Context& context, const Problem& p, const Arrays& arrays, int, void*) {
  gemv_product(context, product_of(p, arrays));
}

// ---- the library, and what it does not fuse ----

template <class T>
__global__ void bias_activation_kernel(T* y, const T* bias, std::int64_t count, std::int64_t out,
                                       Activation activation) {
  begin_kernel();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    y[i] = activate(bias == nullptr ? y[i] : y[i] + bias[i % out], activation);
}

std::int64_t count_a(const Problem& p) { return (p.stride_a == 0 ? 1 : p.batch) * p.m * p.k; }
std::int64_t count_b(const Problem& p) { return (p.stride_b == 0 ? 1 : p.batch) * p.k * p.n; }

/// The library's part of the problem: bfloat16 factors are in the workspace. It adds the bias, and applies relu, if it
/// has a kernel for that; else they follow.
Problem of_library(const Problem& requested) {
  Problem problem = requested;
  problem.slot = Slot::matmul;
  problem.activation = Activation::none;
  problem.inputs.bias = 0;
  if (in_bf16(requested)) {
    problem.in = Element::bfloat16;
    problem.inputs.a = problem.inputs.b = 256;
  }
  if (requested.out != Element::float32 || requested.inputs.bias == 0 || requested.inputs.bias % 16 != 0)
    return problem;
  Problem fused = problem;
  fused.inputs.bias = requested.inputs.bias;
  if (requested.activation == Activation::relu) fused.activation = Activation::relu;
  return next_algorithm(fused, -1) < 0 ? problem : fused;
}

int next_of_library(const Problem& p, int plan) {
  return p.k == 0 ? (plan < 0 ? 0 : -1) : next_algorithm(of_library(p), plan);
}

struct LibraryParts {
  void *a, *b, *rest;
  std::size_t bytes;
  LibraryParts(const Problem& p, int plan, void* workspace) {
    Parts parts(workspace);
    a = in_bf16(p) ? parts.take(rounded_bytes(count_a(p))) : nullptr;
    b = in_bf16(p) ? parts.take(rounded_bytes(count_b(p))) : nullptr;
    rest = parts.take(algorithm_workspace(of_library(p), plan));
    bytes = parts.bytes();
  }
};
std::size_t workspace_of_library(const Problem& p, int plan) {
  return p.k == 0 ? 0 : LibraryParts(p, plan, nullptr).bytes;
}

template <class T>
void finish(Context& context, const Problem& p, const Arrays& arrays) {
  if (arrays.bias == nullptr && p.activation == Activation::none) return;
  T* const out = static_cast<T*>(arrays.out);
  const T* const bias = static_cast<const T*>(arrays.bias);
  if constexpr (std::is_same_v<T, float>)
    if (p.n % 4 == 0 && cuda::aligned<4>(out))
      return finish_rows(context, out, out, bias, Rows{p.m, p.n, p.n}, p.activation);
  launch(context, Grid(blocks_for(p.m * p.n), 256), bias_activation_kernel<T>, out, bias, p.m * p.n, p.n, p.activation);
}

void run_library(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  Problem left = p;
  Arrays rest = arrays;
  if (p.k == 0) {
    check(cudaMemsetAsync(arrays.out, 0, static_cast<std::size_t>(p.batch * p.m * p.n * bytes_of(p.out)),
                          stream_of(context)),
          "clearing");
  } else {
    const LibraryParts parts(p, plan, workspace);
    const Problem of = of_library(p);
    Arrays on{arrays.out, arrays.a, arrays.b};
    if (of.inputs.bias != 0) {
      on.bias = arrays.bias;
      rest.bias = nullptr;
      if (of.activation == p.activation) left.activation = Activation::none;
    }
    if (in_bf16(p)) {
      round(context, parts.a, arrays.a, count_a(p));
      round(context, parts.b, arrays.b, count_b(p));
      on.a = parts.a;
      on.b = parts.b;
    }
    run_algorithm(context, of, on, plan, parts.rest);
  }
  p.out == Element::float64 ? finish<double>(context, left, rest) : finish<float>(context, left, rest);
}

// ---- the algorithms ----

// With `deterministic`, rules on sizes decide, so that every process sums in the same order.
const Algorithm sliced_first{
    .name = "sliced", .fits = [](const Problem& p) { return fits_sliced(p) && prefers_sliced(p); }, .run = run_sliced};
const Algorithm sliced_last{.name = "sliced", .fits = fits_sliced, .run = run_sliced};
const Algorithm library_first{"library", [](const Problem& p) { return !fits_own(p) || prefers_library(p); },
                              workspace_of_library, run_library, next_of_library};
const Algorithm library_last{"library", [](const Problem& p) { return fits_own(p) && !prefers_library(p); },
                             workspace_of_library, run_library, next_of_library};
const Algorithm own{.name = "own", .fits = fits_own, .run = run_own};
const Algorithm gemv{.name = "gemv", .fits = fits_gemv, .run = run_gemv};
constexpr std::array forward{&gemv, &sliced_first, &padded_first, &library_first,
                             &own,  &library_last, &sliced_last,  &padded_last};

void run(Context& context, const char* decision, Problem problem, const Arrays& arrays) {
  problem.inputs = {alignment_of(arrays.out), alignment_of(arrays.a), alignment_of(arrays.b),
                    alignment_of(arrays.bias)};
  Prepared<Problem, Arrays>(context, decision, forward, problem, arrays).run(context);
}

// ---- the slots ----

template <class T>
void matmul(Context& context, T* out, const T* a, const T* b, const Matmul& shape) {
  if (shape.batch == 0 || shape.m == 0 || shape.n == 0) return;
  Problem problem = problem_of(context, Slot::matmul, element_of<T>, shape);
  if (shape.k == 0) return run_library(context, problem, {out, a, b}, 0, nullptr);
  run(context, "matmul", problem, {out, a, b});
}

template <class T>
void linear(Context& context, T* y, const T* x, const T* weight, const T* bias, const Linear& shape) {
  if (shape.rows == 0 || shape.out == 0) return;
  run(context, "linear", problem_of<T>(context, Slot::linear, shape), {y, x, weight, bias});
}

}  // namespace
}  // namespace tern::cuda::products

namespace tern::cuda {

template <class T>
kernels::Dot<T> dot() {
  return {
      .matmul = products::matmul<T>, .linear = products::linear<T>, .linear_backward = products::linear_backward<T>};
}

template kernels::Dot<float> dot<float>();
template kernels::Dot<double> dot<double>();

}  // namespace tern::cuda
