#pragma once
// Rows of outputs of convolutions of few channels, in groups or not.

#include <cstdint>
#include <type_traits>

#include "vectorized/convolution/depthwise_line.hpp"

namespace tern::vectorized::convolution {

/// An integer of T's size.
template <class T>
using PlaceOf = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;

/// A line (depthwise_line.hpp) of a convolution whose lanes are outputs of one group, or of adjacent groups: for each
/// input channel of a group one after another, out += in[channel of the lane's group] * weight. `channels` counts the
/// lanes.
template <class T>
struct GroupLine : DepthwiseLine<T> {
  std::int64_t depth = 1, depth_step = 0;  ///< channels of a group, and weights from one to the next
  bool accumulate = false;                 ///< to what is in `out`, instead of the bias
  /// For each channel of a group and each lane the offset of that channel of the lane's group, less than a vector, or
  /// null: all lanes are of one group.
  const PlaceOf<T>* places = nullptr;
};

template <class T>
struct GroupLineKernels {
  std::int64_t (*most_outputs)(std::int64_t taps);
  void (*run)(const GroupLine<T>&);
};
template <class T>
const GroupLineKernels<T>& group_line_kernels();

/// Whether there are kernels for rows of so many taps and this stride.
constexpr bool group_line_fits(std::int64_t taps, std::int64_t stride) {
  return (taps == 3 || taps == 5 || taps == 7) && stride <= 2;
}

}  // namespace tern::vectorized::convolution
