// Elements between those of a grid, and means over boxes of an image.

#include <algorithm>
#include <cmath>

#include "operators/composed.hpp"
#include "operators/rows.hpp"
#include "operators/traced.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/sampling.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// x mirrored into [low, high].
Tensor mirrored(const Tensor& x, double low, double high) {
  if (high <= low) return mul(x, 0);
  const double span = high - low;
  const Tensor far = abs(sub(x, low)), turns = floor(div(far.detach(), span));
  const Tensor rest = sub(far, mul(turns, span));
  const Tensor even = equal(sub(turns, mul(floor(div(turns, 2)), 2)), 0);
  return where(even, add(rest, low), sub(high, rest));
}

// One element beside each place along one dimension.
struct Tap {
  Tensor index, weight;  // the index in float64, inside; the weight is 0 for one outside
};

Tensor inside_of(const Tensor& index, std::int64_t size, const GridSampleOptions& options) {
  const auto last = static_cast<double>(size - 1);
  if (options.padding == Around::reflection)
    return clamp(round(mirrored(index, options.align_corners ? 0 : -0.5, options.align_corners ? last : last + 0.5)), 0,
                 last);
  return clamp(index, 0, last);
}

std::vector<Tap> taps_of(const Tensor& normal, std::int64_t size, const GridSampleOptions& options) {
  const auto count = static_cast<double>(size);
  const bool cubic = options.mode == Resize::cubic;
  Tensor place =
      options.align_corners ? mul(add(normal, 1), (count - 1) / 2) : sub(mul(add(normal, 1), count / 2), 0.5);
  if (!cubic && options.padding == Around::reflection)
    place = mirrored(place, options.align_corners ? 0 : -0.5, options.align_corners ? count - 1 : count - 0.5);
  if (!cubic && options.padding != Around::zeros) place = clamp(place, 0, count - 1);
  std::vector<Tap> taps;
  const auto add_tap = [&](const Tensor& index, const Tensor& weight) {
    const Tensor wide = index.detach().to(DType::float64), inside = inside_of(wide, size, options);
    const Tensor visible = options.padding == Around::zeros ? where(equal(inside, wide), weight, 0) : weight;
    taps.push_back({inside, visible});
  };
  if (options.mode == Resize::nearest) {
    add_tap(round(place.detach()), add(mul(place.detach(), 0), 1));
    return taps;
  }
  const Tensor left = floor(place.detach()), share = sub(place, left), rest = sub(1, share);
  if (!cubic) {
    add_tap(left, rest);
    add_tap(add(left, 1), share);
    return taps;
  }
  constexpr double a = -0.75;
  const auto near = [](const Tensor& t) { return add(mul(mul(sub(mul(t, a + 2), a + 3), t), t), 1); };
  const auto far = [](const Tensor& t) { return sub(mul(add(mul(sub(mul(t, a), 5 * a), t), 8 * a), t), 4 * a); };
  add_tap(sub(left, 1), far(add(share, 1)));
  add_tap(left, near(share));
  add_tap(add(left, 1), near(rest));
  add_tap(add(left, 2), far(add(rest, 1)));
  return taps;
}

