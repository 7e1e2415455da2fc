#include "cuda/attention/half_tiles.cuh"
#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/stem.cuh"

namespace tern::cuda::convolution {
namespace stem {
namespace {

using scaled_dot_product::exchange_words;
using scaled_dot_product::load_blocks;
using scaled_dot_product::multiply_add_halves;
using scaled_dot_product::rounded_pair;

// ---- kernel ----

template <class T>
struct Product {
  Patch patch;
  const T *x, *weight, *bias;
  T* y;
  std::int64_t y_pitch;
  int O;
  Divide of_output;  ///< elements of an output's weight
  int steps, pitch;  ///< of the sum, 16 elements each; bytes from one output's weights to the next in shared memory
  int bias_at, weights_at, patches_at;  ///< in shared memory, behind the table of pairs
  int groups;                           ///< of outputs
  Activation activation;
};

/// relu, or relu6, of rounded elements, two in a word: the bits of rounding afterwards.
template <class T>
__device__ __forceinline__ void clip_words(std::uint32_t (&words)[4], bool has_top) {
  using Two = std::conditional_t<std::is_same_v<T, BFloat16>, __nv_bfloat162, __half2>;
  const auto as_two = [](const std::uint32_t& bits) { return reinterpret_cast<const Two&>(bits); };
  const std::uint32_t zero = 0, six = std::is_same_v<T, BFloat16> ? 0x40c040c0u : 0x46004600u;
#pragma unroll
  for (int i = 0; i < 4; ++i) reinterpret_cast<Two&>(words[i]) = __hmax2_nan(as_two(words[i]), as_two(zero));
  if (!has_top) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) reinterpret_cast<Two&>(words[i]) = __hmin2_nan(as_two(words[i]), as_two(six));
}

/// What all tiles of a block read: the pairs in the order of the lanes' fragments, and bias and weights, with zeros for
/// what does not exist.
template <class T>
__device__ __forceinline__ void stage_pairs(const Product<T>& p, std::uint8_t* memory) {
  for (int i = static_cast<int>(threadIdx.x); i < p.steps * 4; i += static_cast<int>(blockDim.x)) {
    const Pair one(p.patch, i / 4 * 8 + i % 4), next(p.patch, i / 4 * 8 + i % 4 + 4);
    reinterpret_cast<int4*>(memory)[i] = {one.offset, static_cast<int>(one.mask), next.offset,
                                          static_cast<int>(next.mask)};
  }
}
template <class T>
__device__ __forceinline__ void stage_weights(const Product<T>& p, std::uint8_t* memory, int columns) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int i = thread; i < columns * p.pitch / 16; i += threads)
    reinterpret_cast<uint4*>(memory + p.weights_at)[i] = uint4{};
  for (int i = thread; i < columns; i += threads)
    reinterpret_cast<float*>(memory + p.bias_at)[i] = p.bias != nullptr && i < p.O ? widened(p.bias[i]) : 0.0f;
  __syncthreads();
  const int length = static_cast<int>(p.of_output.value()), packs = p.O * length / 8;
#pragma unroll 4
  for (int pack = thread; pack < packs; pack += threads) {
    const uint4 eight = __ldg(reinterpret_cast<const uint4*>(p.weight) + pack);
    const std::uint32_t words[4]{eight.x, eight.y, eight.z, eight.w};
    int o, i;
    p.of_output.split(pack * 8, o, i);
#pragma unroll
    for (int element = 0; element < 8; ++element) {
      *reinterpret_cast<std::uint16_t*>(memory + p.weights_at + o * p.pitch + 2 * place_of(p.patch, i)) =
          static_cast<std::uint16_t>(words[element / 2] >> element % 2 * 16);
      if (++i == length) i = 0, ++o;
    }
  }
}

/// A warp's sums: 2 M octets by 8 N outputs.
template <class T, int M, int N, bool odd>
struct Sums {
  float sum[M][N][4];
  int window[2 * M];  ///< of the lane's position in each octet
  int lane = static_cast<int>(threadIdx.x) % 32, first = static_cast<int>(threadIdx.x) / 32 * 2 * M;

