#pragma once
// The gradients of attention by warpgroups, as in backward.cuh.

#include "cuda/attention/backward.cuh"
#include "cuda/attention/group_ring.cuh"
#include "cuda/attention/group_window.cuh"

namespace tern::cuda::scaled_dot_product {

template <class T, int Width, int Step, int Groups>
struct GroupBackwardShape {
  static constexpr int rows = 64 * Groups, threads = 128 * Groups, own = rows * Width, other = Step * Width;
  static constexpr int stages = 3;
  static constexpr std::size_t column_bytes = sizeof(float) * 2 * stages * Step;
  static constexpr std::size_t tile_bytes = sizeof(T) * (2 * own + 2 * stages * other);
  static constexpr std::size_t bytes = tile_bytes + column_bytes + sizeof(std::uint64_t) * GroupRing<stages>::count;
};

struct BackwardBoxes {
  CUtensorMap query, key, value, grad;

  template <int Width, class T>
  bool encode(const Backward<T>& pass, const Sizes& sizes) {
    return encode_boxes<Width>(query, pass.query, sizes.query, sizes.queries, sizes.width, sizes) &&
           encode_boxes<Width>(key, pass.key, sizes.key, sizes.keys, sizes.width, sizes) &&
           encode_boxes<Width>(value, pass.value, sizes.value, sizes.keys, sizes.values, sizes) &&
           encode_boxes<Width>(grad, pass.grad, sizes.grad, sizes.queries, sizes.values, sizes);
  }
};

/// Requests what a block of Walk<OfKeys> reads. Its steps count from 0.
template <bool OfKeys, class Shape, int Width, int Step, class T>
struct BackwardRequests {
  const BackwardBoxes& boxes;
  const Walk<OfKeys, T, Shape::rows, Step>& walk;
  GroupRing<Shape::stages> ring;
  T *own, *others;
  float* columns;

  /// A barrier's arrivals for a step: that of the thread that requests boxes, and those of copied columns.
  static constexpr int arrivals = OfKeys ? 33 : 1;

  __device__ __forceinline__ BackwardRequests(const BackwardBoxes& from, const Walk<OfKeys, T, Shape::rows, Step>& by,
                                              unsigned char* raw)
      : boxes(from),
        walk(by),
        ring{reinterpret_cast<std::uint64_t*>(raw + Shape::tile_bytes + Shape::column_bytes)},
        own(reinterpret_cast<T*>(raw)),
        others(own + 2 * Shape::own),
        columns(reinterpret_cast<float*>(raw + Shape::tile_bytes)) {}

  __device__ __forceinline__ HeadPlace place(const kernels::HeadStrides& strides) const {
    return HeadPlace(walk.sizes, strides, walk.head);
  }
  __device__ __forceinline__ T* other(int step) const { return others + ring.slot(step) * 2 * Shape::other; }
  __device__ __forceinline__ T* other_value(int step) const { return other(step) + Shape::other; }
  __device__ __forceinline__ float* columns_of(int step) const { return columns + ring.slot(step) * 2 * Step; }

