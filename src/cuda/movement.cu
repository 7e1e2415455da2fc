#include <cstring>
#include <type_traits>

#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"
#include "tern/core/convert.hpp"
#include "tern/kernels/movement.hpp"

namespace tern::cuda {
namespace {

using kernels::Strided;

// ---- units: elements of 1, 2, 4, 8 or 16 bytes, of any dtype ----

/// Calls `function(Unit{})` with the unit of that many bytes.
template <class Function>
void with_unit(std::size_t bytes, Function function) {
  switch (bytes) {
    case 1:
      return function(std::uint8_t{});
    case 2:
      return function(std::uint16_t{});
    case 4:
      return function(std::uint32_t{});
    case 8:
      return function(std::uint64_t{});
    default:
      return function(uint4{});
  }
}

struct Identity {
  template <class T>
  __device__ T operator()(T value) const {
    return value;
  }
};

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

// ---- strided copies ----

template <class Index>
struct StridedLayout {
  int rank = 0;
  Divisor<Index> size[kernels::max_rank];
  std::int64_t out[kernels::max_rank] = {}, in[kernels::max_rank] = {};
};

template <class Unit, class Index>
__global__ void copy_kernel(Index n, StridedLayout<Index> layout, Unit* out, const Unit* in) {
  begin_kernel();
  for (Index i = static_cast<Index>(global_thread()); i < n; i += static_cast<Index>(global_threads())) {
    Index rest = i;
    std::int64_t to = 0, from = 0;
#pragma unroll
    for (int from_last = 0; from_last < kernels::max_rank; ++from_last) {
      const int d = layout.rank - 1 - from_last;
      if (d < 0) break;
      const Index at = d == 0 ? rest : layout.size[d].split(rest);
      to += at * layout.out[d];
      from += at * layout.in[d];
    }
    out[to] = in[from];
  }
}

inline constexpr int tile = 32, tile_rows = 8;

/// One side is contiguous along dimension `a` (in), the other along `b` (out): tiles pass through shared memory, so
/// that both sides move whole lines.
struct Transpose {
  std::int64_t size_a = 0, out_a = 0, size_b = 0, in_b = 0;
  int rank = 0;  ///< of the other dimensions
  std::int64_t size[kernels::max_rank] = {}, out[kernels::max_rank] = {}, in[kernels::max_rank] = {};
  std::int64_t tiles_a = 0, tiles_b = 0, tiles = 0;
};

template <class Unit>
__global__ void transpose_kernel(Transpose p, Unit* out, const Unit* in) {
  begin_kernel();
  __shared__ Unit held[tile][tile + 1];
  for (std::int64_t item = blockIdx.x; item < p.tiles; item += gridDim.x) {
    const std::int64_t a = item % p.tiles_a * tile, b = item / p.tiles_a % p.tiles_b * tile;
    std::int64_t rest = item / p.tiles_a / p.tiles_b, to = 0, from = 0;
    for (int d = p.rank - 1; d >= 0; --d) {
      const std::int64_t at = rest % p.size[d];
      rest /= p.size[d];
      to += at * p.out[d];
      from += at * p.in[d];
    }
    const std::int64_t along_a = a + threadIdx.x, along_b = b + threadIdx.x;
#pragma unroll
    for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows) {
      if (along_a < p.size_a && b + row < p.size_b) held[row][threadIdx.x] = in[from + along_a + (b + row) * p.in_b];
    }
    __syncthreads();
#pragma unroll
    for (int row = static_cast<int>(threadIdx.y); row < tile; row += tile_rows) {
      if (along_b < p.size_b && a + row < p.size_a) out[to + along_b + (a + row) * p.out_a] = held[threadIdx.x][row];
    }
    __syncthreads();
  }
}

/// Images of a few planes, whose elements the output has side by side: channels last.
struct Interleave {
  const void* in;
  void* out;
  std::int64_t plane, in_image, out_image;  ///< distances, in elements
  Divisor<std::uint32_t> of_image;          ///< items of an image
  std::uint32_t items;
};

/// An item is V adjacent places of all planes.
template <class Unit, int channels, int V>
__global__ void interleave_kernel(const __grid_constant__ Interleave p) {
  begin_kernel();
  for (auto i = static_cast<std::uint32_t>(global_thread()); i < p.items;
       i += static_cast<std::uint32_t>(global_threads())) {
    std::uint32_t image = i;
    const std::uint32_t at = p.of_image.split(image) * V;
    const Unit* const from = static_cast<const Unit*>(p.in) + image * p.in_image + at;
    Unit* const to = static_cast<Unit*>(p.out) + image * p.out_image + at * channels;
    Pack<Unit, V> planes[channels], places[channels];
#pragma unroll
    for (int c = 0; c < channels; ++c) planes[c] = *reinterpret_cast<const Pack<Unit, V>*>(from + c * p.plane);
#pragma unroll
    for (int e = 0; e < channels * V; ++e) places[e / V].value[e % V] = planes[e % channels].value[e / channels];
#pragma unroll
    for (int c = 0; c < channels; ++c) *reinterpret_cast<Pack<Unit, V>*>(to + c * V) = places[c];
  }
}

/// The dimension that is contiguous in memory, or -1.
int unit_stride(const Strided& shape, const std::int64_t* stride) {
  for (int d = shape.rank - 1; d >= 0; --d) {
    if (stride[d] == 1 && shape.size[d] > 1) return d;
  }
  return -1;
}

/// Merges pairs of adjacent elements into one element, if the innermost dimension, the strides and the addresses allow
/// it on both sides.
bool widen(Strided& shape, std::size_t element, const void* out, const void* in) {
  const int last = shape.rank - 1;
  if (element >= 16 || last < 0 || shape.out[last] != 1 || shape.in[last] != 1 || shape.size[last] % 2 != 0)
    return false;
  const auto addresses = reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in);
  if (addresses % (2 * element) != 0) return false;
  for (int d = 0; d < last; ++d) {
    if (shape.out[d] % 2 != 0 || shape.in[d] % 2 != 0) return false;
  }
  for (int d = 0; d < last; ++d) {
    shape.out[d] /= 2;
    shape.in[d] /= 2;
  }
  shape.size[last] /= 2;
  shape.count /= 2;
  return true;
}

