#pragma once
// Convolutions in which each channel has its own kernel: as many groups as input and output channels.

#include "cuda/convolution/strips.cuh"

namespace tern::cuda::convolution::depthwise {

using namespace strips;

constexpr int most_taps = 1024;  // of a kernel: its weights are in shared memory

inline bool is_depthwise(const Conv2d& shape) { return shape.groups == shape.C && shape.O == shape.C && shape.C > 1; }
bool fits(const Problem& problem);

/// Whether kernel size and stride have specialised kernels: a square of 3, 5 or 7 and a stride of 1 or 2.
inline bool is_usual(const Problem& p) {
  return p.KH == p.KW && (p.KH == 3 || p.KH == 5 || p.KH == 7) && p.stride_h == p.stride_w && p.stride_h <= 2 &&
         p.dilation_h == 1 && p.dilation_w == 1;
}

/// Whether it is made of usual ones without dilation and stride, which read and write every `dilation`-th position.
inline bool has_phases(const Problem& p) {
  Problem one = p;
  one.dilation_h = one.dilation_w = 1;
  return is_usual(one) && p.dilation_h == p.dilation_w && p.dilation_h > 1 && p.dilation_h <= 4 &&
         (p.stride_h == 1 || p.stride_h == p.dilation_h);
}
/// The kernel of such a phase.
inline Problem of_phase(const Problem& p) {
  Problem one = p;
  one.dilation_h = one.dilation_w = one.stride_h = one.stride_w = 1;
  return one;
}

/// A phase of such a convolution: its sides, and where it begins to read and to write.
struct Phase {
  Work work;
  std::int64_t read = 0, write = 0;
};
/// Calls body(phase) for each; all outputs belong to one. Positions of x that no phase has take no part.
template <class Body>
void for_phases(const Problem& p, const Body& body) {
  const bool back = p.pass == Pass::grad_x;
  const int dilation = static_cast<int>(p.dilation_h), phases = p.stride_h == 1 ? dilation : 1;
  const auto cut = [&](Side side, int y_first, Phase& phase) {
    // Output y_first + y_step a reads x_first + dilation (a - pad + tap).
    const int y_step = side.stride == 1 ? dilation : 1;
    const int x_first = ((y_first - side.pad) % dilation + dilation) % dilation;
    const auto left = [](int count, int first, int step) { return std::max(0, (count - first + step - 1) / step); };
    const int x = left(back ? side.written : side.read, x_first, dilation);
    const int y = left(back ? side.read : side.written, y_first, y_step);
    phase.read += (back ? y_first : x_first) * side.read_pitch;
    phase.write += (back ? x_first : y_first) * side.write_pitch;
    side.pad = (x_first + side.pad - y_first) / dilation;
    side.read = back ? y : x, side.written = back ? x : y;
    side.read_pitch *= back ? y_step : dilation, side.write_pitch *= back ? dilation : y_step;
    side.stride = side.dilation = 1;
    return side;
  };
  const Work whole = work_of(p);
  for (int i = 0; i < phases; ++i)
    for (int j = 0; j < phases; ++j) {
      Phase phase{whole};
      phase.work.strip = cut(whole.strip, i, phase);
      phase.work.across = cut(whole.across, j, phase);
      if (phase.work.strip.written > 0 && phase.work.across.written > 0) body(phase);
    }
}

/// Calls body(size, stride) with constants.
template <class Body>
void with_kernel(const Problem& p, const Body& body) {
  const auto with_stride = [&](auto size) {
    if (p.stride_h == 1) return body(size, std::integral_constant<int, 1>{});
    body(size, std::integral_constant<int, 2>{});
  };
  if (p.KH == 3) return with_stride(std::integral_constant<int, 3>{});
  if (p.KH == 5) return with_stride(std::integral_constant<int, 5>{});
  with_stride(std::integral_constant<int, 7>{});
}

}  // namespace tern::cuda::convolution::depthwise
