#pragma once
// The direct convolutions on tensor cores: with TF32 if float32 factors may be read so, else with doubles, in which
// products of floats are exact. A block keeps whole planes in shared memory. In the forward and weight passes one
// factor is gathered from them: its element (row, k) is at the row's start plus a step that depends only on k. The
// other factor has rows along k. The number of instructions per multiplication bounds these kernels, so nothing is
// rounded on the way: the multiplication reads the upper 19 bits of each float.

#include "cuda/convolution/direct.cuh"
#include "cuda/convolution/direct_cuts.cuh"
#include "cuda/tensor_cores.cuh"

namespace tern::cuda::convolution {

/// The problem in the types of these kernels.
struct TensorSizes {
  int N, C, H, W, O, OH, OW, pad_h, pad_w;
  int area, window, length;  // OH OW, KH KW, C KH KW
  int plane, pitch;          // floats of a stored plane, and of its rows
  Divisor<std::uint32_t> of_area, of_width, of_window, of_side, of_plane, of_pitch;
  Divisor<std::uint32_t> of_pooled, of_pooled_width;  // of a y of 2 x 2 outputs each: its area and width
};

inline TensorSizes tensor_sizes(const Problem& p) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  using Divide = Divisor<std::uint32_t>;
  TensorSizes s{};
  s.N = i(p.N), s.C = i(p.C), s.H = i(p.H), s.W = i(p.W), s.O = i(p.O), s.OH = i(p.OH), s.OW = i(p.OW);
  s.pad_h = i(p.pad_h), s.pad_w = i(p.pad_w);
  s.area = i(p.OH * p.OW), s.window = i(p.KH * p.KW), s.length = i(p.C * p.KH * p.KW);
  s.pitch = i(p.OW + p.KW - 1), s.plane = i(p.OH + p.KH - 1) * s.pitch;
  s.of_area = Divide(s.area), s.of_width = Divide(s.OW), s.of_window = Divide(s.window), s.of_side = Divide(p.KW);
  s.of_plane = Divide(s.plane), s.of_pitch = Divide(s.pitch);
  s.of_pooled = Divide(std::max(s.area / 4, 1)), s.of_pooled_width = Divide(std::max(s.OW / 2, 1));
  return s;
}

/// Calls body with the smallest number of 8-column blocks per warp that covers `columns`.
template <class Body>
void with_columns(int columns, const Body& body) {
  if (columns <= 8) return body(std::integral_constant<int, 1>{});
  if (columns <= 24) return body(std::integral_constant<int, 3>{});
  if (columns <= 32) return body(std::integral_constant<int, 4>{});
  columns <= 56 ? body(std::integral_constant<int, 7>{}) : body(std::integral_constant<int, 8>{});
}
/// Starts loading the planes of `channels` channels of each of `images`, `most` floats apart in shared memory, with
/// zeros around them if the convolution pads. All threads of the block take part.
__device__ __forceinline__ void copy_images(float* to, const float* from, int images, int channels, int most,
                                            const TensorSizes& s) {
  const int stride = s.C * s.H * s.W, count = channels * s.plane;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const bool flat = s.pad_h == 0 && s.pad_w == 0;
  const bool fours =
      flat && count % 4 == 0 && stride % 4 == 0 && most % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  for (int image = 0; image < images; ++image) {
    float* const there = to + image * most;
    const float* const here = from + static_cast<std::int64_t>(image) * stride;
    if (fours) {
#pragma unroll 4
      for (int i = thread * 4; i < count; i += threads * 4) copy_async<4>(there + i, here + i, true);
      continue;
    }
#pragma unroll 1
    for (int i = thread; i < count; i += threads) {
      int at = i;
      bool inside = true;
      if (!flat) {
        int plane, rest, row, column;
        s.of_plane.split(i, plane, rest);
        s.of_pitch.split(rest, row, column);
        const int h = row - s.pad_h, w = column - s.pad_w;
        inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
        at = inside ? (plane * s.H + h) * s.W + w : 0;
      }
      copy_async<1>(there + i, here + at, inside);
    }
  }
}

