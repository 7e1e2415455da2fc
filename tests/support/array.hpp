#pragma once
// The data type of the catalogue's references: a plain array of doubles, written to be read, not to be fast.

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::testing {

/// Row-major doubles. `dtype` is set if an operator's result has its own dtype, such as the positions of argmax.
struct Array {
  Shape shape;
  std::vector<double> values;
  std::optional<DType> dtype = {};

  Array() = default;
  explicit Array(const Shape& sizes, double value = 0, std::optional<DType> type = {})
      : shape(sizes), values(static_cast<std::size_t>(element_count(sizes)), value), dtype(type) {}
  Array(const Shape& sizes, std::vector<double> elements) : shape(sizes), values(std::move(elements)) {}

  std::int64_t size() const { return static_cast<std::int64_t>(values.size()); }
  std::int64_t size(int dim) const { return shape[dim]; }
  double& operator[](std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
  double operator[](std::int64_t i) const { return values[static_cast<std::size_t>(i)]; }
  /// The element at a position with one coordinate per dimension.
  double& at(const Shape& position) { return (*this)[offset(position)]; }
  double at(const Shape& position) const { return (*this)[offset(position)]; }
  std::int64_t offset(const Shape& position) const {
    std::int64_t result = 0;
    for (int dim = 0; dim < shape.rank(); ++dim) result = result * shape[dim] + position[dim];
    return result;
  }
};

/// Calls body(position) for every element of `shape` in row-major order.
template <class Body>
void for_each_position(const Shape& shape, Body&& body) {
  const std::int64_t count = element_count(shape);
  Shape position = Shape::filled(shape.rank(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    body(static_cast<const Shape&>(position));
    for (int dim = shape.rank() - 1; dim >= 0 && ++position[dim] == shape[dim]; --dim) position[dim] = 0;
  }
}

/// The element of `array` that broadcasting puts at `position` of a larger shape.
inline double broadcast_at(const Array& array, const Shape& position) {
  Shape own;
  const int extra = position.rank() - array.shape.rank();
  for (int dim = 0; dim < array.shape.rank(); ++dim) own.push_back(array.shape[dim] == 1 ? 0 : position[dim + extra]);
  return array.at(own);
}

/// `array` broadcast to the larger `shape`.
inline Array broadcast_array(const Array& array, const Shape& shape) {
  Array result(shape);
  std::int64_t i = 0;
  for_each_position(shape, [&](const Shape& position) { result[i++] = broadcast_at(array, position); });
  return result;
}

/// The nearest value that `dtype` represents, by the rules of cast.
double stored(double value, DType dtype);

/// All elements of a tensor of any dtype.
Array array_of(const Tensor& tensor);

/// The layout of a tensor's elements in its storage.
enum class Layout : std::uint8_t {
  contiguous,
  offset,        ///< contiguous, but one element past an aligned address
  transposed,    ///< first and last dimension swapped in memory
  sliced,        ///< every second element of the last dimension
  channels_last  ///< images [N, C, H, W] as [N, H, W, C]; other ranks contiguous
};

/// A tensor with these elements and this layout, made without recording.
Tensor tensor_of(const Array& array, DType dtype, Layout layout = Layout::contiguous);

}  // namespace tern::testing
