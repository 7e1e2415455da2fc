#pragma once
// Latency-bound products: a block computes a small tile of the output, and each of its warps some slices of the sum
// over k. A warp loads all factors at once, directly into the registers that the tensor cores read. The warps' sums are
// added in order.

#include "cuda/products/loads.cuh"
#include "cuda/products/tile.cuh"
#include "cuda/tensor_cores.cuh"

namespace tern::cuda::products {

/// The number of k that a warp multiplies at a time.
inline constexpr int slice_depth = 16;

/// Tiles of Rows x Columns, `Beside` of them adjacent in a block, with this many warps each, which have `Slices` slices
/// in flight. Always on tensor cores: with TF32, or with doubles, in which products of floats are exact.
template <int Rows, int Columns, int Beside, int Warps, int Slices, bool Doubles>
struct Sliced {
  static constexpr bool doubles = Doubles;
  static constexpr int rows = Rows, columns = Columns, beside = Beside, warps = Warps, slices = Slices;
  static constexpr int threads = Beside * Warps * 32;
  static constexpr int all_columns = Columns * Beside;  ///< of the block
  static constexpr int stride = Warps * slice_depth;    ///< between the slices of a warp, in k
  /// What a thread writes: this many consecutive elements at a time, this many times.
  static constexpr int each = Rows * Columns / (Warps * 32);
  static constexpr int width = each >= 4 ? 4 : each >= 2 ? 2 : 1, times = each > width ? each / width : 1;
  static constexpr int partial_stride = Columns + 8;
  static constexpr int partial = Rows * partial_stride;  ///< floats of a warp's sums
  static constexpr std::size_t shared_bytes = sizeof(float) * Beside * Warps * (partial + Rows);
  static std::int64_t tiles(std::int64_t m, std::int64_t n) { return ceil_div(m, Rows) * ceil_div(n, all_columns); }
};

/// A thread's part of a slice of a factor: every eighth of `Lines` rows (columns) of the tile, four k of each. With
/// lane = 4 g + t these are the four from 4 t on of the lines line(j, g).
template <int Lines, bool KContiguous, bool MayMask>
struct FactorPart {
  static constexpr int parts = Lines / 8;
  static constexpr int loads = KContiguous ? parts : 4, each = KContiguous ? 4 : parts;
  float value[loads][each];
  float mask[MayMask ? loads : 1][MayMask ? each : 1];

  static __device__ __forceinline__ int line(int j, int g) { return KContiguous ? j * 8 + g : g * parts + j; }
  __device__ __forceinline__ float at(int j, int q) const { return KContiguous ? value[j][q] : value[q][j]; }
};

/// Loads the parts of one thread.
template <int Lines, bool KContiguous, bool MayMask, bool Packs>
class FactorReader {
 public:
  using Part = FactorPart<Lines, KContiguous, MayMask>;

  /// For the lines from `first` on, out of `extent`.
  __device__ __forceinline__ FactorReader(const Factor& factor, int first, int extent, int g, int t)
      : stride_(factor.stride), free_(extent - first - Part::line(0, g)), t_(t) {
    masked_ = MayMask && factor.mask != nullptr;
    to_mask_ = masked_ ? factor.mask - factor.data : 0;
    const std::int64_t line = first + Part::line(0, g), k = 4 * t;
    from_ = factor.data + (KContiguous ? line * stride_ + k : k * stride_ + line);
  }

  /// Starts loading a part of the slice that begins at k, out of `end`.
  __device__ __forceinline__ void load(Part& part, int k, int end) const {
#pragma unroll
    for (int i = 0; i < Part::loads; ++i) {
      const float* const from = from_ + (KContiguous ? i * 8 * stride_ + k : (k + i) * stride_);
      // The number of its `each` elements that exist.
      const int valid = KContiguous ? (i * 8 < free_ ? end - k - 4 * t_ : 0) : (k + 4 * t_ + i < end ? free_ : 0);
      load_part(part.value[i], from, valid);
      if constexpr (MayMask)
        if (masked_) load_part(part.mask[i], from + to_mask_, valid);
    }
  }

  __device__ __forceinline__ void pass_through(Part& part, Activation through) const {
    if constexpr (MayMask) {
      if (!masked_) return;
      const auto each = [&](const auto& rule) {
#pragma unroll
        for (int i = 0; i < Part::loads; ++i)
#pragma unroll
          for (int j = 0; j < Part::each; ++j) part.value[i][j] = rule(part.value[i][j], part.mask[i][j]);
      };
      if (through == Activation::relu)
        each([](float gradient, float out) { return through_activation(gradient, out, Activation::relu); });
      else
        each([=](float gradient, float out) { return through_activation(gradient, out, through); });
    }
  }

