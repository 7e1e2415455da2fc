#pragma once
// The direct convolutions on tensor cores, where float32 factors may be read as TF32. A block of 8 warps keeps whole
// planes in shared memory, rounded on their way there; a warp sums tiles of 32 rows. One of the factors is gathered
// from the planes: what it reads at (row, k) is where the row begins, and a step that depends on k alone.

#include "cuda/convolution/direct.cuh"
#include "cuda/tensor_cores.cuh"

namespace tern::cuda::convolution {

constexpr int tensor_warps = 8, tensor_threads = 32 * tensor_warps;
constexpr int tensor_rows = 32;  // of a warp's tile: two multiplications behind one another

/// Whether direct convolutions run on tensor cores.
inline bool on_tensor_cores(const Problem& problem) { return problem.tensor_cores() && card().code >= 80; }
/// Sums over so few elements (a first layer of one channel) are as fast by plain multiply-adds, and faster at many
/// positions: 15 against 21 microseconds forward for 512 images of LeNet on an H200.
inline bool short_sums(const Problem& problem) { return problem.C * problem.KH * problem.KW <= 32; }

constexpr int padded(std::int64_t count, int of) { return static_cast<int>((count + of - 1) / of) * of; }

/// The problem as these kernels count it.
struct TensorSizes {
  int N, C, H, W, O, OH, OW, pad_h, pad_w;
  int area, window, length;  // OH OW, KH KW, C KH KW
  int plane, pitch;          // floats of a stored plane, and of its rows
  Divisor<std::uint32_t> of_area, of_width, of_window, of_side, of_plane, of_pitch;
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
  return s;
}

/// What a way to cut a pass costs, in cycles: the work of the fullest multiprocessor, no less than what one block takes
/// however idle the card is. The figures of the three passes are fitted to all cuts of 30 convolutions on an H200.
inline double tensor_cost(double blocks, double work, double alone, std::size_t shared) {
  const double deep = std::ceil(blocks / static_cast<double>(card().multiprocessors));
  const double fits = std::max(1.0, std::min(8.0, std::floor(225.0 * 1024 / static_cast<double>(shared + 1024))));
  return std::max(deep * work, std::ceil(deep / fits) * alone);
}

/// Calls body with the fewest columns of 8 that a warp may have side by side and that hold `columns`.
template <class Body>
void with_columns(int columns, const Body& body) {
  if (columns <= 8) return body(std::integral_constant<int, 1>{});
  if (columns <= 24) return body(std::integral_constant<int, 3>{});
  if (columns <= 32) return body(std::integral_constant<int, 4>{});
  columns <= 56 ? body(std::integral_constant<int, 7>{}) : body(std::integral_constant<int, 8>{});
}
constexpr int column_choices[]{8, 24, 32, 56, 64};

__device__ __forceinline__ float4 rounded_pack(const float4& four) {
  return {rounded_tf32(four.x), rounded_tf32(four.y), rounded_tf32(four.z), rounded_tf32(four.w)};
}

/// Copies `rows` rows of `count` elements, rounded; from one to the next it is `stride` and `pitch`. What is beyond
/// `count`, up to 4 times `packs`, becomes 0. All threads of the block take part; a thread's loads are under way
/// together. Out of line: these kernels are bound by fetching their own code.
template <int batch>
__device__ __noinline__ void stage_rows(float* to, const float* from, int rows, int count, int stride, int pitch,
                                        int packs) {
  const bool packed = count % 4 == 0 && stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 16 == 0;
  const int shift = packs <= 16 ? 4 : packs <= 32 ? 5 : packs <= 128 ? 7 : 8;  // of the lanes of a row
  const int lanes = 1 << shift, step = tensor_threads >> shift;
  for (int pack = static_cast<int>(threadIdx.x) & (lanes - 1); pack < packs; pack += lanes)
    for (int first = static_cast<int>(threadIdx.x) >> shift; first < rows; first += step * batch) {
      const int left = count - pack * 4;
      const float* const here = from + first * stride + pack * 4;
      float* const there = to + first * pitch + pack * 4;
      if (packed) {
        float4 four[batch];
#pragma unroll
        for (int i = 0; i < batch; ++i) {
          four[i] = float4{0, 0, 0, 0};
          if (left > 0 && first + i * step < rows) four[i] = *reinterpret_cast<const float4*>(here + i * step * stride);
        }
#pragma unroll
        for (int i = 0; i < batch; ++i)
          if (first + i * step < rows) *reinterpret_cast<float4*>(there + i * step * pitch) = rounded_pack(four[i]);
        continue;
      }
#pragma unroll 2
      for (int i = 0; i < batch; ++i) {
        if (first + i * step >= rows) break;
        const float* const at = here + i * step * stride;
        float4 four{0, 0, 0, 0};
        if (left > 0) four.x = at[0];
        if (left > 1) four.y = at[1];
        if (left > 2) four.z = at[2];
        if (left > 3) four.w = at[3];
        *reinterpret_cast<float4*>(there + i * step * pitch) = rounded_pack(four);
      }
    }
}

/// Copies the planes of `channels` for each of `images`, `most` floats apart in shared memory, padded and rounded.
__device__ __forceinline__ void stage_images(float* to, const float* from, int images, int channels, int most,
                                             const TensorSizes& s) {
  const int stride = s.C * s.H * s.W;
  if (s.pad_h == 0 && s.pad_w == 0) {
    if (channels == s.C && most == stride) {
      // One run, cut into rows.
      const int count = images * stride, whole = count / (tensor_threads * 4), rest = whole * tensor_threads * 4;
      stage_rows<8>(to, from, whole, tensor_threads * 4, tensor_threads * 4, tensor_threads * 4, tensor_threads);
      stage_rows<8>(to + rest, from + rest, 1, count - rest, 0, 0, (count - rest) / 4);
    } else {
      stage_rows<8>(to, from, images, channels * s.plane, stride, most, most / 4);
    }
    return;
  }
  for (int image = 0; image < images; ++image)
#pragma unroll 2
    for (int i = static_cast<int>(threadIdx.x); i < channels * s.plane; i += tensor_threads) {
      int plane, rest, row, column;
      s.of_plane.split(i, plane, rest);
      s.of_pitch.split(rest, row, column);
      const int h = row - s.pad_h, w = column - s.pad_w;
      const bool inside = h >= 0 && h < s.H && w >= 0 && w < s.W;
      const float value = inside ? from[image * stride + (plane * s.H + h) * s.W + w] : 0.0f;
      to[image * most + i] = rounded_tf32(value);
    }
}

/// A warp's tile: 32 rows by `Across` columns of 8.
template <int Across>
struct WarpTile {
  float sum[2][Across][4] = {};
  int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;