// The rows of x [N, C, size...] as [N size..., C].
Tensor pixels_of(const Tensor& x) {
  return transpose(x.reshape({x.size(0), x.size(1), -1}), 1, 2).reshape({-1, x.size(1)});
}

}  // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options) {
  if (traces()) return traced("grid_sample", x, grid, options);
  constexpr const char* op = "grid_sample";
  check_dtypes(op, x, grid);
  check_floating(op, "the input", x);
  const int dimensions = x.rank() - 2;
  const bool fits = dimensions >= 1 && dimensions <= 3 && grid.rank() == x.rank() && grid.size(0) == x.size(0) &&
                    grid.size(-1) == dimensions;
  expects<ShapeError>(fits, op, ": a grid of ", grid.shape(), " for an input of ", x.shape(), ", expected [",
                      x.rank() > 0 ? x.shape()[0] : 0, ", ..., ", std::max(dimensions, 1),
                      "] with the input's number of dimensions");
  for (int dim = 2; dim < x.rank(); ++dim)
    expects<ShapeError>(x.shape()[dim] > 0, op, ": input ", x.shape(), " has no elements to take");
  return compose(op, x, grid, [&](const Tensor& wide, const Tensor& at) {
    const std::int64_t n = x.size(0), each = n == 0 ? 0 : grid.numel() / n / dimensions;
    const Tensor points = at.reshape({n, each, dimensions});
    std::vector<std::vector<Tap>> taps;
    for (int dim = 0; dim < dimensions; ++dim) {
      const std::int64_t column = dimensions - 1 - dim;
      taps.push_back(taps_of(slice(points, 2, column, column + 1).reshape({n, each}), x.shape()[dim + 2], options));
    }
    const Tensor pixels = pixels_of(wide);
    std::int64_t plane = 1;
    for (int dim = 2; dim < x.rank(); ++dim) plane *= x.shape()[dim];
    const Tensor start = mul(positions(n), static_cast<double>(plane)).reshape({n, 1});
    // Every choice of one tap along each dimension.
    Tensor sum;
    std::vector<std::size_t> choice(taps.size(), 0);
    for (bool more = true; more;) {
      Tensor index = mul(start, 0), weight;
      for (std::size_t dim = 0; dim < taps.size(); ++dim) {
        const Tap& tap = taps[dim][choice[dim]];
        index = add(mul(index, static_cast<double>(x.shape()[static_cast<int>(dim) + 2])), tap.index);
        weight = weight.defined() ? mul(weight, tap.weight) : tap.weight;
      }
      const Tensor rows = add(index, start).to(DType::int64).reshape({n * each});
      const Tensor part = mul(rows_at(op, pixels, rows), weight.reshape({n * each, 1}));
      sum = sum.defined() ? add(sum, part) : part;
      more = false;
      for (std::size_t dim = taps.size(); dim-- > 0 && !more;) {
        more = ++choice[dim] < taps[dim].size();
        if (!more) choice[dim] = 0;
      }
    }
    Shape shape{n, x.size(1)};
    for (int dim = 1; dim < grid.rank() - 1; ++dim) shape.push_back(grid.shape()[dim]);
    return transpose(sum.reshape({n, each, x.size(1)}), 1, 2).reshape(shape);
  });
}

namespace {

// The samples of K boxes along one side: `count` bins of at most `most` samples each.
struct Samples {
  std::vector<Tap> taps;  // two, [K, count * most]
  Tensor there, active;   // [K, count * most]: whether the sample exists, and is not beside the image
  Tensor number;          // [K, 1]: samples of a bin, 0 for an empty box

  Samples(const Tensor& begin, const Tensor& size, std::int64_t bins, std::int64_t ratio, std::int64_t extent) {
    const std::int64_t boxes = begin.numel();
    const Tensor bin = div(size, static_cast<double>(bins));
    number = ratio > 0 ? add(mul(bin, 0), static_cast<double>(ratio)) : clamp(ceil(bin), 0, infinity);
    const double largest = ratio > 0 ? static_cast<double>(ratio) : boxes == 0 ? 1 : max(number).item();
    expects<NumericError>(largest < 0x1p20, "roi_align: a bin of ", largest,
                          " samples along a side; boxes are too large");
    const std::int64_t most = std::max(static_cast<std::int64_t>(largest), std::int64_t{1});
    const Tensor sample = positions(most).reshape({1, 1, most});
    const Tensor within = div(add(sample, 0.5), clamp(number, 1, infinity).reshape({boxes, 1, 1}));
    there = less(sample, number.reshape({boxes, 1, 1}))
                .to(DType::float64)
                .expand({boxes, bins, most})
                .reshape({boxes, bins * most});
    const Tensor place = add(mul(add(positions(bins).reshape({1, bins, 1}), within), bin.reshape({boxes, 1, 1})),
                             begin.reshape({boxes, 1, 1}))
                             .reshape({boxes, bins * most});
    const auto last = static_cast<double>(extent - 1);
    const Tensor visible = logical_and(greater_equal(place, -1), less_equal(place, last + 1)).to(DType::float64);
    const Tensor held = clamp(place, 0, last), left = floor(held), share = sub(held, left);
    active = mul(there, visible);
    taps = {{left, sub(1, share)}, {clamp(add(left, 1), 0, last), share}};
  }
};

}  // namespace

