// Indexing and sorting. An index along any dimension becomes a row number, in float64, which is exact up to 2^53;
// rows_at and add_rows do the rest.

#include "operators/indexing_parts.hpp"
#include "operators/resampled.hpp"
#include "operators/rows.hpp"
#include "operators/traced.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

Tensor positions(std::int64_t count) {
  Tensor all({1}, DType::float64);
  all.fill_(0);
  if (count > 1) all = cat({all, add(all, 1)}, 0);
  for (std::int64_t size = 2; size < count; size = all.numel()) {  // rows of the existing size, at most as many
    const std::int64_t rows = std::min(size, (count + size - 1) / size);
    const Tensor first = mul(all.slice(0, 0, rows), static_cast<double>(size));
    all = add(first.reshape({rows, 1}), all.reshape({1, size})).reshape({rows * size});
  }
  return all.slice(0, 0, count);
}

Tensor checked_index(const char* op, const Tensor& index) {
  check_defined(op, "the index tensor", index);
  expects<DTypeError>(index.dtype() == DType::int64 || index.dtype() == DType::int32, op, ": the index is ",
                      index.dtype(), ", expected int64 or int32; convert with to(...)");
  return index.to(DType::int64);
}

namespace {

// `places` as int64, with -1 where an index is outside [0, size), so that rows_at detects it, too.
Tensor whole_places(const Tensor& places, const Tensor& index, std::int64_t size) {
  const Tensor bad = not_equal(clamp(index, 0, static_cast<double>(size - 1)), index);
  return where(bad, number_like(places, -1), places).to(DType::int64).reshape({places.numel()});
}

}  // namespace

Tensor places_of(const char* op, const Shape& shape, std::int64_t dim, const Tensor& given) {
  const Tensor index = checked_index(op, given);
  expects<ShapeError>(index.rank() == shape.rank(), op, ": an index of ", index.shape(), " for an input of ", shape,
                      "; both have the same number of dimensions");
  const int place = dim_of(op, dim, shape.rank());
  if (shape.rank() == 0) return places_of(op, {1}, 0, index.reshape({1}));
  for (int i = 0; i < shape.rank(); ++i)
    expects<ShapeError>(i == place || index.shape()[i] <= shape[i], op, ": an index of ", index.shape(),
                        " is larger than the input ", shape, " in dimension ", i);
  // If the host can read the index, it finds a bad one here, with its own value.
  checked_labels(op, index.reshape({index.numel()}), shape[place], 0, "index");
  const Tensor numbers = index.to(DType::float64);
  const Shape strides = contiguous_strides(shape);
  Tensor places = mul(numbers, static_cast<double>(strides[place]));
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == place || index.shape()[i] <= 1) continue;
    Shape own = Shape::filled(shape.rank(), 1);
    own[i] = index.shape()[i];
    places = add(places, mul(positions(own[i]), static_cast<double>(strides[i])).reshape(own));
  }
  return whole_places(places, numbers, shape[place]);
}

void check_source(const char* op, const Tensor& x, const Tensor& index, const Tensor& source) {
  check_dtypes(op, x, source);
  check_defined(op, "the index tensor", index);
  expects<ShapeError>(source.shape() == index.shape(), op, ": a source of ", source.shape(), " for an index of ",
                      index.shape());
}

Runs runs_of(const char* op, const Tensor& places) {
  const Tensor order = argsort(places), sorted = rows_at(op, places, order);
  const Tensor next = sorted.slice(0, 1);
  const Tensor changes = not_equal(sorted.slice(0, 0, next.numel()), next).to(DType::float64);
  Tensor end({1}, DType::float64);
  end.fill_(1);
  return {order, sorted, cat({end, changes}, 0), cat({changes, end}, 0)};
}

namespace {

// Integer sums, which wrap around: for each place, the prefix sum at its run's end minus the one before it.
Tensor integer_sums(const char* op, const Tensor& source, const Tensor& places, std::int64_t count) {
  const Runs runs = runs_of(op, places);
  Tensor none({1}, DType::int64);
  none.fill_(0);
  const Tensor flat = source.reshape({source.numel()}).to(DType::int64);
  const Tensor sums = cat({none, cumsum(rows_at(op, flat, runs.order), 0)}, 0);
  const Tensor before = positions(source.numel());
  const auto at = [&](const Tensor& marked, const Tensor& numbers) {
    return rows_at(op, sums, add_rows(op, mul(marked, numbers), runs.places, count).to(DType::int64));
  };
  return sub(at(runs.last, add(before, 1)), at(runs.first, before));
}

// Sums that are known modulo 2^64 as elements of `dtype`: they wrap around, where a conversion would saturate.
Tensor wrapped(const Tensor& sums, DType dtype) {
  if (dtype == DType::int64 || dtype == DType::boolean) return sums.to(dtype);
  const double least = dtype == DType::uint8 ? 0 : -0x1p31, range = dtype == DType::uint8 ? 0x1p8 : 0x1p32;
  return add(remainder(sub(sums, least), range), least).to(dtype);
}

}  // namespace

