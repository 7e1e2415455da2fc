// Scattering with several elements for one place: sorted by place, they are joined by a scan within each run of equal
// places, so no element is read by the host.

#include "operators/indexing_parts.hpp"
#include "operators/rows.hpp"
#include "operators/traced.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/scattering.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

Tensor joined(Scatter join, const Tensor& a, const Tensor& b) {
  switch (join) {
    case Scatter::add:
      return add(a, b);
    case Scatter::mul:
      return mul(a, b);
    case Scatter::max:
      return maximum(a, b);
    case Scatter::min:
      return minimum(a, b);
    default:
      return a;
  }
}

// A factor only where `there`: elsewhere its gradient would be 0 times the other one, which may be infinite.
Tensor factor_where(Scatter join, const Tensor& there, const Tensor& x) {
  return join == Scatter::mul ? where(there, x, number_like(x, 1)) : x;
}

// Rows of a source [n, R] for the rows `places` [n] of a tensor of `count` rows, sorted by place.
struct Arrivals {
  Tensor rows;    // [n, R], each joined with those before it for the same place
  Tensor winner;  // [count, 1] float64: the number of the last row for each place, from 1 on; 0 if there is none

  Arrivals(const char* op, const Tensor& source, const Tensor& places, std::int64_t count, Scatter join) {
    const Runs runs = runs_of(op, places);
    const std::int64_t n = source.size(0);
    rows = rows_at(op, source, runs.order);
    for (std::int64_t reach = 1; join != Scatter::none && reach < n; reach *= 2) {
      const Tensor same = equal(runs.places.slice(0, reach, n), runs.places.slice(0, 0, n - reach)).unsqueeze(1);
      const Tensor late = rows.slice(0, reach, n);
      const Tensor early = factor_where(join, same, rows.slice(0, 0, n - reach));
      const Tensor further = where(same, joined(join, early, late), late);
      rows = cat({rows.slice(0, 0, reach), further}, 0);
    }
    winner = add_rows(op, mul(runs.last, add(positions(n), 1)), runs.places, count).unsqueeze(1);
  }
};

// x [count, R] with the rows of source [n, R] at `places`.
Tensor with_rows(const char* op, const Tensor& x, const Tensor& places, const Tensor& source,
                 const ScatterReduceOptions& options) {
  const std::int64_t count = x.size(0);
  const Arrivals arrivals(op, source, places, count, options.join);
  const Tensor is_there = not_equal(arrivals.winner, 0);
  const Tensor last = clamp(sub(arrivals.winner, 1), 0, infinity).to(DType::int64).reshape({count});
  const Tensor picked = rows_at(op, arrivals.rows, last);
  const bool joins = options.join != Scatter::none && options.include_self;
  if (!joins) return where(is_there, picked, x);
  return where(is_there, joined(options.join, x, factor_where(options.join, is_there, picked)), x);
}

// The same for the largest or smallest, whose gradient goes to all of equal elements.
Tensor with_extremes(const char* op, const Tensor& x, const Tensor& places, const Tensor& source,
                     const ScatterReduceOptions& options) {
  Tensor out = with_rows(op, x.detach(), places, source.detach(), options);
  if (!recording(x, source)) return out;
  record(op, out, {x, source},
         [op, x = Saved(x), source = Saved(source), out = Saved(out), places = Saved(places),
          self = options.include_self](const Tensor& grad) {
           const DType dtype = grad.dtype();
           const Tensor value = out.get(), at = places.get();
           const std::int64_t count = value.size(0);
           const Tensor wins = equal(source.get(), rows_at(op, value, at)).to(dtype);
           const Tensor winners = add_rows(op, wins, at, count);
           Tensor own = equal(x.get(), value).to(dtype);
           if (!self) {
             const Tensor arrived = add_rows(op, number_like(wins, 1).expand({wins.size(0), 1}), at, count);
             own = mul(own, equal(arrived, 0).to(dtype));
           }
           const Tensor share = div(grad, clamp(add(winners, own), 1, infinity));
           return Gradients{mul(share, own), mul(rows_at(op, share, at), wins)};
         });
  return out;
}

Tensor scattered(const char* op, const Tensor& x, const Tensor& places, const Tensor& source,
                 const ScatterReduceOptions& options) {
  if (source.numel() == 0)  // joined for the sake of its gradient
    return cat({x.reshape({x.numel()}), source.reshape({0})}, 0).reshape(x.shape());
  if (options.join == Scatter::none) return with_rows(op, x, places, source, options);
  return in_scalars(op, x, source, [&](const Tensor& wide, const Tensor& more) {
    const bool extreme = options.join == Scatter::max || options.join == Scatter::min;
    return extreme && is_floating(x.dtype()) ? with_extremes(op, wide, places, more, options)
                                             : with_rows(op, wide, places, more, options);
  });
}

