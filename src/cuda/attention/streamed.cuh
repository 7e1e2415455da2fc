#pragma once
// Attention of few queries: keys and values are read once, where they lie, by blocks that own some keys of a head. Some
// adjacent lanes share a key; each holds a packet of 16 bytes of it. The parts of a head are joined in their order.

#include <cmath>

#include "cuda/attention/parts.cuh"

namespace tern::cuda::scaled_dot_product {

inline constexpr int stream_threads = 128;  ///< of a block: one for each column of the widest rows
inline constexpr int stream_keys = 4;       ///< in flight of a lane

/// A packet of a row, with zeros beyond its width.
template <class T>
struct Packet {
  static constexpr int count = 16 / sizeof(T);
  Pack<T, count> raw;

  template <bool Packs>
  __device__ __forceinline__ void read(const T* row, int column, int width, bool inside) {
#pragma unroll
    for (int i = 0; i < count; ++i) raw.value[i] = T{};
    if constexpr (Packs) {
      if (inside && column < width) raw = *reinterpret_cast<const Pack<T, count>*>(row + column);
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i)
        if (inside && column + i < width) raw.value[i] = row[column + i];
    }
  }
  __device__ __forceinline__ float at(int i) const { return widened(raw.value[i]); }
  template <bool Packs>
  __device__ __forceinline__ void write(T* row, int column, int width) const {
    if constexpr (Packs) {
      if (column < width) *reinterpret_cast<Pack<T, count>*>(row + column) = raw;
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i)
        if (column + i < width) row[column + i] = raw.value[i];
    }
  }
};

/// Over the `Lanes` that share a key.
template <int Lanes>
__device__ __forceinline__ float over_lanes(float value) {
#pragma unroll
  for (int distance = 1; distance < Lanes; distance *= 2) value += __shfl_xor_sync(~0u, value, distance);
  return value;
}
template <int Lanes, class T, class Other>
__device__ __forceinline__ float dot(const Packet<T>& a, const Other& b) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < Packet<T>::count; ++i) sum = fmaf(a.at(i), b.at(i), sum);
  return over_lanes<Lanes>(sum);
}

/// A block's head, its first query and its keys.
struct StreamPlace {
  int head, first, begin, end, part;

  __device__ __forceinline__ StreamPlace(const Sizes& sizes, int queries, int parts) {
    const int block = static_cast<int>(blockIdx.x), of_queries = (sizes.queries + queries - 1) / queries;
    part = block / of_queries % parts;
    first = block % of_queries * queries;
    head = block / of_queries / parts;
    const int each = (sizes.keys + parts - 1) / parts;
    begin = part * each, end = min(sizes.keys, begin + each);
  }
};

/// Calls body(k, keys, values) with a lane's packets of `Count` keys from k on, a group of lanes apart.
template <class T, int Lanes, int Count, bool Packs, class Pass, class Body>
__device__ __forceinline__ void over_keys(const Pass& pass, const Sizes& sizes, const StreamPlace& place,
                                          const Body& body) {
  constexpr int groups = stream_threads / Lanes;
  const int group = static_cast<int>(threadIdx.x) / Lanes;
  const int column = static_cast<int>(threadIdx.x) % Lanes * Packet<T>::count;
  const T *const key = sizes.of_head(pass.key, sizes.key, place.head), *const value = sizes.of_head(
                                                                           pass.value, sizes.value, place.head);
#pragma unroll 1
  for (int at = place.begin + group; at - group < place.end; at += groups * Count) {
    Packet<T> keys[Count], values[Count];
#pragma unroll
    for (int u = 0; u < Count; ++u) {
      const int k = at + u * groups;
      keys[u].template read<Packs>(key + k * sizes.key.row, column, sizes.width, k < place.end);
      values[u].template read<Packs>(value + k * sizes.value.row, column, sizes.values, k < place.end);
    }
    body(at, keys, values);
  }
}

/// Joins the blocks' groups of lanes: sums [queries, columns] of all in their order, after `factor` of each group.
template <int Lanes, int Queries, int Count>
__device__ __forceinline__ void join_groups(float* shared, const float (&sums)[Queries][Count]) {
  constexpr int columns = Lanes * Count, groups = stream_threads / Lanes;
  const int lane = static_cast<int>(threadIdx.x) % Lanes, group = static_cast<int>(threadIdx.x) / Lanes;
#pragma unroll
  for (int q = 0; q < Queries; ++q)
#pragma unroll
    for (int i = 0; i < Count; ++i) shared[(group * Queries + q) * columns + lane * Count + i] = sums[q][i];
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < Queries * columns; at += stream_threads) {
    float sum = shared[at];
#pragma unroll
    for (int other = 1; other < groups; ++other) sum += shared[other * Queries * columns + at];
    shared[at] = sum;
  }
  __syncthreads();
}

