// Volumes [N, C, D, H, W]: depth joins the channels of a convolution, and pools run over planes, then over depth.

#include "tern/operators/volumes.hpp"

#include "operators/composed.hpp"
#include "operators/spread.hpp"
#include "operators/traced.hpp"
#include "operators/window.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

Pair plane(Triple sizes) { return {sizes.h, sizes.w}; }
std::optional<Pair> plane(const std::optional<Triple>& sizes) {
  return sizes ? std::optional<Pair>(plane(*sizes)) : std::nullopt;
}
std::optional<Pair> depth(const std::optional<Triple>& sizes, std::int64_t other) {
  return sizes ? std::optional<Pair>(Pair(sizes->d, other)) : std::nullopt;
}

void check_volumes(const char* op, const Tensor& x, const Tensor& weight) {
  check_dtypes(op, x, weight);
  check_floating(op, "the input", x);
  check_rank(op, "the input", x, 5);
  check_rank(op, "the weight", weight, 5);
}

// x [N, C, D, H, W] as images [N D, C, H, W], and back.
Tensor as_images(const Tensor& x) {
  const Shape& s = x.shape();
  return permute(x, {0, 2, 1, 3, 4}).reshape({s[0] * s[2], s[1], s[3], s[4]});
}
Tensor as_volumes(const Tensor& images, std::int64_t n, std::int64_t frames) {
  const Shape& s = images.shape();
  return permute(images.reshape({n, frames, s[1], s[2], s[3]}), {0, 2, 1, 3, 4});
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv3dOptions& options) {
  if (traces()) return traced("conv3d", x, weight, bias, options);
  constexpr const char* op = "conv3d";
  return in_batch(x, 5, [&](const Tensor& volumes) {
    check_volumes(op, volumes, weight);
    const Triple end = options.end_padding.value_or(options.padding);
    const std::int64_t n = volumes.size(0), channels = volumes.size(1), taps = weight.size(2);
    expects<ShapeError>(options.groups >= 1 && channels == weight.size(1) * options.groups, op, ": input has ",
                        channels, " channels, weight ", weight.shape(), " expects ", weight.size(1) * options.groups,
                        " (input ", volumes.shape(), ", groups ", options.groups, ")");
    const std::int64_t frames = window_count(op, "depth",
                                             {.size = volumes.size(2),
                                              .kernel = taps,
                                              .stride = options.stride.d,
                                              .start = options.padding.d,
                                              .end = end.d,
                                              .dilation = options.dilation.d});
    const Tensor padded = options.padding.d + end.d == 0 ? volumes : pad(volumes, {{2, options.padding.d, end.d}}, 0);
    // One channel of the convolution for each channel and tap, so that it sums over both.
    std::vector<Tensor> parts;
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t first = k * options.dilation.d;
      parts.push_back(permute(slice(padded, 2, first, first + (frames - 1) * options.stride.d + 1, options.stride.d),
                              {0, 2, 1, 3, 4}));
    }
    const Tensor images = stack(parts, 3).reshape({n * frames, channels * taps, volumes.size(3), volumes.size(4)});
    const Tensor kernel = weight.reshape({weight.size(0), weight.size(1) * taps, weight.size(3), weight.size(4)});
    return as_volumes(conv2d(images, kernel, bias,
                             {.stride = plane(options.stride),
                              .padding = plane(options.padding),
                              .dilation = plane(options.dilation),
                              .end_padding = plane(options.end_padding),
                              .groups = options.groups,
                              .activation = options.activation}),
                      n, frames);
  });
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose3dOptions& options) {
  if (traces()) return traced("conv_transpose3d", x, weight, bias, options);
  constexpr const char* op = "conv_transpose3d";
  return in_batch(x, 5, [&](const Tensor& volumes) {
    check_volumes(op, volumes, weight);
    const std::int64_t n = volumes.size(0), frames = volumes.size(2), taps = weight.size(2);
    expects<ShapeError>(weight.size(0) == volumes.size(1), op, ": input ", volumes.shape(), " has ", volumes.size(1),
                        " channels, weight ", weight.shape(), " expects ", weight.size(0));
    const Triple stride = options.stride, padding = options.padding, dilation = options.dilation;
    const std::int64_t more = options.output_padding.d;
    constexpr std::int64_t bound = std::int64_t{1} << 31;
    for (const std::int64_t number : {frames, taps, stride.d, padding.d, dilation.d})
      expects<ShapeError>(number >= 0 && number < bound, op, ": a size or an option is ", number);
    const std::int64_t whole = (frames - 1) * stride.d + dilation.d * (taps - 1) + more + 1;
    expects<ShapeError>(frames >= 1 && taps >= 1 && dilation.d >= 1 && stride.d >= 1 && whole > 2 * padding.d, op,
                        ": input ", volumes.shape(), " with weight ", weight.shape(), " leaves a depth of ",
                        whole - 2 * padding.d);
    expects<ShapeError>(more >= 0 && more < stride.d, op, ": output_padding ", more, " is not in [0, ", stride.d, ")");
    return in_scalars(op, volumes, [&](const Tensor& wide) {
      const Unshortened unshortened(volumes.dtype());
      const std::int64_t out = weight.size(1) * options.groups;
      const Tensor kernel =
          weight.to(wide.dtype()).reshape({weight.size(0), weight.size(1) * taps, weight.size(3), weight.size(4)});
      // An output channel for each tap; each is added at its depth.
      const Tensor images = conv_transpose2d(as_images(wide), kernel, {},
                                             {.stride = plane(stride),
                                              .padding = plane(padding),
                                              .output_padding = plane(options.output_padding),
                                              .dilation = plane(dilation),
                                              .groups = options.groups});
      const Tensor parts = images.reshape({n, frames, out, taps, images.size(2), images.size(3)});
      Tensor sum;
      for (std::int64_t k = 0; k < taps; ++k) {
        const Tensor part = spread_along(slice(parts, 3, k, k + 1).squeeze(3), 1, stride.d, k * dilation.d, whole);
        sum = sum.defined() ? add(sum, part) : part;
      }
      sum = permute(slice(sum, 1, padding.d, whole - padding.d), {0, 2, 1, 3, 4});
      if (!bias.defined()) return sum;
      check_dtypes(op, volumes, bias);
      expects<ShapeError>(bias.shape() == Shape{out}, op, ": bias ", bias.shape(), " does not fit weight ",
                          weight.shape(), ", expected [", out, "]");
      return add(sum, bias.to(wide.dtype()).reshape({1, out, 1, 1, 1}));
    });
  });
}

