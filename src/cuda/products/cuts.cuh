#pragma once
// How our own products are cut: arithmetic on sizes and a card's figures, so results are the same bits in every
// process. Host code without a runtime, which benchmarks and tests compile without nvcc.

#include "cuda/tuning/search.cuh"
#include "cuda/tuning/sizes.cuh"

namespace tern::cuda::products {

/// A product as the rules see it; or the backward pass of a linear layer with m rows, n outputs and k inputs.
struct Sizes {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  bool by_rows = true;              ///< both factors are stored along k
  bool rounded = false;             ///< tiles of TF32
  bool weight = true, data = true;  ///< backward: the gradients that exist
};

/// A tile shape (an index into tuning::tile_sizes) and the split of each sum. `cost` is the rule's estimate in
/// microseconds.
struct Tiling {
  int tile = 0, split = 1;            ///< of the product, or of the weight's gradient
  int tile_data = 0, split_data = 1;  ///< of the gradient of x
  float cost = 0;
};
inline constexpr int largest_split = 8;  ///< the largest cluster that every card with clusters supports

/// Bits of the tiles, and of the splits by their logarithm, that may be taken.
struct Allowed {
  unsigned tiles = ~0u, splits = ~0u;
};

/// Whether there are kernels for these tiles, and the card has the shared memory.
bool tile_exists(const tuning::Figures& on, int tile, bool by_rows);
bool pair_exists(const tuning::Figures& on, int tile, int tile_data);

/// The cheapest; its cost is the largest number if there is none.
Tiling find_tiling(const tuning::Figures& on, const tuning::Tiles& costs, const Sizes& sizes,
                   const Allowed& allowed = {});
Tiling find_backward_tiling(const tuning::Figures& on, const tuning::Tiles& costs, const Sizes& sizes,
                            const Allowed& allowed = {});

/// An index into tuning::forward_sizes, or into weight_sizes and data_sizes, and whether factors become doubles or
/// TF32.
struct Slices {
  int shape = 0;
  bool doubles = true;
};
/// The shapes from `first` to before `end`, with factors of either kind.
struct SlicesAllowed {
  int first = 0, end = 0;
  bool doubles = true, tf32 = true;
};
Slices find_slices(const tuning::Figures& on, const tuning::Costs& costs, const Sizes& sizes,
                   const SlicesAllowed& allowed);
Slices find_backward_slices(const tuning::Figures& on, const tuning::Costs& costs, const Sizes& sizes,
                            const SlicesAllowed& allowed);

}  // namespace tern::cuda::products
