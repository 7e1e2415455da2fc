#pragma once
// Shared by both passes of rows with their own statistics: their sizes, shapes of held rows, and single elements of
// longer rows.

#include "cuda/held_rows.cuh"
#include "tern/kernels/normalization.hpp"

namespace tern::cuda::row_normalization {

using kernels::Axis;
using kernels::RowNorm;

/// The sizes in the card's types.
struct Rows {
  std::int64_t count, length, groups, area, channels;  ///< channels: of a row
  Divisor<std::uint32_t> by_area, by_length;
  bool narrow, narrow_arrays;  ///< positions in a row, or in an array, fit the divisors

  explicit Rows(const RowNorm& sizes)
      : count(sizes.rows),
        length(sizes.length),
        groups(sizes.groups),
        area(sizes.area),
        channels(sizes.length / sizes.area),
        by_area(sizes.area),
        by_length(sizes.length),
        narrow(sizes.length < (std::int64_t{1} << 31)),
        narrow_arrays(sizes.rows * sizes.length < (std::int64_t{1} << 31)) {}

  __device__ std::int64_t first_parameter(std::int64_t row) const { return groups == 1 ? 0 : row % groups * channels; }
  __device__ std::int64_t row(std::int64_t offset) const {
    return narrow_arrays ? by_length.quotient(static_cast<std::uint32_t>(offset)) : offset / length;
  }
  __device__ std::int64_t channel(std::int64_t i) const {
    return area == 1 ? i : narrow ? by_area.quotient(static_cast<std::uint32_t>(i)) : i / area;
  }
  /// Those of elements i to i + V of a row; `otherwise` if absent.
  template <int V, class T>
  __device__ Pack<T, V> parameters(const T* values, std::int64_t first, std::int64_t i, T otherwise) const {
    Pack<T, V> pack;
    if (values != nullptr && area == 1) return load<V>(values + first + i);
    if (values != nullptr && area % V == 0) otherwise = values[first + channel(i)], values = nullptr;
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      pack.value[lane] = values == nullptr ? otherwise : values[first + channel(i + lane)];
    return pack;
  }
};

// ---- rows in registers ----

/// Calls function(HeldRow<Threads, Packs, V>{}) with the shape for rows of `packs` packs, or for their gradients, which
/// leave room for those of weight and bias on the same multiprocessors; false if there is none.
template <int V, bool gradients, class Function>
bool with_held(std::int64_t rows, std::int64_t packs, Function function) {
  const bool many = rows >= many_rows;
  constexpr bool alone = gradients || V == 1;  // a warp's registers hold no more than 256 packs
  if (packs <= 64)
    function(HeldRow<32, 2, V>{});
  else if (packs <= 256 && many)
    function(HeldRow<32, 8, V>{});
  else if (!alone && packs <= 320 && many)
    function(HeldRow < 32, alone ? 8 : 10, V > {});
  else if (!alone && packs <= 512 && many)
    function(HeldRow < 128, alone ? 8 : 4, V > {});
  else if (packs <= 256)
    function(HeldRow<128, 2, V>{});
  else if (packs <= 512)
    function(HeldRow<256, 2, V>{});
  else if (!alone && packs <= 768 && rows < 4 * many_rows)
    function(HeldRow < 256, alone ? 4 : 3, V > {});
  else if (!alone && packs > 768 && packs <= 1024)
    function(HeldRow<256, 4, V>{});
  else if (packs <= 1024 && many)
    function(HeldRow<128, 8, V>{});
  else if (V == 1 && !gradients && packs <= 2048 && many)
    function(HeldRow < 128, V == 1 && !gradients ? 16 : 8, V > {});
  else if (packs <= 1024)
    function(HeldRow < gradients ? 256 : 512, gradients ? 4 : 2, V > {});
  else if (packs <= 2048)
    function(HeldRow<512, 4, V>{});
  else if (V == 1 && packs <= 4096)
    function(HeldRow < 512, V == 1 ? 8 : 4, V > {});
  else if (V == 1 && packs <= 8192)
    function(HeldRow < 512, V == 1 ? 16 : 4, V > {});
  else
    return false;
  return true;
}

// ---- elements of longer rows ----

template <int V, class Index, class Pass>
__global__ void elements_kernel(Index packs, Divisor<Index> row_packs, const __grid_constant__ Rows rows,
                                const __grid_constant__ Pass pass) {
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
