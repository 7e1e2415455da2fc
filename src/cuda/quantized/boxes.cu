// Convolutions of stored numbers on tensor cores whose factors the copy engine brings. Sums of integers have the same
// bits in any order, so no plan changes a result.

#include "cuda/box_plans.cuh"
#include "cuda/boxes_in_turn.cuh"
#include "cuda/quantized/problem.cuh"

namespace tern::cuda::eight_bits {
namespace {

using namespace implicit_boxes;

struct Product {
  Boxes boxes;
  QuantizedArrays arrays;
  Rescale rescale;
  int pitch;
};

/// N output channels, from o on.
template <int N>
struct Adjacent {
  struct alignas(N) Fetched {  // in words: single bytes would take a register each
    std::uint32_t word[N / 4];
  };
  int o;
  std::int32_t bias[N];
  float scale[N];
  __device__ __forceinline__ void load(const Product& p, int first) {
    o = first;
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      reinterpret_cast<int4&>(bias[i]) = *reinterpret_cast<const int4*>(p.arrays.bias + o + i);
      reinterpret_cast<float4&>(scale[i]) = *reinterpret_cast<const float4*>(p.arrays.scale + o + i);
    }
  }
  __device__ __forceinline__ std::int64_t at(const Product& p, int position) const {
    return static_cast<std::int64_t>(position) * p.pitch + o;
  }
  __device__ __forceinline__ Fetched fetch(const Product& p, int position) const {
    return p.arrays.other == nullptr ? Fetched{} : *reinterpret_cast<const Fetched*>(p.arrays.other + at(p, position));
  }
  __device__ __forceinline__ void finish(const Product& p, int position, const std::int32_t (&sums)[N],
                                         const Fetched& added) const {
    float t[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const auto whole =
          static_cast<std::int32_t>(static_cast<std::uint32_t>(sums[i]) + static_cast<std::uint32_t>(bias[i]));
      t[i] = __fmul_rn(__int2float_rn(whole), scale[i]);
      if (p.arrays.other != nullptr)
        t[i] = __fadd_rn(t[i], worth(static_cast<std::uint8_t>(added.word[i / 4] >> i % 4 * 8), p.rescale.other_zero,
                                     p.rescale.other_scale));
    }
    if (p.arrays.real != nullptr) {
#pragma unroll
      for (int i = 0; i < N; i += 4)
        *reinterpret_cast<float4*>(p.arrays.real + at(p, position) + i) = {
            bounded(t[i], p.rescale), bounded(t[i + 1], p.rescale), bounded(t[i + 2], p.rescale),
            bounded(t[i + 3], p.rescale)};
      return;
    }
    Fetched results{};
#pragma unroll
    for (int i = 0; i < N; ++i) results.word[i / 4] |= static_cast<std::uint32_t>(stored(t[i], p.rescale)) << i % 4 * 8;
    *reinterpret_cast<Fetched*>(p.arrays.y + at(p, position)) = results;
  }
};

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) boxes_kernel(const __grid_constant__ Product p) {
  extern __shared__ __align__(1024) std::uint8_t shared[];
  run_tile<Tile, implicit_tiles::Bytes, Adjacent<Tile::adjacent>>(shared, p);
}

template <class Tile>
__global__ void __launch_bounds__(Tile::threads, Tile::resident) in_turn_kernel(const __grid_constant__ Product p) {
  extern __shared__ __align__(1024) std::uint8_t shared[];
  run_tiles<Tile, implicit_tiles::Bytes, Adjacent<Tile::adjacent>>(shared, p);
}

// ---- few channels ----

constexpr int cell = 16;  // bytes

/// With few channels, the stride x stride positions of a step of the window become a cell, with the padding around the
/// image, and the cells of a window's row one run: the same sums for a kernel of one column and a stride of 1.
bool folds(const Problem& p) {
  return p.C < cell && p.stride_h == p.stride_w && p.C * p.stride_w * p.stride_w <= cell && p.dilation_h == 1 &&
         p.dilation_w == 1 && ceil_div(p.KW, p.stride_w) * cell <= 128;
}
kernels::Conv2d sizes_of(const Problem& p) {
  kernels::Conv2d s = p;
  if (!folds(p)) return s;
  s.KH = ceil_div(p.KH, p.stride_h), s.KW = 1, s.C = ceil_div(p.KW, p.stride_w) * cell;
  s.H = p.OH + s.KH - 1, s.W = p.OW;
  if (!overlap_encodes()) s.KW = s.C / cell, s.C = cell, s.W = p.OW + s.KW - 1;
  s.stride_h = s.stride_w = 1, s.pad_h = s.pad_w = 0;
  return s;
}
/// Cells of a row.
std::int64_t cells_of(const Problem& p) { return p.OW + ceil_div(p.KW, p.stride_w) - 1; }
std::size_t image_bytes(const Problem& p) {
  return static_cast<std::size_t>(p.N * sizes_of(p).H * cells_of(p) * cell + 128);  // the last runs may end behind it
}
std::size_t weight_bytes(const Problem& p) {
  const kernels::Conv2d s = sizes_of(p);
  return static_cast<std::size_t>(s.O * s.KH * s.KW * s.C);
}

