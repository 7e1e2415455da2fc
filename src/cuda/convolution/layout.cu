// In which order of x all passes of a convolution run.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/depthwise.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/grouped.cuh"
#include "cuda/convolution/rule.cuh"

namespace tern::cuda::convolution {
namespace {

/// Whether all three passes run channels last, as products.
bool runs_channels_last(const Context& context, const Conv2d& shape) {
  const std::int64_t images = shape.N * shape.OH * shape.OW;
  constexpr std::int64_t most = std::int64_t{1} << 31;
  if (images == 0 || images >= most || shape.N * (shape.H + 8) * (shape.W + 8) >= most) return false;
  if (shape.y_channels % 4 != 0 || shape.C == 0 || shape.O == 0 || shape.O % 4 != 0) return false;
  const auto fits = [&](Pass pass, const Algorithm& algorithm, Layout layout) {
    Problem problem = problem_of(context, pass, shape, Element::float32);
    problem.layout = layout;
    return algorithm.fits(problem);
  };
  const bool is_single = fits(Pass::forward, single_forward_first, Layout::channels_first) ||
                         fits(Pass::forward, single_forward_last, Layout::channels_first);
  if (is_single && forced_algorithm(context, "conv2d").empty()) return false;
  const std::int64_t C = shape.C / shape.groups, O = shape.O / shape.groups;
  const bool whole_lanes = O % engine_lanes == 0 && (C % engine_lanes == 0 || (shape.groups == 1 && C <= 4));
  const bool engines_run = has_engines() && whole_lanes && shape.groups <= most_engine_groups;
  // Groups without lanes for engines: our implicit products need lanes of four. In TF32 a few groups are copied for
  // engines (padded.cu), but where a product of their windows is faster.
  const auto copied = [&] {
    Problem problem = problem_of(context, Pass::forward, shape, Element::float32);
    problem.layout = Layout::channels_last;
    problem.inputs = {256, 256, 256, 256};
    const bool writes_windows =
        patches_forward_first.fits(problem) ||
        (forced_algorithm(context, "conv2d") == "product" && patches_forward_last.fits(problem));
    return has_engines() && context.precision != Precision::strict && shape.groups <= most_engine_groups &&
           !writes_windows;
  };
  if (shape.groups > 1 && !engines_run && (C % 4 != 0 || O % 4 != 0 || copied())) return false;
  // Small planes with other channel counts are faster whole, channels first.
  const bool whole_planes = !whole_lanes && suits_planes(problem_of(context, Pass::forward, shape, Element::float32));
  for (const Algorithm* direct : {&direct_forward, &direct_tensor_forward_first, &direct_tensor_forward_last})
    if (whole_planes && fits(Pass::forward, *direct, Layout::channels_first)) return false;
  if (engines_run) return true;
  // Our implicit products may be the only candidates.
  const auto either = [&](Pass pass, const Algorithm& first, const Algorithm& last) {
    return fits(pass, first, Layout::channels_last) || fits(pass, last, Layout::channels_last);
  };
  return either(Pass::forward, implicit_forward_first, implicit_forward_last) &&
         (either(Pass::grad_x, implicit_grad_x_first, implicit_grad_x_last) ||
          either(Pass::grad_x, strided_grad_x_first, strided_grad_x_last) ||
          (C % 4 == 0 && either(Pass::grad_x, padded_grad_x_first, padded_grad_x_last))) &&
         fits(Pass::grad_weight, implicit_grad_weight, Layout::channels_last);
}

/// Whether our own kernels for few channels per group run it channels last.
bool runs_in_strips(const Conv2d& shape, bool (*fits)(const Problem&)) {
  Problem problem = problem_of(Context{}, Pass::forward, shape, Element::float32);
  problem.layout = Layout::channels_last;
  return shape.C % 4 == 0 && problem.outputs() != 0 && fits(problem);
}

/// Whether groups are so narrow that all passes run channels first. Other algorithms may be forced for some.
bool runs_narrow(const Context& context, const Conv2d& shape) {
  for (const char* const decision : {"conv2d", "conv2d_grad_x", "conv2d_grad_weight"})
    if (!forced_algorithm(context, decision).empty()) return false;
  Problem problem = problem_of(context, Pass::forward, shape, Element::float32);
  problem.layout = Layout::channels_first;
  return narrow_forward_first.fits(problem);
}

}  // namespace

Layout layout_of(const Context& context, const Conv2d& shape) {
  const std::string_view forced = forced_algorithm(context, "conv2d");
  if (forced == "general" || forced == "direct" || forced == "direct_tensor" || forced == "single" ||
      forced == "planes" || runs_narrow(context, shape))
    return Layout::channels_first;
  // A depthwise convolution runs in either order: x stays as it is.
  const bool last =
      depthwise::is_depthwise(shape)
          ? shape.layout == Layout::channels_last && runs_in_strips(shape, depthwise::fits)
          : runs_channels_last(context, shape) || (shape.groups > 1 && runs_in_strips(shape, grouped::fits));
  return last ? Layout::channels_last : Layout::channels_first;
}

}  // namespace tern::cuda::convolution
