// Rearrangements composed of views and copies.

#include <algorithm>

#include "operators/composed.hpp"
#include "operators/traced.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

Tensor flatten(const Tensor& x, std::int64_t begin, std::int64_t end) {
  if (traces()) return traced("flatten", x, begin, end);
  check_defined("flatten", "the input", x);
  if (x.rank() == 0) return x.reshape({1});
  const int first = normalize_dim("flatten", begin, x.rank()), last = normalize_dim("flatten", end, x.rank());
  expects<ShapeError>(first <= last, "flatten: dimension ", begin, " of ", x.shape(), " is behind dimension ", end);
  Shape merged(x.shape().begin(), x.shape().begin() + first);
  std::int64_t all = 1;
  for (int i = first; i <= last; ++i) all *= x.shape()[i];
  merged.push_back(all);
  for (int i = last + 1; i < x.rank(); ++i) merged.push_back(x.shape()[i]);
  return x.reshape(merged);
}

Tensor squeeze(const Tensor& x, const Dims& dims) {
  if (traces()) return traced("squeeze", x, dims);
  check_defined("squeeze", "the input", x);
  bool goes[Shape::max_rank] = {};
  for (const std::int64_t dim : dims) {
    const int place = dim_of("squeeze", dim, x.rank());
    if (x.rank() == 0) continue;
    expects<ShapeError>(!goes[place], "squeeze: dimension ", dim, " is named twice");
    expects<ShapeError>(x.shape()[place] == 1, "squeeze: dimension ", dim, " of ", x.shape(), " has size ",
                        x.shape()[place], ", not 1");
    goes[place] = true;
  }
  Shape smaller;
  for (int i = 0; i < x.rank(); ++i)
    if (!goes[i]) smaller.push_back(x.shape()[i]);
  return x.reshape(smaller);
}

Tensor repeat(const Tensor& x, const Shape& times) {
  if (traces()) return traced("repeat", x, times);
  check_defined("repeat", "the input", x);
  expects<ShapeError>(times.rank() >= x.rank(), "repeat: ", times, " has fewer numbers than ", x.shape(),
                      " dimensions; tile takes fewer");
  Shape joined;
  const int lead = times.rank() - x.rank();
  for (int i = 0; i < times.rank(); ++i) {
    const std::int64_t size = i < lead ? 1 : x.shape()[i - lead];
    expects<ShapeError>(times[i] >= 0, "repeat: ", times, " has a negative number");
    joined.push_back(element_count({times[i], size}));
  }
  Tensor out = x.reshape([&] {
    Shape shape = Shape::filled(lead, 1);
    for (const std::int64_t size : x.shape()) shape.push_back(size);
    return shape;
  }());
  // One dimension after the other, because a tensor has at most 8; the last ones first, whose copies are small.
  for (int i = times.rank() - 1; i >= 0; --i) {
    if (times[i] == 1) continue;
    std::int64_t outer = 1, inner = 1;
    for (int k = 0; k < i; ++k) outer *= out.shape()[k];
    for (int k = i; k < times.rank(); ++k) inner *= out.shape()[k];
    Shape shape = out.shape();
    shape[i] = joined[i];
    out = out.reshape({outer, 1, inner}).expand({outer, times[i], inner}).reshape(shape);
  }
  return out.shared_storage() == x.shared_storage() ? copy(out) : out;
}

Tensor tile(const Tensor& x, const Shape& times) {
  if (traces()) return traced("tile", x, times);
  check_defined("tile", "the input", x);
  Shape all;
  for (int i = times.rank(); i < x.rank(); ++i) all.push_back(1);
  for (const std::int64_t count : times) {
    expects<ShapeError>(count >= 0, "tile: ", times, " has a negative number");
    all.push_back(count);
  }
  return repeat(x, all);
}

namespace {

Tensor rolled(const Tensor& x, std::int64_t shift, int dim) {
  const std::int64_t size = x.shape()[dim];
  if (size == 0) return x;
  const std::int64_t first = (size - shift % size) % size;
  return cat({x.slice(dim, first, size), x.slice(dim, 0, first)}, dim);
}

}  // namespace

