#include "vectorized/convolution/inside.hpp"

namespace tern::vectorized::convolution {

AxisInside inside_of(const Axis& axis) {
  AxisInside result{.taps = axis.taps};
  const std::int64_t last =
      (axis.outputs - 1) * axis.stride;  // where the last output's first tap reads, before padding
  for (std::int64_t tap = 0; tap < axis.taps; ++tap) {
    const std::int64_t at = tap * axis.dilation - axis.pad;
    const std::int64_t before = std::clamp<std::int64_t>(divide_up(-at, axis.stride), 0, axis.outputs);
    const std::int64_t over = last + at - (axis.inputs - 1);
    const std::int64_t behind = std::clamp<std::int64_t>(divide_up(over, axis.stride), 0, axis.outputs - before);
    result.products += axis.outputs - before - behind;
    result.begin = std::max(result.begin, before);
    result.end = std::max(result.end, behind);
  }
  result.inner = std::max<std::int64_t>(axis.outputs - result.begin - result.end, 0);
  result.outputs = axis.outputs;
  return result;
}

}  // namespace tern::vectorized::convolution
