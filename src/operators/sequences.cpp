// Rows as images of height 1, and pools by a power.

#include "tern/operators/sequences.hpp"

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "operators/window.hpp"

namespace tern::operators {

namespace {

template <class F>
Tensor in_rows(const char* op, const Tensor& x, F f) {
  check_floating(op, "the input", x);
  return in_batch(x, 3, [&](const Tensor& rows) {
    check_rank(op, "the input", rows, 3);
    return f(rows.unsqueeze(2)).squeeze(2);
  });
}

std::optional<Pair> flat(const std::optional<std::int64_t>& size, std::int64_t height) {
  return size ? std::optional<Pair>(Pair(height, *size)) : std::nullopt;
}

MaxPool2dOptions flat(const Pool1dOptions& options) {
  return {.stride = flat(options.stride, 1),
          .padding = {0, options.padding},
          .dilation = {1, options.dilation},
          .end_padding = flat(options.end_padding, 0),
          .ceil_mode = options.ceil_mode};
}

}  // namespace

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose1dOptions& options) {
  if (traces()) return traced("conv_transpose1d", x, weight, bias, options);
  check_dtypes("conv_transpose1d", x, weight);
  check_rank("conv_transpose1d", "the weight", weight, 3);
  return in_rows("conv_transpose1d", x, [&](const Tensor& images) {
    return conv_transpose2d(images, weight.unsqueeze(2), bias,
                            {.stride = {1, options.stride},
                             .padding = {0, options.padding},
                             .output_padding = {0, options.output_padding},
                             .dilation = {1, options.dilation},
                             .groups = options.groups});
  });
}

Tensor max_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options) {
  if (traces()) return traced("max_pool1d", x, kernel, options);
  return in_rows("max_pool1d", x, [&](const Tensor& images) { return max_pool2d(images, {1, kernel}, flat(options)); });
}

Pooled max_pool1d_with_indices(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options) {
  if (traces()) return traced<Pooled>("max_pool1d_with_indices", x, kernel, options);
  Pooled result;
  result.values = in_rows("max_pool1d_with_indices", x, [&](const Tensor& images) {
    Pooled both = max_pool2d_with_indices(images, {1, kernel}, flat(options));
    result.indices = both.indices.squeeze(2);
    return both.values;
  });
  if (x.rank() == 2) result.indices = result.indices.squeeze(0);
  return result;
}

Tensor avg_pool1d(const Tensor& x, std::int64_t kernel, const Pool1dOptions& options) {
  if (traces()) return traced("avg_pool1d", x, kernel, options);
  expects<ShapeError>(options.dilation == 1, "avg_pool1d: a dilation of ", options.dilation, ", expected 1");
  return in_rows("avg_pool1d", x, [&](const Tensor& images) {
    return avg_pool2d(images, {1, kernel},
                      {.stride = flat(options.stride, 1),
                       .padding = {0, options.padding},
                       .end_padding = flat(options.end_padding, 0),
                       .ceil_mode = options.ceil_mode,
                       .count_include_pad = options.count_include_pad});
  });
}

Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t output) {
  if (traces()) return traced("adaptive_avg_pool1d", x, output);
  return in_rows("adaptive_avg_pool1d", x, [&](const Tensor& images) {
    return adaptive_avg_pool2d(images, {1, output});
  });
}

Tensor lp_pool2d(const Tensor& x, double order, Pair kernel, const LpPool2dOptions& options) {
  if (traces()) return traced("lp_pool2d", x, order, kernel, options);
  constexpr const char* op = "lp_pool2d";
  expects<NumericError>(order > 0 && order < infinity, op, ": order ", order, ", expected a number above 0");
  return compose(op, x, [&](const Tensor& wide) {
    const Unshortened unshortened(x.dtype());
    return in_batch(wide, 4, [&](const Tensor& images) {
      check_rank(op, "the input", images, 4);
      const Pair stride = options.stride.value_or(kernel), start = options.padding;
      Pair end = options.end_padding.value_or(start);
      // Padding up to the end of the last window, which rounding up puts further.
      const Pair sizes{images.size(2), images.size(3)}, dilation = options.dilation;
      const Pair count = window_counts(op, sizes, {kernel, stride, start, end, dilation, options.ceil_mode});
      if (options.ceil_mode)
        end = beyond({(count.h - 1) * stride.h + dilation.h * (kernel.h - 1) + 1,
                      (count.w - 1) * stride.w + dilation.w * (kernel.w - 1) + 1},
                     {sizes.h + start.h, sizes.w + start.w});
      const Tensor size = abs(images), nothing = equal(size, 0);
      const Tensor powers = order == 1 ? size : replace(pow(replace(size, nothing, 1), order), nothing, 0);
      const std::int64_t planes = images.size(0) * images.size(1);
      const Tensor sums =
          conv2d(powers.reshape({planes, 1, images.size(2), images.size(3)}),
                 number_like(wide, 1).expand({1, 1, kernel.h, kernel.w}), {},
                 {.stride = stride, .padding = start, .dilation = options.dilation, .end_padding = end});
      const Tensor empty = equal(sums, 0);
      const Tensor roots = order == 1 ? sums : replace(pow(replace(sums, empty, 1), 1 / order), empty, 0);
      return roots.reshape({images.size(0), images.size(1), sums.size(2), sums.size(3)});
    });
  });
}

}  // namespace tern::operators
