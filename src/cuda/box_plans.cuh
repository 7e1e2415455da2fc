#pragma once
// How products by boxes (implicit_boxes.cuh) are launched: the tiles, which of them a convolution can have, what they
// should cost, and the boxes as the driver encodes them.

#include <array>
#include <vector>

#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/implicit_boxes.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda::implicit_boxes {

// ---- the driver's encoding ----

/// Bytes from a position of x to the next, and from a row; they may overlap.
struct Pitches {
  std::int64_t position, row;
};

/// The boxes of a convolution whose elements have `bytes`; false: the engine cannot copy them.
template <class Tile>
bool boxes_of(Boxes& p, const kernels::Conv2d& s, int bytes, const Pitches& pitches, const void* x, const void* weight,
              int split) {
  const auto i = [](std::int64_t value) { return static_cast<int>(value); };
  using Divide = Divisor<std::uint32_t>;
  const auto u = [](std::int64_t value) { return static_cast<cuuint64_t>(value); };
  const std::int64_t C = s.C * bytes, K = s.KH * s.KW * C, group = 4 * Tile::adjacent;
  p.positions = i(s.N * s.OH * s.OW), p.O = i(s.O), p.C = i(C), p.stride_h = i(s.stride_h), p.stride_w = i(s.stride_w);
  p.pad_h = i(s.pad_h), p.pad_w = i(s.pad_w), p.dilation_h = i(s.dilation_h), p.dilation_w = i(s.dilation_w);
  p.OH = Divide(s.OH), p.OW = Divide(s.OW), p.KW = Divide(s.KW), p.chunks = Divide(ceil_div(C, Tile::depth));
  p.steps = i(s.KH * s.KW * ceil_div(C, Tile::depth)), p.tiles_n = Divide(ceil_div(s.O, Tile::columns));
  p.tiles = i(ceil_div(p.positions, Tile::rows) * ceil_div(s.O, Tile::columns));
  p.split = split, p.per_split = i(ceil_div(p.steps, split));
  constexpr auto swizzle = Tile::depth == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                           : Tile::depth == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                               : CU_TENSOR_MAP_SWIZZLE_32B;
  // The last window of a row begins `last` beyond the last pixel.
  const int lower[2]{-p.pad_w, -p.pad_h};
  const int upper[2]{i((s.OW - 1) * s.stride_w - s.pad_w - (s.W - 1)),
                     i((s.OH - 1) * s.stride_h - s.pad_h - (s.H - 1))};
  const cuuint64_t sizes[4]{u(C), u(s.W), u(s.H), u(s.N)},
      strides[3]{u(pitches.position), u(pitches.row), u(s.H * pitches.row)};
  const cuuint32_t steps[4]{1, static_cast<cuuint32_t>(s.stride_w), static_cast<cuuint32_t>(s.stride_h), 1};
  if (encoders().windows(&p.x, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, const_cast<void*>(x), sizes, strides, lower, upper,
                         Tile::depth, Tile::rows, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) != CUDA_SUCCESS)
    return false;
  const cuuint64_t orders[5]{u(K), 2, 4, Tile::blocks_n, u(s.O / group)};
  const cuuint64_t apart[4]{u(K), u(Tile::adjacent * K), u(2 * K), u(group * K)};
  const cuuint32_t box[5]{Tile::depth, 2, 4, Tile::blocks_n, static_cast<cuuint32_t>(Tile::columns / group)};
  const cuuint32_t ones[5]{1, 1, 1, 1, 1};
  return encoders().tiled(&p.weight, CU_TENSOR_MAP_DATA_TYPE_UINT8, 5, const_cast<void*>(weight), orders, apart, box,
                          ones, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

// ---- plans ----

/// What a plan reads, beside the card; C, and the padding, in bytes.
struct Work {
  std::int64_t positions, O, taps, C;
  int results;  ///< adjacent results that can be read and written at once
  /// Bytes of a stage: half a line of shared memory where a whole one would have more zeros.
  int depth() const { return C % 128 > 0 && C % 128 <= 64 ? 64 : 128; }
  std::int64_t steps() const { return taps * ceil_div(C, depth()); }
};

constexpr int tile_count = 6, plan_count = 4 * tile_count;  // plan: 4 tile + log2(split)
constexpr const char* tile_names[tile_count]{"32x32", "32x64", "64x32", "64x64", "128x64", "128x128"};
constexpr const char* split_names[]{"1", "2", "4", "8"};
inline int split_of(int plan) { return 1 << plan % 4; }

template <int depth, class Body>
auto with_tile_of(int tile, const Body& body) {
  constexpr int more = 128 / depth;
  switch (tile) {
    case 0:
      return body(Tile<32, 32, 2, 2, depth, 8 * more>{});
    case 1:
      return body(Tile<32, 64, 2, 2, depth, 8 * more>{});
    case 2:
      return body(Tile<64, 32, 4, 2, depth, 8 * more>{});
    case 3:
      return body(Tile<64, 64, 4, 2, depth, 6 * more>{});
    case 4:
      return body(Tile<128, 64, 4, 2, depth, 4 * more>{});
    default:
      return body(Tile<128, 128, 2, 4, depth, 3 * more>{});
  }
}
template <class Body>
auto with_tile(int plan, int depth, const Body& body) {
  return depth == 64 ? with_tile_of<64>(plan / 4, body) : with_tile_of<128>(plan / 4, body);
}

/// Estimated cycles beyond those of every plan, or -1: the plan is impossible. The stages of the busiest
/// multiprocessor, at the rate of its tensor cores or of its waits, or all bytes from the second-level cache; the
/// exchange of a cluster; and what each further block of the multiprocessor takes at its end. Fitted to ResNet50's
/// layers on an H200.
inline double cycles(const Work& work, int plan) {
  return with_tile(plan, work.depth(), [&]<class Tile>(Tile) {
    const int split = split_of(plan);
    const bool fits = work.O % (4 * Tile::adjacent) == 0 && work.results % Tile::adjacent == 0 &&
                      static_cast<std::size_t>(Tile::shared_bytes(split, Tile::stages)) <= card().shared_per_block;
    if (!fits || split > work.steps()) return -1.0;
    constexpr double rate = 1040, bytes_per_cycle = 4500, wait = 340, area = Tile::rows * Tile::columns;
    const auto stages = static_cast<double>(ceil_div(work.steps(), split));
    const std::int64_t blocks = ceil_div(work.positions, Tile::rows) * ceil_div(work.O, Tile::columns) * split;
    const auto busiest = static_cast<double>(ceil_div(blocks, card().multiprocessors));
    const double exchange = split == 1 ? 0 : 420 + 280 * split;
    return std::max(busiest * stages * std::max(wait, area * Tile::depth / rate),
                    static_cast<double>(blocks) * stages * Tile::stage_bytes / bytes_per_cycle) +
           exchange + (busiest - 1) * 0.3 * area;
  });
}

/// Whether the driver takes positions that overlap.
inline bool overlap_encodes() {
  static const bool encodes = [] {
    alignas(256) static std::byte somewhere[256];  // not read
    kernels::Conv2d s{};
    s.N = s.KW = s.stride_h = s.stride_w = s.dilation_h = s.dilation_w = s.groups = 1;
    s.C = 64, s.H = s.W = s.OW = 8, s.KH = 4, s.OH = 5, s.O = 32;
    Boxes boxes{};
    return encoders().windows != nullptr &&
           boxes_of<Tile<64, 32, 2, 2, 64, 16>>(boxes, s, 1, {16, 11 * 16}, somewhere, somewhere, 1);
  }();
  return encodes;
}

/// Those of the problem, the one that should be cheapest first; -1 ends them.
using Plans = std::array<int, plan_count + 1>;
inline Plans plans_of(const Work& work) {
  std::array<double, plan_count> cost;
  Plans plans;
  int count = 0;
  for (int plan = 0; plan < plan_count; ++plan)
    if ((cost[static_cast<std::size_t>(plan)] = cycles(work, plan)) >= 0)
      plans[static_cast<std::size_t>(count++)] = plan;
  std::ranges::sort(plans.begin(), plans.begin() + count, {},
                    [&](int plan) { return cost[static_cast<std::size_t>(plan)]; });
  std::fill(plans.begin() + count, plans.end(), -1);
  return plans;
}
/// The one after `plan` (-1: the first), or -1. Remembered for the problem, whose `work` it is.
template <class Problem>
int plan_after(const Problem& problem, const Work& work, int plan) {
  struct Rule;
  const Plans plans = remembered<Rule>(problem, [&] { return plans_of(work); });
  if (plan < 0) return plans[0];
  const auto found = std::ranges::find(plans, plan);
  return found == plans.end() ? -1 : found[1];
}

/// `plan`, or the cheapest with the tile and the split that are forced, where there is one. It is reported.
inline int forced_or(const Context& context, const Work& work, int plan) {
  const std::string_view tile = forced_algorithm(context, "implicit_tile"),
                         split = forced_algorithm(context, "implicit_split");
  if (!tile.empty() || !split.empty())
    for (const int other : plans_of(work))
      if (other >= 0 && (tile.empty() || tile == tile_names[other / 4]) &&
          (split.empty() || split == split_names[other % 4])) {
        plan = other;
        break;
      }
  took_algorithm(context, "implicit_tile", tile_names[plan / 4]);
  took_algorithm(context, "implicit_split", split_names[plan % 4]);
  return plan;
}

inline Pitches dense(const kernels::Conv2d& s, int bytes) { return {s.C * bytes, s.W * s.C * bytes}; }

/// Whether the engine can copy the boxes of a convolution of `bytes` per element whose arrays are aligned so.
inline bool boxes_fit(const kernels::Conv2d& s, int bytes, std::uint32_t x, std::uint32_t weight) {
  const auto in = [](std::int64_t value, std::int64_t least, std::int64_t most) {
    return value >= least && value <= most;
  };
  const std::int64_t beyond_w = (s.OW - 1) * s.stride_w - s.pad_w - (s.W - 1),
                     beyond_h = (s.OH - 1) * s.stride_h - s.pad_h - (s.H - 1);
  return card().code >= 90 && card().overlap && encoders().windows != nullptr && s.groups == 1 &&
         s.C * bytes % 16 == 0 && s.C > 0 && s.KH * s.KW > 0 && s.O % 16 == 0 && x % 16 == 0 && weight % 16 == 0 &&
         in(s.stride_h, 1, 8) && in(s.stride_w, 1, 8) && in(s.pad_h, 0, 127) && in(s.pad_w, 0, 127) &&
         in(beyond_w, -128, 127) && in(beyond_h, -128, 127) && in((s.KH - 1) * s.dilation_h, 0, 255) &&
         in((s.KW - 1) * s.dilation_w, 0, 255) && implicit_tiles::counts(s, bytes);
}

/// Whether the weights of the running kernel are there before the replays of what is being recorded.
inline bool weights_are_there(const Context& context) {
  return recording(context) && host_functions.weights_last != nullptr && host_functions.weights_last();
}

/// Gives the multiprocessors' memory to shared memory, once for each kernel and card: where kernels divide it
/// differently, the next one cannot begin beside the last.
inline void prefer_shared(const void* kernel) {
  thread_local std::array<std::vector<const void*>, most_cards> known;
  std::vector<const void*>& of_card = known[static_cast<std::size_t>(card().device)];
  if (std::ranges::find(of_card, kernel) != of_card.end()) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
        "dividing the memory of the multiprocessors");
  of_card.push_back(kernel);
}

/// start(grid, boxes, Tile) for a plan.
template <class Start>
void with_boxes(const Context& context, const kernels::Conv2d& sizes, int bytes, const Pitches& pitches, const void* x,
                const void* weight, const Work& work, int plan, const Start& start) {
  with_tile(plan, work.depth(), [&]<class Tile>(Tile tile) {
    const int split = split_of(plan);
    Boxes boxes{};
    expects<Error>(boxes_of<Tile>(boxes, sizes, bytes, pitches, x, weight, split),
                   "cuda: the driver does not encode the boxes of a convolution");
    boxes.ahead = weights_are_there(context);
    Grid grid(static_cast<unsigned>(boxes.tiles * split), Tile::threads,
              static_cast<std::size_t>(Tile::shared_bytes(split, boxes.per_split)));
    grid.cluster = static_cast<unsigned>(split);
    start(tile, grid, boxes);
  });
}

}  // namespace tern::cuda::implicit_boxes
