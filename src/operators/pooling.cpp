#include "tern/operators/pooling.hpp"

#include "operators/layout.hpp"
#include "operators/window.hpp"

namespace tern::operators {

namespace {

kernels::Pool2d sizes_of(const char* op, const Tensor& x, Pair kernel, Pair stride, Pair padding, Pair dilation,
                         bool ceil_mode) {
  check_rank(op, "input", x, 4);
  expects<ShapeError>(padding.h <= kernel.h / 2 && padding.w <= kernel.w / 2, op, ": padding ", padding.h, "x",
                      padding.w, " is more than half the kernel of ", kernel.h, "x", kernel.w);
  const Shape& in = x.shape();
  return {.planes = in[0] * in[1],
          .H = in[2],
          .W = in[3],
          .OH = window_count(op, "height", in[2], kernel.h, stride.h, padding.h, dilation.h, ceil_mode),
          .OW = window_count(op, "width", in[3], kernel.w, stride.w, padding.w, dilation.w, ceil_mode),
          .KH = kernel.h,
          .KW = kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .pad_h = padding.h,
          .pad_w = padding.w,
          .dilation_h = dilation.h,
          .dilation_w = dilation.w};
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pair kernel, const MaxPool2dOptions& options) {
  kernels::Pool2d sizes = sizes_of("max_pool2d", x, kernel, options.stride.value_or(kernel), options.padding,
                                   options.dilation, options.ceil_mode);
  expects<ShapeError>(kernel.h <= 256 && kernel.w <= 256 && kernel.h * kernel.w <= 256, "max_pool2d: a window of ",
                      kernel.h, "x", kernel.w, " has more than 256 positions; use max over the dimensions");
  const Layout layout = layout_for(x);
  if (layout == Layout::channels_last) sizes.channels = x.shape()[1];
  const Tensor whole = in_layout(x, layout);
  Tensor out = empty_in(layout, {x.shape()[0], x.shape()[1], sizes.OH, sizes.OW}, x.dtype());
  const bool records = recording(x);
  Tensor index = records ? Tensor(out.shape(), DType::uint8) : Tensor{};
  visit("max_pool2d", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().pooling.max_pool2d(call.context(), call.out(out),
                                    records ? call.template out_as<std::uint8_t>(index) : nullptr, call.in(whole),
                                    sizes);
  });
  if (records)
    record("max_pool2d", out, {x}, [index = Saved(index), sizes, layout, shape = x.shape()](const Tensor& grad) {
      const Tensor whole_grad = in_layout(grad, layout);
      Tensor grad_in = empty_in(layout, shape, grad.dtype());
      visit("max_pool2d", grad.dtype(), [&]<class T>() {
        const Call<T> call;
        call.table().pooling.max_pool2d_backward(call.context(), call.out(grad_in), call.in(whole_grad),
                                                 call.template in_as<std::uint8_t>(index.get()), sizes);
      });
      return Gradients{grad_in};
    });
  return out;
}

Tensor avg_pool2d(const Tensor& x, Pair kernel, const AvgPool2dOptions& options) {
  kernels::Pool2d sizes =
      sizes_of("avg_pool2d", x, kernel, options.stride.value_or(kernel), options.padding, 1, options.ceil_mode);
  sizes.count_include_pad = options.count_include_pad;
  const Layout layout = layout_for(x);
  if (layout == Layout::channels_last) sizes.channels = x.shape()[1];
  const Tensor whole = in_layout(x, layout);
  Tensor out = empty_in(layout, {x.shape()[0], x.shape()[1], sizes.OH, sizes.OW}, x.dtype());
  visit("avg_pool2d", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().pooling.avg_pool2d(call.context(), call.out(out), call.in(whole), sizes);
  });
  if (recording(x))
    record("avg_pool2d", out, {x}, [sizes, layout, shape = x.shape()](const Tensor& grad) {
      const Tensor whole_grad = in_layout(grad, layout);
      Tensor grad_in = empty_in(layout, shape, grad.dtype());
      visit("avg_pool2d", grad.dtype(), [&]<class T>() {
        const Call<T> call;
        call.table().pooling.avg_pool2d_backward(call.context(), call.out(grad_in), call.in(whole_grad), sizes);
      });
      return Gradients{grad_in};
    });
  return out;
}

Tensor adaptive_avg_pool2d(const Tensor& x, Pair output) {
  check_rank("adaptive_avg_pool2d", "input", x, 4);
  expects<ShapeError>(output.h >= 1 && output.w >= 1, "adaptive_avg_pool2d: output ", output.h, "x", output.w,
                      ", expected at least 1x1");
  expects<ShapeError>(x.shape()[2] >= 1 && x.shape()[3] >= 1, "adaptive_avg_pool2d: input ", x.shape(),
                      " has an empty plane");
  kernels::AdaptivePool2d sizes{x.shape()[0] * x.shape()[1], x.shape()[2], x.shape()[3], output.h, output.w};
  const Layout layout = layout_for(x);
  if (layout == Layout::channels_last) sizes.channels = x.shape()[1];
  const Tensor whole = in_layout(x, layout);
  Tensor out = empty_in(layout, {x.shape()[0], x.shape()[1], output.h, output.w}, x.dtype());
  visit("adaptive_avg_pool2d", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().pooling.adaptive_avg_pool2d(call.context(), call.out(out), call.in(whole), sizes);
  });
  if (recording(x))
    record("adaptive_avg_pool2d", out, {x}, [sizes, layout, shape = x.shape()](const Tensor& grad) {
      const Tensor whole_grad = in_layout(grad, layout);
      Tensor grad_in = empty_in(layout, shape, grad.dtype());
      visit("adaptive_avg_pool2d", grad.dtype(), [&]<class T>() {
        const Call<T> call;
        call.table().pooling.adaptive_avg_pool2d_backward(call.context(), call.out(grad_in), call.in(whole_grad),
                                                          sizes);
      });
      return Gradients{grad_in};
    });
  return out;
}

Tensor global_avg_pool2d(const Tensor& x) { return adaptive_avg_pool2d(x, 1); }

}  // namespace tern::operators