/// Starts loading `rows` rows of `count` floats, `stride` apart here and `pitch` there, and writes zeros from their
/// ends to whole slices. All threads of the block take part.
__device__ __forceinline__ void copy_rows(float* to, const float* from, int rows, int count, int stride, int pitch) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int whole = (count + tensor_depth - 1) / tensor_depth * tensor_depth;
  if (count % 4 == 0 && stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0) {
    const int shift = whole <= 64 ? 4 : 5, lanes = 1 << shift;  // that share a row
#pragma unroll 1
    for (int row = thread >> shift; row < rows; row += threads >> shift)
#pragma unroll 4
      for (int i = (thread & (lanes - 1)) * 4; i < whole; i += lanes * 4)
        copy_async<4>(to + row * pitch + i, from + (i < count ? row * stride + i : 0), i < count);
    return;
  }
#pragma unroll 1
  for (int row = thread / 32; row < rows; row += threads / 32)
#pragma unroll 1
    for (int i = thread % 32; i < whole; i += 32)
      copy_async<1>(to + row * pitch + i, from + (i < count ? row * stride + i : 0), i < count);
}

/// Writes the gradients of a pooled y to the winning outputs of their windows, `Beside` adjacent windows at a time. For
/// each i below `count`, place(i, at, to) locates the gradients (below 0: none, zeros are written) and where the first
/// window begins, whose two rows are `pitch` apart. All threads of the block take part.
template <int Beside, class Place>
__device__ __forceinline__ void spread_windows(const float* __restrict__ g, const std::uint8_t* __restrict__ index,
                                               int count, int pitch, const Place& place) {
  constexpr int loads = 2;  // in flight at once
  const int threads = static_cast<int>(blockDim.x);
  for (int first = static_cast<int>(threadIdx.x); first < count; first += loads * threads) {
    Pack<float, Beside> gradients[loads];
    Pack<std::uint8_t, Beside> winners[loads];
    float* to[loads]{};
#pragma unroll
    for (int j = 0; j < loads; ++j) {
      const int i = first + j * threads;
      if (i >= count) break;
      int at = -1;
      place(i, at, to[j]);
      gradients[j] = at < 0 ? Pack<float, Beside>{} : load<Beside>(g + at);
      winners[j] = at < 0 ? Pack<std::uint8_t, Beside>{} : load<Beside>(index + at);
    }
#pragma unroll
    for (int j = 0; j < loads; ++j) {
      if (to[j] == nullptr) break;
#pragma unroll
      for (int row = 0; row < 2; ++row) {
        Pack<float, 2 * Beside> outputs;
#pragma unroll
        for (int i = 0; i < 2 * Beside; ++i)
          outputs.value[i] = winners[j].value[i / 2] == 2 * row + i % 2 ? gradients[j].value[i / 2] : 0.0f;
        constexpr int width = Beside == 1 ? 2 : 4;
#pragma unroll
        for (int i = 0; i < 2 * Beside; i += width)
          store<width>(to[j] + row * pitch + i, reinterpret_cast<const Pack<float, width>&>(outputs.value[i]));
      }
    }
  }
}

/// Calls spread(adjacent windows) with as many as can be processed at a time.
template <class Spread>
__device__ __forceinline__ void with_windows_beside(const float* g, const std::uint8_t* index, const TensorSizes& s,
                                                    const Spread& spread) {
  const bool fours = s.OW % 8 == 0 && reinterpret_cast<std::uintptr_t>(g) % 16 == 0 &&
                     reinterpret_cast<std::uintptr_t>(index) % 4 == 0;
  fours ? spread(std::integral_constant<int, 4>()) : spread(std::integral_constant<int, 1>());
}

/// As copy_rows, for `rows` channels of a pooled y's gradient.
__device__ __forceinline__ void spread_rows(float* to, const float* g, const std::uint8_t* index, int rows, int pitch,
                                            const TensorSizes& s) {
  with_windows_beside(g, index, s, [&](auto beside) {
    constexpr int Beside = decltype(beside)::value;
    const int count = rows * static_cast<int>(s.of_pooled.value()) / Beside;
    spread_windows<Beside>(g, index, count, s.OW, [&](int i, int& at, float*& there) {
      int row, window, h, w;
      at = i * Beside;
      s.of_pooled.split(at, row, window);
      s.of_pooled_width.split(window, h, w);
      there = to + row * pitch + 2 * (h * s.OW + w);
    });
  });
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int beyond = (tensor_depth - s.area % tensor_depth) % tensor_depth;
  if (beyond == 0) return;
  for (int i = thread; i < rows * tensor_depth; i += threads)
    if (i % tensor_depth < beyond) to[i / tensor_depth * pitch + s.area + i % tensor_depth] = 0;
}

/// A warp's tile: 32 rows by `Across` columns of 8.
template <int Across, bool Doubles>
struct WarpTile {
  using Cores = TensorCores<Doubles, false>;
  typename Cores::Sum sum[2][Across][4] = {};
  int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;