  /// For one thread.
  __device__ __forceinline__ void own_rows() const {
    ring.expect(ring.own(), 2 * sizeof(T) * Shape::own);
    request_rows<Shape::rows, Width>(own, OfKeys ? boxes.key : boxes.query, walk.first,
                                     place(OfKeys ? walk.sizes.key : walk.sizes.query), ring.own());
    request_rows<Shape::rows, Width>(own + Shape::own, OfKeys ? boxes.value : boxes.grad, walk.first,
                                     place(OfKeys ? walk.sizes.value : walk.sizes.grad), ring.own());
  }
  /// For a warp.
  __device__ __forceinline__ void rows_of(int step) const {
    const int row = walk.row(walk.at + step), lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0) {
      ring.expect(ring.full(step), 2 * sizeof(T) * Shape::other);
      request_rows<Step, Width>(other(step), OfKeys ? boxes.query : boxes.key, row,
                                place(OfKeys ? walk.sizes.query : walk.sizes.key), ring.full(step));
      request_rows<Step, Width>(other_value(step), OfKeys ? boxes.grad : boxes.value, row,
                                place(OfKeys ? walk.sizes.grad : walk.sizes.value), ring.full(step));
    }
    if constexpr (OfKeys) {
#pragma unroll
      for (int i = lane; i < Step; i += 32) {
        const bool inside = row + i < walk.count();
        const int at = inside ? row + i : 0;
        copy_async<1>(columns_of(step) + i, walk.numbers(walk.pass.log_sum) + at, inside);
        copy_async<1>(columns_of(step) + Step + i, walk.numbers(walk.pass.inner) + at, inside);
      }
      ring.arrive_copied(step);
    }
    __syncwarp();
  }
  /// Where the copy engine cannot: all threads copy.
  __device__ __forceinline__ void copy_own() const {
    walk.load_own(own, own + Shape::own,
                  [&](auto... of) { copy_swizzled<Shape::rows, Width, Shape::threads>(of..., walk.sizes.packs); });
  }
  __device__ __forceinline__ void copy_rows_of(int step) const {
    __syncthreads();
    walk.load(walk.at + step, other(step), other_value(step), columns_of(step),
              [&](auto... of) { copy_swizzled<Step, Width, Shape::threads>(of..., walk.sizes.packs); });
    commit_copies();
    await_copies<0>();
    publish_to_groups();
    __syncthreads();
  }
};

/// Boxed: the copy engine brings the rows; otherwise all threads copy them. Defers: a step's last product runs beside
/// the next step; otherwise each step waits for its own, which leaves registers for more blocks of a multiprocessor.
template <bool Boxed, bool OfKeys, bool Defers, class T, int Width, int Step, int Groups>
__device__ __forceinline__ void differentiate_groups(const BackwardBoxes& boxes, const Backward<T>& pass,
                                                     const Sizes& sizes, int block, unsigned char* raw) {
  using Tile = GroupTile<T>;
  using Shape = GroupBackwardShape<T, Width, Step, Groups>;
  constexpr int rows = Shape::rows, panel = Swizzled<Width>::columns, stages = Shape::stages;
  const Walk<OfKeys, T, rows, Step> walk(pass, sizes, block);
  const BackwardRequests<OfKeys, Shape, Width, Step, T> requests(boxes, walk, raw);
  const auto& ring = requests.ring;
  const int warp = warp_of_block(), group = warp / 4, mine = walk.first + warp * 16;
  if (threadIdx.x == 0) {
    ring.start(requests.arrivals, Shape::threads / 32);
    if constexpr (Boxed) prefetch(boxes.query), prefetch(boxes.key), prefetch(boxes.value), prefetch(boxes.grad);
  }
  __syncthreads();
  begin_kernel();
  const int steps = walk.end - walk.at;
  if (Boxed && warp == 0) {
    if (threadIdx.x == 0) requests.own_rows();
    for (int step = 0; step < min(steps, stages); ++step) requests.rows_of(step);
  }
  if constexpr (Boxed)
    ring.await_own();
  else
    requests.copy_own();

  typename Tile::template Sums<Width> sums, value_sums;
  sums.clear(), value_sums.clear();
  typename Tile::template Factors<Step> factors;
  float row_log[OfKeys ? 1 : 2], row_inner[OfKeys ? 1 : 2];
  if constexpr (!OfKeys) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = mine + Tile::row(i);
      row_log[i] = row < sizes.queries ? walk.numbers(pass.log_sum)[row] : 0.0f;
      row_inner[i] = row < sizes.queries ? walk.numbers(pass.inner)[row] : 0.0f;
    }
  }
  const T* const own = requests.own + group * 64 * panel;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if constexpr (Boxed)
      ring.await_rows(step);
    else
      requests.copy_rows_of(step);
    const T *const other = requests.other(step), *const other_value = requests.other_value(step);
    const float* const columns = requests.columns_of(step);
    const GroupWindow<OfKeys, Tile, Step> window{mine, walk.row(walk.at + step), walk.count(), sizes.causal,
                                                 sizes.scale};
    typename Tile::template Sums<Step> weights, grads;
    begin_products();
    Tile::template start_scores<Step, Width, rows>(weights, own, other);
    Tile::template start_scores<Step, Width, rows>(grads, own + Shape::own, other_value);
    if (const int last = step - (stages - 1); Boxed && warp == 0 && last >= 0 && last + stages < steps) {
      ring.await_left(last);  // beside the products
      requests.rows_of(last + stages);
    }
    if (Defers && step > 0) {
      Tile::template start_add<Step, Width>(sums, factors, requests.other(step - 1));
      await_products<2>();
    } else {
      await_products<1>();
    }
    hold(weights.sum[0]);
    window.weigh(weights, row_log, columns);
    await_products<0>();
    hold(grads.sum[0]);
    if constexpr (!Defers) {
      window.pass(grads, weights, row_inner, columns + Step);
      typename Tile::template Factors<Step> of_values;
      if constexpr (OfKeys) of_values.round(weights);
      factors.round(grads);
      begin_products();
      if constexpr (OfKeys) Tile::template start_add<Step, Width>(value_sums, of_values, other_value);
      Tile::template start_add<Step, Width>(sums, factors, other);
      await_products<0>();
      hold(sums.sum[0]);
      if constexpr (OfKeys) hold(value_sums.sum[0]);
      ring.leave(step);
      continue;
    }
    hold(sums.sum[0]);
    if (step > 0) ring.leave(step - 1);
    if constexpr (OfKeys) {
      factors.round(weights);
      begin_products();
      Tile::template start_add<Step, Width>(value_sums, factors, other_value);
      window.pass(grads, weights, row_inner, columns + Step);
      await_products<0>();  // the factors' registers are free
      hold(value_sums.sum[0]);
    } else {
      window.pass(grads, weights, row_inner, columns + Step);
    }
    factors.round(grads);
  }
  if (Defers && steps > 0) {
    begin_products();
    Tile::template start_add<Step, Width>(sums, factors, requests.other(steps - 1));
    await_products<0>();
    hold(sums.sum[0]);
  }
  walk.template write<Tile, Width>(OfKeys ? of_key(pass, sizes) : of_query(pass, sizes), sizes.width, mine, sizes.scale,
                                   sums);
  if constexpr (OfKeys) walk.template write<Tile, Width>(of_value(pass, sizes), sizes.values, mine, 1.0f, value_sums);
}

