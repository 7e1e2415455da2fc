#include "tern/operators/pooling.hpp"

#include <limits>

#include "operators/composed.hpp"
#include "operators/layout.hpp"
#include "operators/pool_sizes.hpp"
#include "operators/traced.hpp"
#include "operators/window.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/tensor/create.hpp"

namespace tern::operators {

namespace {

/// Windows over planes that are padded unequally. Kernels support symmetric padding only: they pad as at the start, x
/// is padded by the excess at the end, and the valid windows are kept.
struct Uneven {
  Pair more;  ///< at the end
  Pair count = 0;

  Uneven(const char* op, const Tensor& x, Windows windows, Pair end) : more(beyond(end, windows.start)) {
    windows.end = end;
    check_rank(op, "input", x, 4);
    check_padding(op, windows.kernel, windows.start);
    check_padding(op, windows.kernel, windows.end);
    count = window_counts(op, {x.shape()[2], x.shape()[3]}, windows);
  }
  Tensor extended(const Tensor& x, Number value) const { return pad_planes(x, 0, more, value); }
  Tensor within(const Tensor& y) const { return slice(slice(y, 2, 0, count.h), 3, 0, count.w); }
};

/// If `places` is set, also stores the position of each value in its window, uint8.
Tensor pool_windows(const Tensor& x, Pair kernel, const MaxPool2dOptions& options, Tensor* places) {
  kernels::Pool2d sizes = pool_sizes("max_pool2d", x, windows_of(kernel, options));
  const Layout layout = layout_for(x);
  if (layout == Layout::channels_last) sizes.channels = x.shape()[1];
  const Tensor whole = in_layout(x, layout);
  Tensor out = empty_in(layout, {x.shape()[0], x.shape()[1], sizes.OH, sizes.OW}, x.dtype());
  const bool records = recording(x);
  Tensor index = records || places != nullptr ? empty_in(layout, out.shape(), DType::uint8) : Tensor{};
  visit("max_pool2d", x.dtype(), [&]<class T>() {
    const Call<T> call;
    call.table().pooling.max_pool2d(call.context(), call.out(out),
                                    index.defined() ? call.template out_as<std::uint8_t>(index) : nullptr,
                                    call.in(whole), sizes);
  });
  if (places != nullptr) *places = index;
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

/// h W + w for the window positions `places`, in a plane of `width`.
Tensor in_plane(const Tensor& places, Pair kernel, const MaxPool2dOptions& options, std::int64_t width) {
  const Pair stride = options.stride.value_or(kernel);
  const Tensor place = cast(places, DType::int64);
  const auto first = [](std::int64_t count, std::int64_t step, std::int64_t padding) {
    return arange(-padding, -padding + count * step, step);
  };
  const auto along = [](const Tensor& taps, std::int64_t dilation, const Tensor& starts) {
    return add(mul(taps, static_cast<double>(dilation)), starts);
  };
  const Tensor h = along(floor_divide(place, static_cast<double>(kernel.w)), options.dilation.h,
                         first(place.size(2), stride.h, options.padding.h).reshape({place.size(2), 1}));
  const Tensor w = along(remainder(place, static_cast<double>(kernel.w)), options.dilation.w,
                         first(place.size(3), stride.w, options.padding.w));
  return add(mul(h, static_cast<double>(width)), w);
}

Tensor flat(const Tensor& planes) { return planes.reshape({planes.size(0), planes.size(1), -1}); }

Tensor max_pooled(const Tensor& x, Pair kernel, const MaxPool2dOptions& options, Tensor* indices) {
  constexpr const char* op = "max_pool2d";
  const Pair stride = options.stride.value_or(kernel);
  if (options.end_padding) {
    const Uneven uneven(op, x, windows_of(kernel, options), *options.end_padding);
    MaxPool2dOptions even = options;
    even.end_padding.reset();
    const Tensor extended = uneven.extended(x, -std::numeric_limits<double>::infinity());
    Tensor values = uneven.within(max_pooled(extended, kernel, even, indices));
    if (indices != nullptr) {
      const auto width = static_cast<double>(extended.size(3));
      *indices = uneven.within(*indices);
      *indices = add(mul(floor_divide(*indices, width), static_cast<double>(x.size(3))), remainder(*indices, width));
    }
    return values;
  }
  expects<ShapeError>(kernel.h <= 256 && kernel.w <= 256, op, ": a side of the window of ", kernel.h, "x", kernel.w,
                      " has more than 256 positions; use max over the dimensions");
  if (kernel.h * kernel.w > 256) {  // first along rows, then along columns: the first of equal elements stays the first
    MaxPool2dOptions rows = options, columns = options;
    rows.stride = {1, stride.w}, rows.padding = {0, options.padding.w}, rows.dilation = {1, options.dilation.w};
    columns.stride = {stride.h, 1}, columns.padding = {options.padding.h, 0};
    columns.dilation = {options.dilation.h, 1};
    Tensor in_rows, in_columns;
    const Tensor by_row = max_pooled(x, {1, kernel.w}, rows, indices != nullptr ? &in_rows : nullptr);
    Tensor values = max_pooled(by_row, {kernel.h, 1}, columns, indices != nullptr ? &in_columns : nullptr);
    if (indices != nullptr) *indices = gather(flat(in_rows), 2, flat(in_columns)).reshape(values.shape());
    return values;
  }
  Tensor places;
  Tensor values = pool_windows(x, kernel, options, indices != nullptr ? &places : nullptr);
  if (indices != nullptr) *indices = in_plane(places, kernel, options, x.size(3));
  return values;
}

#define SLOT(name) \
  [](const auto& table) -> const auto& { return table.pooling.name; }

template <class Sizes, class Slot, class Back>
Tensor averaged(const char* op, const Tensor& x, Sizes sizes, Slot slot, Back back) {
  const Layout layout = layout_for(x);
  if (layout == Layout::channels_last) sizes.channels = x.shape()[1];
  const Tensor whole = in_layout(x, layout);
  Tensor out = empty_in(layout, {x.shape()[0], x.shape()[1], sizes.OH, sizes.OW}, x.dtype());
  visit(op, x.dtype(), [&]<class T>() {
    const Call<T> call;
    slot(call.table())(call.context(), call.out(out), call.in(whole), sizes);
  });
  if (recording(x))
    record(op, out, {x}, [op, back, sizes, layout, shape = x.shape()](const Tensor& grad) {
      const Tensor whole_grad = in_layout(grad, layout);
      Tensor grad_in = empty_in(layout, shape, grad.dtype());
      visit(op, grad.dtype(), [&]<class T>() {
        const Call<T> call;
        back(call.table())(call.context(), call.out(grad_in), call.in(whole_grad), sizes);
      });
      return Gradients{grad_in};
    });
  return out;
}

}  // namespace

Tensor max_pool2d(const Tensor& x, Pair kernel, const MaxPool2dOptions& options) {
  if (traces()) return traced("max_pool2d", x, kernel, options);
  return in_batch(x, 4, [&](const Tensor& images) { return max_pooled(images, kernel, options, nullptr); });
}

Pooled max_pool2d_with_indices(const Tensor& x, Pair kernel, const MaxPool2dOptions& options) {
  if (traces()) return traced<Pooled>("max_pool2d_with_indices", x, kernel, options);
  Pooled pooled;
  pooled.values =
      in_batch(x, 4, [&](const Tensor& images) { return max_pooled(images, kernel, options, &pooled.indices); });
  if (x.rank() == 3) pooled.indices = pooled.indices.squeeze(0);
  return pooled;
}

Tensor avg_pool2d(const Tensor& x, Pair kernel, const AvgPool2dOptions& options) {
  if (traces()) return traced("avg_pool2d", x, kernel, options);
  constexpr const char* op = "avg_pool2d";
  if (x.defined() && x.rank() == 3) return avg_pool2d(x.unsqueeze(0), kernel, options).squeeze(0);
  if (options.end_padding) {
    const Uneven uneven(op, x, windows_of(kernel, options), *options.end_padding);
    const AvgPool2dOptions even{.stride = options.stride, .ceil_mode = options.ceil_mode};
    const auto mean = [&](const Tensor& of) {
      return uneven.within(avg_pool2d(pad_planes(of, options.padding, *options.end_padding, 0), kernel, even));
    };
    if (options.count_include_pad) return mean(x);
    // If padding does not count, the padded mean of ones is the fraction of the window that is inside.
    return in_scalars(op, x, [&](const Tensor& wide) {
      return div(mean(wide), mean(ones({1, 1, x.size(2), x.size(3)}, wide.dtype())));
    });
  }
  kernels::Pool2d sizes = pool_sizes(op, x, windows_of(kernel, options));
  sizes.count_include_pad = options.count_include_pad;
  return averaged(op, x, sizes, SLOT(avg_pool2d), SLOT(avg_pool2d_backward));
}

Tensor adaptive_avg_pool2d(const Tensor& x, Pair output) {
  if (traces()) return traced("adaptive_avg_pool2d", x, output);
  if (x.defined() && x.rank() == 3) return adaptive_avg_pool2d(x.unsqueeze(0), output).squeeze(0);
  check_rank("adaptive_avg_pool2d", "input", x, 4);
  expects<ShapeError>(output.h >= 1 && output.w >= 1, "adaptive_avg_pool2d: output ", output.h, "x", output.w,
                      ", expected at least 1x1");
  expects<ShapeError>(x.shape()[2] >= 1 && x.shape()[3] >= 1, "adaptive_avg_pool2d: input ", x.shape(),
                      " has an empty plane");
  const kernels::AdaptivePool2d sizes{x.shape()[0] * x.shape()[1], x.shape()[2], x.shape()[3], output.h, output.w};
  return averaged("adaptive_avg_pool2d", x, sizes, SLOT(adaptive_avg_pool2d), SLOT(adaptive_avg_pool2d_backward));
}

#undef SLOT

Tensor global_avg_pool2d(const Tensor& x) { return adaptive_avg_pool2d(x, 1); }

}  // namespace tern::operators
