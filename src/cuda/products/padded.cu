#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"
#include "cuda/products/slots.cuh"

namespace tern::cuda::products {
namespace {

// ---- the copies ----

/// Matrices one behind the other: `rows` by `columns` within whole ones, which have zeros around them.
struct Copied {
  std::int64_t count, rows, columns, whole_rows, whole_columns;
  bool is_whole() const { return rows == whole_rows && columns == whole_columns; }
  std::int64_t elements() const { return count * whole_rows * whole_columns; }
};

__global__ void __launch_bounds__(256)
    pad_kernel(float* to, const float* from, std::uint32_t count, Divisor<std::uint32_t> whole_columns,
               Divisor<std::uint32_t> whole_rows, std::uint32_t columns, std::uint32_t rows) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
#pragma unroll 4
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count; i += step) {
    std::uint32_t matrix = i;
    const std::uint32_t column = whole_columns.split(matrix), row = whole_rows.split(matrix);
    const std::int64_t at = (static_cast<std::int64_t>(matrix) * rows + row) * columns + column;
    to[i] = column < columns && row < rows ? from[at] : 0.0f;
  }
}

/// Back, with bias and activation.
__global__ void __launch_bounds__(256)
    finish_kernel(float* to, const float* from, const float* bias, std::uint32_t count, Divisor<std::uint32_t> columns,
                  Divisor<std::uint32_t> rows, int whole_columns, int whole_rows, Activation activation) {
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
#pragma unroll 4
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < count; i += step) {
    std::uint32_t matrix = i;
    const std::uint32_t column = columns.split(matrix), row = rows.split(matrix);
    const float value = from[(static_cast<std::int64_t>(matrix) * whole_rows + row) * whole_columns + column];
    to[i] = activate(bias == nullptr ? value : value + bias[column], activation);
  }
}

// ---- the problem with whole rows ----

std::int64_t whole(std::int64_t size) { return ceil_div(size, 4) * 4; }

/// What the library computes: sizes along which some matrix is contiguous are multiples of four.
Problem inner_of(const Problem& p) {
  Problem inner = p;
  inner.slot = Slot::matmul;
  inner.activation = Activation::none;
  inner.gradients = {};
  inner.inputs = {256, 256, 256, 0};
  if (p.precision == Precision::bf16) inner.precision = Precision::tf32;
  inner.n = whole(p.n);
  if (!p.transpose_a || p.transpose_b) inner.k = whole(p.k);
  if (p.transpose_a) inner.m = whole(p.m);
  inner.stride_a = p.stride_a == 0 ? 0 : inner.m * inner.k;
  inner.stride_b = p.stride_b == 0 ? 0 : inner.k * inner.n;
  return inner;
}

struct Copies {
  Copied a, b, out;
  Copies(const Problem& p, const Problem& inner)
      : a(factor_of(p.stride_a == 0 ? 1 : p.batch, p.transpose_a, p.m, p.k, inner.m, inner.k)),
        b(factor_of(p.stride_b == 0 ? 1 : p.batch, p.transpose_b, p.k, p.n, inner.k, inner.n)),
        out{p.batch, p.m, p.n, inner.m, inner.n} {}
  bool any() const { return !a.is_whole() || !b.is_whole() || !out.is_whole(); }

 private:
  static Copied factor_of(std::int64_t count, bool transposed, std::int64_t rows, std::int64_t columns,
                          std::int64_t whole_rows, std::int64_t whole_columns) {
    if (transposed) return {count, columns, rows, whole_columns, whole_rows};
    return {count, rows, columns, whole_rows, whole_columns};
  }
};

struct Workspace {
  void *a, *b, *out, *rest;
  std::size_t bytes;
  Workspace(const Copies& of, const Problem& inner, int plan, void* block) {
    Parts parts(block);
    const auto take = [&](const Copied& copied) {
      return copied.is_whole() ? nullptr : parts.take(static_cast<std::size_t>(copied.elements()) * sizeof(float));
    };
    a = take(of.a), b = take(of.b), out = take(of.out);
    rest = parts.take(algorithm_workspace(inner, plan));
    bytes = parts.bytes();
  }
};

std::size_t workspace_of(const Problem& p, int plan) {
  const Problem inner = inner_of(p);
  return Workspace(Copies(p, inner), inner, plan, nullptr).bytes;
}
int next_plan(const Problem& p, int plan) { return next_algorithm(inner_of(p), plan); }

using Divide = Divisor<std::uint32_t>;

/// Where the library finds a factor.
const void* padded(const Context& context, void* to, const void* from, const Copied& s) {
  if (s.is_whole()) return from;
  launch(context, Grid(blocks_for(s.elements()), 256), pad_kernel, static_cast<float*>(to),
         static_cast<const float*>(from), static_cast<std::uint32_t>(s.elements()), Divide(s.whole_columns),
         Divide(s.whole_rows), static_cast<std::uint32_t>(s.columns), static_cast<std::uint32_t>(s.rows));
  return to;
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  Problem inner = inner_of(p);
  const Copies copies(p, inner);
  const Workspace in(copies, inner, plan, workspace);
  const void *const a = padded(context, in.a, arrays.a, copies.a), *const b = padded(context, in.b, arrays.b, copies.b);
  const Copied& s = copies.out;
  void* const out = s.is_whole() ? arrays.out : in.out;
  run_algorithm(context, inner, {out, a, b}, plan, in.rest);
  if (s.is_whole() && arrays.bias == nullptr && p.activation == Activation::none) return;
  launch(context, Grid(blocks_for(s.count * s.rows * s.columns), 256), finish_kernel, static_cast<float*>(arrays.out),
         static_cast<const float*>(out), static_cast<const float*>(arrays.bias),
         static_cast<std::uint32_t>(s.count * s.rows * s.columns), Divide(s.columns), Divide(s.rows),
         static_cast<int>(s.whole_columns), static_cast<int>(s.whole_rows), p.activation);
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - (std::int64_t{1} << 24);  // so that steps have 32 bits
  const auto whole_array = [](std::uint32_t alignment) { return alignment == 0 || alignment >= 16; };
  if (p.in != Element::float32 || p.out != Element::float32 || p.precision == Precision::strict || p.pitch != 0 ||
      card().code < 80 || p.batch * p.m * p.n * p.k == 0)
    return false;
  const Copies copies(p, inner_of(p));
  for (const Copied* one : {&copies.a, &copies.b, &copies.out})
    if (one->elements() >= most) return false;
  const bool dense = (p.stride_a == 0 || p.stride_a == p.m * p.k) && (p.stride_b == 0 || p.stride_b == p.k * p.n);
  // What is not copied is read as it lies.
  const bool aligned = (!copies.a.is_whole() || whole_array(p.inputs.a)) &&
                       (!copies.b.is_whole() || whole_array(p.inputs.b)) &&
                       (!copies.out.is_whole() || whole_array(p.inputs.out));
  return dense && aligned && copies.any();
}

/// In seconds, on an H200: the library's kernels as the rows lie, and for whole rows.
bool pays(const Problem& p) {
  constexpr double slow_rate = 8e13, slow_begin = 6e-6, rate = 2.5e14, begin = 5e-6;
  constexpr double bytes_rate = 3e12, launched = 2e-6;
  const Copies all(p, inner_of(p));
  double copies = 0;
  for (const Copied* one : {&all.a, &all.b, &all.out})
    if (!one->is_whole()) copies += launched + 2.0 * sizeof(float) * static_cast<double>(one->elements()) / bytes_rate;
  const double operations = 2 * p.work();
  return begin + operations / rate + copies < slow_begin + operations / slow_rate;
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