template <class T, int Lanes, int Queries, bool Packs>
__global__ void __launch_bounds__(stream_threads)
    streamed_kernel(Forward<T> pass, Sizes sizes, float shift, RowParts partial) {
  begin_kernel();
  constexpr int count = Packet<T>::count, groups = stream_threads / Lanes, columns = Lanes * count;
  __shared__ float shared[groups * Queries * columns], tops[groups][Queries], totals[groups][Queries];
  const StreamPlace place(sizes, Queries, partial.count);
  const int lane = static_cast<int>(threadIdx.x) % Lanes, group = static_cast<int>(threadIdx.x) / Lanes;
  const int column = lane * count;
  const T* const query = sizes.of_head(pass.query, sizes.query, place.head);
  Packet<T> own[Queries];
  float top[Queries], total[Queries], sums[Queries][count];
#pragma unroll
  for (int q = 0; q < Queries; ++q) {
    own[q].template read<Packs>(query + (place.first + q) * sizes.query.row, column, sizes.width,
                                place.first + q < sizes.queries);
    top[q] = -INFINITY, total[q] = 0;
#pragma unroll
    for (int i = 0; i < count; ++i) sums[q][i] = 0;
  }
  over_keys<T, Lanes, stream_keys, Packs>(pass, sizes, place, [&](int at, const auto& keys, const auto& values) {
#pragma unroll
    for (int q = 0; q < Queries; ++q) {
      float score[stream_keys], now = top[q];
#pragma unroll
      for (int u = 0; u < stream_keys; ++u) {
        score[u] = __fmul_rn(dot<Lanes>(keys[u], own[q]), sizes.scale);
        if (at + u * groups >= place.end) score[u] = -INFINITY;
        now = fmaxf(now, score[u]);
      }
      const float base = now == -INFINITY ? 0.0f : now, factor = power_of_2((top[q] - base) * log2_e);
      top[q] = now;
      total[q] *= factor;
#pragma unroll
      for (int i = 0; i < count; ++i) sums[q][i] *= factor;
#pragma unroll
      for (int u = 0; u < stream_keys; ++u) {
        const float weight = power_of_2(fmaf(score[u] - base, log2_e, -shift));
        total[q] += weight;
#pragma unroll
        for (int i = 0; i < count; ++i) sums[q][i] = fmaf(weight, values[u].at(i), sums[q][i]);
      }
    }
  });
  if (lane == 0)
#pragma unroll
    for (int q = 0; q < Queries; ++q) tops[group][q] = top[q], totals[group][q] = total[q];
  __syncthreads();
  float whole[Queries];
#pragma unroll
  for (int q = 0; q < Queries; ++q) {
    float largest = -INFINITY, all = 0;
#pragma unroll
    for (int other = 0; other < groups; ++other) largest = fmaxf(largest, tops[other][q]);
    const float base = largest == -INFINITY ? 0.0f : largest;
#pragma unroll
    for (int other = 0; other < groups; ++other)
      all = fmaf(totals[other][q], power_of_2((tops[other][q] - base) * log2_e), all);
    const float factor = power_of_2((top[q] - base) * log2_e);
#pragma unroll
    for (int i = 0; i < count; ++i) sums[q][i] *= factor;
    top[q] = largest, whole[q] = all;
  }
  join_groups<Lanes>(shared, sums);
#pragma unroll
  for (int q = 0; q < Queries; ++q) {
    if (place.first + q >= sizes.queries) break;
    const std::int64_t row = std::int64_t{place.head} * sizes.queries + place.first + q;
    if (partial.count > 1) {
      if (threadIdx.x == 0) partial.found[row * partial.count + place.part] = float2{top[q], whole[q]};
      for (int c = static_cast<int>(threadIdx.x); c < sizes.values; c += stream_threads)
        partial.sums[(row * partial.count + place.part) * sizes.values + c] = shared[q * columns + c];
      continue;
    }
    if (threadIdx.x == 0 && pass.log_sum != nullptr) pass.log_sum[row] = fmaf(shift + log2f(whole[q]), ln_2, top[q]);
    T* const out = sizes.of_head(pass.out, sizes.out, place.head) + (place.first + q) * sizes.out.row;
    for (int c = static_cast<int>(threadIdx.x); c < sizes.values; c += stream_threads)
      put(out[c], shared[q * columns + c] * (1 / whole[q]));
  }
}