  __device__ __forceinline__ void place(const Patch& p, const Tile& tile) {
#pragma unroll
    for (int i = 0; i < 2 * M; ++i)
      window[i] = Octet(p, min(tile.first + first + i, p.octets - 1)).window(p, tile) + lane / 4 * p.step * 2;
  }
  /// Of a step: unmasked words.
  struct Rows {
    std::uint32_t word[M][4], mask[2];
  };
  __device__ __forceinline__ void read(Rows& to, const std::uint8_t* memory, const std::uint8_t* patch,
                                       int step) const {
    const int4 pairs = reinterpret_cast<const int4*>(memory)[step * 4 + lane % 4];
    to.mask[0] = static_cast<std::uint32_t>(pairs.y), to.mask[1] = static_cast<std::uint32_t>(pairs.w);
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int part = 0; part < 4; ++part)
        to.word[m][part] = word_at<odd>(patch, window[2 * m + part % 2] + (part < 2 ? pairs.x : pairs.z));
  }
  /// The products with 8 N outputs, whose weights begin at `weights`.
  __device__ __forceinline__ void multiply(const Rows& rows, const std::uint8_t* weights, int pitch, int step) {
    std::uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int part = 0; part < 4; ++part) left[m][part] = rows.word[m][part] & rows.mask[part / 2];
    const std::uint8_t* const from = weights + (lane / 16 * 8 + lane % 8) * pitch + lane / 8 % 2 * 16 + step * 32;
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      std::uint32_t right[4];
      load_blocks(right, from + n * 8 * pitch);
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply_add_halves<T>(sum[m][n], left[m], right[0], right[1]);
        multiply_add_halves<T>(sum[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
  __device__ __forceinline__ void begin(const float* bias) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const float2 two = *reinterpret_cast<const float2*>(bias + n * 8 + lane % 4 * 2);
#pragma unroll
      for (int m = 0; m < M; ++m) sum[m][n][0] = sum[m][n][2] = two.x, sum[m][n][1] = sum[m][n][3] = two.y;
    }
  }
  /// Four lanes share a position, and each writes 8 outputs.
  __device__ __forceinline__ void write(const Product<T>& p, const Tile& tile, int column) const {
#pragma unroll
    for (int i = 0; i < 2 * M; ++i) {
      const int index = tile.first + first + i;
      const Octet octet(p.patch, index);
      const int w = octet.column + lane / 4;
      const bool exists = index <= tile.last && w < p.patch.OW;
      const std::int64_t position = (static_cast<std::int64_t>(tile.image) * p.patch.OH + octet.row) * p.patch.OW + w;
#pragma unroll
      for (int n = 0; n < N; n += 4) {
        std::uint32_t words[4];
#pragma unroll
        for (int four = 0; four < 4; ++four) {
          const float(&from)[4] = sum[i / 2][n + four];
          words[four] = rounded_pair<T>(from[i % 2 * 2], from[i % 2 * 2 + 1]);
        }
        if (p.activation != Activation::none) clip_words<T>(words, p.activation == Activation::relu6);
        exchange_words(words);
        const int o = column + n * 8 + lane % 4 * 8;
        if (exists && o < p.O)
          *reinterpret_cast<uint4*>(p.y + position * p.y_pitch + o) = uint4{words[0], words[1], words[2], words[3]};
      }
    }
  }
};

/// While a block multiplies a tile, the next patch is copied.
template <class T, int M, int N, bool odd>
__global__ void __launch_bounds__(32 * most_warps, M* N <= 16 ? 2 : 1)
    stem_kernel(const __grid_constant__ Product<T> p) {
  extern __shared__ __align__(128) std::uint8_t memory[];
  std::uint8_t* const patches = memory + p.patches_at;
  stage_pairs(p, memory);
  for (int i = 0; i < 2; ++i) clear_margins(p.patch, patches + i * p.patch.bytes);
  begin_kernel();
  int index = static_cast<int>(blockIdx.x);
  copy_patch(p.patch, patches, p.x, tile_of(p.patch, index));
  commit_copies();
  stage_weights(p, memory, p.groups * N * 8);
  Sums<T, M, N, odd> sums;
  for (int turn = 0; index < p.patch.tiles; turn ^= 1) {
    const Tile tile = tile_of(p.patch, index);
    const std::uint8_t* const patch = patches + turn * p.patch.bytes;
    await_copies<0>();
    __syncthreads();
    index += static_cast<int>(gridDim.x);
    if (index < p.patch.tiles) copy_patch(p.patch, patches + (turn ^ 1) * p.patch.bytes, p.x, tile_of(p.patch, index));
    commit_copies();
    sums.place(p.patch, tile);
    for (int group = 0; group < p.groups; ++group) {
      const int column = group * N * 8;
      const std::uint8_t* const weights = memory + p.weights_at + column * p.pitch;
      sums.begin(reinterpret_cast<const float*>(memory + p.bias_at) + column);
      typename Sums<T, M, N, odd>::Rows rows[2];
      sums.read(rows[0], memory, patch, 0);
#pragma unroll 1
      for (int step = 0; step < p.steps; step += 2) {
        sums.read(rows[1], memory, patch, min(step + 1, p.steps - 1));
        sums.multiply(rows[0], weights, p.pitch, step);
        if (step + 1 == p.steps) break;
        sums.read(rows[0], memory, patch, min(step + 2, p.steps - 1));
        sums.multiply(rows[1], weights, p.pitch, step + 1);
      }
      sums.write(p, tile, column);
    }
  }
}

// ---- host ----

constexpr std::size_t most_pairs = 512;

/// How a launch is cut: fragments of a warp by positions and outputs, and warps.
struct Cut {
  int M = 4, N = 8, warps = most_warps, groups = 1;
  int steps = 0, pitch = 0, bias_at = 0, weights_at = 0, patches_at = 0;
  std::size_t bytes = 0;
};

