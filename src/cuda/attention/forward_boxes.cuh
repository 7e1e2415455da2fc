#pragma once
// The forward pass by warpgroups for many rows: the copy engine brings keys and values, and warpgroups of a block wait
// for one another only where a stage is filled again. A warpgroup waits for each of its products: so few registers
// suffice that others fill the time.

#include <cfloat>

#include "cuda/attention/forward_rows.cuh"
#include "cuda/attention/group_ring.cuh"

namespace tern::cuda::scaled_dot_product {

template <class T, int Width, int Keys, int Groups, int Resident>
struct BoxForwardShape {
  static constexpr int rows = 64 * Groups, of_stage = 2 * Keys * Width;  ///< of_stage: elements of keys and values
  static constexpr std::size_t most_bytes = 227 * 1024 / Resident - 1024;
  static __host__ __device__ constexpr std::size_t bytes(int stages) {
    return sizeof(T) * (rows * Width + stages * of_stage) + sizeof(std::uint64_t) * GroupRing<4>::count;
  }
  static constexpr int stages = bytes(4) <= most_bytes ? 4 : bytes(3) <= most_bytes ? 3 : 2;
  static_assert(bytes(stages) <= most_bytes);
  /// A warpgroup may see fewer keys than the last one. The steps that it omits are never requested into a stage again.
  static_assert((rows - 64 + Keys - 1) / Keys <= stages);

  /// Those that are used.
  static __host__ __device__ constexpr int stages_for(int keys) {
    const int steps = (keys + Keys - 1) / Keys;
    return steps < stages ? steps : stages;
  }
};

/// What a thread knows of its two rows. Weights are powers beside a reference, a score that the largest one exceeds by
/// less than `most_behind`: sums rarely have to be multiplied because a larger score was found.
template <class Tile, int Keys>
struct ReferenceRows {
  static constexpr float most_behind = 8;  ///< as an exponent of 2
  using Scores = typename Tile::template Sums<Keys>;
  float scale, shift, behind;  ///< behind: most_behind in scores
  float top[2], total[2];      ///< the reference; the sum of weights
  float limit[2], back[2];     ///< a larger score becomes the reference; what exponents are behind scaled scores
  bool far = false;            ///< whether scores are too large to be scaled before the reference is subtracted

  __device__ __forceinline__ ReferenceRows(float with_scale, float with_shift) : scale(with_scale), shift(with_shift) {
    behind = fminf(most_behind / scale, FLT_MAX);
#pragma unroll
    for (int i = 0; i < 2; ++i) top[i] = limit[i] = -INFINITY, total[i] = 0, back[i] = shift;
  }
  static __device__ __forceinline__ float base(float top) { return top == -INFINITY ? 0.0f : top; }

  /// Scores become weights. Whether sums of the warp's rows are to be multiplied by `factor`.
  __device__ __forceinline__ bool weigh(Scores& scores, float (&factor)[2]) {
    float largest[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[i] = fmaxf(scores.at(i, 0), scores.at(i, 1));
#pragma unroll
      for (int j = 2; j < Scores::columns; j += 2)
        largest[i] = fmaxf(largest[i], fmaxf(scores.at(i, j), scores.at(i, j + 1)));
      largest[i] = over_row<Tile>(largest[i], [](float a, float b) { return fmaxf(a, b); });
    }
    const bool moves = __any_sync(~0u, largest[0] > limit[0] || largest[1] > limit[1]);
    if (moves) {
      float farthest = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float now = fmaxf(top[i], largest[i]);
        factor[i] = power_of_2((top[i] - base(now)) * scale);
        total[i] *= factor[i], top[i] = now, limit[i] = now + behind, back[i] = fmaf(base(now), scale, shift);
        farthest = fmaxf(farthest, fabsf(back[i]));
      }
      far = __any_sync(~0u, farthest > most_folded);
    }
    float less[2]{back[0], back[1]};
    if (far) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        less[i] = shift;
#pragma unroll
        for (int j = 0; j < Scores::columns; ++j) scores.at(i, j) -= base(top[i]);
      }
    }
#pragma unroll
    for (int j = 0; j < Scores::columns; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) scores.at(i, j) = power_of_2(fmaf(scores.at(i, j), scale, -less[i]));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float sum[2]{};
#pragma unroll
      for (int j = 0; j < Scores::columns; ++j) sum[j % 2] += scores.at(i, j);
      total[i] += sum[0] + sum[1];
    }
    return moves;
  }
};

struct ForwardBoxes {
  CUtensorMap query, key, value;
};