template <class Unit>
void copy_tiles(Context& context, void* out, const void* in, const Strided& shape, int a, int b) {
  Transpose p;
  p.size_a = shape.size[a];
  p.out_a = shape.out[a];
  p.size_b = shape.size[b];
  p.in_b = shape.in[b];
  p.tiles_a = ceil_div(p.size_a, tile);
  p.tiles_b = ceil_div(p.size_b, tile);
  p.tiles = p.tiles_a * p.tiles_b;
  for (int d = 0; d < shape.rank; ++d) {
    if (d == a || d == b) continue;
    p.size[p.rank] = shape.size[d];
    p.out[p.rank] = shape.out[d];
    p.in[p.rank++] = shape.in[d];
    p.tiles *= shape.size[d];
  }
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(p.tiles, 1 << 30));
  launch(context, Grid(blocks, dim3(tile, tile_rows)), transpose_kernel<Unit>, p, static_cast<Unit*>(out),
         static_cast<const Unit*>(in));
}

/// Whether it was such a copy of 2 to 4 planes, which is queued then.
template <class Unit>
bool copy_interleaved(Context& context, void* out, const void* in, const Strided& shape) {
  constexpr int V = pack_size<Unit>;
  const int c = shape.rank - 1, at = c - 1;
  if (at < 0 || c > 2 || shape.size[c] < 2 || shape.size[c] > 4 || shape.out[c] != 1 || shape.in[at] != 1 ||
      shape.out[at] != shape.size[c] || shape.in[c] <= 0)
    return false;
  const std::int64_t channels = shape.size[c], places = shape.size[at], images = shape.count / (places * channels);
  Interleave p{in, out, shape.in[c], c == 2 ? shape.in[0] : 0, c == 2 ? shape.out[0] : 0, {}, 0};
  const bool packs = (places | p.plane | p.in_image | p.out_image) % V == 0 && aligned<V>(static_cast<Unit*>(out)) &&
                     aligned<V>(static_cast<const Unit*>(in));
  const std::int64_t of_image = packs ? places / V : places, items = images * of_image;
  if (items >= std::int64_t{1} << 30 || places * channels >= std::int64_t{1} << 31) return false;
  p.of_image = Divisor<std::uint32_t>(of_image), p.items = static_cast<std::uint32_t>(items);
  const auto start = [&](auto count) {
    constexpr int number = decltype(count)::value;
    launch(context, item_grid(items), packs ? interleave_kernel<Unit, number, V> : interleave_kernel<Unit, number, 1>,
           p);
  };
  if (channels == 2) start(std::integral_constant<int, 2>{});
  if (channels == 3) start(std::integral_constant<int, 3>{});
  if (channels == 4) start(std::integral_constant<int, 4>{});
  return true;
}

template <class Unit>
void copy_elements(Context& context, void* out, const void* in, const Strided& shape) {
  with_index(shape.count, [&](auto zero) {
    using Index = decltype(zero);
    StridedLayout<Index> layout;
    layout.rank = shape.rank;
    for (int d = 0; d < shape.rank; ++d) {
      layout.size[d] = Divisor<Index>(shape.size[d]);
      layout.out[d] = shape.out[d];
      layout.in[d] = shape.in[d];
    }
    launch(context, Grid(blocks_for(shape.count), 256), copy_kernel<Unit, Index>, static_cast<Index>(shape.count),
           layout, static_cast<Unit*>(out), static_cast<const Unit*>(in));
  });
}