/// The gradients of a block's keys, and of all queries, of which there are at most `Queries`.
template <class T, int Lanes, int Queries, bool Packs>
__global__ void __launch_bounds__(stream_threads)
    streamed_backward_kernel(StreamedBackward<T> pass, Sizes sizes, RowParts partial) {
  begin_kernel();
  constexpr int count = Packet<T>::count, groups = stream_threads / Lanes, columns = Lanes * count, at_once = 2;
  __shared__ float shared[groups * Queries * columns];
  const StreamPlace place(sizes, Queries, partial.count);
  const int lane = static_cast<int>(threadIdx.x) % Lanes;
  const int column = lane * count;
  const T *const query = sizes.of_head(pass.query, sizes.query, place.head),
                 *const grad = sizes.of_head(pass.grad, sizes.grad, place.head),
                 *const out = sizes.of_head(pass.out, sizes.out, place.head);
  T* const grad_key = pass.grad_key == nullptr ? nullptr : sizes.of_head(pass.grad_key, sizes.grad_key, place.head);
  T* const grad_value =
      pass.grad_value == nullptr ? nullptr : sizes.of_head(pass.grad_value, sizes.grad_value, place.head);
  Packet<T> own[Queries], own_grad[Queries];
  float log_sum[Queries], inner[Queries], sums[Queries][count];
#pragma unroll
  for (int q = 0; q < Queries; ++q) {
    const bool inside = q < sizes.queries;
    Packet<T> result;
    own[q].template read<Packs>(query + q * sizes.query.row, column, sizes.width, inside);
    own_grad[q].template read<Packs>(grad + q * sizes.grad.row, column, sizes.values, inside);
    result.template read<Packs>(out + q * sizes.out.row, column, sizes.values, inside);
    log_sum[q] = inside ? pass.log_sum[std::int64_t{place.head} * sizes.queries + q] : INFINITY;
    inner[q] = dot<Lanes>(result, own_grad[q]);
#pragma unroll
    for (int i = 0; i < count; ++i) sums[q][i] = 0;
  }
  over_keys<T, Lanes, at_once, Packs>(pass, sizes, place, [&](int at, const auto& keys, const auto& values) {
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int k = at + u * groups;
      float of_key[count] = {}, of_value[count] = {};
#pragma unroll
      for (int q = 0; q < Queries; ++q) {
        const float score = __fmul_rn(dot<Lanes>(keys[u], own[q]), sizes.scale);
        const float of_weight = dot<Lanes>(values[u], own_grad[q]);
        const float weight = k < place.end ? power_of_2((score - log_sum[q]) * log2_e) : 0.0f;
        const float of_score = weight == 0 ? 0.0f : weight * (of_weight - inner[q]);
#pragma unroll
        for (int i = 0; i < count; ++i) {
          of_key[i] = fmaf(of_score, own[q].at(i), of_key[i]);
          of_value[i] = fmaf(weight, own_grad[q].at(i), of_value[i]);
          sums[q][i] = fmaf(of_score, keys[u].at(i), sums[q][i]);
        }
      }
      if (k >= place.end) continue;
      Packet<T> written;
      if (grad_key != nullptr) {
#pragma unroll
        for (int i = 0; i < count; ++i) put(written.raw.value[i], of_key[i] * sizes.scale);
        written.template write<Packs>(grad_key + k * sizes.grad_key.row, column, sizes.width);
      }
      if (grad_value != nullptr) {
#pragma unroll
        for (int i = 0; i < count; ++i) put(written.raw.value[i], of_value[i]);
        written.template write<Packs>(grad_value + k * sizes.grad_value.row, column, sizes.values);
      }
    }
  });
  if (pass.grad_query == nullptr) return;
  join_groups<Lanes>(shared, sums);
#pragma unroll
  for (int q = 0; q < Queries; ++q) {
    if (q >= sizes.queries) break;
    const std::int64_t row = std::int64_t{place.head} * sizes.queries + q;
    T* const to = sizes.of_head(pass.grad_query, sizes.grad_query, place.head) + q * sizes.grad_query.row;
    for (int c = static_cast<int>(threadIdx.x); c < sizes.width; c += stream_threads) {
      if (partial.count > 1)
        partial.sums[(row * partial.count + place.part) * sizes.width + c] = shared[q * columns + c];
      else
        put(to[c], shared[q * columns + c] * sizes.scale);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(128) join_stream_gradients(T* grad_query, Sizes sizes, RowParts partial) {
  begin_kernel();
  const std::int64_t at = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, row = at / sizes.width;
  if (row >= std::int64_t{sizes.heads} * sizes.queries) return;
  const int c = static_cast<int>(at % sizes.width);
  float sum = 0;
#pragma unroll 8
  for (int part = 0; part < partial.count; ++part) sum += partial.sums[(row * partial.count + part) * sizes.width + c];
  T* const to = sizes.of_head(grad_query, sizes.grad_query, static_cast<int>(row / sizes.queries)) +
                row % sizes.queries * sizes.grad_query.row;
  put(to[c], sum * sizes.scale);
}

}  // namespace tern::cuda::scaled_dot_product