namespace {

// pool(images [N, C D, H, W]), then pool(columns [N, C, D, H W]): what a window picks does not depend on the order.
template <class OverPlanes, class OverDepth>
Tensor pooled(const char* op, const Tensor& x, OverPlanes over_planes, OverDepth over_depth) {
  check_rank(op, "the input", x, 5);
  const Shape& s = x.shape();
  const Tensor planes = over_planes(x.reshape({s[0], s[1] * s[2], s[3], s[4]}));
  const std::int64_t h = planes.size(2), w = planes.size(3);
  const Tensor columns = over_depth(planes.reshape({s[0], s[1], s[2], h * w}));
  return columns.reshape({s[0], s[1], columns.size(2), h, w});
}

Tensor max_pooled(const Tensor& x, Triple kernel, const MaxPool3dOptions& options, Tensor* indices) {
  constexpr const char* op = "max_pool3d";
  const Triple stride = options.stride.value_or(kernel);
  const MaxPool2dOptions in_plane{.stride = plane(stride),
                                  .padding = plane(options.padding),
                                  .dilation = plane(options.dilation),
                                  .end_padding = plane(options.end_padding),
                                  .ceil_mode = options.ceil_mode};
  const MaxPool2dOptions in_depth{.stride = Pair(stride.d, 1),
                                  .padding = {options.padding.d, 0},
                                  .dilation = {options.dilation.d, 1},
                                  .end_padding = depth(options.end_padding, 0),
                                  .ceil_mode = options.ceil_mode};
  Tensor in_planes, in_columns;
  const auto pool = [&](const Tensor& of, Pair window, const MaxPool2dOptions& how, Tensor& places) {
    if (indices == nullptr) return max_pool2d(of, window, how);
    Pooled both = max_pool2d_with_indices(of, window, how);
    places = both.indices;
    return both.values;
  };
  Tensor values = pooled(
      op, x, [&](const Tensor& planes) { return pool(planes, plane(kernel), in_plane, in_planes); },
      [&](const Tensor& columns) {
        return pool(columns, {kernel.d, 1}, in_depth, in_columns);
      });
  if (indices != nullptr) {
    // A place in a column is d (OH OW) + its column; the place in its plane is stored there.
    const Shape& s = values.shape();
    const std::int64_t columns = s[3] * s[4], volume = x.size(2) * columns;
    const Tensor flat = in_columns.reshape({s[0], s[1], s[2] * columns});
    const Tensor inside = gather(in_planes.reshape({s[0], s[1], volume}), 2, flat);
    const Tensor level = floor_divide(flat, static_cast<double>(std::max<std::int64_t>(columns, 1)));
    *indices = add(mul(level, static_cast<double>(x.size(3) * x.size(4))), inside).reshape(s);
  }
  return values;
}

}  // namespace

