#pragma once

#include <cstdint>

#include "tern/data/dataset.hpp"

namespace tern::data {

struct SyntheticOptions {
  std::uint64_t seed = 1;
  std::int64_t first = 0;  ///< number of the first image: ranges that do not overlap share no image
};

/// `n` drawn digits as uint8 [n,1,28,28], ten classes equally often: stroke skeletons, moved, rotated, sheared, bent,
/// of varying thickness, with noise. Image i of a seed is always the same, on every machine. They stand in for MNIST
/// where there is no file; they are not MNIST, and results on them say nothing about it.
Dataset synthetic_digits(std::int64_t n, const SyntheticOptions& options = {});

}  // namespace tern::data