// The row of x, seen as [all places of its first dimensions, rest], that each row of index [n, k] names. `first`: the
// dimension of the first column.
Tensor row_numbers(const char* op, const Tensor& x, const Tensor& index, int first) {
  const Tensor numbers = index.to(DType::float64);
  const auto k = static_cast<int>(index.size(1));
  Tensor places = mul(positions(index.size(0)), 0);
  for (int column = 0; column < k; ++column) {
    const std::int64_t size = x.shape()[first + column];
    const Tensor given = slice(numbers, 1, column, column + 1).reshape({index.size(0)});
    const Tensor here = where(less(given, 0), add(given, static_cast<double>(size)), given);
    checked_labels(op, here.to(DType::int64), size, 0, "index");
    // A device finds a bad index when it takes the row: -1 stays negative.
    const Tensor bad = logical_or(not_equal(clamp(here, 0, static_cast<double>(size - 1)), here), less(places, 0));
    places = where(bad, number_like(here, -1), add(mul(places, static_cast<double>(size)), here));
  }
  return places;
}

std::int64_t product_of(const Shape& shape, int begin, int end) {
  return element_count(Shape(shape.begin() + begin, shape.begin() + end));
}

}  // namespace

Tensor gather_nd(const Tensor& x, const Tensor& index, std::int64_t batch_dims) {
  if (traces()) return traced("gather_nd", x, index, batch_dims);
  constexpr const char* op = "gather_nd";
  check_defined(op, "the input", x);
  const Tensor whole = checked_index(op, index);
  const auto batch = static_cast<int>(batch_dims);
  const bool fits = batch >= 0 && index.rank() > batch && batch + index.size(-1) <= x.rank() && index.size(-1) >= 1 &&
                    std::equal(x.shape().begin(), x.shape().begin() + batch, index.shape().begin());
  expects<ShapeError>(fits, op, ": an index of ", index.shape(), " for an input of ", x.shape(), " with ", batch_dims,
                      " common dimensions; its last one names from 1 to ", x.rank() - batch, " others");
  const auto k = static_cast<int>(index.size(-1));
  const std::int64_t outer = product_of(x.shape(), 0, batch), inside = product_of(x.shape(), batch, batch + k),
                     rest = product_of(x.shape(), batch + k, x.rank()),
                     each = product_of(index.shape(), batch, index.rank() - 1);
  Tensor places = row_numbers(op, x, whole.reshape({outer * each, k}), batch);
  if (batch > 0) {
    const Tensor start = mul(positions(outer), static_cast<double>(inside)).reshape({outer, 1});
    const Tensor moved = add(places.reshape({outer, each}), start).reshape({outer * each});
    places = where(less(places, 0), places, moved);
  }
  Shape shape(index.shape().begin(), index.shape().end() - 1);
  for (int i = batch + k; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return rows_at(op, x.reshape({outer * inside, rest}), places.to(DType::int64)).reshape(shape);
}

Tensor scatter_nd(const Tensor& x, const Tensor& index, const Tensor& source, Scatter join) {
  if (traces()) return traced("scatter_nd", x, index, source, join);
  constexpr const char* op = "scatter_nd";
  check_dtypes(op, x, source);
  const Tensor whole = checked_index(op, index);
  expects<ShapeError>(index.rank() >= 1 && index.size(-1) >= 1 && index.size(-1) <= x.rank(), op, ": an index of ",
                      index.shape(), " for an input of ", x.shape(), "; its last dimension names from 1 to ", x.rank(),
                      " dimensions");
  const auto k = static_cast<int>(index.size(-1));
  Shape expected(index.shape().begin(), index.shape().end() - 1);
  for (int i = k; i < x.rank(); ++i) expected.push_back(x.shape()[i]);
  expects<ShapeError>(source.shape() == expected, op, ": a source of ", source.shape(), " for an index of ",
                      index.shape(), " and an input of ", x.shape(), ", expected ", expected);
  const std::int64_t n = product_of(index.shape(), 0, index.rank() - 1), rows = product_of(x.shape(), 0, k),
                     rest = product_of(x.shape(), k, x.rank());
  const Tensor places = row_numbers(op, x, whole.reshape({n, k}), 0).to(DType::int64);
  return scattered(op, x.reshape({rows, rest}), places, source.reshape({n, rest}), {.join = join}).reshape(x.shape());
}

Tensor scatter_reduce(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source,
                      const ScatterReduceOptions& options) {
  if (traces()) return traced("scatter_reduce", x, dim, index, source, options);
  constexpr const char* op = "scatter_reduce";
  check_source(op, x, index, source);
  const int place = dim_of(op, dim, x.rank());
  const double size = x.rank() == 0 ? 1 : static_cast<double>(x.shape()[place]);
  const Tensor given = checked_index(op, index).to(DType::float64);
  const Tensor whole = where(less(given, 0), add(given, size), given).to(DType::int64);
  const Tensor places = places_of(op, x.shape(), dim, whole);
  return scattered(op, as_rows(x), places, as_rows(source), options).reshape(x.shape());
}

}  // namespace tern::operators
