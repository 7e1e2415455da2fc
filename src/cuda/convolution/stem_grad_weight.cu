#include "cuda/attention/half_tiles.cuh"
#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/stem.cuh"
#include "cuda/fused_rows.cuh"

namespace tern::cuda::convolution {
namespace stem {
namespace {

using scaled_dot_product::load_blocks;
using scaled_dot_product::multiply_add_halves;

// ---- kernel ----

template <class T>
struct Product {
  Patch patch;
  const T *x, *g;
  float* partials;    ///< [slices, O, length]
  int O, length;      ///< elements of an output's weight
  int sharing;        ///< warps that divide a window's pairs
  int g_at, g_bytes;  ///< of the gradients of a tile in shared memory, behind two patches
};

/// The 16-byte chunk of a row of gradients in shared memory: eight rows of one chunk meet all banks.
template <int N>
__device__ __forceinline__ int chunk_at(int row, int chunk) {
  static_assert(N % 8 == 0 || N % 8 == 4);
  return (row * N + (chunk ^ (N % 8 == 0 ? row % 8 : row / 2 % 4))) * 16;
}

/// The gradients of a tile's positions, 8 N outputs from `column` on; zeros for positions and outputs that do not
/// exist, up to a whole pair of octets.
template <int N, class T>
__device__ __forceinline__ void copy_gradients(const Product<T>& p, std::uint8_t* to, const Tile& tile, int column) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int octets = tile.last - tile.first + 1, rows = (octets + 1) / 2 * 16;
  const std::int64_t image = static_cast<std::int64_t>(tile.image) * p.patch.OH;
  if (N != 12 && p.patch.OW % 8 == 0) {  // positions follow one another
    const int step = threads / N, chunk = thread % N, o = column + chunk * 8;
    int row = thread / N;
    const T* from = p.g + ((image * p.patch.OW + tile.first * 8 + row) * p.O + o);
    std::uint8_t* at = to + chunk_at<N>(row, chunk);  // steps are multiples of eight rows
#pragma unroll 4
    for (; row < rows; row += step, from += step * p.O, at += step * N * 16) {
      const bool inside = row < octets * 8 && o < p.O;
      copy_async<4, true>(reinterpret_cast<float*>(at), reinterpret_cast<const float*>(inside ? from : p.g), inside);
    }
    return;
  }
#pragma unroll 2
  for (int i = thread; i < rows * N; i += threads) {
    const int row = i / N, chunk = i % N, o = column + chunk * 8;
    const Octet octet(p.patch, tile.first + row / 8);
    const int w = octet.column + row % 8;
    const bool inside = row < octets * 8 && w < p.patch.OW && o < p.O;
    const std::int64_t position = (image + octet.row) * p.patch.OW + w;
    copy_async<4, true>(reinterpret_cast<float*>(to + chunk_at<N>(row, chunk)),
                        reinterpret_cast<const float*>(p.g + (inside ? position * p.O + o : 0)), inside);
  }
}

/// A warp's sums: 8 M pairs of a window by 8 N outputs, over every `turns`-th pair of octets. A fragment's rows are
/// the first elements of eight pairs, then the second ones.
template <class T, int M, int N, bool odd>
struct Sums {
  float sum[M][N][4] = {};
  int offset[M];
  int lane = static_cast<int>(threadIdx.x) % 32;