Tensor index_select(const Tensor& x, std::int64_t dim, const Tensor& given) {
  if (traces()) return traced("index_select", x, dim, given);
  constexpr const char* op = "index_select";
  check_defined(op, "the input", x);
  const Tensor index = checked_index(op, given);
  check_rank(op, "the index tensor", index, 1);
  const int place = dim_of(op, dim, x.rank());
  if (x.rank() == 0) {
    expects<ShapeError>(index.numel() == 1, op, ": an index of ", index.shape(), " for a number, expected [1]");
    return rows_at(op, x.reshape({1}), index).reshape({});
  }
  if (place == 0) return rows_at(op, x, index);
  const std::int64_t size = x.shape()[place], count = index.numel();
  checked_labels(op, index, size, 0, "index");
  if (resamples(op, x)) return resampled(op, x, place, index.reshape({count, 1}), {});
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < place; ++i) outer *= x.shape()[i];
  for (int i = place + 1; i < x.rank(); ++i) inner *= x.shape()[i];
  const Tensor numbers = index.to(DType::float64).reshape({1, count});
  const Tensor places = add(mul(positions(outer), static_cast<double>(size)).reshape({outer, 1}), numbers);
  Shape shape = x.shape();
  shape[place] = count;
  return rows_at(op, x.reshape({outer * size, inner}), whole_places(places, numbers, size)).reshape(shape);
}

Tensor gather(const Tensor& x, std::int64_t dim, const Tensor& index) {
  if (traces()) return traced("gather", x, dim, index);
  check_defined("gather", "the input", x);
  return rows_at("gather", as_rows(x), places_of("gather", x.shape(), dim, index)).reshape(index.shape());
}

Tensor scatter_add(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  if (traces()) return traced("scatter_add", x, dim, index, source);
  constexpr const char* op = "scatter_add";
  check_source(op, x, index, source);
  const Tensor places = places_of(op, x.shape(), dim, index);
  if (is_floating(x.dtype()))
    return compose(op, x, source, [&](const Tensor& wide, const Tensor& more) {
      return add(wide, add_rows(op, as_rows(more), places, x.numel()).reshape(x.shape()));
    });
  if (index.numel() == 0) return copy(x);
  const Tensor sums = integer_sums(op, source, places, x.numel()).reshape(x.shape());
  return wrapped(add(x.to(DType::int64), sums), x.dtype());
}

Tensor scatter(const Tensor& x, std::int64_t dim, const Tensor& index, const Tensor& source) {
  if (traces()) return traced("scatter", x, dim, index, source);
  constexpr const char* op = "scatter";
  check_source(op, x, index, source);
  const Tensor places = places_of(op, x.shape(), dim, index);
  const Tensor both = cat({x.reshape({x.numel()}), source.reshape({source.numel()})}, 0);
  if (index.numel() == 0) return both.reshape(x.shape());
  // Each element comes from x or, if there is one, from the last source for its place; sources follow x.
  const Runs runs = runs_of(op, places);
  const Tensor numbers = add(rows_at(op, positions(source.numel()), runs.order), static_cast<double>(x.numel()));
  const Tensor winners = add_rows(op, mul(runs.last, numbers), runs.places, x.numel());
  const Tensor taken = where(equal(winners, number_like(winners, 0)), positions(x.numel()), winners);
  return rows_at(op, both, taken.to(DType::int64)).reshape(x.shape());
}

Tensor masked_select(const Tensor& x, const Tensor& mask) {
  if (traces()) return traced("masked_select", x, mask);
  constexpr const char* op = "masked_select";
  check_defined(op, "the input", x);
  check_defined(op, "the mask", mask);
  expects<DTypeError>(mask.dtype() == DType::boolean, op, ": the mask is ", mask.dtype(), ", expected bool");
  const Shape shape = broadcast(op, x.shape(), mask.shape());
  const Tensor places = nonzero(mask.expand(shape).reshape({element_count(shape)}));
  return rows_at(op, x.expand(shape).reshape({element_count(shape)}), places.reshape({places.numel()}));
}

Tensor nonzero(const Tensor& x) {
  if (traces()) return traced("nonzero", x);
  check_defined("nonzero", "the input", x);
  const Tensor truths = x.detach().to(DType::boolean).contiguous();
  std::vector<std::int64_t> found;
  Shape at = Shape::filled(x.rank(), 0);
  std::int64_t count = 0;
  for (const bool truth : truths.read<bool>()) {
    if (truth) {
      found.insert(found.end(), at.begin(), at.end());
      ++count;
    }
    for (int i = x.rank() - 1; i >= 0 && ++at[i] == x.shape()[i]; --i) at[i] = 0;
  }
  return tensor(found, {count, x.rank()});
}

Sorted sort(const Tensor& x, std::int64_t dim, bool descending) {
  if (traces()) return traced<Sorted>("sort", x, dim, descending);
  const Tensor order = argsort(x, dim, descending);
  return {x.rank() == 0 ? copy(x) : gather(x, dim, order), order};
}

Sorted topk(const Tensor& x, std::int64_t k, std::int64_t dim, bool largest) {
  if (traces()) return traced<Sorted>("topk", x, k, dim, largest);
  check_defined("topk", "the input", x);
  const int place = dim_of("topk", dim, x.rank());
  if (x.rank() == 0) {
    const Sorted one = topk(x.reshape({1}), k, 0, largest);
    expects<ShapeError>(k == 1, "topk: ", k, " elements of a number, expected 1");
    return {one.values.reshape({}), one.indices.reshape({})};
  }
  expects<ShapeError>(k >= 0 && k <= x.shape()[place], "topk: ", k, " of the ", x.shape()[place],
                      " elements along dimension ", dim, " of ", x.shape());
  const Tensor order = argsort(x, place, largest).slice(place, 0, k).contiguous();
  return {gather(x, place, order), order};
}

}  // namespace tern::operators
