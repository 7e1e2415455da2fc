// Resizing by every rule of ONNX: along one dimension after the other, a weighted sum of the elements around a place.

#include <cmath>

#include "operators/composed.hpp"
#include "operators/resampled.hpp"
#include "operators/traced.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/sampling.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

constexpr const char* resize_name = "resize";

struct Side {
  int dim;
  std::int64_t in, out;
  double scale, begin, end;  // of the part that `crop` names
};

// The places that the elements come from: float64 [out].
Tensor places_of(const Side& side, Coordinates coordinates) {
  const auto in = static_cast<double>(side.in), out = static_cast<double>(side.out), width = side.scale * in;
  const Tensor i = positions(side.out);
  const auto half = [&] { return sub(div(add(i, 0.5), side.scale), 0.5); };
  switch (coordinates) {
    case Coordinates::half_pixel_symmetric:
      return add(half(), in / 2 * (1 - out / width));
    case Coordinates::pytorch_half_pixel:
      return width == 1 ? sub(mul(i, 0), 0.5) : half();
    case Coordinates::align_corners:
      return width == 1 ? mul(i, 0) : div(mul(i, in - 1), width - 1);
    case Coordinates::asymmetric:
      return div(i, side.scale);
    case Coordinates::crop: {
      const double span = (side.end - side.begin) * (in - 1);
      return add(width == 1 ? add(mul(i, 0), span / 2) : div(mul(i, span), width - 1), side.begin * (in - 1));
    }
    default:
      return half();
  }
}

Tensor at_places(const Tensor& x, const Side& side, const Tensor& places) {
  return index_select(x, side.dim, clamp(places, 0, static_cast<double>(side.in - 1)).to(DType::int64));
}

Tensor nearest_places(const Tensor& places, Nearest rule) {
  const Tensor down = floor(places), share = sub(places, down);
  switch (rule) {
    case Nearest::floor:
      return down;
    case Nearest::ceil:
      return ceil(places);
    case Nearest::round_prefer_ceil:
      return where(less(share, 0.5), down, add(down, 1));
    default:
      return where(less_equal(share, 0.5), down, add(down, 1));
  }
}

// The weight of an element at the distance t.
Tensor weights_at(const Tensor& t, const ResizeOptions& options) {
  const Tensor far = abs(t);
  if (options.mode == Resize::linear) return clamp(sub(1, far), 0, 1);
  const double a = options.cubic;
  const Tensor near = add(mul(mul(sub(mul(far, a + 2), a + 3), far), far), 1);
  const Tensor tail = sub(mul(add(mul(sub(mul(far, a), 5 * a), far), 8 * a), far), 4 * a);
  return where(less_equal(far, 1), near, where(less(far, 2), tail, 0));
}

Tensor mixed(const Tensor& x, const Side& side, const Tensor& places, const ResizeOptions& options) {
  // Downwards with antialias the kernel covers 1 / scale times as many elements.
  const double step = options.antialias ? std::min(side.scale, 1.0) : 1.0,
               reach = options.mode == Resize::linear ? 1 : 2;
  const double first = std::floor(-reach / step) + 1, last = 1 - first;
  const Tensor left = floor(places);
  std::vector<Tensor> weights, indices;
  Tensor total;
  for (double offset = first; offset <= last; ++offset) {
    const Tensor index = add(left, offset);
    Tensor weight = weights_at(mul(sub(index, places), step), options);
    if (options.exclude_outside) {
      const Tensor inside = equal(index, clamp(index, 0, static_cast<double>(side.in - 1)));
      weight = where(inside, weight, 0);
    }
    total = total.defined() ? add(total, weight) : weight;
    weights.push_back(weight);
    indices.push_back(index);
  }
  Shape along = Shape::filled(x.rank(), 1);
  along[side.dim] = side.out;
  for (Tensor& weight : weights)
    if (options.antialias || options.exclude_outside) weight = div(weight, replace(total, equal(total, 0), 1));
  if (resamples(resize_name, x)) {
    for (std::size_t k = 0; k < weights.size(); ++k) {
      weights[k] = weights[k].to(x.dtype());
      indices[k] = clamp(indices[k], 0, static_cast<double>(side.in - 1)).to(DType::int64);
    }
    return resampled(resize_name, x, side.dim, stack(indices, 1), stack(weights, 1));
  }
  Tensor sum;
  for (std::size_t k = 0; k < weights.size(); ++k) {
    const Tensor& weight = weights[k];
    const Tensor part = mul(at_places(x, side, indices[k]), weight.to(x.dtype()).reshape(along));
    sum = sum.defined() ? add(sum, part) : part;
  }
  return sum;
}

std::vector<Side> sides_of(const Tensor& x, const Shape& output, const ResizeOptions& options) {
  const auto rank = static_cast<std::size_t>(x.rank());
  expects<ShapeError>(output.rank() == x.rank() && (options.scales.empty() || options.scales.size() == rank),
                      resize_name, ": ", output.rank(), " sizes and ", options.scales.size(),
                      " scales for an input of ", x.shape());
  expects<ShapeError>(options.coordinates != Coordinates::crop || options.roi.size() == 2 * rank, resize_name, ": ",
                      options.roi.size(), " bounds for an input of ", x.shape(), ", expected ", 2 * rank);
  std::vector<Side> sides;
  for (int dim = 0; dim < x.rank(); ++dim) {
    const auto d = static_cast<std::size_t>(dim);
    const std::int64_t in = x.shape()[dim], out = output[dim];
    expects<ShapeError>(out == in || (out > 0 && in > 0 && out < std::int64_t{1} << 31), resize_name, ": from ",
                        x.shape(), " to ", output, "; sizes are from 1 to 2^31");
    const double scale =
        options.scales.empty() ? static_cast<double>(out) / static_cast<double>(in) : options.scales[d];
    const bool crops = options.coordinates == Coordinates::crop;
    const double begin = crops ? options.roi[d] : 0, end = crops ? options.roi[rank + d] : 1;
    if (in == 0 || (in == out && scale == 1 && begin == 0 && end == 1)) continue;
    expects<ShapeError>(scale > 0 && std::isfinite(scale) && std::isfinite(begin) && std::isfinite(end), resize_name,
                        ": a scale of ", scale, " from ", begin, " to ", end, " along dimension ", dim);
    sides.push_back({dim, in, out, scale, begin, end});
  }
  return sides;
}

}  // namespace

Tensor resize(const Tensor& x, const Shape& output, const ResizeOptions& options) {
  if (traces()) return traced("resize", x, output, options);
  check_defined(resize_name, "the input", x);
  const std::vector<Side> sides = sides_of(x, output, options);
  const auto all = [&](const Tensor& from) {
    Tensor out = from, outside;
    for (const Side& side : sides) {
      const Tensor places = places_of(side, options.coordinates);
      out = options.mode == Resize::nearest ? at_places(out, side, nearest_places(places, options.nearest))
                                            : mixed(out, side, places, options);
      if (options.coordinates != Coordinates::crop) continue;
      Shape along = Shape::filled(x.rank(), 1);
      along[side.dim] = side.out;
      const Tensor beyond =
          logical_or(less(places, 0), greater(places, static_cast<double>(side.in - 1))).reshape(along);
      outside = outside.defined() ? logical_or(outside, beyond) : beyond;
    }
    if (outside.defined()) out = where(outside, number_beside(resize_name, out, options.extrapolation), out);
    return sides.empty() ? copy(out) : out;
  };
  return options.mode == Resize::nearest ? all(x) : compose(resize_name, x, all);
}

}  // namespace tern::operators
