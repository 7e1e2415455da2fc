#include "tern/operators/conv.hpp"

#include "operators/layout.hpp"
#include "operators/window.hpp"

namespace tern::operators {

namespace {

kernels::Conv2d sizes_of(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  check_dtypes("conv2d", x, weight);
  check_rank("conv2d", "input", x, 4);
  check_rank("conv2d", "weight", weight, 4);
  const Shape &in = x.shape(), &kernel = weight.shape();
  expects<ShapeError>(options.groups >= 1 && in[1] % options.groups == 0 && kernel[0] % options.groups == 0,
                      "conv2d: ", options.groups, " groups do not divide the ", in[1], " input and ", kernel[0],
                      " output channels");
  expects<ShapeError>(in[1] / options.groups == kernel[1], "conv2d: input has ", in[1], " channels, weight ", kernel,
                      " expects ", kernel[1] * options.groups, " (input ", in,
                      options.groups == 1 ? "" : message(", groups ", options.groups), ")");
  if (bias.defined()) {
    check_dtypes("conv2d", x, bias);
    expects<ShapeError>(bias.shape() == Shape{kernel[0]}, "conv2d: bias ", bias.shape(), " does not fit weight ",
                        kernel, ", expected [", kernel[0], "]");
  }
  return {.N = in[0],
          .C = in[1],
          .H = in[2],
          .W = in[3],
          .O = kernel[0],
          .KH = kernel[2],
          .KW = kernel[3],
          .OH = window_count("conv2d", "height", in[2], kernel[2], options.stride.h, options.padding.h,
                             options.dilation.h, false),
          .OW = window_count("conv2d", "width", in[3], kernel[3], options.stride.w, options.padding.w,
                             options.dilation.w, false),
          .stride_h = options.stride.h,
          .stride_w = options.stride.w,
          .pad_h = options.padding.h,
          .pad_w = options.padding.w,
          .dilation_h = options.dilation.h,
          .dilation_w = options.dilation.w,
          .groups = options.groups,
          .activation = options.activation};
}

std::int64_t multiply_adds(const kernels::Conv2d& s) {
  return s.N * s.O * s.OH * s.OW * (s.C / s.groups) * s.KH * s.KW;
}

}  // namespace

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options) {
  kernels::Conv2d sizes = sizes_of(x, weight, bias, options);
  with_type("conv2d", x.dtype(), [&]<class T>() {
    const Call<T> call;
    sizes.layout = call.table().conv.layout(call.context(), sizes);
  });
  const Tensor whole = in_layout(x, sizes.layout), whole_weight = weight.detach().contiguous(),
               whole_bias = bias.defined() ? bias.detach().contiguous() : Tensor{};
  Tensor out = empty_in(sizes.layout, {sizes.N, sizes.O, sizes.OH, sizes.OW}, x.dtype());
  visit("conv2d", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.flops(multiply_adds(sizes) * 2);
    call.table().conv.conv2d(call.context(), call.out(out), call.in(whole), call.in(whole_weight), call.in(whole_bias),
                             sizes);
  });
  if (recording(x, weight, bias))
    record("conv2d", out, {x, weight, bias},
           [x = Saved(whole), weight = Saved(whole_weight), out = Saved(out), sizes, x_needs = needs(x),
            weight_needs = needs(weight), bias_needs = needs(bias)](const Tensor& grad) {
             const Tensor whole_grad = in_layout(grad, sizes.layout);
             Tensor grad_x = x_needs ? empty_in(sizes.layout, x.get().shape(), grad.dtype()) : Tensor{};
             Tensor grad_weight = weight_needs ? Tensor(weight.get().shape(), grad.dtype()) : Tensor{};
             Tensor grad_bias = bias_needs ? Tensor({sizes.O}, grad.dtype()) : Tensor{};
             visit("conv2d", grad.dtype(), [&]<class T>() {
               const Call<T> call;
               call.flops(multiply_adds(sizes) * 2 * (x_needs + weight_needs));
               call.table().conv.conv2d_backward(call.context(), call.out(grad_x), call.out(grad_weight),
                                                 call.out(grad_bias), call.in(whole_grad), call.in(x.get()),
                                                 call.in(weight.get()), call.in(out.get()), sizes);
             });
             return Gradients{grad_x, grad_weight, grad_bias};
           });
  return out;
}

}  // namespace tern::operators
