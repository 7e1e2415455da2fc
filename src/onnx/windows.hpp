#pragma once
// The sizes of windows, as convolutions and pools of one to three dimensions have them.

#include "onnx/table.hpp"

namespace tern::onnx {

/// Per spatial dimension.
struct Windows {
  Integers kernel = {}, stride = {}, dilation = {}, before = {}, after = {};
  bool ceil = false;
};

/// The attributes of a node whose input has these spatial sizes. With SAME_UPPER or SAME_LOWER windows that are smaller
/// than their stride may have no use for the ends of a dimension: pools, as ONNX's formula says, then have negative
/// padding (`cuts`), and convolutions none.
Windows windows_of(const Call& call, const Integers& sizes, const Integers& kernel, bool cuts = false);

/// The same where outputs are rounded up, with the padding that the last window needs: none starts in the padding.
Windows extended(Windows windows, const Tensor& x);

/// One dimension more in front of the spatial ones, of size 1, where there is one: kernels have two.
Tensor widened(const Tensor& x);
/// Back again, to `rank` dimensions.
Tensor narrowed(const Tensor& x, int rank);
inline Triple triple_of(const Integers& each) { return {each[0], each[1], each[2]}; }
/// Height and width; `absent` is the height of one dimension.
inline Pair pair_of(const Integers& each, std::int64_t absent) {
  return each.size() == 1 ? Pair(absent, each[0]) : Pair(each[0], each[1]);
}

}  // namespace tern::onnx