Tensor roll(const Tensor& x, const std::vector<std::int64_t>& shifts, const Dims& dims) {
  if (traces()) return traced("roll", x, shifts, dims);
  check_defined("roll", "the input", x);
  if (dims.empty()) {
    expects<ShapeError>(shifts.size() == 1, "roll: ", shifts.size(), " shifts without dimensions, expected one");
    const Tensor row = x.reshape({x.numel()});
    return (x.numel() == 0 ? copy(row) : rolled(row, shifts[0], 0)).reshape(x.shape());
  }
  expects<ShapeError>(shifts.size() == dims.size(), "roll: ", shifts.size(), " shifts for ", dims.size(),
                      " dimensions");
  Tensor out = x;
  auto shift = shifts.begin();
  for (const std::int64_t dim : dims) {
    const int place = dim_of("roll", dim, x.rank());
    if (x.rank() > 0) out = rolled(out, *shift, place);
    ++shift;
  }
  return out.shared_storage() == x.shared_storage() ? copy(out) : out;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, Meshgrid indexing) {
  if (traces()) return traced<std::vector<Tensor>>("meshgrid", tensors, indexing);
  expects<ShapeError>(!tensors.empty(), "meshgrid: no tensors");
  const int count = static_cast<int>(tensors.size());
  Shape grid;
  for (const Tensor& tensor : tensors) {
    check_defined("meshgrid", "an input", tensor);
    expects<ShapeError>(tensor.rank() <= 1, "meshgrid: an input has shape ", tensor.shape(),
                        ", expected one dimension or none");
    expects<DTypeError>(tensor.dtype() == tensors[0].dtype(), "meshgrid: inputs are ", tensors[0].dtype(), " and ",
                        tensor.dtype());
    grid.push_back(tensor.numel());
  }
  const bool exchanged = indexing == Meshgrid::xy && count >= 2;
  if (exchanged) std::swap(grid[0], grid[1]);
  std::vector<Tensor> all;
  for (int i = 0; i < count; ++i) {
    Shape own = Shape::filled(count, 1);
    own[exchanged && i < 2 ? 1 - i : i] = tensors[static_cast<std::size_t>(i)].numel();
    all.push_back(tensors[static_cast<std::size_t>(i)].reshape(own).expand(grid));
  }
  return all;
}

Tensor diag(const Tensor& x, std::int64_t diagonal) {
  if (traces()) return traced("diag", x, diagonal);
  check_defined("diag", "the input", x);
  expects<ShapeError>(x.rank() == 1 || x.rank() == 2, "diag: input has shape ", x.shape(),
                      ", expected a vector or a matrix");
  constexpr std::int64_t bound = std::int64_t{1} << 31;
  expects<ShapeError>(diagonal > -bound && diagonal < bound, "diag: the diagonal ", diagonal, " is beyond 2^31");
  const std::int64_t down = std::max<std::int64_t>(-diagonal, 0), right = std::max<std::int64_t>(diagonal, 0);
  if (x.rank() == 2) {
    const std::int64_t rows = x.size(0) - down, columns = x.size(1) - right, count = std::min(rows, columns);
    if (count <= 0) return copy(x.slice(0, 0, 0).reshape({0}));
    const Tensor square = x.slice(0, down, down + count).slice(1, right, right + count);
    return copy(square.reshape({count * count}).slice(0, 0, count * count, count + 1));
  }
  const std::int64_t count = x.numel(), size = count + down + right;
  const Tensor square = count == 0 ? x.reshape({0, 0})
                                   : pad(x.reshape({count, 1}), {{1, 0, count}})
                                         .reshape({count * (count + 1)})
                                         .slice(0, 0, count * count)
                                         .reshape({count, count});
  if (size == count) return square;
  return pad(square, {{0, down, right}, {1, right, down}});
}

}  // namespace tern::operators