 private:
  __device__ __forceinline__ void load_part(float (&to)[Part::each], const float* from, int valid) const {
    if constexpr (Packs) {
      load_or_zero(to, from, valid > 0);
    } else {
#pragma unroll
      for (int j = 0; j < Part::each; ++j) {
        float one[1];
        load_or_zero(one, from + j, j < valid);
        to[j] = one[0];
      }
    }
  }

  const float* from_;
  std::ptrdiff_t to_mask_;
  std::int64_t stride_;
  int free_, t_;
  bool masked_;
};

/// A warp's sums. Both factors use the same k in one multiplication.
template <class Shape, bool KA, bool KB>
struct SlicedSums {
  using Cores = TensorCores<Shape::doubles>;
  using Sum = typename Cores::Sum;
  using Element = typename Cores::Element;
  static constexpr int down = Shape::rows / 16, across = Shape::columns / 8;
  Sum sum[down][across][4] = {};

  template <class PartA, class PartB>
  __device__ __forceinline__ void add(const PartA& part_a, const PartB& part_b) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Element a[down][4], b[across][2];
#pragma unroll
      for (int i = 0; i < down; ++i)
#pragma unroll
        for (int part = 0; part < 4; ++part)
          a[i][part] = Cores::element(part_a.at(2 * i + part % 2, 2 * half + part / 2));
#pragma unroll
      for (int j = 0; j < across; ++j)
#pragma unroll
        for (int part = 0; part < 2; ++part) b[j][part] = Cores::element(part_b.at(j, 2 * half + part));
#pragma unroll
      for (int i = 0; i < down; ++i)
#pragma unroll
        for (int j = 0; j < across; ++j) multiply_add(sum[i][j], a[i], b[j]);
    }
  }

  /// To rows of partial_stride.
  __device__ __forceinline__ void store(float* to, int lane) const {
    const int g = lane / 4, t = lane % 4;
    const auto four = [](float* at, Sum x, Sum y, Sum z, Sum w) {
      *reinterpret_cast<float4*>(at) =
          float4{static_cast<float>(x), static_cast<float>(y), static_cast<float>(z), static_cast<float>(w)};
    };
#pragma unroll
    for (int i = 0; i < down; ++i)
#pragma unroll
      for (int below = 0; below < 2; ++below) {
        float* const row = to + FactorPart<Shape::rows, KA, false>::line(2 * i + below, g) * Shape::partial_stride;
        const auto& of = sum[i];
        const int first = 2 * below, second = first + 1;
        if constexpr (KB) {
#pragma unroll
          for (int j = 0; j < across; ++j)
            *reinterpret_cast<float2*>(row + j * 8 + 2 * t) =
                float2{static_cast<float>(of[j][first]), static_cast<float>(of[j][second])};
        } else if constexpr (across == 2) {
          four(row + 4 * t, of[0][first], of[1][first], of[0][second], of[1][second]);
        } else {
          static_assert(across == 4);
          // Adjacent rows begin at different halves, so that no bank conflicts.
          const bool odd = g % 2 != 0;
          const int now = odd ? second : first, then = odd ? first : second;
          float* const at = row + 8 * t;
          four(at + 4 * odd, pick(of[0], now), pick(of[1], now), pick(of[2], now), pick(of[3], now));
          four(at + 4 - 4 * odd, pick(of[0], then), pick(of[1], then), pick(of[2], then), pick(of[3], then));
        }
      }
  }

 private:
  /// of[which] for a run-time index: by selection, since registers cannot be indexed.
  static __device__ __forceinline__ Sum pick(const Sum (&of)[4], int which) {
    return which % 2 == 0 ? (which < 2 ? of[0] : of[2]) : (which < 2 ? of[1] : of[3]);
  }
};

