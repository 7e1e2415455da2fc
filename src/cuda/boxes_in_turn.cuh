#pragma once
// Products by boxes (implicit_boxes.cuh) with more tiles than the card runs at once: a block takes several in turn, and
// requests the stages of the next ones before it finishes the results of one.

#include "cuda/implicit_boxes.cuh"

namespace tern::cuda::implicit_boxes {

/// One thread's requests, for all tiles of a block in their order.
template <class Tile>
struct RequestsInTurn {
  const Boxes& p;
  std::uint8_t* ring;
  std::uint64_t* full;
  int total;  ///< stages
  int tile = static_cast<int>(blockIdx.x), at = 0, requested = 0;

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  __device__ __forceinline__ void next() {
    const int slot = requested % Tile::stages;
    int row, column;
    p.tiles_n.split(tile, row, column);
    const Requests<Tile> requests{p, ring, full, 0, row * Tile::rows, column * Tile::columns};
    requests.weights(at, slot), requests.of_x(at, slot, requests.window());
    ++requested;
    if (++at == p.steps) at = 0, tile += static_cast<int>(gridDim.x);
  }
#endif
};

/// run_tile for several, without clusters.
template <class Tile, class Cores, class Channels, class Product>
__device__ __forceinline__ void run_tiles(std::uint8_t* shared, const Product& product) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const Boxes& p = product.boxes;
  std::uint8_t* const ring = shared + (1024 - shared_address(shared) % 1024) % 1024;
  auto* const full = reinterpret_cast<std::uint64_t*>(ring + Tile::stages * Tile::stage_bytes);
  std::uint64_t* const empty = full + Tile::stages;
  const int first = static_cast<int>(blockIdx.x), by = static_cast<int>(gridDim.x);
  RequestsInTurn<Tile> requests{p, ring, full, (p.tiles - first + by - 1) / by * p.steps};
  if (threadIdx.x == 0) {
    fetch_map(p.x), fetch_map(p.weight);
#pragma unroll 1
    for (int i = 0; i < Tile::stages; ++i) start_barrier(full + i, 1), start_barrier(empty + i, Tile::threads / 32);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  let_next_start();
  if (threadIdx.x == 0) {
    await_previous();
#pragma unroll 1
    while (requests.requested < min(Tile::stages, requests.total)) requests.next();
  }
  __syncthreads();
  await_previous();
  __syncwarp();
  int slot = 0, phase = 0;
#pragma unroll 1
  for (int tile = first; tile < p.tiles; tile += by) {
    WarpSums<Tile, Cores> sums;
    int row, column;
    p.tiles_n.split(tile, row, column);
    const int first_row = row * Tile::rows, o = column * Tile::columns + sums.in_n + sums.lane % 4 * Tile::adjacent;
#pragma unroll 1
    for (int at = 0; at < p.steps; ++at) {
      // The stage that all warps have left is filled again.
      if (threadIdx.x == 0 && (tile > first || at > 0) && requests.requested < requests.total) {
        const int left = slot == 0 ? Tile::stages - 1 : slot - 1;
        await(empty + left, slot == 0 ? phase ^ 1 : phase);
        requests.next();
      }
      await(full + slot, phase);
      __syncwarp();
      sums.add(ring + slot * Tile::stage_bytes);
      __syncwarp();
      if (sums.lane == 0) arrive(empty + slot);
      if (++slot == Tile::stages) slot = 0, phase ^= 1;
    }
    if (o >= p.O) continue;
    Channels channels;
    channels.load(product, o);
    typename Channels::Fetched fetched[Tile::units];
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit)
      if (first_row + sums.row_of(unit) < p.positions)
        fetched[unit] = channels.fetch(product, first_row + sums.row_of(unit));
#pragma unroll
    for (int unit = 0; unit < Tile::units; ++unit) {
      typename Cores::Sum of_row[Tile::adjacent];
      sums.take(of_row, unit);
      if (first_row + sums.row_of(unit) < p.positions)
        channels.finish(product, first_row + sums.row_of(unit), of_row, fetched[unit]);
    }
  }
#endif
}

}  // namespace tern::cuda::implicit_boxes
