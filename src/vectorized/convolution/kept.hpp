#pragma once
// A cache of weights in a kernel's order, from one inference to the next.

#include <cstddef>
#include <memory>
#include <string_view>

#include "tern/kernels/weight_version.hpp"
#include "vectorized/convolution/problem.hpp"

namespace tern::vectorized::convolution {

/// A call's view of the cache. `data` is null if nothing is cached: the call prepares its weights in scratch.
struct Kept {
  std::shared_ptr<void> data;
  std::size_t bytes = 0;
  bool ready = false;  ///< if false, this call fills it, and then calls `keep`
};

/// The cached weights for this problem, algorithm and size. The first call leaves a note, the second one gets memory to
/// fill, later ones read it. Thread-safe.
Kept kept_weights(const kernels::WeightVersion& version, const Problem& problem, std::string_view algorithm,
                  std::size_t bytes);
/// `kept` is filled: later calls read it.
void keep(const kernels::WeightVersion& version, const Problem& problem, std::string_view algorithm, const Kept& kept);

struct KeptCount {
  std::size_t arrays = 0, bytes = 0;
  std::size_t found = 0;  ///< hits since the process began
};
KeptCount kept_count();
/// Limits the cache to this many bytes; the least recently used entry goes first. Returns the previous limit. The
/// default is an eighth of the machine's memory, at most 1 GiB.
std::size_t limit_kept(std::size_t bytes);

}  // namespace tern::vectorized::convolution
