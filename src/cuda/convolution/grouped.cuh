#pragma once
// Channels-last convolutions with many groups of few channels each: a thread has a strip of adjacent outputs of a
// group, and weights are in shared memory.

#include "cuda/convolution/rule.cuh"
#include "cuda/convolution/strips.cuh"

namespace tern::cuda::convolution::grouped {

using namespace strips;

/// Channels of a group that a pass reads and writes, and that a thread reads and writes at once: 4 or 1.
struct Groups {
  int read, written, at_once;
};
Groups groups_of(const Problem& problem);

/// Whether all passes of the convolution can run here, channels last.
bool fits(const Problem& problem);
/// Groups so narrow that tiles of a product are mostly empty.
bool is_narrow(const Conv2d& shape);
/// Those for which this is faster nevertheless.
inline bool fits_narrow(const Problem& problem) {
  return is_narrow(problem) && fits(problem) && !strips_are_slower(problem);
}

}  // namespace tern::cuda::convolution::grouped
