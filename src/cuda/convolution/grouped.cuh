#pragma once
// Convolutions of many groups with few channels each, channels last: a thread has the neighbouring outputs of a group
// in a strip, and weights lie in shared memory.

#include "cuda/convolution/strips.cuh"

namespace tern::cuda::convolution::grouped {

using namespace strips;

/// Channels of a group that are read and written in a pass, and that a thread reads and writes at once: 4 or 1.
struct Groups {
  int read, written, at_once;
};
Groups groups_of(const Problem& problem);

/// Whether all passes of the convolution, channels last, run here.
bool fits(const Problem& problem);
/// Groups so narrow that tiles of a product are mostly empty.
bool is_narrow(const Conv2d& shape);
inline bool fits_narrow(const Problem& problem) { return is_narrow(problem) && fits(problem); }

}  // namespace tern::cuda::convolution::grouped
