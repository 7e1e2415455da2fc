#pragma once

#include <cstdint>

#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// How the ranks of a group hold one tensor together. A divided dimension must be a multiple of the number of ranks.
enum class Layout : std::uint8_t {
  whole,     ///< the same elements in every rank, all used alike: the gradients are equal
  copies,    ///< the same elements, used differently by each rank: the gradient is the sum over the ranks
  partial,   ///< each rank has one term: the value is the sum over the ranks
  rows,      ///< each rank has a block of the first dimension, such as its examples of the batch
  features,  ///< each rank has a block of the last dimension
};

/// Converts x from the layout `from` to `to`; returns x itself if nothing changes. It has a gradient: all ranks call
/// it, and run backward through it, in the same order. Throws ShapeError if a dimension cannot be divided equally, and
/// Error for the meaningless cases `from` copies and `to` partial.
///
///     exchange(group, x, Layout::whole, Layout::copies)    // x; its gradient is summed over the ranks
///     exchange(group, x, Layout::partial, Layout::whole)   // the sum
///     exchange(group, x, Layout::rows, Layout::features)   // all examples, some features
Tensor exchange(const Group& group, const Tensor& x, Layout from, Layout to);

}  // namespace tern::parallel
