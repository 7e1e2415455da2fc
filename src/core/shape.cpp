#include "tern/core/shape.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace tern {

void append_text(std::string& text, const Shape& shape) {
  text += '[';
  for (int i = 0; i < shape.rank(); ++i) text.append(i ? "," : "").append(std::to_string(shape[i]));
  text += ']';
}
std::ostream& operator<<(std::ostream& stream, const Shape& shape) { return stream << message(shape); }

void Shape::throw_outside(int i) const {
  throw ShapeError(message("shape: dimension ", i, " of ", *this, ", which has ", rank_));
}

namespace {

// The product of the non-zero sizes must also fit: the strides of a shape such as [2^62, 2^62, 0] overflow.
std::int64_t checked_count(const Shape& shape, std::int64_t element) {
  std::int64_t product = element;
  bool zero = false;
  for (std::int64_t size : shape) {
    expects<ShapeError>(size >= 0, "shape: size ", size, " in ", shape, " is negative");
    if (size == 0) {
      zero = true;
      continue;
    }
    expects<ShapeError>(!__builtin_mul_overflow(product, size, &product), "shape: ", shape, " of ", element,
                        "-byte elements needs more than 2^63 bytes");
  }
  return zero ? 0 : product;
}

}  // namespace

std::int64_t element_count(const Shape& shape) { return checked_count(shape, 1); }

std::size_t byte_count(const Shape& shape, std::size_t element) {
  const std::int64_t bytes = checked_count(shape, static_cast<std::int64_t>(element));
  constexpr std::int64_t most = std::numeric_limits<std::ptrdiff_t>::max();  // less than 2^63 on a 32-bit machine
  expects<OutOfMemory>(bytes <= most, "shape: ", shape, " of ", element, "-byte elements needs ", bytes,
                       " bytes; this machine addresses ", most);
  return static_cast<std::size_t>(bytes);
}

Shape contiguous_strides(const Shape& shape) {
  Shape strides = shape;
  std::int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

Shape broadcast(const char* op, const Shape& a, const Shape& b) {
  const Shape& longer = a.rank() >= b.rank() ? a : b;
  const Shape& shorter = a.rank() >= b.rank() ? b : a;
  Shape result = longer;
  const int lead = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[lead + i], y = shorter[i];
    expects<ShapeError>(x == y || x == 1 || y == 1, op, ": shapes ", a, " and ", b, " do not broadcast: sizes ", x,
                        " and ", y, " differ and neither is 1");
    result[lead + i] = x == 1 ? y : x;
  }
  return result;
}

int normalize_dim(const char* op, std::int64_t dim, int rank) {
  const std::int64_t positive = dim < 0 ? dim + rank : dim;
  expects<ShapeError>(positive >= 0 && positive < rank, op, ": dimension ", dim, " is outside a tensor of ", rank,
                      " dimensions");
  return static_cast<int>(positive);
}

}  // namespace tern
