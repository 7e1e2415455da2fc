#include "vectorized/convolution/inside.hpp"

namespace tern::vectorized::convolution {

AxisInside inside_of(const Axis& axis) {
  AxisInside result;
  const auto taps = static_cast<std::size_t>(std::min<std::int64_t>(axis.taps, AxisInside::most_taps));
  std::array<std::int64_t, AxisInside::most_taps> begins{}, ends{};  // of the outputs for which a tap is inside
  std::array<std::int64_t, 2 * AxisInside::most_taps + 2> edges{};
  std::size_t count = 0;
  edges[count++] = 0;
  edges[count++] = axis.outputs;
  for (std::size_t tap = 0; tap < taps; ++tap) {
    const std::int64_t at = static_cast<std::int64_t>(tap) * axis.dilation - axis.pad;
    begins[tap] = std::clamp<std::int64_t>(divide_up(std::max<std::int64_t>(-at, 0), axis.stride), 0, axis.outputs);
    ends[tap] = at >= axis.inputs ? begins[tap]
                                  : std::clamp((axis.inputs - 1 - at) / axis.stride + 1, begins[tap], axis.outputs);
    edges[count++] = begins[tap];
    edges[count++] = ends[tap];
  }
  std::sort(edges.begin(), edges.begin() + static_cast<std::ptrdiff_t>(count));
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (edges[i] == edges[i + 1]) continue;
    AxisInside::Part& part = result.parts[result.count++];
    part.outputs = edges[i + 1] - edges[i];
    for (std::size_t tap = 0; tap < taps; ++tap)
      if (begins[tap] <= edges[i] && edges[i + 1] <= ends[tap]) ++part.taps;
    if (axis.taps > AxisInside::most_taps) part.taps = axis.taps;  // a rough figure is enough for so many
  }
  return result;
}

}  // namespace tern::vectorized::convolution
