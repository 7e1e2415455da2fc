// Resizing of images.

#include <bit>
#include <cmath>
#include <limits>

#include "operators/composed.hpp"
#include "operators/resampled.hpp"
#include "operators/traced.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/resizing.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// A dimension that gets `count` elements; from / to is the step, in whole numbers or 1 / a scale.
struct Side {
  std::int64_t dim, count;
  double from, to;
};

// Where element i comes from: (i + shift) from / to. Whole quotients are exact.
Tensor sources(const Side& side, double shift) {
  return div(mul(add(positions(side.count), shift), side.from), side.to);
}

// The same for centres, or with aligned corners.
Tensor centres(const Side& side, std::int64_t size, bool align_corners) {
  if (!align_corners) return sub(sources(side, 0.5), 0.5);
  return mul(positions(side.count),
             side.count > 1 ? static_cast<double>(size - 1) / static_cast<double>(side.count - 1) : 0.0);
}

Tensor nearest_along(const Tensor& x, const Side& side, bool exact) {
  const auto last = static_cast<double>(x.size(side.dim) - 1);
  const Tensor places = clamp(floor(sources(side, exact ? 0.5 : 0)), 0, last);
  return index_select(x, side.dim, places.to(DType::int64));
}

// The elements beside each place, with their weights.
struct ResizeTap {
  Tensor index, weight;
};

/// The sum over the taps that make() returns. `rule` names them, beside the sizes.
template <class Make>
Tensor mixed(const Tensor& x, const Side& side, const char* rule, bool align_corners, const Make& make) {
  Shape along = Shape::filled(x.rank(), 1);
  along[static_cast<int>(side.dim)] = side.count;
  const auto last = static_cast<double>(x.size(side.dim) - 1);
  if (resamples("interpolate", x)) {
    const std::string key =
        message(rule, ' ', x.size(side.dim), ' ', side.count, ' ', align_corners, ' ',
                std::bit_cast<std::uint64_t>(side.from), ' ', std::bit_cast<std::uint64_t>(side.to));
    const Taps taps = kept_taps(key, [&] {
      std::vector<Tensor> indices, weights;
      for (const ResizeTap& tap : make()) {
        indices.push_back(clamp(tap.index, 0, last).to(DType::int64));
        weights.push_back(tap.weight.to(DType::float32));
      }
      return Taps{stack(indices, 1), stack(weights, 1)};
    });
    return resampled("interpolate", x, static_cast<int>(side.dim), taps.index, taps.weight);
  }
  Tensor sum;
  for (const ResizeTap& tap : make()) {
    const Tensor at = index_select(x, side.dim, clamp(tap.index, 0, last).to(DType::int64));
    const Tensor part = mul(at, tap.weight.to(x.dtype()).reshape(along));
    sum = sum.defined() ? add(sum, part) : part;
  }
  return sum;
}

Tensor bilinear_along(const Tensor& x, const Side& side, bool align_corners) {
  const std::int64_t size = x.size(side.dim);
  return mixed(x, side, "bilinear", align_corners, [&] {
    const Tensor places = clamp(centres(side, size, align_corners), 0, infinity);
    const Tensor left = clamp(floor(places), 0, static_cast<double>(size - 1)), share = sub(places, left);
    return std::vector<ResizeTap>{{left, sub(1, share)}, {add(left, 1), share}};
  });
}

// Cubic convolution (Keys, 1981) with a = -0.75, at distances up to 1, and from 1 to 2.
constexpr double cubic_slope = -0.75;
Tensor cubic_near(const Tensor& t) { return add(mul(mul(sub(mul(t, cubic_slope + 2), cubic_slope + 3), t), t), 1); }
Tensor cubic_far(const Tensor& t) {
  return sub(mul(add(mul(sub(mul(t, cubic_slope), 5 * cubic_slope), t), 8 * cubic_slope), t), 4 * cubic_slope);
}

Tensor bicubic_along(const Tensor& x, const Side& side, bool align_corners) {
  return mixed(x, side, "bicubic", align_corners, [&] {
    const Tensor places = centres(side, x.size(side.dim), align_corners);
    const Tensor left = floor(places), share = sub(places, left), rest = sub(1, share);
    return std::vector<ResizeTap>{{sub(left, 1), cubic_far(add(share, 1))},
                                  {left, cubic_near(share)},
                                  {add(left, 1), cubic_near(rest)},
                                  {add(left, 2), cubic_far(add(rest, 1))}};
  });
}

Tensor resized_along(const Tensor& x, const Side& side, const InterpolateOptions& options) {
  if (side.from == side.to) return x;
  switch (options.mode) {
    case Interpolation::nearest:
    case Interpolation::nearest_exact:
      return nearest_along(x, side, options.mode == Interpolation::nearest_exact);
    case Interpolation::bilinear:
      return bilinear_along(x, side, options.align_corners);
    default:
      return bicubic_along(x, side, options.align_corners);
  }
}

void check_image(const char* op, const Tensor& x) {
  check_floating(op, "the input", x);
  check_rank(op, "the input", x, 4);
}

Tensor resized(const char* op, const Tensor& x, const Side& rows, const Side& columns,
               const InterpolateOptions& options) {
  expects<ShapeError>(rows.count > 0 && columns.count > 0 && x.shape()[2] > 0 && x.shape()[3] > 0, op, ": from ",
                      x.shape(), " to ", rows.count, 'x', columns.count, "; sizes are at least 1");
  constexpr std::int64_t most = 1LL << 31;
  expects<ShapeError>(rows.count < most && columns.count < most, op, ": to ", rows.count, 'x', columns.count,
                      "; sizes are below 2^31");
  if (rows.from == rows.to && columns.from == columns.to) return mul(x, 1);
  // What shrinks goes first; else rows last, whose elements lie side by side.
  const bool rows_first = rows.count < x.shape()[2];
  const auto both = [&](const Tensor& image) {
    return resized_along(resized_along(image, rows_first ? rows : columns, options), rows_first ? columns : rows,
                         options);
  };
  const bool picks = options.mode == Interpolation::nearest || options.mode == Interpolation::nearest_exact;
  return picks ? both(x) : compose(op, x, both);
}

}  // namespace

Tensor interpolate(const Tensor& x, Pair output, const InterpolateOptions& options) {
  if (traces()) return traced("interpolate", x, output, options);
  check_image("interpolate", x);
  const auto side = [&](std::int64_t dim, std::int64_t count) {
    return Side{dim, count, static_cast<double>(x.size(dim)), static_cast<double>(count)};
  };
  return resized("interpolate", x, side(2, output.h), side(3, output.w), options);
}

Tensor interpolate_by(const Tensor& x, Scale scale, const InterpolateOptions& options) {
  if (traces()) return traced("interpolate_by", x, scale, options);
  constexpr const char* op = "interpolate_by";
  check_image(op, x);
  const auto side = [&](std::int64_t dim, double factor) {
    const double size = std::floor(static_cast<double>(x.size(dim)) * factor);
    expects<ShapeError>(factor > 0 && size < 0x1p31, op, ": a scale of ", scale.h, 'x', scale.w, " for an input of ",
                        x.shape());
    return Side{dim, static_cast<std::int64_t>(size), 1, factor};
  };
  return resized(op, x, side(2, scale.h), side(3, scale.w), options);
}

}  // namespace tern::operators