Tensor max_pool3d(const Tensor& x, Triple kernel, const MaxPool3dOptions& options) {
  if (traces()) return traced("max_pool3d", x, kernel, options);
  check_floating("max_pool3d", "the input", x);
  return in_batch(x, 5, [&](const Tensor& volumes) { return max_pooled(volumes, kernel, options, nullptr); });
}

Pooled max_pool3d_with_indices(const Tensor& x, Triple kernel, const MaxPool3dOptions& options) {
  if (traces()) return traced<Pooled>("max_pool3d_with_indices", x, kernel, options);
  check_floating("max_pool3d", "the input", x);
  Pooled result;
  result.values =
      in_batch(x, 5, [&](const Tensor& volumes) { return max_pooled(volumes, kernel, options, &result.indices); });
  if (x.rank() == 4) result.indices = result.indices.squeeze(0);
  return result;
}

Tensor avg_pool3d(const Tensor& x, Triple kernel, const AvgPool3dOptions& options) {
  if (traces()) return traced("avg_pool3d", x, kernel, options);
  const Triple stride = options.stride.value_or(kernel);
  return compose("avg_pool3d", x, [&](const Tensor& wide) {
    return in_batch(wide, 5, [&](const Tensor& volumes) {
      return pooled(
          "avg_pool3d", volumes,
          [&](const Tensor& planes) {
            return avg_pool2d(planes, plane(kernel),
                              {.stride = plane(stride),
                               .padding = plane(options.padding),
                               .end_padding = plane(options.end_padding),
                               .ceil_mode = options.ceil_mode,
                               .count_include_pad = options.count_include_pad});
          },
          [&](const Tensor& columns) {
            return avg_pool2d(columns, {kernel.d, 1},
                              {.stride = Pair(stride.d, 1),
                               .padding = {options.padding.d, 0},
                               .end_padding = depth(options.end_padding, 0),
                               .ceil_mode = options.ceil_mode,
                               .count_include_pad = options.count_include_pad});
          });
    });
  });
}

Tensor adaptive_avg_pool3d(const Tensor& x, Triple output) {
  if (traces()) return traced("adaptive_avg_pool3d", x, output);
  return compose("adaptive_avg_pool3d", x, [&](const Tensor& wide) {
    return in_batch(wide, 5, [&](const Tensor& volumes) {
      return pooled(
          "adaptive_avg_pool3d", volumes,
          [&](const Tensor& planes) { return adaptive_avg_pool2d(planes, plane(output)); },
          [&](const Tensor& columns) {
            return adaptive_avg_pool2d(columns, {output.d, columns.size(3)});
          });
    });
  });
}

}  // namespace tern::operators
