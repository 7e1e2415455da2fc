#pragma once
// Weights in the order in which a kernel reads them, kept from one inference to the next.

#include <cstddef>
#include <memory>
#include <string_view>

#include "tern/kernels/weight_version.hpp"
#include "vectorized/convolution/problem.hpp"

namespace tern::vectorized::convolution {

/// A call's share in what is kept. `data` is null where nothing is: the call prepares its weights in scratch.
struct Kept {
  std::shared_ptr<void> data;
  bool ready = false;  ///< else this call fills it, and says so by `keep`
};

/// What is kept of these weights for this problem and algorithm. The first call leaves a note, the second one is given
/// memory to fill, later ones read it. For any number of threads.
Kept kept_weights(const kernels::WeightVersion& version, const Problem& problem, std::string_view algorithm,
                  std::size_t bytes);
/// `kept` is filled: later calls read it.
void keep(const kernels::WeightVersion& version, const Problem& problem, std::string_view algorithm, const Kept& kept);

struct KeptCount {
  std::size_t arrays = 0, bytes = 0;
  std::size_t found = 0;  ///< calls that found theirs, since the process began
};
KeptCount kept_count();
/// At most so many bytes are kept; what was used longest ago goes first. Returns the bound before. Without a call: an
/// eighth of the machine's memory, at most 1 GiB.
std::size_t limit_kept(std::size_t bytes);

}  // namespace tern::vectorized::convolution
