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
