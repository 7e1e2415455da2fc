#pragma once
// The convolution algorithms, one file (or one per pass) each. Gradients have already passed through the activation.
// lists.cu has them in order of preference.

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

using Algorithms = Candidates<Problem, Arrays>;
/// Those of the problem's pass, preferred ones first.
Algorithms algorithms_of(const Problem& problem);
/// The order of x in which all passes run, for float32.
Layout layout_of(const Context& context, const Conv2d& shape);

// ---- channels first ----

// Any sizes: a matrix product whose factors are gathered element by element (general.cu).
extern const Algorithm general_forward, general_grad_x, general_grad_weight;
// Small planes, stride 1: whole planes in shared memory, with multiply-adds (direct_*.cu) and on tensor cores
// (direct_tensor_*.cu). `first` is for preferred sizes, `last` for others; a `pooled` pass has no other algorithm.
extern const Algorithm direct_forward, direct_grad_x, direct_grad_weight;
extern const Algorithm direct_tensor_forward_first, direct_tensor_forward_last;
extern const Algorithm direct_tensor_grad_x_first, direct_tensor_grad_x_last, direct_tensor_grad_weight;
extern const Algorithm direct_tensor_forward_pooled, direct_tensor_grad_x_pooled;

// One input channel or one output (single*.cu); `first` unless the algorithms for small planes are faster.
extern const Algorithm single_forward_first, single_forward_last, single_grad_x_first, single_grad_x_last;
extern const Algorithm single_grad_weight_first, single_grad_weight_last;

// Gradients of few input channels as products of windows (product_taps.cu); `first` where single planes would reach too
// little of the card's rate.
extern const Algorithm taps_grad_x_first, taps_grad_x_last, taps_grad_weight_first, taps_grad_weight_last;

// Groups of few channels (narrow.cu); `first` if tiles of a product would be mostly empty.
extern const Algorithm narrow_forward_first, narrow_forward_last, narrow_grad_x_first, narrow_grad_x_last;
extern const Algorithm narrow_grad_weight_first, narrow_grad_weight_last;

// A 1x1 kernel as a product of the weight with each image's planes (product_planar.cu); `first` if that is faster than
// the copies of padded.cu.
extern const Algorithm planar_forward_first, planar_forward_last, planar_grad_x_first, planar_grad_x_last;
extern const Algorithm planar_grad_weight_first, planar_grad_weight_last;

// The same by a library (product_planes.cu); `first` if that is faster than both.
extern const Algorithm planes_forward_first, planes_forward_last, planes_grad_x_first, planes_grad_x_last;
extern const Algorithm planes_grad_weight_first, planes_grad_weight_last;

// ---- in either order ----

// Each channel is a group with one output (depthwise*.cu).
extern const Algorithm depthwise_forward, depthwise_grad_x, depthwise_grad_weight;

// Channels last, with zeros behind each group's channels, for the algorithms that need lanes (padded.cu); `first` for
// large problems.
extern const Algorithm padded_forward_first, padded_forward_last, padded_grad_x_first, padded_grad_x_last;
extern const Algorithm padded_grad_weight_first, padded_grad_weight_last;

// ---- channels last ----

// Many groups (grouped*.cu); `first` if they have few channels.
extern const Algorithm grouped_forward_first, grouped_forward_last;
extern const Algorithm grouped_grad_x_first, grouped_grad_x_last;
extern const Algorithm grouped_grad_weight_first, grouped_grad_weight_last;

// Winograd's transformed tiles in strict float32 (winograd.cu); `first` if that is faster than an implicit product.
extern const Algorithm winograd_forward_first, winograd_forward_last, winograd_grad_x_first, winograd_grad_x_last;
// Our implicit products: a patch's channels arrive in runs of 16 bytes, copied ahead (implicit_*.cu). `first` if
// preferred to the library, `last` if not.
extern const Algorithm implicit_forward_first, implicit_forward_last;
extern const Algorithm implicit_grad_x_first, implicit_grad_x_last, implicit_grad_weight;
extern const Algorithm strided_grad_x_first, strided_grad_x_last;  // through a stride
// The same for 16 bits (implicit_halves.cu), and with factors that the copy engine brings (boxes_halves.cu); both also
// add Arrays::added, boxes, which are for few outputs, only before an activation that clips; `first` where they should
// be faster than an engine.
extern const Algorithm implicit_halves_first, implicit_halves_last, boxes_halves_first, boxes_halves_last;
inline bool clips(Activation activation) {
  return activation == Activation::none || activation == Activation::relu || activation == Activation::relu6;
}
// 16 bits of few input channels: windows are read from rows of x in shared memory (stem_*.cu); `first` where engines
// are slower.
extern const Algorithm stem_forward_first, stem_forward_last, stem_grad_weight_first, stem_grad_weight_last;
// Engines of cuDNN, with factors in bfloat16 or float32. Bias and activation run in a separate pass, or as the engine's
// `fused_epilogue`; the gradient of x may use a forward engine on the `flipped` weight; gradients are converted from
// bfloat16, or written in their `place` (library.cu).
extern const Algorithm library_forward_bf16, library_forward, fused_epilogue_forward_bf16, fused_epilogue_forward;
extern const Algorithm flipped_grad_x, flipped_grad_x_in_place, library_grad_x, library_grad_x_in_place;
extern const Algorithm library_grad_weight, library_grad_weight_in_place;
// A convolution with a 1x1 kernel is a matrix product over the positions, by cuBLASLt (product.cu); `first` if it
// writes a slice of a wider tensor in 16 bits, for which an engine's y is copied.
extern const Algorithm product_forward_first, product_forward_bf16, product_forward, product_grad_x;
// Windows that do not overlap, of few channels, are written out for such a product (im2col.cu).
extern const Algorithm im2col_forward;
// Long sums of few positions likewise, in the order of the weight (patches.cu); `first` where engines leave the card
// idle.
extern const Algorithm patches_forward_first, patches_forward_last;
// Few outputs, or the gradient of few inputs: a product computes the terms of all taps, and they are folded (fold.cu).
extern const Algorithm fold_forward_first, fold_forward_last, fold_grad_x_first, fold_grad_x_last;

}  // namespace tern::cuda::convolution
