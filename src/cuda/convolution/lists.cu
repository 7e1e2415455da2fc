// The algorithms of each pass, preferred ones first.

#include <array>

#include "cuda/convolution/algorithms.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr std::array forward{&narrow_forward_first,
                             &depthwise_forward,
                             &single_forward_first,
                             &planes_forward_first,
                             &planar_forward_first,
                             &padded_forward_first,
                             &grouped_forward_first,
                             &direct_tensor_forward_first,
                             &direct_forward,
                             &direct_tensor_forward_last,
                             &fold_forward_first,
                             &im2col_forward,
                             &patches_forward_first,
                             &winograd_forward_first,
                             &implicit_forward_first,
                             &library_forward_bf16,
                             &fused_epilogue_forward_bf16,
                             &product_forward_bf16,
                             &library_forward,
                             &fused_epilogue_forward,
                             &product_forward,
                             &implicit_forward_last,
                             &grouped_forward_last,
                             &winograd_forward_last,
                             &general_forward,
                             &padded_forward_last,
                             &narrow_forward_last,
                             &patches_forward_last,
                             &fold_forward_last,
                             &single_forward_last,
                             &planar_forward_last,
                             &planes_forward_last};
constexpr std::array grad_x{&narrow_grad_x_first,   &depthwise_grad_x,          &taps_grad_x_first,
                            &single_grad_x_first,   &planes_grad_x_first,       &planar_grad_x_first,
                            &padded_grad_x_first,   &grouped_grad_x_first,      &direct_tensor_grad_x_first,
                            &direct_grad_x,         &direct_tensor_grad_x_last, &fold_grad_x_first,
                            &winograd_grad_x_first, &implicit_grad_x_first,     &strided_grad_x_first,
                            &flipped_grad_x,        &implicit_grad_x_last,      &flipped_grad_x_in_place,
                            &library_grad_x,        &library_grad_x_in_place,   &product_grad_x,
                            &strided_grad_x_last,   &grouped_grad_x_last,       &winograd_grad_x_last,
                            &general_grad_x,        &padded_grad_x_last,        &narrow_grad_x_last,
                            &single_grad_x_last,    &fold_grad_x_last,          &planar_grad_x_last,
                            &planes_grad_x_last,    &taps_grad_x_last};
constexpr std::array grad_weight{&narrow_grad_weight_first,     &depthwise_grad_weight,     &taps_grad_weight_first,
                                 &single_grad_weight_first,     &planes_grad_weight_first,  &planar_grad_weight_first,
                                 &padded_grad_weight_first,     &grouped_grad_weight_first, &direct_tensor_grad_weight,
                                 &direct_grad_weight,           &implicit_grad_weight,      &library_grad_weight,
                                 &library_grad_weight_in_place, &grouped_grad_weight_last,  &general_grad_weight,
                                 &padded_grad_weight_last,      &narrow_grad_weight_last,   &single_grad_weight_last,
                                 &planar_grad_weight_last,      &planes_grad_weight_last,   &taps_grad_weight_last};

constexpr std::array pooled_forward{&direct_tensor_forward_pooled};
constexpr std::array pooled_grad_x{&direct_tensor_grad_x_pooled};
constexpr std::array pooled_grad_weight{&direct_tensor_grad_weight};

}  // namespace

Algorithms algorithms_of(const Problem& problem) {
  switch (problem.pass) {
    case Pass::forward:
      return problem.pools ? Algorithms(pooled_forward) : Algorithms(forward);
    case Pass::grad_x:
      return problem.pools ? Algorithms(pooled_grad_x) : Algorithms(grad_x);
    default:
      return problem.pools ? Algorithms(pooled_grad_weight) : Algorithms(grad_weight);
  }
}

}  // namespace tern::cuda::convolution
