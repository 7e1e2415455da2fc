#pragma once

#include "tern/core/member_list.hpp"
#include "tern/operators/conv.hpp"

namespace tern::operators {

struct UnfoldOptions {
  Pair dilation = 1, padding = 0, stride = 1;

  using Members = MemberList<&UnfoldOptions::dilation, &UnfoldOptions::padding, &UnfoldOptions::stride>;
};
/// The windows of x [N, C, H, W] as columns (im2col): [N, C KH KW, L] for L windows in the order of conv2d's output.
/// Any dtype. x may also be one image [C, H, W].
Tensor unfold(const Tensor& x, Pair kernel, const UnfoldOptions& options = {});
/// The gradient of unfold as an operator: adds each column of x [N, C KH KW, L] to its window of an image of `output`
/// (col2im): [N, C, output.h, output.w]. Floating dtypes.
Tensor fold(const Tensor& x, Pair output, Pair kernel, const UnfoldOptions& options = {});

// Channels to blocks of pixels, and back. Any dtype.

/// x [..., C r^2, H, W] as [..., C, H r, W r]: channel c r^2 + i r + j is pixel (i, j) of each block of c, as ONNX's
/// DepthToSpace with mode CRD.
Tensor pixel_shuffle(const Tensor& x, std::int64_t factor);
Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor);  ///< The inverse of pixel_shuffle.
/// x [N, C b^2, H, W] as [N, C, H b, W b]: channel (i b + j) C + c is pixel (i, j) of each block of c, as ONNX's
/// DepthToSpace with mode DCR.
Tensor depth_to_space(const Tensor& x, std::int64_t block);
Tensor space_to_depth(const Tensor& x, std::int64_t block);  ///< The inverse of depth_to_space.

}  // namespace tern::operators