Tensor roi_align(const Tensor& x, const Tensor& boxes, const Tensor& images, Pair output,
                 const RoiAlignOptions& options) {
  if (traces()) return traced("roi_align", x, boxes, images, output, options);
  constexpr const char* op = "roi_align";
  check_floating(op, "the input", x);
  check_floating(op, "the boxes", boxes);
  check_rank(op, "the input", x, 4);
  check_rank(op, "the boxes", boxes, 2);
  expects<ShapeError>(boxes.size(1) == 4 && output.h >= 1 && output.w >= 1 && options.sampling_ratio >= 0, op,
                      ": boxes ", boxes.shape(), ", output ", output.h, 'x', output.w, " and sampling_ratio ",
                      options.sampling_ratio, ", expected [K, 4], at least 1x1 and at least 0");
  expects<ShapeError>(x.size(2) > 0 && x.size(3) > 0, op, ": input ", x.shape(), " has an empty plane");
  const std::int64_t count = boxes.size(0), channels = x.size(1), width = x.size(3), plane = x.size(2) * width;
  const Tensor of = checked_labels(op, images, x.size(0), 0, "image");
  expects<ShapeError>(of.numel() == count, op, ": ", of.numel(), " images for ", count, " boxes");
  return compose(op, x, [&](const Tensor& wide) {
    const Tensor corners =
        sub(mul(boxes.detach().to(DType::float64), options.spatial_scale), options.aligned ? 0.5 : 0.0);
    const auto column = [&](std::int64_t i) { return slice(corners, 1, i, i + 1); };
    const auto size = [&](std::int64_t i) {
      const Tensor extent = sub(column(i + 2), column(i));
      return options.aligned ? extent : maximum(extent, number_like(extent, 1));
    };
    const Samples rows(column(1), size(1), output.h, options.sampling_ratio, x.size(2)),
        columns(column(0), size(0), output.w, options.sampling_ratio, width);
    const std::int64_t high = rows.active.size(1), wide_side = columns.active.size(1);
    const Tensor pixels = pixels_of(wide), start = mul(of.to(DType::float64), static_cast<double>(plane));
    const Tensor exists = mul(rows.active.reshape({count, high, 1}), columns.active.reshape({count, 1, wide_side}));
    const Shape bins{count, output.h, high / output.h, output.w, wide_side / output.w, channels};
    // A sample beside the image is 0, one that a smaller box lacks is none.
    const Tensor there = mul(rows.there.reshape({count, high, 1}), columns.there.reshape({count, 1, wide_side}));
    const Tensor absent = equal(there, 0).reshape({bins[0], bins[1], bins[2], bins[3], bins[4], 1});
    Tensor sum;
    for (const Tap& row : rows.taps)
      for (const Tap& col : columns.taps) {
        const Tensor index =
            add(add(mul(row.index, static_cast<double>(width)), start.reshape({count, 1})).reshape({count, high, 1}),
                col.index.reshape({count, 1, wide_side}));
        const Tensor weight =
            mul(mul(row.weight.reshape({count, high, 1}), col.weight.reshape({count, 1, wide_side})), exists);
        const std::int64_t all = count * high * wide_side;
        const Tensor taken = rows_at(op, pixels, index.to(DType::int64).reshape({all}));
        Tensor part = mul(taken, weight.to(wide.dtype()).reshape({all, 1})).reshape(bins);
        if (options.max) part = replace(part, absent, -infinity);
        sum = !sum.defined() ? part : options.max ? maximum(sum, part) : add(sum, part);
      }
    Tensor result;
    if (options.max) {
      result = max(sum, {2, 4});
      result = replace(result, equal(result, -infinity), 0);
    } else {
      const Tensor number =
          clamp(mul(rows.number, columns.number), 1, infinity).to(wide.dtype()).reshape({count, 1, 1, 1});
      result = div(tern::operators::sum(sum, {2, 4}), number);
    }
    return permute(result, {0, 3, 1, 2});
  });
}

}  // namespace tern::operators
