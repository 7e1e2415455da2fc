#pragma once
// Shared by both passes of rows with their own statistics: their sizes, rows held in registers, and single elements of
// longer rows.

#include "cuda/reduce.cuh"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda::row_normalization {

using kernels::Axis;
using kernels::RowNorm;

/// The sizes in the card's types.
struct Rows {
  std::int64_t count, length, groups, area, channels;  ///< channels: of a row
  Divisor<std::uint32_t> by_area;
  bool narrow;  ///< positions in a row fit the divisor

  explicit Rows(const RowNorm& sizes)
      : count(sizes.rows),
        length(sizes.length),
        groups(sizes.groups),
        area(sizes.area),
        channels(sizes.length / sizes.area),
        by_area(sizes.area),
        narrow(sizes.length < (std::int64_t{1} << 31)) {}

  __device__ std::int64_t first_parameter(std::int64_t row) const { return groups == 1 ? 0 : row % groups * channels; }
  __device__ std::int64_t channel(std::int64_t i) const {
    return area == 1 ? i : narrow ? by_area.quotient(static_cast<std::uint32_t>(i)) : i / area;
  }
  /// Those of elements i to i + V of a row; `otherwise` if absent.
  template <int V, class T>
  __device__ Pack<T, V> parameters(const T* values, std::int64_t first, std::int64_t i, T otherwise) const {
    Pack<T, V> pack;
    if (values != nullptr && area == 1) return load<V>(values + first + i);
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      pack.value[lane] = values == nullptr ? otherwise : values[first + channel(i + lane)];
    return pack;
  }
};

// ---- rows in registers ----

/// `Packs` packs per thread.
template <int Packs, int V, class T>
struct Held {
  Pack<T, V> pack[Packs];
};

/// Calls use(k, i) for this thread's packs of a row: the k-th begins at element i.
template <int Threads, int Packs, int V, class Use>
__device__ __forceinline__ void each_pack(int length, Use use) {
#pragma unroll
  for (int k = 0; k < Packs; ++k)
    if (const int i = (Group<Threads>::rank() + k * Threads) * V; i < length) use(k, i);
}

template <int Threads, int Packs, int V, class T>
__device__ __forceinline__ Held<Packs, V, Scalar<T>> held_row(const T* from, int length) {
  Held<Packs, V, Scalar<T>> held;
  each_pack<Threads, Packs, V>(length, [&](int k, int i) { held.pack[k] = load<V>(from + i); });
  return held;
}

/// Rows for the blocks below `blocks`.
template <int Threads, class Work>
__device__ __forceinline__ void for_rows(std::int64_t rows, unsigned blocks, Work work) {
  const std::int64_t step = std::int64_t{blocks} * (blockDim.x / Threads);
  for (std::int64_t row = std::int64_t{blockIdx.x} * (blockDim.x / Threads) + threadIdx.x / Threads; row < rows;
       row += step)
    work(row);
}

template <int Threads>
inline constexpr int block_threads = Threads > 128 ? Threads : 128;

template <int Threads, int Packs>
struct HeldShape {
  static constexpr int threads = Threads, packs = Packs;
};

constexpr std::int64_t many_rows = 2048;  // enough to fill the card with rows of few threads, which synchronise with
                                          // few others

/// Calls `function(HeldShape<Threads, Packs>{})` with the shape for rows of `packs` packs, or for their gradients,
/// which leave room for those of weight and bias on the same multiprocessors; false if there is none.
template <bool gradients, class Function>
bool with_held(std::int64_t rows, std::int64_t packs, Function function) {
  if (packs <= 64)
    function(HeldShape<32, 2>{});
  else if (packs <= 256 && rows >= many_rows)
    function(HeldShape<32, 8>{});
  else if (packs <= 256)
    function(HeldShape<128, 2>{});
  else if (packs <= 512)
    function(HeldShape<256, 2>{});
  else if (packs <= 1024 && rows >= many_rows)
    function(HeldShape<128, 8>{});
  else if (packs <= 1024)
    function(HeldShape < gradients ? 256 : 512, gradients ? 4 : 2 > {});
  else if (packs <= 2048)
    function(HeldShape<512, 4>{});
  else
    return false;
  return true;
}

// ---- elements of longer rows ----

template <int V, class Index, class Pass>
__global__ void elements_kernel(Index packs, Divisor<Index> row_packs, Rows rows, Pass pass) {
  begin_kernel();
  const Index step = static_cast<Index>(global_threads());
  for (Index i = static_cast<Index>(global_thread()); i < packs; i += step) {
    const Index row = row_packs.quotient(i);
    pass.template run<V>(rows, static_cast<std::int64_t>(row),
                         static_cast<std::int64_t>(i - row * row_packs.value()) * V);
  }
}

/// Runs `pass` on the elements of rows with known statistics or sums.
template <int V, class Pass>
void over_elements(Context& context, const Rows& rows, const Pass& pass) {
  const std::int64_t row_packs = rows.length / V, packs = rows.count * row_packs;
  with_index(packs, [&](auto zero) {
    using Index = decltype(zero);
    launch(context, Grid(blocks_for(packs), 256), elements_kernel<V, Index, Pass>, static_cast<Index>(packs),
           Divisor<Index>(row_packs), rows, pass);
  });
}

/// Whether packs of V elements of rows and parameters may be read.
template <int V, class... Ts>
bool packable(const RowNorm& sizes, const Ts*... pointers) {
  return sizes.length % V == 0 && (aligned<V>(pointers) && ...);
}

}  // namespace tern::cuda::row_normalization
