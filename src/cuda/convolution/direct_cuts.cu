#include <cmath>

#include "cuda/convolution/direct_cuts.cuh"
#include "cuda/cost.cuh"

namespace tern::cuda::convolution {
namespace {

using tuning::Figures;

constexpr float number(std::int64_t count) { return static_cast<float>(count); }
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The blocks of a cut: their number, those of them whose registers fit a multiprocessor, and bytes of shared memory.
struct Blocks {
  std::int64_t count;
  int by_registers;
  std::size_t shared;
};

/// time_of() equal blocks, whose work and wait are the costs times their counts. Each further round of blocks waits as
/// long as the first.
template <class Columns>
float tensor_cost(const Figures& on, const tuning::Cut<Columns>& costs, const Columns& work, const Columns& wait,
                  const Blocks& blocks) {
  const Load load{number(blocks.count), tuning::sum_of(costs.work, work), tuning::sum_of(costs.wait, wait)};
  const auto by_shared = static_cast<int>(std::size_t{225 * 1024} / (blocks.shared + 1024));
  const auto resident = static_cast<float>(std::max(1, std::min(blocks.by_registers, by_shared)));
  return time_of({&load, 1}, {static_cast<float>(on.multiprocessors), resident, costs.exposed, 1});
}

/// The sizes in the searches' own numbers.
struct Counts {
  int area, window, length;  // OH OW, KH KW, C KH KW
  int plane;                 // floats of a stored plane
  explicit Counts(const Conv2d& p)
      : area(static_cast<int>(p.OH * p.OW)),
        window(static_cast<int>(p.KH * p.KW)),
        length(static_cast<int>(p.C * p.KH * p.KW)),
        plane(static_cast<int>((p.OH + p.KH - 1) * (p.OW + p.KW - 1))) {}
};

}  // namespace

// ---- forward ----

ForwardCut find_forward_cut(const Figures& on, const tuning::Costs& costs, const Conv2d& p, bool rounded) {
  const Counts s(p);
  const auto& fit = rounded ? costs.rounded_forward : costs.strict_forward;
  const int slices = padded(s.length, tensor_depth) / tensor_depth;
  const std::int64_t rows = p.N * p.OH * p.OW;
  tuning::Search<ForwardCut> search;
  for (const int columns : column_choices)
    for (int tiles = 1; tiles <= 64; tiles *= 2)
      for (int splits = 1; splits == 1 || splits * tiles <= tensor_warps; splits *= 2) {
        if (columns > 8 && columns - 8 >= padded(p.O, 8)) continue;  // a smaller one holds them
        if (splits > slices) continue;
        ForwardCut cut;
        cut.columns = columns, cut.tiles = tiles, cut.splits = splits;
        const std::int64_t covered = std::int64_t{tiles} * tensor_rows;
        const std::int64_t images =
            std::min(p.N, covered % s.area == 0 ? covered / s.area : (covered + s.area - 2) / s.area + 1);
        if (images * p.C * s.plane > (1 << 20)) continue;
        cut.image = padded(std::int64_t{p.C} * s.plane, 4), cut.planes = static_cast<int>(images) * cut.image;
        cut.pitch = pitch_of_rows(s.length);
        const std::size_t head = static_cast<std::size_t>(slices * tensor_depth + columns) * sizeof(float);
        const std::size_t staged = static_cast<std::size_t>(cut.planes + columns * cut.pitch) * sizeof(float);
        cut.shared = head + (splits == 1 ? staged : std::max(staged, split_bytes(columns, tiles, splits)));
        if (cut.shared > shared_limit(on)) continue;
        const std::int64_t blocks = ceil_div(rows, covered) * ceil_div(p.O, columns);
        const float packs = number(static_cast<std::int64_t>(staged)) / (128 * 1000), across = number(columns / 8),
                    in_block = number(tiles);
        const float turns = number(ceil_div(tiles * splits, tensor_warps)), split = splits > 1 ? 1 : 0;
        const float products = number(tiles * slices) / 100, in_turn = number(ceil_div(slices, splits)) * turns / 10;
        const float guess = tensor_cost(on, fit,
                                        {1, packs, products, products * across,
                                         split * number(tiles * splits) * across / 100, in_block * across / 100},
                                        {1, packs, in_turn, in_turn * across, split, turns * across / 10},
                                        {blocks, forward_resident(columns / 8, !rounded), cut.shared});
        search.offer(cut, guess);
      }
  return search.best();
}

// ---- the gradient of the weight ----

namespace {

/// Blocks of 8 warps whose registers fit a multiprocessor.
int grad_weight_resident(int columns, bool rounded) {
  if (columns <= 8) return rounded ? 3 : 2;
  return columns <= 24 || (rounded && columns <= 56) ? 2 : 1;
}

}  // namespace

GradWeightCut find_grad_weight_cut(const Figures& on, const tuning::Costs& costs, const Conv2d& p, bool rounded) {
  const Counts s(p);
  const auto& fit = rounded ? costs.rounded_grad_weight : costs.strict_grad_weight;
  const int depths = padded(s.area, tensor_depth) / tensor_depth;
  const float adding = rounded ? costs.rounded_adding : costs.strict_adding;
  tuning::Search<GradWeightCut> search;
  for (const int columns : column_choices) {
    if (columns > 8 && columns - 8 >= padded(p.O, 8)) continue;  // a smaller one holds them
    // The figures for TF32 are wrong here (LeNet's second layer, 32 images: 12.6 microseconds, with 32 columns 6.7).
    if (columns == 8 && p.O > 24 && rounded) continue;
    for (int chunks = 1; chunks <= p.C; ++chunks) {
      GradWeightCut cut;
      cut.columns = columns, cut.channels = static_cast<int>(ceil_div(p.C, chunks));
      if (cut.channels * s.window > tensor_warps * tensor_rows) continue;
      cut.tiles = padded(cut.channels * s.window, tensor_rows) / tensor_rows;
      // Few rows leave a block little work: more warps wait less for each other.
      cut.warps = columns <= 24 && cut.tiles <= 2 ? 2 * tensor_warps : tensor_warps;
      cut.splits = cut.warps / cut.tiles;
      cut.planes = padded(cut.channels * s.plane, 4), cut.pitch = pitch_of_rows(s.area);
      const int image = cut.planes + std::min(columns, static_cast<int>(p.O)) * cut.pitch;
      // In addition: the table of steps, and what columns beyond the last channel read.
      const std::size_t once = static_cast<std::size_t>(depths * tensor_depth + columns * cut.pitch) * sizeof(float);
      const std::size_t bytes = static_cast<std::size_t>(image) * sizeof(float);
      if (once + bytes > shared_limit(on)) continue;
      const std::size_t wanted = std::max(std::min<std::size_t>(shared_limit(on), 110 * 1024), once + bytes);
      for (int per_slice = 1; per_slice <= p.N; per_slice = per_slice < 8 ? per_slice + 1 : per_slice * 5 / 4) {
        cut.images_per_slice = per_slice, cut.slices = static_cast<int>(ceil_div(p.N, per_slice));
        if (cut.slices > 256) continue;
        cut.together = std::min(per_slice, static_cast<int>((wanted - once) / bytes));
        cut.shared = std::max(once + static_cast<std::size_t>(cut.together) * bytes,
                              cut.splits == 1 ? 0 : split_bytes(columns, cut.tiles, cut.splits));
        if (cut.shared > shared_limit(on)) continue;
        const std::int64_t blocks = cut.slices * ceil_div(p.C, cut.channels) * ceil_div(p.O, columns);
        const float images = number(per_slice), rounds = images / number(cut.together), across = number(columns / 8);
        const float packs = images * number(image) / (32 * 1000), products = images * number(depths * cut.tiles) / 100;
        const float in_turn = number(ceil_div(cut.together * depths, cut.splits)) * rounds / 10;
        const float split = cut.splits > 1 ? 1 : 0;
        const float guess =
            tensor_cost(on, fit,
                        {1, packs, products, products * across, split * number(cut.tiles * cut.splits) * across / 100,
                         number(cut.tiles) * across / 100},
                        {1, packs, in_turn, in_turn * across, split, across / 10, std::ceil(rounds) - 1},
                        {blocks, grad_weight_resident(columns, rounded) * tensor_warps / cut.warps, cut.shared}) +
            adding * number(cut.slices) * number(p.O * s.length + p.O) / 1e6f;
        search.offer(cut, guess);
      }
    }
  }
  return search.best();
}

// ---- the gradient of x ----

namespace {

/// For a patch: multiplications for 8 columns and 8 output channels.
constexpr int multiplications(std::int64_t window) { return window == 3 ? 13 : 22; }

}  // namespace

GradXCut find_grad_x_cut(const Figures& on, const tuning::Costs& costs, const Conv2d& p, bool rounded) {
  const int depth = padded(p.O, 8), window = static_cast<int>(p.KH), area = window * window;
  const PatchCounts patches(p);
  const auto& fit = rounded ? costs.rounded_grad_x : costs.strict_grad_x;
  const auto eights = static_cast<float>(p.H * ceil_div(p.W + p.pad_w, patch) * window);
  tuning::Search<GradXCut> search;
  for (int channels = 1; channels <= p.C; ++channels)
    for (int images = 1; images <= 8; images *= 2) {
      GradXCut cut;
      cut.channels = channels, cut.images = images;
      const int columns = padded(channels * window, 8), count = images * patches.count;
      cut.w_pitch = padded(channels * area, 4) | 4;
      cut.shared = static_cast<std::size_t>(depth * (cut.w_pitch + images * patches.stride) +
                                            count * columns * product_stride(window)) *
                   sizeof(float);
      if (cut.shared > shared_limit(on)) continue;
      const std::int64_t blocks = ceil_div(p.N, images) * ceil_div(p.C, channels);
      const int units = count * columns / 8, of_block = std::min(units, most_units);
      const float warps = number(of_block), turns = number(ceil_div(units, of_block));
      const float products = number(multiplications(window) * depth / 8) / 1000;
      // Copied in packs or one by one.
      const bool packs = channels * area % 4 == 0 && p.C * area % 4 == 0;
      const float weights = number(depth * channels * area) * (packs ? 1e-3f : 4e-3f);
      const float staged = number(depth * count * patch_area) * (p.OW % 4 == 0 ? 1e-3f : 4e-3f);
      const float sums = number(images * channels) * eights / 1000;
      const float guess = tensor_cost(on, fit, {1, weights, staged, number(units) * products, sums},
                                      {1, weights / warps, staged / warps, turns * products * 10, sums * 10 / warps},
                                      {blocks, 65536 / ((rounded ? 96 : 128) * 32 * of_block), cut.shared});
      search.offer(cut, guess);
    }
  return search.best();
}

}  // namespace tern::cuda::convolution
