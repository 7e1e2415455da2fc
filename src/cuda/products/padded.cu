#include "cuda/elementwise.cuh"
#include "cuda/fused.cuh"
#include "cuda/products/library.cuh"
#include "cuda/products/padded.cuh"

namespace tern::cuda::products {
namespace {

// ---- the copies ----

template <class T>
constexpr int lanes = 8 / static_cast<int>(sizeof(T));  // adjacent elements of a thread

template <class T>
__global__ void __launch_bounds__(256)
    pad_kernel(T* to, const T* from, std::uint32_t packs, Divisor<std::uint32_t> packs_per_row,
               Divisor<std::uint32_t> whole_rows, std::uint32_t columns, std::uint32_t rows) {
  constexpr int V = lanes<T>;
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads());
#pragma unroll 2
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < packs; i += step) {
    std::uint32_t matrix = i;
    const std::uint32_t column = packs_per_row.split(matrix) * V, row = whole_rows.split(matrix);
    const T* const at = from + (static_cast<std::int64_t>(matrix) * rows + row) * columns + column;
    Pack<T, V> pack{};
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      if (column + lane < columns && row < rows) pack.value[lane] = at[lane];
    store<V>(to + static_cast<std::int64_t>(i) * V, pack);
  }
}

/// `packed`: `to` is aligned. Gelu: in line, because a call for each element takes longer than its memory.
template <bool Gelu, class To, class From>
__global__ void __launch_bounds__(256)
    cut_kernel(To* to, const From* from, const To* bias, std::uint32_t count, Divisor<std::uint32_t> columns,
               Divisor<std::uint32_t> rows, int whole_columns, int whole_rows, Activation activation, bool packed) {
  constexpr int V = lanes<To>;
  begin_kernel();
  const auto step = static_cast<std::uint32_t>(global_threads()) * V;
#pragma unroll 2
  for (auto i = static_cast<std::uint32_t>(global_thread()) * V; i < count; i += step) {
    std::uint32_t matrix = i;
    std::uint32_t column = columns.split(matrix), row = rows.split(matrix);
    Pack<float, V> pack{};
#pragma unroll
    for (int lane = 0; lane < V; ++lane) {
      if (i + lane >= count) break;
      float value = widened(from[(static_cast<std::int64_t>(matrix) * whole_rows + row) * whole_columns + column]);
      if (bias != nullptr) value += widened(bias[column]);
      pack.value[lane] = Gelu ? value * normal_at(value).below : activate(value, activation);
      if (++column < columns.value()) continue;
      column = 0;
      if (++row == rows.value()) row = 0, ++matrix;
    }
    if (packed && i + V <= count) {
      store<V>(to + i, pack);
    } else {
#pragma unroll
      for (int lane = 0; lane < V; ++lane)
        if (i + lane < count) put(to[i + lane], pack.value[lane]);
    }
  }
}

using Divide = Divisor<std::uint32_t>;

template <class To, class From>
void cut_as(const Context& context, To* to, const From* from, const To* bias, const Copied& s, Activation activation) {
  const std::int64_t count = s.count * s.rows * s.columns;
  launch(context, Grid(blocks_for(ceil_div(count, lanes<To>)), 256),
         activation == Activation::gelu ? cut_kernel<true, To, From> : cut_kernel<false, To, From>, to, from, bias,
         static_cast<std::uint32_t>(count), Divide(s.columns), Divide(s.rows), static_cast<int>(s.whole_columns),
         static_cast<int>(s.whole_rows), activation, cuda::aligned<lanes<To>>(to));
}

// ---- the problem with whole rows ----

