#include <algorithm>

#include "cuda/tuning/sizes.cuh"

namespace tern::cuda::tuning {

namespace {

/// Microseconds for what a block does, from rates in cycles. Only the order of the costs matters, so the numbers that
/// belong to no card are round.
class Rates {
 public:
  Rates(const Figures& on, bool rounded) : on_(on), rounded_(rounded) {}

  float cycles(float count) const { return count / on_.clock; }
  /// A load that the next instruction needs, from the cache of the card.
  float latency() const { return cycles(900); }
  /// Multiply-adds by a whole multiprocessor. Tensor cores of TF32 wait for their factors, which shared memory
  /// delivers.
  float sums(float count) const { return cycles(count / (rounded_ ? std::min(on_.tf32, 256.0f) : strict())); }
  /// The same on multiply-adds, or on tensor cores.
  float tile_sums(float count) const {
    return cycles(count / (rounded_ ? std::min(on_.tf32, 256.0f) : on_.multiply_adds));
  }
  /// Floats into shared memory, from the cache of the card, and within.
  float copied(float floats) const { return cycles(floats * 4 / on_.bytes); }
  float shared(float floats) const { return cycles(floats / 32); }

 private:
  float strict() const { return std::max(on_.doubles, on_.multiply_adds / 8); }

  const Figures& on_;
  bool rounded_;
};

constexpr float thousand = 1000;

// A stage of a tile is loaded while the one before is multiplied; a block alone waits for each.
Tiles tiles_of(const Figures& on, bool rounded) {
  const Rates rates(on, rounded);
  Tiles costs{.of = {}, .split = 1.7f, .part = 0.08f, .reached = {1, 0.9f, 0.9f, 0.9f}};
  for (int i = 0; i < tiles; ++i) {
    const TileSize& size = tile_sizes[i];
    const auto outputs = static_cast<float>(size.rows * size.columns),
               lines = static_cast<float>(size.rows + size.columns);
    const float busy = rates.tile_sums(outputs * thousand) + rates.copied(lines * thousand) / 2;
    const float stages = thousand / static_cast<float>(size.depth);
    costs.of[i] = {busy, rates.latency() * 8 / static_cast<float>(size.resident), busy * 3 + stages * rates.latency(),
                   rates.latency() * 0.6f};
  }
  return costs;
}

Block block_of(const Rates& rates, const SliceSize& size) {
  const auto outputs = static_cast<float>(size.rows * size.columns), beside = static_cast<float>(size.beside);
  const auto lines = static_cast<float>(size.rows + size.columns), warps = static_cast<float>(size.warps);
  // Slices that a warp adds one after the other, all that are in flight at once.
  const float turns = thousand / 16 / warps / static_cast<float>(size.slices);
  const float sums = rates.sums(outputs * thousand), copied = rates.copied(lines * thousand);
  return {(sums + copied) * beside * 0.3f, rates.latency() * 1.7f,
          turns * rates.latency() * 0.9f + sums * 5.5f / warps + copied * 0.2f, rates.latency() * 7};
}

// Threads of a block, and what they leave to another.
float resident(const SliceSize& size) { return size.beside * size.warps > 8 || size.rows * size.columns > 512 ? 1 : 2; }

Slices slices_of(const Figures& on, bool rounded) {
  const Rates rates(on, rounded);
  Slices costs{.of = {}, .resident = {}, .exposed = 0.45f, .again = 1};
  for (int i = 0; i < forward_slices; ++i) {
    costs.of[i] = block_of(rates, forward_sizes[i]);
    costs.resident[i] = resident(forward_sizes[i]);
  }
  return costs;
}

SlicePairs pairs_of(const Figures& on, bool rounded) {
  const Rates rates(on, rounded);
  SlicePairs costs{.weight = {}, .data = {}, .resident = {}, .exposed = 0.2f, .again = 0.1f};
  for (int i = 0; i < backward_slices; ++i) {
    costs.weight[i] = block_of(rates, weight_sizes[i]);
    costs.data[i] = block_of(rates, data_sizes[i]);
    costs.resident[i] = resident(weight_sizes[i]);
  }
  return costs;
}

// Counts: costs.cuh. A pack is four floats; a slice 32 rows by 16 k; a column 8 of the output's.
Cut<ForwardColumns> forward_of(const Rates& rates) {
  const float slice = 32 * 16, column = 32 * 8;
  return {.work = {.once = rates.latency() * 0.7f,
                   .packs = rates.copied(4 * thousand) * 7,
                   .slices = rates.shared(slice * 100) * 1.4f,
                   .columns = rates.sums(slice * 8 * 100),
                   .splits = rates.shared(column * 100) * 2,
                   .tiles = rates.copied(column * 100) * 3},
          .wait = {.once = rates.latency() * 2.7f,
                   .packs = rates.copied(4 * thousand) * 8,
                   .slices = rates.latency() * 3.5f,
                   .columns = rates.sums(slice * 8),
                   .splits = rates.latency() * 1.2f,
                   .tiles = rates.latency() * 6.5f},
          .exposed = 0.6f};
}

Cut<GradWeightColumns> grad_weight_of(const Rates& rates, bool rounded) {
  const float slice = 32 * 16, column = 32 * 8;
  return {.work = {.once = 0,
                   .packs = rates.copied(4 * thousand) * 4.5f,
                   .slices = rates.shared(slice * 100) / 4,
                   .columns = rates.sums(slice * 8 * 100) * 1.3f,
                   .splits = rates.shared(column * 100) * 3,
                   .tiles = rates.copied(column * 100) * 5},
          .wait = {.once = rates.latency() * 2,
                   .packs = rates.copied(4 * thousand) * 16,
                   .slices = rates.latency() * 7,
                   .columns = rates.latency(),
                   .splits = rates.latency() * 1.6f,
                   .tiles = rates.latency() * 2.3f,
                   .rounds = 0},
          .exposed = rounded ? 0.45f : 0.1f};
}

Cut<GradXColumns> grad_x_of(const Rates& rates, bool rounded) {
  const float product = 16 * 8 * 8;
  return {.work = {.once = rates.latency(),
                   .weights = rates.copied(thousand) / 2,
                   .elements = rates.copied(thousand) * 1.3f,
                   .products = rates.sums(product * thousand) * 2.8f,
                   .sums = rates.shared(8 * thousand) * 4},
          .wait = {.once = rates.latency() * 7,
                   .weights = rates.copied(thousand) * 30,
                   .elements = rates.copied(thousand) * 30,
                   .products = rates.sums(product * thousand) / 4,
                   .sums = rates.shared(8 * 100) * 16},
          .exposed = rounded ? 0.3f : 0.4f};
}

}  // namespace

Costs plain_costs(const Figures& on) {
  const Rates strict(on, false), rounded(on, true);
  return {.strict_tiles = tiles_of(on, false),
          .rounded_tiles = tiles_of(on, true),
          .rounded_backward_tiles = tiles_of(on, true),
          .strict_slices = slices_of(on, false),
          .rounded_slices = slices_of(on, true),
          .strict_pairs = pairs_of(on, false),
          .rounded_pairs = pairs_of(on, true),
          .strict_forward = forward_of(strict),
          .rounded_forward = forward_of(rounded),
          .strict_grad_weight = grad_weight_of(strict, false),
          .rounded_grad_weight = grad_weight_of(rounded, true),
          .strict_grad_x = grad_x_of(strict, false),
          .rounded_grad_x = grad_x_of(rounded, true),
          // A million partial sums, read once.
          .strict_adding = strict.copied(1e6f) / static_cast<float>(on.multiprocessors) * 6,
          .rounded_adding = strict.copied(1e6f) / static_cast<float>(on.multiprocessors) * 6};
}

}  // namespace tern::cuda::tuning
