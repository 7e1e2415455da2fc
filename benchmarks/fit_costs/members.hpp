#pragma once
// What a file of costs consists of: for each of its members the problems that show what the member costs, the search
// that reads it, and its numbers.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cuda/convolution/direct_cuts.cuh"
#include "cuda/products/cuts.cuh"

namespace tern::benchmarks {

using cuda::tuning::Costs;
using cuda::tuning::Figures;

/// Which kernel a problem is for.
enum class Slot { linear, linear_backward, conv2d, grad_weight, grad_x };

/// A product of m rows, n outputs and k inputs; or a convolution of N images with C channels of H x H to O channels,
/// K x K, with padding.
struct Case {
  Slot slot = Slot::linear;
  std::array<std::int64_t, 6> sizes{};  ///< m, n, k; or N, C, O, H, K, padding
  double weight = 1;                    ///< how much it counts in a fit: a layer of the library's networks more

  kernels::Conv2d conv2d() const;
  std::string text() const;
};

/// A number to be fitted. What enters a cost by its whole part (blocks that fit, multiprocessors that are reached) has
/// candidates, of which the best is taken; other numbers are varied.
struct Number {
  float* at;
  std::vector<float> candidates{};
};

/// A member of Costs.
struct Member {
  const char* name;
  bool rounded;         ///< factors of TF32
  bool slices = false;  ///< products by slices of k, not by tiles
  std::vector<Case> cases;

  /// The costs of all cuts of a problem, in the order of the search; and the number of the cheapest.
  std::vector<float> guesses(const Figures& on, const Costs& costs, const Case& of) const;
  std::vector<Number> numbers(Costs& costs) const;
};

const std::vector<Member>& members();

}  // namespace tern::benchmarks
