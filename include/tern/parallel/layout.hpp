#pragma once

#include <cstdint>

#include "tern/parallel/group.hpp"

namespace tern::parallel {

/// How the ranks of a group hold one tensor together. A dimension that is divided is a multiple of the number of ranks.
enum class Layout : std::uint8_t {
  whole,     ///< the same elements in every rank, which all do the same with them: so is the gradient
  copies,    ///< the same elements, each rank doing something else with them: the gradient is the sum of the ranks'
  partial,   ///< of every rank a term: the sum of all is meant
  rows,      ///< of every rank a block of the first dimension, such as its examples of the batch
  features,  ///< of every rank a block of the last dimension
};

/// x, which the ranks hold as `from` says, held as `to` says; x itself where nothing has to change. With its gradient:
/// all ranks call it, and run backward through it, in the same order. Throws ShapeError where a dimension cannot be
/// divided equally, and Error for what has no meaning: `from` copies and `to` partial.
///
///     exchange(group, x, Layout::whole, Layout::copies)    // x; its gradient is summed over the ranks
///     exchange(group, x, Layout::partial, Layout::whole)   // the sum
///     exchange(group, x, Layout::rows, Layout::features)   // all examples, some features
Tensor exchange(const Group& group, const Tensor& x, Layout from, Layout to);

}  // namespace tern::parallel