  /// Adds 8 k. The left factor at (row, k) is left[row_at + step]: `row_at` of the lane's rows, `step` of its two k,
  /// 0 where those are not `inside`; the right factor at (k, column) is right(k, column).
  template <class Right>
  __device__ __forceinline__ void add(const float* left, const int (&row_at)[4], const int (&step)[2],
                                      const bool (&inside)[2], const Right& right) {
    std::uint32_t a[2][4], b[Across][2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        a[i][part] = inside[part / 2] ? __float_as_uint(left[row_at[i * 2 + part % 2] + step[part / 2]]) : 0u;
#pragma unroll
    for (int j = 0; j < Across; ++j)
#pragma unroll
      for (int part = 0; part < 2; ++part) b[j][part] = __float_as_uint(right(t + part * 4, j * 8 + g));
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < Across; ++j) multiply_add(sum[i][j], a[i], b[j]);
  }

  /// use(row, column, sum) for all of the lane's.
  template <class Use>
  __device__ __forceinline__ void each(const Use& use) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < Across; ++j)
#pragma unroll
        for (int part = 0; part < 4; ++part) use(i * 16 + part / 2 * 8 + g, j * 8 + 2 * t + part % 2, sum[i][j][part]);
  }
};

/// use(row, column, sum) for all of a warp's tile, row by lane, 8 columns after 8 through `slab` in shared memory.
constexpr int slab_pitch = tensor_rows + 4, slab = 8 * slab_pitch;
template <int Across, class Use>
__device__ __forceinline__ void each_by_rows(float* slab, const WarpTile<Across>& mine, const Use& use) {
#pragma unroll
  for (int j = 0; j < Across; ++j) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        slab[(2 * mine.t + part % 2) * slab_pitch + i * 16 + part / 2 * 8 + mine.g] = mine.sum[i][j][part];
    __syncwarp();
#pragma unroll 1
    for (int column = 0; column < 8; ++column) {
      const int row = static_cast<int>(threadIdx.x) % 32;
      use(row, j * 8 + column, slab[column * slab_pitch + row]);
    }
  }
}

/// Adds the parts of `splits` warps of each tile of rows in order: use(row, column, sum). A warp's tile is warp /
/// splits. All threads of the block take part; shared memory of split_bytes() is overwritten.
template <int Across, class Use>
__device__ __forceinline__ void add_warps(float* part, const WarpTile<Across>& mine, int tiles, int splits, int rows,
                                          const Use& use) {
  const int warp = static_cast<int>(threadIdx.x) / 32, tile = warp / splits, split = warp % splits;
  const int pitch = tiles * tensor_rows + 4, size = pitch * Across * 8;
  __syncthreads();
  if (tile < tiles)
    mine.each(
        [&](int row, int column, float sum) { part[split * size + column * pitch + tile * tensor_rows + row] = sum; });
  __syncthreads();
  for (int row = static_cast<int>(threadIdx.x) % 32; row < rows; row += 32)
#pragma unroll 1
    for (int column = warp; column < Across * 8; column += tensor_warps) {
      float total = 0;
#pragma unroll 4
      for (int s = 0; s < splits; ++s) total += part[s * size + column * pitch + row];
      use(row, column, total);
    }
}
inline std::size_t split_bytes(int columns, int tiles, int splits) {
  return static_cast<std::size_t>(splits * columns * (tiles * tensor_rows + 4)) * sizeof(float);
}

// The three passes: whether one fits, and its work. A gradient of the weight leaves `tensor_slices` partial sums.
bool fits_tensor_forward(const Problem& problem);
void run_tensor_forward(Context& context, const Problem& problem, const Arrays& arrays);
bool fits_tensor_grad_x(const Problem& problem);
void run_tensor_grad_x(Context& context, const Problem& problem, const Arrays& arrays);
bool fits_tensor_grad_weight(const Problem& problem);
std::int64_t tensor_slices(const Problem& problem);
void run_tensor_grad_weight(Context& context, const Problem& problem, const Arrays& arrays, float* partials);

}  // namespace tern::cuda::convolution