// ---- gather ----

template <class Unit>
__global__ void gather_kernel(Unit* out, const Unit* in, const std::int64_t* index, std::int64_t rows,
                              std::int64_t in_rows, std::int64_t row_units, Divisor<std::uint32_t> divisor,
                              FaultCell* cell) {
  begin_kernel();
  const bool narrow = rows * row_units < (std::int64_t{1} << 31);
  for (std::int64_t i = global_thread(); i < rows * row_units; i += global_threads()) {
    const std::int64_t row = narrow ? divisor.quotient(static_cast<std::uint32_t>(i)) : i / row_units;
    const std::int64_t column = i - row * row_units, from = index[row];
    const bool bad = from < 0 || from >= in_rows;
    if (bad && column == 0) report(cell, Fault::index, from, in_rows);
    out[i] = bad ? Unit{} : in[from * row_units + column];
  }
}

// ---- cast ----

template <class To>
struct Convert {
  template <class From>
  __device__ To operator()(From value) const {
    return tern::convert<To>(value);
  }
};

// ---- the slots ----

void copy_contiguous(Context& context, void* out, const void* in, std::int64_t n, std::size_t element) {
  with_unit(element, [&](auto unit) {
    using Unit = decltype(unit);
    map(context, n, Identity{}, static_cast<Unit*>(out), static_cast<const Unit*>(in));
  });
}

void copy(Context& context, void* out, const void* in, const Strided& sizes, std::size_t element) {
  if (sizes.count == 0) return;
  Strided shape = sizes;
  if (shape.rank == 0 || (shape.rank == 1 && shape.out[0] == 1 && shape.in[0] == 1))
    return copy_contiguous(context, out, in, shape.count, element);
  const int a = unit_stride(shape, shape.in), b = unit_stride(shape, shape.out);
  if (a >= 0 && b >= 0 && a != b && shape.size[a] >= 8 && shape.size[b] >= 8) {
    with_unit(element, [&](auto unit) { copy_tiles<decltype(unit)>(context, out, in, shape, a, b); });
    return;
  }
  if (element == 2 && copy_interleaved<std::uint16_t>(context, out, in, shape)) return;
  if (element == 4 && copy_interleaved<std::uint32_t>(context, out, in, shape)) return;
  while (widen(shape, element, out, in)) element *= 2;
  with_unit(element, [&](auto unit) { copy_elements<decltype(unit)>(context, out, in, shape); });
}

void fill(Context& context, void* out, std::int64_t n, const void* value, std::size_t element) {
  with_unit(element, [&](auto unit) {
    std::memcpy(&unit, value, sizeof unit);
    map(context, n, Constant<decltype(unit)>{unit}, static_cast<decltype(unit)*>(out));
  });
}

void gather(Context& context, void* out, const void* in, const std::int64_t* index, std::int64_t rows,
            std::int64_t in_rows, std::int64_t row_bytes) {
  if (rows * row_bytes == 0) return;
  const auto low_bits = reinterpret_cast<std::uintptr_t>(out) | reinterpret_cast<std::uintptr_t>(in) |
                        static_cast<std::uintptr_t>(row_bytes) | 16;
  const std::size_t bytes = low_bits & ~(low_bits - 1);
  with_unit(bytes, [&](auto unit) {
    using Unit = decltype(unit);
    const std::int64_t row_units = row_bytes / static_cast<std::int64_t>(sizeof(Unit)), n = rows * row_units;
    const unsigned threads = threads_for(n);
    launch(context, Grid(blocks_for(n, threads), threads), gather_kernel<Unit>, static_cast<Unit*>(out),
           static_cast<const Unit*>(in), index, rows, in_rows, row_units, Divisor<std::uint32_t>(row_units),
           fault_cell(context));
  });
}

void cast(Context& context, void* out, DType to, const void* in, DType from, std::int64_t n) {
  if (to == from) return copy_contiguous(context, out, in, n, size_of(to));
  with_type_of(to, [&]<class To>(To) {
    with_type_of(from, [&]<class From>(From) {
      if constexpr (!std::is_same_v<To, From>)
        map_packed<4>(context, n, Convert<To>{}, static_cast<To*>(out), static_cast<const From*>(in));
    });
  });
}

}  // namespace

kernels::Movement movement() { return {.copy = copy, .fill = fill, .gather = gather, .cast = cast}; }

}  // namespace tern::cuda
