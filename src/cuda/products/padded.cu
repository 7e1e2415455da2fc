#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"
#include "cuda/products/slots.cuh"

namespace tern::cuda::products {
namespace {

// ---- the copies ----

/// Rows of `columns` numbers, copied to a pitch. Behind them are zeros.
__global__ void __launch_bounds__(256)
    pad_kernel(float* to, const float* from, std::uint32_t count, Divisor<std::uint32_t> pitch, int columns) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
#pragma unroll 4
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count; i += step) {
    std::uint32_t row = i;
    const auto column = static_cast<int>(pitch.split(row));
    to[i] = column < columns ? from[static_cast<std::int64_t>(row) * columns + column] : 0.0f;
  }
}

/// Back, with bias and activation.
__global__ void __launch_bounds__(256)
    finish_kernel(float* to, const float* from, const float* bias, std::uint32_t count, Divisor<std::uint32_t> columns,
                  int pitch, Activation activation) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
#pragma unroll 4
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count; i += step) {
    std::uint32_t row = i;
    const std::uint32_t column = columns.split(row);
    const float value = from[static_cast<std::int64_t>(row) * pitch + column];
    to[i] = activate(bias == nullptr ? value : value + bias[column], activation);
  }
}

// ---- the problem with whole rows ----

std::int64_t whole(std::int64_t columns) { return ceil_div(columns, 4) * 4; }

/// A factor as it is stored: `count` matrices one behind the other.
struct Stored {
  std::int64_t count, rows, columns;
  std::int64_t pitch() const { return whole(columns); }
  bool is_whole() const { return pitch() == columns; }
  std::int64_t elements() const { return count * rows * pitch(); }
};
Stored stored_a(const Problem& p) {
  const std::int64_t count = p.stride_a == 0 ? 1 : p.batch;
  return p.transpose_a ? Stored{count, p.k, p.m} : Stored{count, p.m, p.k};
}
Stored stored_b(const Problem& p) {
  const std::int64_t count = p.stride_b == 0 ? 1 : p.batch;
  return p.transpose_b ? Stored{count, p.n, p.k} : Stored{count, p.k, p.n};
}
Stored stored_out(const Problem& p) { return {p.batch, p.m, p.n}; }

/// What the library computes.
Problem inner_of(const Problem& p) {
  Problem inner = p;
  inner.slot = Slot::matmul;
  inner.activation = Activation::none;
  inner.inputs.bias = 0;
  inner.gradients = {};
  if (p.precision == Precision::bf16) inner.precision = Precision::tf32;
  const auto widen = [](const Stored& of, std::int64_t& pitch, std::int64_t& stride, std::uint32_t& alignment) {
    if (of.is_whole()) return;
    pitch = of.pitch();
    stride = stride == 0 ? 0 : of.rows * of.pitch();
    alignment = 256;
  };
  widen(stored_a(p), inner.pitch_a, inner.stride_a, inner.inputs.a);
  widen(stored_b(p), inner.pitch_b, inner.stride_b, inner.inputs.b);
  if (const Stored out = stored_out(p); !out.is_whole()) inner.pitch = out.pitch(), inner.inputs.out = 256;
  return inner;
}

struct Copies {
  void *a, *b, *out, *rest;
  std::size_t bytes;
  Copies(const Problem& p, const Problem& inner, int plan, void* workspace) {
    Parts parts(workspace);
    const auto take = [&](const Stored& of) {
      return of.is_whole() ? nullptr : parts.take(static_cast<std::size_t>(of.elements()) * sizeof(float));
    };
    a = take(stored_a(p)), b = take(stored_b(p)), out = take(stored_out(p));
    rest = parts.take(algorithm_workspace(inner, plan));
    bytes = parts.bytes();
  }
};

std::size_t workspace_of(const Problem& p, int plan) { return Copies(p, inner_of(p), plan, nullptr).bytes; }
int next_plan(const Problem& p, int plan) { return next_algorithm(inner_of(p), plan); }

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  const Problem inner = inner_of(p);
  const Copies copies(p, inner, plan, workspace);
  const auto pad = [&](void* to, const void* from, const Stored& of) -> const void* {
    if (of.is_whole()) return from;
    launch(context, Grid(blocks_for(of.elements()), 256), pad_kernel, static_cast<float*>(to),
           static_cast<const float*>(from), static_cast<std::uint32_t>(of.elements()),
           Divisor<std::uint32_t>(of.pitch()), static_cast<int>(of.columns));
    return to;
  };
  const Stored of_out = stored_out(p);
  void* const out = of_out.is_whole() ? arrays.out : copies.out;
  const void *const a = pad(copies.a, arrays.a, stored_a(p)), *const b = pad(copies.b, arrays.b, stored_b(p));
  run_algorithm(context, inner, {out, a, b}, plan, copies.rest);
  if (of_out.is_whole() && arrays.bias == nullptr && p.activation == Activation::none) return;
  launch(context, Grid(blocks_for(p.batch * p.m * p.n), 256), finish_kernel, static_cast<float*>(arrays.out),
         static_cast<const float*>(out), static_cast<const float*>(arrays.bias),
         static_cast<std::uint32_t>(p.batch * p.m * p.n), Divisor<std::uint32_t>(p.n), static_cast<int>(of_out.pitch()),
         p.activation);
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const Stored all[]{stored_a(p), stored_b(p), stored_out(p)};
  for (const Stored& one : all)
    if (one.rows * one.columns == 0 || one.elements() >= most - (std::int64_t{1} << 24)) return false;
  const bool dense = (p.stride_a == 0 || p.stride_a == all[0].rows * all[0].columns) &&
                     (p.stride_b == 0 || p.stride_b == all[1].rows * all[1].columns);
  return p.in == Element::float32 && p.out == Element::float32 && p.precision != Precision::strict && p.pitch == 0 &&
         dense && card().code >= 80 && !(all[0].is_whole() && all[1].is_whole() && all[2].is_whole());
}

/// In seconds, on an H200.
bool pays(const Problem& p) {
  constexpr double slow = 9e13, fast = 3.5e14, bytes_rate = 3e12, launched = 3e-6;
  double copies = 0;
  for (const Stored& one : {stored_a(p), stored_b(p), stored_out(p)})
    if (!one.is_whole()) copies += launched + 2.0 * sizeof(float) * static_cast<double>(one.elements()) / bytes_rate;
  return copies < 2 * p.work() * (1 / slow - 1 / fast);
}

}  // namespace

const Algorithm padded_first{.name = "padded",
                             .fits = [](const Problem& p) { return fits(p) && pays(p); },
                             .workspace = workspace_of,
                             .run = run,
                             .next_plan = next_plan};
const Algorithm padded_last{.name = "padded",
                            .fits = [](const Problem& p) { return fits(p) && !pays(p); },
                            .workspace = workspace_of,
                            .run = run,
                            .next_plan = next_plan};

}  // namespace tern::cuda::products
