// Images of another size.

#include <limits>

#include "operators/composed.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/resizing.hpp"

namespace tern::operators {

namespace {

Tensor nearest_along(const Tensor& x, std::int64_t dim, std::int64_t count) {
  const std::int64_t size = x.shape()[static_cast<int>(dim)];
  if (size == count) return x;
  // A quotient of whole numbers that is whole is exact, so the floor is the right one.
  const Tensor places = div(mul(positions(count), static_cast<double>(size)), static_cast<double>(count));
  return index_select(x, dim, places.to(DType::int64));
}

Tensor bilinear_along(const Tensor& x, std::int64_t dim, std::int64_t count, bool align_corners) {
  const std::int64_t size = x.shape()[static_cast<int>(dim)];
  if (size == count) return x;
  const auto from = static_cast<double>(size), to = static_cast<double>(count);
  const Tensor numbers = positions(count);
  const Tensor places = align_corners ? mul(numbers, count > 1 ? (from - 1) / (to - 1) : 0.0)
                                      : clamp(sub(mul(add(numbers, 0.5), from / to), 0.5), 0, infinity);
  const Tensor left = clamp(places.to(DType::int64).to(DType::float64), 0, from - 1),
               right = clamp(add(left, 1), 0, from - 1);
  Shape along = Shape::filled(x.rank(), 1);
  along[static_cast<int>(dim)] = count;
  const Tensor share = sub(places, left).to(x.dtype()).reshape(along);
  const auto at = [&](const Tensor& index) { return index_select(x, dim, index.to(DType::int64)); };
  return add(mul(at(left), sub(1, share)), mul(at(right), share));
}

}  // namespace

Tensor interpolate(const Tensor& x, Pair output, const InterpolateOptions& options) {
  check_floating("interpolate", "the input", x);
  check_rank("interpolate", "the input", x, 4);
  expects<ShapeError>(output.h > 0 && output.w > 0 && x.shape()[2] > 0 && x.shape()[3] > 0, "interpolate: from ",
                      x.shape(), " to ", output.h, 'x', output.w, "; sizes are at least 1");
  constexpr std::int64_t most = 1LL << 31;
  expects<ShapeError>(output.h < most && output.w < most, "interpolate: to ", output.h, 'x', output.w,
                      "; sizes are below 2^31");
  if (x.shape()[2] == output.h && x.shape()[3] == output.w) return mul(x, 1);
  if (options.mode == Interpolation::nearest) return nearest_along(nearest_along(x, 2, output.h), 3, output.w);
  return compose("interpolate", x, [&](const Tensor& wide) {
    return bilinear_along(bilinear_along(wide, 2, output.h, options.align_corners), 3, output.w, options.align_corners);
  });
}

}  // namespace tern::operators
