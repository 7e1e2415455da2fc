// What waits for the elements, because the size of the result depends on them.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "operators/indexing_parts.hpp"
#include "operators/traced.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/operators/scattering.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

Tensor compress(const Tensor& x, const Tensor& condition, std::optional<std::int64_t> dim) {
  if (traces()) return traced("compress", x, condition, dim);
  constexpr const char* op = "compress";
  check_defined(op, "the input", x);
  check_rank(op, "the condition", condition, 1);
  expects<DTypeError>(condition.dtype() == DType::boolean, op, ": the condition is ", condition.dtype(),
                      ", expected bool");
  const Tensor whole = dim ? x : x.reshape({x.numel()});
  const int place = dim_of(op, dim.value_or(0), whole.rank());
  const std::int64_t size = whole.rank() == 0 ? 1 : whole.shape()[place];
  expects<ShapeError>(condition.numel() <= size, op, ": a condition of ", condition.numel(), " for the ", size,
                      " slices of ", x.shape());
  const Tensor chosen = nonzero(condition);
  return index_select(whole, place, chosen.reshape({chosen.numel()}));
}

namespace {

// NaN counts as largest and as unlike every other.
template <class T>
bool comes_before(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return false;
    if (std::isnan(b)) return true;
  }
  return a < b;
}

struct Groups {
  std::vector<std::int64_t> first, inverse, counts;
};

// Equal ones among `rows` rows of `columns` elements.
template <class T>
Groups groups_of(std::span<const T> elements, std::int64_t rows, std::int64_t columns, bool sorted) {
  const auto row = [&](std::int64_t i) {
    return elements.subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t a, std::int64_t b) {
    return std::ranges::lexicographical_compare(row(a), row(b), comes_before<T>);
  });
  std::vector<std::vector<std::int64_t>> groups;
  for (const std::int64_t i : order)
    if (!groups.empty() && std::ranges::equal(row(groups.back()[0]), row(i)))
      groups.back().push_back(i);
    else
      groups.push_back({i});
  if (!sorted) std::ranges::sort(groups, {}, [](const auto& group) { return group[0]; });
  Groups result;
  result.inverse.resize(order.size());
  for (const auto& group : groups) {
    for (const std::int64_t i : group)
      result.inverse[static_cast<std::size_t>(i)] = static_cast<std::int64_t>(result.first.size());
    result.first.push_back(group[0]);
    result.counts.push_back(static_cast<std::int64_t>(group.size()));
  }
  return result;
}

}  // namespace

std::vector<Tensor> unique(const Tensor& x, const UniqueOptions& options) {
  if (traces()) return traced<std::vector<Tensor>>("unique", x, options);
  constexpr const char* op = "unique";
  check_defined(op, "the input", x);
  const int place = options.dim ? normalize_dim(op, *options.dim, x.rank()) : 0;
  const Tensor whole = options.dim ? x.detach() : x.detach().reshape({x.numel()});
  const std::int64_t rows = whole.shape()[place];
  const Tensor slices =
      transpose(whole, 0, place).to(is_floating(x.dtype()) ? DType::float64 : DType::int64).contiguous();
  const std::int64_t columns = rows == 0 ? 0 : slices.numel() / rows;
  const Groups groups = is_floating(x.dtype()) ? groups_of(slices.read<double>(), rows, columns, options.sorted)
                                               : groups_of(slices.read<std::int64_t>(), rows, columns, options.sorted);
  const auto whole_numbers = [](const std::vector<std::int64_t>& numbers) {
    return tensor(numbers, {static_cast<std::int64_t>(numbers.size())});
  };
  const Tensor first = whole_numbers(groups.first);
  Tensor inverse = whole_numbers(groups.inverse);
  if (!options.dim) inverse = inverse.reshape(x.shape());
  return {index_select(whole, place, first), first, inverse, whole_numbers(groups.counts)};
}

}  // namespace tern::operators