/// One block's tiles of a product whose factors consist of whole packs of four; a factor that may have a mask may
/// consist of single elements.
template <class Shape, bool KA, bool KB, bool MayMask, bool Packs>
__device__ __forceinline__ void compute_slices(const Product& product, int tile, float* shared) {
  constexpr int Rows = Shape::rows, Columns = Shape::columns, width = Shape::width, times = Shape::times;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int slice = warp % Shape::warps, place = warp / Shape::warps;
  const int across = (product.n + Shape::all_columns - 1) / Shape::all_columns;
  const int row0 = tile / across * Rows, column0 = tile % across * Shape::all_columns, k_end = product.k;
  const FactorReader<Rows, KA, MayMask, Packs> a_reader(product.a, row0, product.m, lane / 4, lane % 4);
  const FactorReader<Columns, KB, false, true> b_reader(product.b, column0 + place * Columns, product.n, lane / 4,
                                                        lane % 4);
  FactorPart<Rows, KA, MayMask> a[Shape::slices];
  FactorPart<Columns, KB, false> b[Shape::slices];
  SlicedSums<Shape, KA, KB> sums;
  // The row sums of a, which are the bias's gradient.
  const bool with_sums = MayMask && !KA && product.sums != nullptr && column0 == 0 && place == 0;
  float row_sums[Rows / 8] = {};

  // What this thread writes: elements `first` + i * threads * width of the block's tiles, row by row.
  const int first = static_cast<int>(threadIdx.x) * width;
  const auto row_of = [&](int i) { return (first + i * Shape::threads * width) / Shape::all_columns; };
  const int column = column0 + first % Shape::all_columns;
  static_assert(times == 1 || Shape::threads * width % Shape::all_columns == 0);
  const Activation activation = product.activation, through = product.through;

  begin_kernel();
  float shift[width] = {};
  if constexpr (!MayMask)
    if (product.bias != nullptr) {
#pragma unroll
      for (int i = 0; i < width; ++i) {
        float one[1];
        load_or_zero(one, product.bias + column + i, column + i < product.n);
        shift[i] = one[0];
      }
    }
#pragma unroll 1
  for (int k = slice * slice_depth; k < k_end; k += Shape::slices * Shape::stride) {
#pragma unroll
    for (int i = 0; i < Shape::slices; ++i) {
      a_reader.load(a[i], k + i * Shape::stride, k_end);
      b_reader.load(b[i], k + i * Shape::stride, k_end);
    }
#pragma unroll
    for (int i = 0; i < Shape::slices; ++i) {
      if (k + i * Shape::stride >= k_end) break;
      a_reader.pass_through(a[i], through);
      if constexpr (MayMask && !KA)
        if (with_sums) {
#pragma unroll
          for (int j = 0; j < Rows / 8; ++j)
            row_sums[j] += (a[i].at(j, 0) + a[i].at(j, 1)) + (a[i].at(j, 2) + a[i].at(j, 3));
        }
      sums.add(a[i], b[i]);
    }
  }
  sums.store(shared + warp * Shape::partial, lane);
  float* const sum_parts = shared + Shape::beside * Shape::warps * Shape::partial;
  if constexpr (MayMask && !KA)
    if (with_sums) {
#pragma unroll
      for (int j = 0; j < Rows / 8; ++j) {
        row_sums[j] += __shfl_xor_sync(0xffffffffu, row_sums[j], 1);
        row_sums[j] += __shfl_xor_sync(0xffffffffu, row_sums[j], 2);
        if (lane % 4 == 0) sum_parts[slice * Rows + FactorPart<Rows, KA, false>::line(j, lane / 4)] = row_sums[j];
      }
    }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < times; ++i) {
    const int here = row_of(i), row = row0 + here, across_block = first % Shape::all_columns;
    if (here >= Rows || row >= product.m) break;
    const float* const from = shared + across_block / Columns * Shape::warps * Shape::partial +
                              here * Shape::partial_stride + across_block % Columns;
    float total[width] = {};
#pragma unroll
    for (int w = 0; w < Shape::warps; ++w)
#pragma unroll
      for (int j = 0; j < width; ++j) total[j] += from[w * Shape::partial + j];
#pragma unroll
    for (int j = 0; j < width; ++j) total[j] = activate(total[j] + shift[j], activation);
    float* const out = product.out + static_cast<std::int64_t>(row) * product.n + column;
    if (width == 4 && product.aligned_out && column + 4 <= product.n) {
      if constexpr (width == 4) *reinterpret_cast<float4*>(out) = float4{total[0], total[1], total[2], total[3]};
    } else {
#pragma unroll
      for (int j = 0; j < width; ++j)
        if (column + j < product.n) out[j] = total[j];
    }
  }
  if constexpr (MayMask && !KA)
    if (product.sums != nullptr && column0 == 0 && static_cast<int>(threadIdx.x) < Rows &&
        row0 + static_cast<int>(threadIdx.x) < product.m) {
      float total = 0;
#pragma unroll
      for (int w = 0; w < Shape::warps; ++w) total += sum_parts[w * Rows + static_cast<int>(threadIdx.x)];
      product.sums[row0 + threadIdx.x] = total;
    }
}

}  // namespace tern::cuda::products