  /// Adds a slice. The gathered factor's element (row, k) is left[row_at + step], with `row_at` for the lane's rows and
  /// `step` for its four k, which are 4 t to 4 t + 3 of the slice; unless `Whole`, it is 0 where step is negative. The
  /// right factor's columns are `pitch` apart.
  template <bool Whole>
  __device__ __forceinline__ void add(const float* left, const int (&row_at)[4], const int4& steps, const float* right,
                                      int pitch) {
    const int step[4]{steps.x, steps.y, steps.z, steps.w};
    float4 b_value[Across];
#pragma unroll
    for (int j = 0; j < Across; ++j) b_value[j] = *reinterpret_cast<const float4*>(right + (j * 8 + g) * pitch + 4 * t);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      typename Cores::Element a[2][4], b[Across][2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int part = 0; part < 4; ++part) {
          const int at = step[2 * half + part / 2];
          a[i][part] = Cores::element(Whole || at >= 0 ? left[row_at[i * 2 + part % 2] + at] : 0.0f);
        }
#pragma unroll
      for (int j = 0; j < Across; ++j) {
        b[j][0] = Cores::element(half == 0 ? b_value[j].x : b_value[j].z);
        b[j][1] = Cores::element(half == 0 ? b_value[j].y : b_value[j].w);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < Across; ++j) multiply_add(sum[i][j], a[i], b[j]);
    }
  }

  /// The lane's rows: row(i) of 4.
  __device__ __forceinline__ int row(int i) const { return i * 8 + g; }
  /// use(i, column, sums) for all of the lane's, `Rows` of its rows from row(i) on at a time.
  template <int Rows, class Use>
  __device__ __forceinline__ void each(const Use& use) const {
#pragma unroll
    for (int i = 0; i < 4; i += Rows)
#pragma unroll
      for (int j = 0; j < Across; ++j)
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          float sums[Rows];
#pragma unroll
          for (int r = 0; r < Rows; ++r) sums[r] = static_cast<float>(sum[(i + r) / 2][j][(i + r) % 2 * 2 + part]);
          use(i, j * 8 + 2 * t + part, sums);
        }
  }
};

/// What add_warps() adds: tiles of rows, warps that share one, items of rows, and columns.
struct WarpSums {
  int tiles, splits, items, columns;
};

/// Adds the parts of the `splits` warps of each tile of rows in order: use(place(item), column, sums) for items of one
/// row each, or of the four of a lane. A warp's tile is warp / splits. All threads of the block take part; shared
/// memory of split_bytes() is overwritten.
template <int Rows, int Across, bool Doubles, class Place, class Use>
__device__ __forceinline__ void add_warps(float* part, const WarpTile<Across, Doubles>& mine, const WarpSums& sums,
                                          const Place& place, const Use& use) {
  const auto [tiles, splits, items, columns] = sums;
  const int warp = static_cast<int>(threadIdx.x) / 32, tile = warp / splits, split = warp % splits;
  const int warps = static_cast<int>(blockDim.x) / 32, pitch = tiles * tensor_rows + 4, size = pitch * Across * 8;
  __syncthreads();
  if (tile < tiles)
    mine.template each<1>([&](int i, int column, const float(&sum)[1]) {
      part[split * size + column * pitch + tile * tensor_rows + mine.row(i)] = sum[0];
    });
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32, rows = Rows == 1 ? items : (items + 7) / 8 * tensor_rows;
  for (int row = lane; row < rows; row += 32) {
    const int item = Rows == 1 ? row : row / tensor_rows * 8 + lane % 8;
    const auto at = place(min(item, items - 1));
    const float* from = part + warp * pitch + row;
#pragma unroll 4
    for (int column = warp; column < columns; column += warps, from += warps * pitch) {
      float total = from[0];
      for (int s = 1; s < splits; ++s) total += from[s * size];
      float totals[Rows];
#pragma unroll
      for (int r = 0; r < Rows; ++r) totals[r] = Rows == 1 ? total : __shfl_sync(0xffffffffu, total, lane % 8 + r * 8);
      if (Rows == 1 || (lane < 8 && item < items)) use(at, column, totals);
    }
  }
}
/// Whether the card's tensor cores support the format in which a problem's factors may be read.
inline bool on_tensor_cores(const Problem& problem) {
  return problem.tensor_cores() ? card().code >= 80 : card().doubles;
}

}  // namespace tern::cuda::convolution
