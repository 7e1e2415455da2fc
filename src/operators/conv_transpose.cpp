// The transposed convolution: the gradient of a convolution's input is its result.

#include "operators/conv_sizes.hpp"
#include "operators/layout.hpp"
#include "operators/traced.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/conv.hpp"

namespace tern::operators {

namespace {

/// The convolution from the output of conv_transpose2d to its input.
kernels::Conv2d transposed_sizes(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                 const ConvTranspose2dOptions& options) {
  constexpr const char* op = "conv_transpose2d";
  check_dtypes(op, x, weight);
  check_rank(op, "the input", x, 4);
  check_rank(op, "the weight", weight, 4);
  const Shape &in = x.shape(), &kernel = weight.shape();
  expects<ShapeError>(kernel[0] == in[1], op, ": input ", in, " has ", in[1], " channels, weight ", kernel, " expects ",
                      kernel[0]);
  expects<ShapeError>(options.groups >= 1 && in[1] % options.groups == 0, op, ": ", options.groups,
                      " groups do not divide ", in[1], " channels");
  const auto side = [&](std::int64_t size, std::int64_t taps, std::int64_t stride, std::int64_t padding,
                        std::int64_t more, std::int64_t dilation) {
    constexpr std::int64_t bound = std::int64_t{1} << 31;  // keeps the arithmetic from overflowing
    for (const std::int64_t number : {size, taps, stride, padding, dilation})
      expects<ShapeError>(number >= 0 && number < bound, op, ": a size or an option is ", number);
    expects<ShapeError>(more >= 0 && more < stride, op, ": output_padding ", more, " is not in [0, ", stride, ")");
    const std::int64_t result = (size - 1) * stride - 2 * padding + dilation * (taps - 1) + more + 1;
    expects<ShapeError>(size >= 1 && taps >= 1 && dilation >= 1 && result >= 1, op, ": input ", in, " with weight ",
                        kernel, " leaves an output of ", result);
    return result;
  };
  const std::int64_t out = kernel[1] * options.groups;
  if (bias.defined()) {
    check_dtypes(op, x, bias);
    expects<ShapeError>(bias.shape() == Shape{out}, op, ": bias ", bias.shape(), " does not fit weight ", kernel,
                        ", expected [", out, "]");
  }
  return with_windows(
      {.N = in[0],
       .C = out,
       .H = side(in[2], kernel[2], options.stride.h, options.padding.h, options.output_padding.h, options.dilation.h),
       .W = side(in[3], kernel[3], options.stride.w, options.padding.w, options.output_padding.w, options.dilation.w),
       .O = in[1],
       .KH = kernel[2],
       .KW = kernel[3],
       .OH = in[2],
       .OW = in[3]},
      options);
}

/// One gradient of the convolution that wrote `y`: of its input, or of its weight.
Tensor transposed(const kernels::Conv2d& sizes, const Tensor& y, const Tensor& x, const Tensor& weight) {
  Tensor grad_x = x.defined() ? Tensor{} : empty_in(sizes.layout, {sizes.N, sizes.C, sizes.H, sizes.W}, y.dtype());
  Tensor grad_weight =
      x.defined() ? Tensor({sizes.O, sizes.C / sizes.groups, sizes.KH, sizes.KW}, y.dtype()) : Tensor{};
  visit("conv_transpose2d", y.dtype(), [&]<class T>() {
    const Call<T> call;
    call.flops(multiply_adds(sizes) * 2);
    call.table().conv.conv2d_backward(call.context(), call.out(grad_x), call.out(grad_weight), nullptr, call.in(y),
                                      call.in(x), call.in(weight), nullptr, sizes);
  });
  return x.defined() ? grad_weight : grad_x;
}

}  // namespace

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options) {
  if (traces()) return traced("conv_transpose2d", x, weight, bias, options);
  if (x.defined() && x.rank() == 3) return conv_transpose2d(x.unsqueeze(0), weight, bias, options).squeeze(0);
  kernels::Conv2d sizes = transposed_sizes(x, weight, bias, options);
  if (const DType wide = scalar_of(x.dtype()); bias.defined() && wide != x.dtype()) {  // one rounding, after the bias
    const Unshortened unshortened(x.dtype());
    return conv_transpose2d(x.to(wide), weight.to(wide), bias.to(wide), options).to(x.dtype());
  }
  sizes.layout = operators::layout_of(x);
  sizes.layout = preferred_layout("conv_transpose2d", x.dtype(), sizes);
  const Tensor y = in_layout(x, sizes.layout), whole = weight.detach().contiguous();
  Tensor out = transposed(sizes, y, {}, whole);
  if (recording(x, weight))
    record("conv_transpose2d", out, {x, weight},
           [sizes, options, y = saved_if(needs(weight), y), weight = saved_if(needs(x), whole)](const Tensor& grad) {
             Gradients gradients(2);
             if (weight.defined())
               gradients[0] = conv2d(grad, weight.get(), {},
                                     {.stride = options.stride,
                                      .padding = options.padding,
                                      .dilation = options.dilation,
                                      .groups = options.groups});
             if (y.defined()) gradients[1] = transposed(sizes, y.get(), in_layout(grad, sizes.layout), {});
             return gradients;
           });
  return bias.defined() ? add(out, bias.reshape({1, sizes.C, 1, 1})) : out;
}

}  // namespace tern::operators