  __device__ __forceinline__ Sums(const Patch& p, int first_pair) {
#pragma unroll
    for (int m = 0; m < M; ++m) offset[m] = Pair(p, first_pair + m * 8 + lane / 4).offset;
  }
  /// A lane has two adjacent positions of an octet.
  struct Positions {
    int window[2];
    std::uint32_t mask[2];
    __device__ __forceinline__ Positions(const Patch& p, const Tile& tile, int index, int first) {
      const Octet octet(p, min(index, tile.last));
      window[0] = octet.window(p, tile) + first * p.step * 2, window[1] = window[0] + p.step * 2;
#pragma unroll
      for (int i = 0; i < 2; ++i) mask[i] = index <= tile.last && octet.column + first + i < p.OW ? ~0u : 0u;
    }
  };
  /// What does not exist is masked: it might not be finite.
  __device__ __forceinline__ void add(const Patch& p, const Tile& tile, const std::uint8_t* patch,
                                      const std::uint8_t* gradients, int two) {
    const Positions of[2]{{p, tile, tile.first + 2 * two, lane % 4 * 2},
                          {p, tile, tile.first + 2 * two + 1, lane % 4 * 2}};
    std::uint32_t right[N / 2][4];
#pragma unroll
    for (int n = 0; n < N; n += 2)
      load_blocks<true>(right[n / 2], gradients + chunk_at<N>(two * 16 + lane % 16, n + lane / 16));
#pragma unroll
    for (int m = 0; m < M; ++m) {
      std::uint32_t left[4];
#pragma unroll
      for (int octet = 0; octet < 2; ++octet) {
        std::uint32_t word[2];
#pragma unroll
        for (int i = 0; i < 2; ++i) word[i] = word_at<odd>(patch, of[octet].window[i] + offset[m]) & of[octet].mask[i];
        left[2 * octet] = __byte_perm(word[0], word[1], 0x5410);
        left[2 * octet + 1] = __byte_perm(word[0], word[1], 0x7632);
      }
#pragma unroll
      for (int n = 0; n < N; n += 2) {
        multiply_add_halves<T>(sum[m][n], left, right[n / 2][0], right[n / 2][1]);
        multiply_add_halves<T>(sum[m][n + 1], left, right[n / 2][2], right[n / 2][3]);
      }
    }
  }
  /// Adds them to those in shared memory, [8 N, pitch], or writes them if they are the first ones.
  __device__ __forceinline__ void add_to(float* all, int pitch, int first_pair, bool first) const {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int n = 0; n < N; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float2& to = *reinterpret_cast<float2*>(all + (n * 8 + lane % 4 * 2 + i) * pitch +
                                                  2 * (first_pair + m * 8 + lane / 4));
          const float2 before = first ? float2{} : to;
          to = {before.x + sum[m][n][i], before.y + sum[m][n][2 + i]};
        }
  }
};

template <int M>
__host__ __device__ constexpr int sums_pitch(int sharing) {
  return M * sharing * 16 + 4;
}

/// A slice of the tiles by a column of outputs. While a tile is multiplied, the next one is copied.
template <class T, int M, int N, bool odd>
__global__ void __launch_bounds__(32 * most_warps, M* N <= 16 ? 2 : 1)
    stem_grad_weight_kernel(const __grid_constant__ Product<T> p) {
  extern __shared__ __align__(128) std::uint8_t memory[];
  const auto patch_at = [&](int turn) { return memory + turn * p.patch.bytes; };
  const auto g_at = [&](int turn) { return memory + p.g_at + turn * p.g_bytes; };
  const int column = static_cast<int>(blockIdx.y) * N * 8, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32, turns = warps / p.sharing;
  const int first_pair = warp % p.sharing * M * 8, turn_of_warp = warp / p.sharing;
  const auto copy = [&](int turn, int index) {
    const Tile tile = tile_of(p.patch, index);
    copy_patch(p.patch, patch_at(turn), p.x, tile);
    copy_gradients<N>(p, g_at(turn), tile, column);
  };
  for (int i = 0; i < 2; ++i) clear_margins(p.patch, patch_at(i));
  Sums<T, M, N, odd> sums(p.patch, first_pair);
  begin_kernel();
  int index = static_cast<int>(blockIdx.x);
  copy(0, index);
  commit_copies();
  for (int turn = 0; index < p.patch.tiles; turn ^= 1) {
    const Tile tile = tile_of(p.patch, index);
    await_copies<0>();
    __syncthreads();
    index += static_cast<int>(gridDim.x);
    if (index < p.patch.tiles) copy(turn ^ 1, index);
    commit_copies();
    const int twos = (tile.last - tile.first + 2) / 2;
#pragma unroll 1
    for (int two = turn_of_warp; two < twos; two += turns) sums.add(p.patch, tile, patch_at(turn), g_at(turn), two);
  }
  __syncthreads();
  // The warps' parts one after the other: always in the same order.
  float* const all = reinterpret_cast<float*>(memory);
  const int pitch = sums_pitch<M>(p.sharing);
  for (int turn = 0; turn < turns; ++turn) {
    if (turn == turn_of_warp) sums.add_to(all, pitch, first_pair, turn == 0);
    __syncthreads();
  }
  float* const to = p.partials + (static_cast<std::int64_t>(blockIdx.x) * p.O + column) * p.length;
  for (int o = warp; o < min(N * 8, p.O - column); o += warps)
    for (int i = static_cast<int>(threadIdx.x) % 32; i < p.length; i += 32)
      to[o * p.length + i] = all[o * pitch + place_of(p.patch, i)];
}

// ---- host ----

/// How a launch is cut: fragments of a warp by pairs and by outputs, warps of a block and those that divide the pairs,
/// octets of a tile.
struct Cut {
  int M = 0, N = 8, warps = 4, sharing = 1, per_tile = 0, columns = 1, slices = 0;
  int g_at = 0, g_bytes = 0;
  std::size_t bytes = 0;
  /// Blocks of a multiprocessor.
  int resident() const { return (M * N <= 16 ? 2 : 1) * most_warps / warps; }
};

/// Whether tiles of so many octets fit.
bool set_tile(Cut& cut, const Problem& p, int per_tile) {
  const Patch patch = patch_of(p, per_tile, true), other = patch_of(p, per_tile, false);
  cut.per_tile = per_tile;
  cut.g_at = 2 * std::max(patch.bytes, other.bytes);
  cut.g_bytes = per_tile * 8 * cut.N * 16;
  const int sums = cut.N * 8 * (cut.M * cut.sharing * 16 + 4) * 4;
  cut.bytes = static_cast<std::size_t>(std::max(cut.g_at + 2 * cut.g_bytes, sums));
  cut.slices = static_cast<int>(std::max<std::int64_t>(
      1, std::min<std::int64_t>(patch.tiles, card().multiprocessors * cut.resident() / cut.columns)));
  return cut.bytes + 1024 <= (card().shared_per_block + 1024) / static_cast<std::size_t>(cut.resident());
}

/// M is 0 if the sums or the tiles are too large.
Cut find_cut(const Problem& p) {
  Cut cut;
  cut.N = p.O % 128 > 64 && p.O % 128 <= 96 ? 12 : p.O % 64 == 0 || p.O % 64 > 32 ? 8 : 4;
  cut.columns = static_cast<int>(ceil_div(p.O, cut.N * 8));
  const int all = static_cast<int>(ceil_div(patch_of(p, 1, true).all_pairs(), 8));
  for (int sharing = 1; sharing <= most_warps; sharing *= 2)
    for (const int M : {2, 3, 5})
      if ((M < 5 || cut.N < 12) && M * sharing >= all && (cut.M == 0 || M * sharing < cut.M * cut.sharing))
        cut.M = M, cut.sharing = sharing;
  if (cut.M == 0) return cut;
  for (cut.warps = std::max(cut.sharing, 4); cut.warps <= most_warps; cut.warps *= 2)
    for (int per_tile = 64; per_tile >= 16; per_tile /= 2) {
      if (!set_tile(cut, p, per_tile)) continue;
      const std::int64_t tiles = patch_of(p, per_tile, true).tiles * cut.columns;
      if (per_tile == 16 || tiles >= card().multiprocessors * cut.resident()) return cut;
    }
  cut.M = 0;
  return cut;
}
Cut cut_of(const Problem& p) {
  struct Rule;
  return remembered<Rule>(p, [&] { return find_cut(p); });
}

bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 30, side = std::int64_t{1} << 14, most_outputs = 4096;
  if (!p.channels_last() || p.groups != 1 || bytes_of(p.stored) != 2 || p.element != p.stored || p.pools ||
      card().code < 80 || p.C == 0 || p.C > most_channels || p.O % 8 != 0 || p.O > most_outputs || p.outputs() == 0 ||
      p.dilation_h * p.dilation_w != 1)
    return false;
  if (std::max({p.H, p.W, p.OH, p.OW, p.pad_h, p.pad_w, p.KH, p.KW, p.stride_h, p.stride_w}) >= side ||
      p.positions() >= most || p.KH * p.KW >= side)
    return false;
  return p.inputs.y % 16 == 0 && p.inputs.bias == 0 && cut_of(p).M > 0;
}

