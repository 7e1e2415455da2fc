#pragma once
// What surrounds a convolution by cuDNN: weights and images brought into the order and the element type that its
// engines want, and bias, activation and their gradients, one pass over the images each.

#include "cuda/bfloat16.cuh"
#include "cuda/convolutions.cuh"

namespace tern::cuda {

/// Blocks of `block` x `block` neighbouring positions become one position with block^2 times the channels, so that a
/// convolution of few channels and that stride becomes one of many channels and stride 1. Then the channels are filled
/// up with zeros to `channels`. `block` 1 only reorders, fills up and converts.
struct Packing {
  std::int64_t block = 1;
  std::int64_t channels = 0;                ///< of a packed position
  std::int64_t H = 0, W = 0;                ///< of the packed image
  std::int64_t KH = 1, KW = 1;              ///< of the packed weight
  std::int64_t before_h = 0, before_w = 0;  ///< padding that is part of the packed image
};

/// out [O, KH', KW', channels] from w [O, C / groups, KH, KW] (channels / groups of them), and the way back for a
/// gradient.
template <class Out>
void pack_weight(const Context& context, Out* out, const float* weight, const Conv2d& shape, const Packing& packing);
template <class In>
void unpack_weight(const Context& context, float* weight, const In* in, const Conv2d& shape, const Packing& packing);

/// out [C, KH, KW, O / groups] from w [O, C / groups, KH, KW], turned by 180 degrees: what turns the gradient of x into
/// a forward convolution.
template <class Out>
void turn_weight(const Context& context, Out* out, const float* weight, const Conv2d& shape);

/// out [N, H', W', channels] from x [N, H, W, C], and the way back for a gradient.
template <class Out>
void pack_image(const Context& context, Out* out, const float* x, const Conv2d& shape, const Packing& packing);
template <class In>
void unpack_image(const Context& context, float* x, const In* in, const Conv2d& shape, const Packing& packing);

}  // namespace tern::cuda