/// As backward_kernel.
template <bool Boxed, bool Defers, class T, int Width, int Step, int Groups, int Resident>
__global__ void __launch_bounds__(128 * Groups, Resident)
    backward_groups(const __grid_constant__ BackwardBoxes boxes, const __grid_constant__ Backward<T> pass,
                    const __grid_constant__ Sizes sizes, int key_blocks) {
  extern __shared__ __align__(1024) unsigned char raw[];
  const int block = static_cast<int>(blockIdx.x);
  if (block < key_blocks)
    differentiate_groups<Boxed, true, Defers, T, Width, Step, Groups>(boxes, pass, sizes, block, raw);
  else
    differentiate_groups<Boxed, false, Defers, T, Width, Step, Groups>(boxes, pass, sizes, block - key_blocks, raw);
}

template <class T, int Width, int Step, int Groups, int Resident, bool Defers>
struct GroupBackward {
  using Shape = GroupBackwardShape<T, Width, Step, Groups>;

  static void run(Context& context, const Backward<T>& pass, const Sizes& sizes) {
    BackwardBoxes boxes{};
    // For a single step threads copy sooner than the engine.
    const bool boxed = sizes.packs && std::max(sizes.queries, sizes.keys) > Step && boxes.encode<Width>(pass, sizes);
    launch_backward(context, pass, sizes, Shape::rows, Resident, Shape::threads, Shape::bytes,
                    [&](const Grid& grid, const auto&... of) {
                      launch(context, grid,
                             boxed ? backward_groups<true, Defers, T, Width, Step, Groups, Resident>
                                   : backward_groups<false, Defers, T, Width, Step, Groups, Resident>,
                             boxes, of...);
                    });
  }
};

}  // namespace tern::cuda::scaled_dot_product
