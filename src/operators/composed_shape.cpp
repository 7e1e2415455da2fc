// Shape operators without their own slot.

#include <algorithm>
#include <limits>

#include "operators/composed.hpp"
#include "operators/rows.hpp"
#include "operators/traced.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

Tensor on_or_below(std::int64_t rows, std::int64_t columns, std::int64_t diagonal) {
  if (rows == 0) return Tensor({rows, columns}, DType::boolean);
  const auto run = [](std::int64_t count, bool value) {
    Tensor result({count}, DType::boolean);
    result.fill_(value);
    return result;
  };
  // A period with one element per difference is repeated `rows` times; read in rows that are one shorter, it shifts by
  // one in each.
  const std::int64_t period = rows + columns;
  const std::int64_t above = std::clamp(diagonal + 1, std::int64_t{0}, columns);
  const std::int64_t below = std::clamp(rows + diagonal + 1, std::int64_t{0}, rows);
  const Tensor once =
      cat({run(above, true), run(columns - above, false), run(below, true), run(rows - below, false)}, 0);
  const Tensor all = copy(once.expand({rows, period})).reshape({rows * period});
  return all.slice(0, 0, rows * (period - 1)).reshape({rows, period - 1}).slice(1, 0, columns);
}

namespace {

Tensor triangle(const char* op, const Tensor& x, std::int64_t diagonal, bool lower) {
  check_defined(op, "the input", x);
  expects<ShapeError>(x.rank() >= 2, op, ": input has shape ", x.shape(), ", expected [..., rows, columns]");
  if (x.numel() == 0) return copy(x);
  const std::int64_t rows = x.size(-2), columns = x.size(-1);
  const std::int64_t last = std::clamp(diagonal, -rows, columns) - (lower ? 0 : 1);
  const Tensor below = on_or_below(rows, columns, last), zero = number_like(x, 0);
  return lower ? where(below, x, zero) : where(below, zero, x);
}

}  // namespace

Tensor tril(const Tensor& x, std::int64_t diagonal) {
  if (traces()) return traced("tril", x, diagonal);
  return triangle("tril", x, diagonal, true);
}
Tensor triu(const Tensor& x, std::int64_t diagonal) {
  if (traces()) return traced("triu", x, diagonal);
  return triangle("triu", x, diagonal, false);
}

Tensor embedding(const Tensor& weight, const Tensor& indices) {
  if (traces()) return traced("embedding", weight, indices);
  check_rank("embedding", "the weight", weight, 2);
  check_defined("embedding", "the index tensor", indices);
  expects<DTypeError>(indices.dtype() == DType::int64 || indices.dtype() == DType::int32, "embedding: indices are ",
                      indices.dtype(), ", expected int64 or int32");
  Shape shape = indices.shape();
  shape.push_back(weight.shape()[1]);
  return rows_at("embedding", weight, indices.to(DType::int64).reshape({indices.numel()})).reshape(shape);
}

Tensor pad(const Tensor& x, const std::vector<Padding>& padding, PadMode mode) {
  if (traces()) return traced("pad_mode", x, padding, mode);
  check_defined("pad", "the input", x);
  Tensor out = x;
  for (const Padding& side : padding) {
    const int place = normalize_dim("pad", side.dim, x.rank());
    const std::int64_t size = out.shape()[place], most = mode == PadMode::reflect    ? size - 1
                                                         : mode == PadMode::circular ? size
                                                         : size > 0 ? std::numeric_limits<std::int64_t>::max() - size
                                                                    : 0;
    expects<ShapeError>(side.before >= 0 && side.after >= 0 && side.before <= most && side.after <= most,
                        "pad: ", side.before, " before and ", side.after, " after dimension ", side.dim, " of ",
                        x.shape(), ", expected from 0 to ", most);
    const auto repeated = [&](std::int64_t position, std::int64_t times) {
      Shape shape = out.shape();
      shape[place] = times;
      return out.slice(place, position, position + 1).expand(shape);
    };
    std::vector<Tensor> parts;
    if (side.before > 0)
      parts.push_back(mode == PadMode::reflect    ? out.slice(place, 1, side.before + 1).flip(place)
                      : mode == PadMode::circular ? out.slice(place, size - side.before, size)
                                                  : repeated(0, side.before));
    parts.push_back(out);
    if (side.after > 0)
      parts.push_back(mode == PadMode::reflect    ? out.slice(place, size - 1 - side.after, size - 1).flip(place)
                      : mode == PadMode::circular ? out.slice(place, 0, side.after)
                                                  : repeated(size - 1, side.after));
    out = cat(parts, place);
  }
  return padding.empty() ? copy(x) : out;
}

}  // namespace tern::operators
