// The block of MobileNetV2: one kernel where the mode has it, else three convolutions.

#include <array>

#include "operators/conv_sizes.hpp"
#include "operators/keeps_weights.hpp"
#include "operators/layout.hpp"
#include "operators/traced.hpp"
#include "tern/operators/conv.hpp"

namespace tern::operators {

namespace {

constexpr const char* residual_name = "inverted_residual";

struct ResidualBlock {
  const Tensor& x;
  const InvertedResidualWeights& weights;
  const Tensor& added;
  const InvertedResidualOptions& options;

  bool expands() const { return weights.expand.defined(); }
  std::array<const Tensor*, 8> inputs() const {
    return {&x,
            &weights.expand,
            &weights.expand_bias,
            &weights.depthwise,
            &weights.depthwise_bias,
            &weights.project,
            &weights.project_bias,
            &added};
  }
};

Conv2dOptions options_of(const ResidualBlock& block) {
  return {.stride = block.options.stride,
          .padding = block.options.padding,
          .groups = block.weights.depthwise.size(0),
          .activation = block.options.depthwise};
}

Tensor by_convolutions(const ResidualBlock& block) {
  const auto& [x, weights, added, options] = block;
  Tensor y = x;
  if (block.expands()) y = conv2d(y, weights.expand, weights.expand_bias, {.activation = options.expand});
  y = conv2d(y, weights.depthwise, weights.depthwise_bias, options_of(block));
  if (!added.defined()) return conv2d(y, weights.project, weights.project_bias, {.activation = options.project});
  return conv2d_add(y, weights.project, weights.project_bias, added, {.activation = options.project});
}

/// Whether every tensor has the dtype and the shape that the kernel reads; the convolutions say what is wrong else.
bool fits(const ResidualBlock& block) {
  const auto& [x, weights, added, options] = block;
  if (x.dtype() != DType::float32 && x.dtype() != DType::float64) return false;
  for (const Tensor* input : block.inputs())
    if (input->defined() && (input->dtype() != x.dtype() || recording(*input))) return false;
  const auto points = [](const Tensor& weight, std::int64_t in) {
    return weight.rank() == 4 && weight.size(1) == in && weight.size(2) == 1 && weight.size(3) == 1;
  };
  const auto one_each = [](const Tensor& bias, const Tensor& weight) {
    return !bias.defined() || bias.shape() == Shape{weight.size(0)};
  };
  if (x.rank() != 4 || (block.expands() && !points(weights.expand, x.size(1)))) return false;
  const std::int64_t middle = block.expands() ? weights.expand.size(0) : x.size(1);
  const Shape& kernel = weights.depthwise.shape();
  if (kernel.rank() != 4 || kernel[0] != middle || kernel[1] != 1 || !points(weights.project, middle)) return false;
  return (!block.expands() || one_each(weights.expand_bias, weights.expand)) &&
         one_each(weights.depthwise_bias, weights.depthwise) && one_each(weights.project_bias, weights.project);
}

kernels::InvertedResidual sizes_of(const ResidualBlock& block) {
  const auto& [x, weights, added, options] = block;
  const auto sizes = [](const Shape& in, const Tensor& weight, const Conv2dOptions& how) {
    kernels::Conv2d made = conv_sizes("conv2d", in, weight.size(0), {weight.size(2), weight.size(3)}, how);
    made.activation = how.activation;
    return made;
  };
  const std::int64_t middle = weights.depthwise.size(0);
  kernels::InvertedResidual all;
  if (block.expands()) all.expand = sizes(x.shape(), weights.expand, {.activation = options.expand});
  all.depthwise = sizes({x.size(0), middle, x.size(2), x.size(3)}, weights.depthwise, options_of(block));
  all.project =
      sizes({x.size(0), middle, all.depthwise.OH, all.depthwise.OW}, weights.project, {.activation = options.project});
  (block.expands() ? all.expand : all.depthwise).layout = order_of(x);
  return all;
}

bool mode_fuses(const kernels::InvertedResidual& sizes, DType dtype) {
  bool fuses = false;
  where_it_runs(residual_name, [&] {
    with_type(residual_name, dtype, [&]<class T>() {
      const Call<T> call;
      fuses = call.table().conv.fuses_inverted_residual(call.context(), sizes);
    });
  });
  return fuses;
}

Tensor by_kernel(const ResidualBlock& block, kernels::InvertedResidual sizes) {
  const Layout last = Layout::channels_last;
  sizes.expand.layout = sizes.depthwise.layout = sizes.project.layout = last;
  const kernels::Conv2d& shape = sizes.project;
  std::array<Tensor, 8> whole;
  for (std::size_t i = 0; i < whole.size(); ++i)
    if (const Tensor& input = *block.inputs()[i]; input.defined())
      whole[i] = i == 0 || i == 7 ? in_layout(input, last) : input.detach().contiguous();
  Tensor out = empty_in(last, {shape.N, shape.O, shape.OH, shape.OW}, block.x.dtype());
  visit(residual_name, out.dtype(), [&]<class T>() {
    const Call<T> call;
    call.flops(2 * (multiply_adds(sizes.expand) + multiply_adds(sizes.depthwise) + multiply_adds(sizes.project)));
    std::array<const T*, 8> in{};
    for (std::size_t i = 0; i < in.size(); ++i) in[i] = whole[i].defined() ? call.in(whole[i]) : nullptr;
    const Memory& memory = *call.context().memory;
    KeepsWeights keeps(block.weights.project.is_contiguous(), whole[5], in[5], sizeof(T), memory);
    keeps.also(block.weights.depthwise.is_contiguous(), whole[3], in[3], sizeof(T), memory);
    if (block.expands()) keeps.also(block.weights.expand.is_contiguous(), whole[1], in[1], sizeof(T), memory);
    call.table().conv.inverted_residual(call.context(), call.out(out), in[0], in[1], in[2], in[3], in[4], in[5], in[6],
                                        in[7], sizes);
  });
  return out;
}

}  // namespace

Tensor inverted_residual(const Tensor& x, const InvertedResidualWeights& weights, const Tensor& added,
                         const InvertedResidualOptions& options) {
  if (traces())
    return traced(residual_name, x, weights.expand, weights.expand_bias, weights.depthwise, weights.depthwise_bias,
                  weights.project, weights.project_bias, added, options);
  check_defined(residual_name, "the input", x);
  check_defined(residual_name, "the depthwise weight", weights.depthwise);
  check_defined(residual_name, "the projecting weight", weights.project);
  check_rank(residual_name, "the depthwise weight", weights.depthwise, 4);
  if (x.rank() == 3)
    return inverted_residual(x.unsqueeze(0), weights, added.defined() ? added.unsqueeze(0) : added, options).squeeze(0);
  const ResidualBlock block{x, weights, added, options};
  if (!fits(block)) return by_convolutions(block);
  const kernels::InvertedResidual sizes = sizes_of(block);
  const Shape shape{sizes.project.N, sizes.project.O, sizes.project.OH, sizes.project.OW};
  if ((added.defined() && added.shape() != shape) || !mode_fuses(sizes, x.dtype())) return by_convolutions(block);
  return by_kernel(block, sizes);
}

}  // namespace tern::operators
