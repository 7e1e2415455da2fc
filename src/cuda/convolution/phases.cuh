#pragma once
// The gradient of x through a stride as convolutions of g at stride 1. Positions of x that leave the same rest when
// divided by the stride are a phase: the same taps reach them, at adjacent positions of g. Each tap is in one phase.

#include <numeric>
#include <vector>

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// Of one side. Its convolution reads the taps backwards.
struct PhaseSide {
  std::int64_t first, count;     ///< positions of x, a stride apart
  std::int64_t tap, step, taps;  ///< the first tap, from one to the next, and their number
  std::int64_t pad, dilation;    ///< of the convolution of g; pad may be negative
};
inline PhaseSide phase_side(std::int64_t rest, std::int64_t size, std::int64_t kernel, std::int64_t stride,
                            std::int64_t pad, std::int64_t dilation) {
  const std::int64_t common = std::gcd(stride, dilation);
  PhaseSide side{};
  side.first = ((rest - pad) % stride + stride) % stride;
  side.count = side.first < size ? ceil_div(size - side.first, stride) : 0;
  side.step = stride / common, side.dilation = dilation / common;
  while (side.tap < side.step && side.tap * dilation % stride != rest) ++side.tap;
  const bool reached = side.tap < side.step && side.tap < kernel;
  side.taps = reached ? ceil_div(kernel - side.tap, side.step) : 0;
  if (reached) side.pad = (side.taps - 1) * side.dilation - (side.first + pad - side.tap * dilation) / stride;
  return side;
}

struct Phase {
  PhaseSide h, w;
  std::int64_t weight;  ///< rows of the ordered weight before its own; a row has the outputs of a group

  std::int64_t taps() const { return h.taps * w.taps; }
};

constexpr int most_phases = 9, most_phase_taps = 128;
/// Whether the gradient of x has so few phases and taps that phases_of may be called.
inline bool has_phases(const Problem& p) {
  return p.stride_h * p.stride_w <= most_phases && p.KH * p.KW <= most_phase_taps;
}
inline std::vector<Phase> phases_of(const Problem& p) {
  std::vector<Phase> phases;
  std::int64_t rows = 0;
  for (std::int64_t h = 0; h < p.stride_h; ++h)
    for (std::int64_t w = 0; w < p.stride_w; ++w) {
      phases.push_back({phase_side(h, p.H, p.KH, p.stride_h, p.pad_h, p.dilation_h),
                        phase_side(w, p.W, p.KW, p.stride_w, p.pad_w, p.dilation_w), rows});
      rows += p.C * phases.back().taps();
    }
  return phases;
}

}  // namespace tern::cuda::convolution