/// What the library computes: sizes along which some matrix is contiguous are whole. Rounded once: behind an epilogue
/// that the library has not, or does not have for these sizes, its output is float32.
Problem inner_of(const Problem& p) {
  Problem inner = p;
  inner.slot = Slot::matmul;
  inner.gradients = {};
  if (p.precision == Precision::bf16) inner.precision = Precision::tf32;
  inner.n = whole(p.n, p.in);
  if (!p.transpose_a || p.transpose_b) inner.k = whole(p.k, p.in);
  if (p.transpose_a) inner.m = whole(p.m, p.in);
  inner.stride_a = p.stride_a == 0 ? 0 : inner.m * inner.k;
  inner.stride_b = p.stride_b == 0 ? 0 : inner.k * inner.n;
  inner.inputs = {256, 256, 256, 0};
  inner.activation = Activation::none;
  if (p.inputs.bias == 0 && p.activation == Activation::none) return inner;
  const bool whole_out = inner.n == p.n && inner.m == p.m, clips = p.activation == Activation::relu;
  if (whole_out && p.inputs.bias != 0 && p.inputs.bias % 16 == 0 && (clips || p.activation == Activation::none)) {
    Problem fused = inner;
    fused.inputs.bias = p.inputs.bias;
    fused.activation = p.activation;
    if (next_algorithm(fused, -1) >= 0) return fused;
  }
  inner.out = Element::float32;
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

/// Whether the library writes the caller's array.
bool takes_out(const Problem& p, const Problem& inner, const Copies& of) {
  return of.out.is_whole() && inner.out == p.out;
}

struct Workspace {
  void *a, *b, *out, *rest;
  std::size_t bytes;
  Workspace(const Problem& p, const Copies& of, const Problem& inner, int plan, void* block) {
    Parts parts(block);
    const auto take = [&](bool taken, const Copied& copied, Element element) {
      return taken ? nullptr : parts.take(static_cast<std::size_t>(copied.elements() * bytes_of(element)));
    };
    a = take(of.a.is_whole(), of.a, p.in), b = take(of.b.is_whole(), of.b, p.in);
    out = take(takes_out(p, inner, of), of.out, inner.out);
    rest = parts.take(algorithm_workspace(inner, plan));
    bytes = parts.bytes();
  }
};

std::size_t workspace_of(const Problem& p, int plan) {
  const Problem inner = inner_of(p);
  return Workspace(p, Copies(p, inner), inner, plan, nullptr).bytes;
}
int next_plan(const Problem& p, int plan) { return next_algorithm(inner_of(p), plan); }

/// Where the library finds a factor.
const void* padded(const Context& context, Element element, void* to, const void* from, const Copied& sizes) {
  if (sizes.is_whole()) return from;
  pad(context, element, to, from, sizes);
  return to;
}

void run(Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace) {
  const Problem inner = inner_of(p);
  const Copies copies(p, inner);
  const Workspace in(p, copies, inner, plan, workspace);
  const void *const a = padded(context, p.in, in.a, arrays.a, copies.a), *const b = padded(context, p.in, in.b,
                                                                                           arrays.b, copies.b);
  void* const out = in.out == nullptr ? arrays.out : in.out;
  const bool fused = inner.inputs.bias != 0;
  run_algorithm(context, inner, {out, a, b, fused ? arrays.bias : nullptr}, plan, in.rest);
  const void* const bias = fused ? nullptr : arrays.bias;
  const Activation activation = fused ? Activation::none : p.activation;
  if (out == arrays.out && bias == nullptr && activation == Activation::none) return;
  cut(context, p.out, arrays.out, inner.out, out, bias, copies.out, activation);
}

bool fits(const Problem& p) {
  const auto whole_array = [](std::uint32_t alignment) { return alignment == 0 || alignment >= 16; };
  const bool tensor_cores = bytes_of(p.in) == 2 || (p.in == Element::float32 && p.precision != Precision::strict);
  if (!tensor_cores || p.out != p.in || p.pitch != 0 || card().code < 80 || p.batch * p.m * p.n * p.k == 0)
    return false;
  const Copies copies(p, inner_of(p));
  for (const Copied* one : {&copies.a, &copies.b, &copies.out})
    if (!one->fits()) return false;
  const bool dense = (p.stride_a == 0 || p.stride_a == p.m * p.k) && (p.stride_b == 0 || p.stride_b == p.k * p.n);
  // What is not copied is read as it lies.
  const bool aligned = (!copies.a.is_whole() || whole_array(p.inputs.a)) &&
                       (!copies.b.is_whole() || whole_array(p.inputs.b)) &&
                       (!copies.out.is_whole() || whole_array(p.inputs.out));
  return dense && aligned && copies.any();
}

bool pays(const Problem& p) {
  const Copies all(p, inner_of(p));
  double elements = 0;
  int copies = 0;
  for (const Copied* one : {&all.a, &all.b, &all.out})
    if (!one->is_whole()) elements += static_cast<double>(one->elements()), ++copies;
  return pays_in_copies(p, 2 * p.work(), 1, elements, copies);
}

}  // namespace

std::int64_t whole(std::int64_t size, Element element) {
  const std::int64_t of = 16 / bytes_of(element);
  return ceil_div(size, of) * of;
}

bool Copied::fits() const {
  return elements() < (std::int64_t{1} << 31) - (std::int64_t{1} << 24);  // so that steps have 32 bits
}

void pad(const Context& context, Element element, void* to, const void* from, const Copied& s) {
  const auto as = [&]<class T>(T* array) {
    constexpr int V = lanes<T>;
    launch(context, Grid(blocks_for(s.elements() / V), 256), pad_kernel<T>, array, static_cast<const T*>(from),
           static_cast<std::uint32_t>(s.elements() / V), Divide(s.whole_columns / V), Divide(s.whole_rows),
           static_cast<std::uint32_t>(s.columns), static_cast<std::uint32_t>(s.rows));
  };
  if (element == Element::bfloat16) return as(static_cast<BFloat16*>(to));
  if (element == Element::float16) return as(static_cast<Float16*>(to));
  as(static_cast<float*>(to));
}

void cut(const Context& context, Element to_element, void* to, Element from_element, const void* from, const void* bias,
         const Copied& sizes, Activation activation) {
  const auto as = [&]<class To>(To* array) {
    const auto* const shift = static_cast<const To*>(bias);
    if constexpr (is_half<To>)
      if (from_element == to_element)
        return cut_as(context, array, static_cast<const To*>(from), shift, sizes, activation);
    cut_as(context, array, static_cast<const float*>(from), shift, sizes, activation);
  };
  if (to_element == Element::bfloat16) return as(static_cast<BFloat16*>(to));
  if (to_element == Element::float16) return as(static_cast<Float16*>(to));
  as(static_cast<float*>(to));
}

// In seconds, on an H200: the library's kernels as the rows lie, and for whole rows.
bool pays_in_copies(const Problem& p, double operations, int products, double elements, int copies) {
  const bool halves = bytes_of(p.in) == 2, pairs = p.m % 2 == 0 && p.n % 2 == 0 && p.k % 2 == 0;
  const double slow_rate = !halves ? 8e13 : pairs ? 1.6e14 : 1e14, rate = halves ? 5e14 : 2.5e14;
  constexpr double slow_begin = 6e-6, begin = 5e-6, bytes_rate = 3e12, launched = 2e-6;
  // In 16 bits they begin slowly, unless they are short.
  const double more = halves ? products * std::min(slow_begin, operations / products / 1.5e14) : 0;
  const double copied = copies * launched + 2.0 * static_cast<double>(bytes_of(p.in)) * elements / bytes_rate;
  return products * begin + operations / rate + copied < products * slow_begin + more + operations / slow_rate;
}

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