/// Cell i of [planes, H, W, C], whose rows and columns from `pad` on are in cells of stride x stride, `rows` by
/// `columns` of them. Outside there is `padding`.
__global__ void fold_kernel(std::uint8_t* out, const std::uint8_t* in, std::uint32_t count,
                            Divisor<std::uint32_t> columns, Divisor<std::uint32_t> rows, int C, int H, int W,
                            int stride, int pad_h, int pad_w, std::uint8_t padding) {
  begin_kernel();
  const std::uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  std::uint32_t plane = i;
  const int w0 = static_cast<int>(columns.split(plane)) * stride - pad_w;
  const int h0 = static_cast<int>(rows.split(plane)) * stride - pad_h;
  std::uint32_t words[cell / 4] = {};
  int at = 0;
  for (int dh = 0; dh < stride; ++dh)
    for (int dw = 0; dw < stride; ++dw)
      for (int c = 0; c < C; ++c, ++at) {
        const int h = h0 + dh, w = w0 + dw;
        const bool inside =
            static_cast<unsigned>(h) < static_cast<unsigned>(H) && static_cast<unsigned>(w) < static_cast<unsigned>(W);
        const std::uint8_t byte = inside ? in[(static_cast<std::int64_t>(plane) * H + h) * W * C + w * C + c] : padding;
#pragma unroll
        for (int word = 0; word < cell / 4; ++word)
          if (at / 4 == word) words[word] |= std::uint32_t{byte} << at % 4 * 8;
      }
  reinterpret_cast<uint4*>(out)[i] = {words[0], words[1], words[2], words[3]};
}

void fold_image(const Context& context, const Problem& p, void* to, const std::uint8_t* x, std::int32_t zero) {
  const std::int64_t rows = sizes_of(p).H, columns = cells_of(p), count = p.N * rows * columns;
  launch(context, Grid(static_cast<unsigned>(ceil_div(count, 128)), 128), fold_kernel, static_cast<std::uint8_t*>(to),
         x, static_cast<std::uint32_t>(count), Divisor<std::uint32_t>(columns), Divisor<std::uint32_t>(rows),
         static_cast<int>(p.C), static_cast<int>(p.H), static_cast<int>(p.W), static_cast<int>(p.stride_w),
         static_cast<int>(p.pad_h), static_cast<int>(p.pad_w), static_cast<std::uint8_t>(zero));
}
void fold_weight(const Context& context, const Problem& p, void* to, const std::int8_t* weight) {
  const std::int64_t rows = sizes_of(p).KH, columns = ceil_div(p.KW, p.stride_w), count = p.O * rows * columns;
  launch(context, Grid(static_cast<unsigned>(ceil_div(count, 128)), 128), fold_kernel, static_cast<std::uint8_t*>(to),
         reinterpret_cast<const std::uint8_t*>(weight), static_cast<std::uint32_t>(count),
         Divisor<std::uint32_t>(columns), Divisor<std::uint32_t>(rows), static_cast<int>(p.C), static_cast<int>(p.KH),
         static_cast<int>(p.KW), static_cast<int>(p.stride_w), 0, 0, std::uint8_t{0});
}

// ---- the algorithm ----

/// More tiles than this many for each block that runs at once are taken in turn, if their sums have few stages.
constexpr int most_at_once = 2, most_steps = 4;

Work work_of(const Problem& p) {
  const kernels::Conv2d s = sizes_of(p);
  return {p.positions(), s.O, s.KH * s.KW, s.C, static_cast<int>(p.results)};
}

bool fits(const Problem& p) {
  const bool foldable = folds(p);
  return p.whole && (foldable || p.padded_with_zeros) && p.groups == 1 && p.small() &&
         boxes_fit(sizes_of(p), 1, foldable ? 16 : p.x, foldable ? 16 : p.weight) && plan_after(p, work_of(p), -1) >= 0;
}

int next_plan(const Problem& p, int plan) { return plan_after(p, work_of(p), plan); }

std::size_t workspace(const Problem& p, int) {
  if (!folds(p)) return 0;
  Parts parts(nullptr);
  parts.take(image_bytes(p)), parts.take(weight_bytes(p));
  return parts.bytes();
}

void run(Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace) {
  const kernels::Conv2d sizes = sizes_of(problem);
  const Work work = work_of(problem);
  const void *x = arrays.of.x, *weight = arrays.of.weight;
  Pitches pitches = dense(sizes, 1);
  if (folds(problem)) {
    Parts parts(workspace);
    void *const image = parts.take(image_bytes(problem)), *to = parts.take(weight_bytes(problem));
    const auto fold = [problem, weight = arrays.of.weight](const Context& where, void* made) {
      fold_weight(where, problem, made, weight);
    };
    if (void* const made = made_once(context, weight_bytes(problem), fold))
      to = made;
    else
      fold(context, to);
    fold_image(context, problem, image, arrays.of.x, arrays.rescale.x_zero);
    x = image, weight = to;
    pitches = {cell, cells_of(problem) * cell};
  }
  with_boxes(context, sizes, 1, pitches, x, weight, work, forced_or(context, work, plan),
             [&]<class Tile>(Tile, Grid grid, const Boxes& boxes) {
               const Product product{boxes, arrays.of, arrays.rescale, static_cast<int>(problem.pitch())};
               const int at_once = card().multiprocessors * Tile::resident;
               const bool in_turn =
                   boxes.split == 1 && boxes.steps <= most_steps && boxes.tiles > most_at_once * at_once;
               const auto kernel = in_turn ? in_turn_kernel<Tile> : boxes_kernel<Tile>;
               if (in_turn) {
                 grid.blocks.x = static_cast<unsigned>(at_once);
                 grid.shared = static_cast<std::size_t>(Tile::shared_bytes(1, Tile::stages));
               }
               prefer_shared(reinterpret_cast<const void*>(kernel));
               launch(context, grid, kernel, product);
             });
}

}  // namespace

const Algorithm boxes{.name = "boxes", .fits = fits, .workspace = workspace, .run = run, .next_plan = next_plan};

}  // namespace tern::cuda::eight_bits