template <class T, int Width, int Keys, int Groups, int Resident>
__global__ void __launch_bounds__(128 * Groups, Resident)
    forward_boxes(const __grid_constant__ ForwardBoxes boxes, const __grid_constant__ Forward<T> pass,
                  const __grid_constant__ Sizes sizes, float shift, RowParts partial) {
  using Tile = GroupTile<T>;
  using Shape = BoxForwardShape<T, Width, Keys, Groups, Resident>;
  constexpr int rows = Shape::rows, threads = 128 * Groups, stages = Shape::stages;
  extern __shared__ __align__(1024) unsigned char raw[];
  T *const queries = reinterpret_cast<T*>(raw), *const ring_rows = queries + rows * Width;
  const GroupRing<stages> ring{
      reinterpret_cast<std::uint64_t*>(ring_rows + Shape::stages_for(sizes.keys) * Shape::of_stage)};
  const ForwardPlace<rows, Keys> place(sizes, partial.count);
  const int warp = warp_of_block(), group = warp / 4, own = place.first + warp * 16;
  const int steps = max(0, (place.end - place.begin + Keys - 1) / Keys);
  const int seen = sizes.causal ? min(place.end, place.first + group * 64 + 64) : place.end;  // by the warpgroup
  const int own_steps = max(0, (seen - place.begin + Keys - 1) / Keys);
  const int all_see = sizes.causal ? min(sizes.keys, own + 1) : sizes.keys;  // keys before it, in the warp's rows
  const auto keys_of = [&](int step) { return ring_rows + ring.slot(step) * Shape::of_stage; };
  const auto values_of = [&](int step) { return keys_of(step) + Keys * Width; };
  const auto row = [&](int step) { return place.begin + step * Keys; };
  const HeadPlace of_key(sizes, sizes.key, place.head), of_value(sizes, sizes.value, place.head);
  const auto request = [&](int step) {
    ring.expect(ring.full(step), sizeof(T) * Shape::of_stage);
    request_rows<Keys, Width>(keys_of(step), boxes.key, row(step), of_key, ring.full(step));
    request_rows<Keys, Width>(values_of(step), boxes.value, row(step), of_value, ring.full(step));
  };
  const bool requests = threadIdx.x == threads - 128;  // of the warpgroup that sees the most keys
  if (threadIdx.x == 0) {
    ring.start(1, threads / 32);
    prefetch(boxes.query), prefetch(boxes.key), prefetch(boxes.value);
  }
  __syncthreads();
  begin_kernel();
  if (requests) {
    ring.expect(ring.own(), sizeof(T) * rows * Width);
    request_rows<rows, Width>(queries, boxes.query, place.first, HeadPlace(sizes, sizes.query, place.head), ring.own());
    for (int step = 0; step < min(steps, stages); ++step) request(step);
  }
  ring.await_own();

  typename Tile::template Sums<Width> sums;
  sums.clear();
  // Scores lose their reference before they are scaled, where the scale keeps their order.
  const bool scales_first = !(sizes.scale > 0);
  const float left = scales_first ? 1.0f : sizes.scale;
  ReferenceRows<Tile, Keys> so_far(left * log2_e, shift);
#pragma unroll 1
  for (int step = 0; step < own_steps; ++step) {
    ring.await_rows(step);
    typename Tile::template Sums<Keys> scores;
    begin_products();
    Tile::template start_scores<Keys, Width, rows>(scores, queries + group * 64 * Swizzled<Width>::columns,
                                                   keys_of(step));
    if (const int last = step - (stages - 1); requests && last >= 0 && last + stages < steps) {
      ring.await_left(last);  // beside the product
      request(last + stages);
    }
    __syncwarp();
    await_products<0>();
    hold(scores.sum[0]);
    if (scales_first) scale_scores<Tile>(scores, sizes.scale);
    if (row(step) + Keys > all_see) RowsSoFar<Tile, Keys>::hide(scores, sizes, row(step), own);
    float factor[2];
    if (so_far.weigh(scores, factor)) {
#pragma unroll
      for (int j = 0; j < Width / 8; ++j)
#pragma unroll
        for (int part = 0; part < 4; ++part) sums.sum[0][j][part] *= factor[part / 2];
    }
    typename Tile::template Factors<Keys> weights;
    weights.round(scores);
    begin_products();
    Tile::template start_add<Keys, Width>(sums, weights, values_of(step));
    await_products<0>();
    hold(sums.sum[0]);
    ring.leave(step);
  }
  const float top[2] = {__fmul_rn(so_far.top[0], left), __fmul_rn(so_far.top[1], left)};
  write_results<Tile, Width>(pass, sizes, partial, shift, place.head, place.part, own, top, so_far.total, sums);
}

template <class T, int Width, int Keys, int Groups, int Resident>
struct BoxForward {
  using Shape = BoxForwardShape<T, Width, Keys, Groups, Resident>;

  /// Whether the copy engine can.
  static bool run(Context& context, const Forward<T>& pass, const Sizes& sizes) {
    ForwardBoxes boxes{};
    if (!encode_boxes<Width>(boxes.query, pass.query, sizes.query, sizes.queries, sizes.width, sizes) ||
        !encode_boxes<Width>(boxes.key, pass.key, sizes.key, sizes.keys, sizes.width, sizes) ||
        !encode_boxes<Width>(boxes.value, pass.value, sizes.value, sizes.keys, sizes.values, sizes))
      return false;
    // Weights may be larger than one.
    const float more = std::is_same_v<T, Float16> ? 0.0f : ReferenceRows<GroupTile<T>, Keys>::most_behind;
    const float shift = weight_shift<T>(sizes) + more;
    const std::int64_t blocks = sizes.heads * ceil_div(sizes.queries, Shape::rows);
    const ForwardParts<T> parts(context, sizes, forward_parts<T>(sizes, blocks, Resident));
    const Grid grid(static_cast<unsigned>(blocks * parts.parts().count), 128 * Groups,
                    Shape::bytes(Shape::stages_for(sizes.keys)));
    launch(context, grid, forward_boxes<T, Width, Keys, Groups, Resident>, boxes, pass, sizes, shift, parts.parts());
    parts.join(context, pass, sizes, shift);
    return true;
  }
};

}  // namespace tern::cuda::scaled_dot_product
