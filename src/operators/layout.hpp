#pragma once
// Channels-last images: tensors of shape [N, C, H, W] with the strides of [N, H, W, C]. Operators keep their input's
// layout; conv2d converts its input to the mode's.

#include "operators/support.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

using kernels::Layout;

/// x with its dimensions in memory order, and back.
inline Tensor channels_to_end(const Tensor& x) { return permute(x, {0, 2, 3, 1}); }
inline Tensor channels_to_front(const Tensor& x) { return permute(x, {0, 3, 1, 2}); }

/// channels_last for a rank-4 tensor that is dense in that order and not also in the order of its shape.
inline Layout layout_of(const Tensor& x) {
  if (x.rank() != 4 || x.is_contiguous()) return Layout::channels_first;
  const Shape &size = x.shape(), &stride = x.strides();
  const bool last = stride[1] == 1 && stride[3] == size[1] && stride[2] == size[3] * size[1] &&
                    stride[0] == size[2] * size[3] * size[1];
  return last ? Layout::channels_last : Layout::channels_first;
}

/// The same of views with gaps, such as some channels of an image: the order in which their elements lie.
inline Layout order_of(const Tensor& x) {
  if (x.rank() != 4 || x.is_contiguous()) return Layout::channels_first;
  const Shape &size = x.shape(), &stride = x.strides();
  const bool last = size[1] > 1 && stride[1] == 1 && stride[3] >= size[1] && stride[2] >= size[3] * stride[3] &&
                    (size[0] == 1 || stride[0] >= size[2] * stride[2]);
  return last ? Layout::channels_last : Layout::channels_first;
}

/// x, detached: itself if it is in `layout`, else a copy.
inline Tensor in_layout(const Tensor& x, Layout layout) {
  const Tensor plain = x.detach();
  if (layout == Layout::channels_first) return plain.contiguous();
  return layout_of(plain) == Layout::channels_last ? plain : channels_to_front(channels_to_end(plain).contiguous());
}

/// x, detached and dense in its own order, for operators that do not depend on positions.
inline Tensor dense(const Tensor& x) { return in_layout(x, order_of(x)); }

/// Uninitialised elements.
inline Tensor empty_in(Layout layout, const Shape& shape, DType dtype) {
  if (layout == Layout::channels_first) return Tensor(shape, dtype);
  const Shape strides{shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  return {std::make_shared<Storage>(byte_count(shape, size_of(dtype))), dtype, shape, strides, 0};
}

/// The layout of an elementwise result of `shape`: channels_last if inputs of that shape have this order and none is
/// contiguous. Broadcast inputs do not count.
inline Layout common_layout(const Shape& shape, std::initializer_list<const Tensor*> inputs) {
  Layout common = Layout::channels_first;
  if (shape.rank() != 4) return common;
  for (const Tensor* input : inputs) {
    if (input->shape() != shape) continue;
    if (input->is_contiguous()) return Layout::channels_first;
    if (order_of(*input) == Layout::channels_last) common = Layout::channels_last;
  }
  return common;
}

/// The axis `dim` of a dense tensor of `shape` in `layout`.
inline kernels::Axis axis_in(Layout layout, const Shape& shape, int dim) {
  kernels::Axis axis;
  const bool last = layout == Layout::channels_last;
  const auto place = [last](int i) { return !last || i == 0 ? i : i == 1 ? 3 : i - 1; };
  for (int i = 0; i < shape.rank(); ++i)
    (place(i) < place(dim) ? axis.outer : i == dim ? axis.length : axis.inner) *= shape[i];
  return axis;
}

/// A copy of x in `layout`.
inline Tensor copy_in(Layout layout, const Tensor& x) {
  Tensor out = empty_in(layout, x.shape(), x.dtype());
  copy_elements(out, x);
  return out;
}

/// The layout in which pooling and normalisation run on x: x's own if the mode can.
inline Layout layout_for(const Tensor& x) {
  return current_scope().mode->channels_last(x.dtype()) ? order_of(x) : Layout::channels_first;
}

}  // namespace tern::operators