bool prefers(const Problem& p) { return beats_engines(p, 64); }

std::size_t workspace(const Problem& p, int) {
  return static_cast<std::size_t>(cut_of(p).slices * p.weights()) * sizeof(float);
}

template <class T>
void run_as(const Context& context, const Problem& problem, const Arrays& arrays, float* partials) {
  const Cut cut = cut_of(problem);
  const Product<T> product{patch_of(problem, cut.per_tile, reinterpret_cast<std::uintptr_t>(arrays.x) % 16 == 0),
                           static_cast<const T*>(arrays.x),
                           static_cast<const T*>(arrays.y),
                           partials,
                           static_cast<int>(problem.O),
                           static_cast<int>(problem.C * problem.KH * problem.KW),
                           cut.sharing,
                           cut.g_at,
                           cut.g_bytes};
  const Grid grid(dim3(static_cast<unsigned>(cut.slices), static_cast<unsigned>(cut.columns)),
                  static_cast<unsigned>(32 * cut.warps), cut.bytes);
  const auto start = [&]<int M, int N>(std::integral_constant<int, M>, std::integral_constant<int, N>) {
    launch(context, grid,
           is_odd(problem) ? stem_grad_weight_kernel<T, M, N, true> : stem_grad_weight_kernel<T, M, N, false>, product);
  };
  constexpr std::integral_constant<int, 2> two;
  constexpr std::integral_constant<int, 3> three;
  constexpr std::integral_constant<int, 5> five;
  constexpr std::integral_constant<int, 4> four;
  constexpr std::integral_constant<int, 8> eight;
  constexpr std::integral_constant<int, 12> twelve;
  if (cut.N == 12)
    cut.M == 2 ? start(two, twelve) : start(three, twelve);
  else if (cut.N == 8)
    cut.M == 2 ? start(two, eight) : cut.M == 3 ? start(three, eight) : start(five, eight);
  else
    cut.M == 2 ? start(two, four) : cut.M == 3 ? start(three, four) : start(five, four);
  if (wide_weight(problem))
    sum_slices<float>(context, static_cast<float*>(arrays.weight), nullptr, partials, cut.slices, problem.weights(), 0);
  else
    sum_slices<T>(context, static_cast<T*>(arrays.weight), nullptr, partials, cut.slices, problem.weights(), 0);
}

void run(Context& context, const Problem& problem, const Arrays& arrays, int, void* workspace) {
  with_stored(problem, [&]<class T>(T*) {
    if constexpr (is_half<T>) run_as<T>(context, problem, arrays, static_cast<float*>(workspace));
  });
}

bool fits_first(const Problem& p) { return fits(p) && prefers(p); }
bool fits_last(const Problem& p) { return fits(p) && !prefers(p); }

}  // namespace
}  // namespace stem

const Algorithm stem_grad_weight_first{"direct_tensor", stem::fits_first, stem::workspace, stem::run};
const Algorithm stem_grad_weight_last{"direct_tensor", stem::fits_last, stem::workspace, stem::run};

}  // namespace tern::cuda::convolution
