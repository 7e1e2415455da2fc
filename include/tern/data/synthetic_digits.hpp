#pragma once

#include <cstdint>

#include "tern/data/dataset.hpp"

namespace tern::data {

struct SyntheticOptions {
  std::uint64_t seed = 1;
  std::int64_t first = 0;  ///< number of the first image: ranges that do not overlap share no image
};

/// `n` generated digits as uint8 [n,1,28,28], ten classes equally often: stroke skeletons, shifted, rotated, sheared,
/// bent, of varying thickness, with noise. Image i of a seed is the same on every machine. They replace MNIST if there
/// are no files; results on them say nothing about MNIST.
Dataset synthetic_digits(std::int64_t n, const SyntheticOptions& options = {});

}  // namespace tern::data
