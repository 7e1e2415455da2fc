// The block of MobileNetV2: one kernel where the mode has it, else three convolutions.

#include <array>

#include "operators/keeps_weights.hpp"
#include "operators/layout.hpp"
#include "operators/traced.hpp"
#include "operators/window.hpp"
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

Tensor by_convolutions(const ResidualBlock& block) {
  const auto& [x, weights, added, options] = block;
  Tensor y = x;
  if (block.expands()) y = conv2d(y, weights.expand, weights.expand_bias, {.activation = options.expand});
  y = conv2d(y, weights.depthwise, weights.depthwise_bias,
             {.stride = options.stride,
              .padding = options.padding,
              .groups = weights.depthwise.size(0),
              .activation = options.depthwise});
  if (!added.defined()) return conv2d(y, weights.project, weights.project_bias, {.activation = options.project});
  return conv2d_add(y, weights.project, weights.project_bias, added, {.activation = options.project});
}

kernels::Conv2d of_points(std::int64_t N, std::int64_t C, std::int64_t H, std::int64_t W, const Tensor& weight,
                          Activation activation) {
  return {.N = N, .C = C, .H = H, .W = W, .O = weight.size(0), .OH = H, .OW = W, .activation = activation};
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
  const std::int64_t N = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
  const std::int64_t middle = weights.depthwise.size(0), KH = weights.depthwise.size(2), KW = weights.depthwise.size(3);
  const Pair out =
      window_counts("conv2d", {H, W},
                    {.kernel = {KH, KW}, .stride = options.stride, .start = options.padding, .end = options.padding});
  kernels::InvertedResidual sizes;
  if (block.expands()) sizes.expand = of_points(N, C, H, W, weights.expand, options.expand);
  sizes.depthwise = {.N = N,
                     .C = middle,
                     .H = H,
                     .W = W,
                     .O = middle,
                     .KH = KH,
                     .KW = KW,
                     .OH = out.h,
                     .OW = out.w,
                     .stride_h = options.stride.h,
                     .stride_w = options.stride.w,
                     .pad_h = options.padding.h,
                     .pad_w = options.padding.w,
                     .groups = middle,
                     .activation = options.depthwise};
  sizes.project = of_points(N, middle, sizes.depthwise.OH, sizes.depthwise.OW, weights.project, options.project);
  (block.expands() ? sizes.expand : sizes.depthwise).layout = layout_of(x);
  return sizes;
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

double products_of(const kernels::Conv2d& s) {
  return static_cast<double>(s.N * s.O * s.OH * s.OW) * static_cast<double>(s.groups == 1 ? s.C : s.KH * s.KW);
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
    call.flops(2 * static_cast<std::int64_t>(products_of(sizes.expand) + products_of(sizes.depthwise) +
                                             products_of(sizes.project)));
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
  if (traces()) [[unlikely]]
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