Cut cut_with(const Problem& p, int warps) {
  Cut cut;
  cut.warps = warps;
  if (p.O <= 32) cut.N = 4;
  if (p.O > 64 && p.O % 128 > 64 && p.O % 128 <= 96) cut.M = 2, cut.N = 12;
  cut.groups = static_cast<int>(ceil_div(p.O, cut.N * 8));
  const Patch patch = patch_of(p, warps * 2 * cut.M, true), other = patch_of(p, warps * 2 * cut.M, false);
  const int columns = cut.groups * cut.N * 8;
  cut.steps = static_cast<int>(ceil_div(patch.all_pairs(), 8));
  cut.pitch = cut.steps * 32 + 16;  // rows of eight in all banks
  cut.bias_at = cut.steps * 64;
  cut.weights_at = cut.bias_at + columns * 4;
  cut.patches_at = static_cast<int>(up(cut.weights_at + columns * cut.pitch, 128));
  cut.bytes = static_cast<std::size_t>(cut.patches_at + 2 * std::max(patch.bytes, other.bytes));
  return cut;
}

std::size_t blocks_of(const Cut& cut) { return (card().shared_per_block + 1024) / (cut.bytes + 1024); }

/// Two blocks of 4 warps share a multiprocessor where memory allows: one writes while the other multiplies. 0 warps: it
/// allows nothing.
Cut cut_of(const Problem& p) {
  struct Rule;
  return remembered<Rule>(p, [&] {
    Cut cut = cut_with(p, most_warps / 2);
    if (blocks_of(cut) >= 2) return cut;
    for (int warps = most_warps; warps > 0; warps /= 2)
      if (cut = cut_with(p, warps); blocks_of(cut) > 0) return cut;
    cut.warps = 0;
    return cut;
  });
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 30, side = std::int64_t{1} << 14, most_outputs = 512;
  if (!p.channels_last() || p.groups != 1 || bytes_of(p.stored) != 2 || p.element != p.stored || p.pools ||
      card().code < 80 || p.C == 0 || p.C > most_channels || p.O % 8 != 0 || p.O > most_outputs || p.outputs() == 0 ||
      p.dilation_h * p.dilation_w != 1 || !clips(p.activation))
    return false;
  if (std::max({p.H, p.W, p.OH, p.OW, p.pad_h, p.pad_w, p.KH, p.KW, p.stride_h, p.stride_w}) >= side ||
      p.positions() >= most || p.KH * (p.KW * p.C + 2) > static_cast<std::int64_t>(2 * most_pairs))
    return false;
  return p.y_channels % 8 == 0 && p.inputs.y % 16 == 0 && p.inputs.weight % 16 == 0 && cut_of(p).warps > 0;
}

bool prefers(const Problem& p) { return beats_engines(p, 128); }

template <class T, int M, int N>
void start(const Context& context, const Problem& problem, const Cut& cut, const Product<T>& product) {
  const int resident = std::min((M * N <= 16 ? 2 : 1) * most_warps / cut.warps, static_cast<int>(blocks_of(cut)));
  const Grid grid(static_cast<unsigned>(std::min(product.patch.tiles, card().multiprocessors * resident)),
                  static_cast<unsigned>(32 * cut.warps), cut.bytes);
  launch(context, grid, is_odd(problem) ? stem_kernel<T, M, N, true> : stem_kernel<T, M, N, false>, product);
}

template <class T>
void run_as(const Context& context, const Problem& problem, const Arrays& arrays) {
  const Cut cut = cut_of(problem);
  const auto typed = [](void* array) { return static_cast<T*>(array); };
  const Product<T> product{
      patch_of(problem, cut.warps * 2 * cut.M, reinterpret_cast<std::uintptr_t>(arrays.x) % 16 == 0),
      typed(arrays.x),
      typed(arrays.weight),
      typed(arrays.bias),
      typed(arrays.y),
      problem.y_channels,
      static_cast<int>(problem.O),
      Divide(problem.C * problem.KH * problem.KW),
      cut.steps,
      cut.pitch,
      cut.bias_at,
      cut.weights_at,
      cut.patches_at,
      cut.groups,
      problem.activation};
  if (cut.M == 2) return start<T, 2, 12>(context, problem, cut, product);
  cut.N == 4 ? start<T, 4, 4>(context, problem, cut, product) : start<T, 4, 8>(context, problem, cut, product);
}

void run(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  with_stored(problem, [&]<class T>(T*) {
    if constexpr (is_half<T>) run_as<T>(context, problem, arrays);
  });
}

bool fits_first(const Problem& p) { return fits(p) && prefers(p); }
bool fits_last(const Problem& p) { return fits(p) && !prefers(p); }

}  // namespace
}  // namespace stem

const Algorithm stem_forward_first{"direct_tensor", stem::fits_first, nullptr, stem::run};
const Algorithm stem_forward_last{"direct_tensor", stem::fits_last, nullptr, stem::run};

}  // namespace tern::cuda::convolution
