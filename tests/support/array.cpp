#include "support/array.hpp"

#include <limits>

#include "tern/autograd/tape.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {
namespace {

template <class Integer>
double saturated(double value) {
  if (std::isnan(value)) return 0;
  const double low = static_cast<double>(std::numeric_limits<Integer>::min());
  const double high = static_cast<double>(std::numeric_limits<Integer>::max());
  return std::min(std::max(std::trunc(value), low), high);
}

float to_float(double value) {
  // A plain conversion beyond the range of float is undefined.
  if (std::abs(value) >= 0x1.ffffffp127 && !std::isnan(value))
    return std::copysign(std::numeric_limits<float>::infinity(), static_cast<float>(std::copysign(1.0, value)));
  return static_cast<float>(value);
}

/// static_cast of the saturated value; a double cannot represent the largest int64.
template <class Integer>
Integer to_integer(double value) {
  if constexpr (sizeof(Integer) == 8)
    if (value >= 0x1p63) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(saturated<Integer>(value));
}

template <class T>
void write(Tensor& tensor, const std::vector<double>& values) {
  auto elements = tensor.write<T>();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
      elements[i] = T(to_float(values[i]));
    else if constexpr (std::is_same_v<T, float>)
      elements[i] = to_float(values[i]);
    else if constexpr (std::is_same_v<T, bool>)
      elements[i] = values[i] != 0;
    else if constexpr (std::is_integral_v<T>)
      elements[i] = to_integer<T>(values[i]);
    else
      elements[i] = values[i];
  }
}

Tensor contiguous_tensor(const Array& array, DType dtype) {
  Tensor result(array.shape, dtype);
  if (array.size() == 0) return result;
  with_type_of(dtype, [&]<class T>(T) { write<T>(result, array.values); });
  return result;
}

/// The value between the elements of a strided tensor: it would show in a result.
constexpr double filler = 77;

Tensor view_of(std::shared_ptr<Storage> storage, DType dtype, const Shape& shape, const Shape& strides,
               std::int64_t offset) {
  return Tensor(std::move(storage), dtype, shape, strides, offset);
}

}  // namespace

double stored(double value, DType dtype) {
  switch (dtype) {
    case DType::float64:
      return value;
    case DType::float32:
      return static_cast<double>(to_float(value));
    case DType::bfloat16:
      return static_cast<double>(static_cast<float>(BFloat16(to_float(value))));
    case DType::float16:
      return static_cast<double>(static_cast<float>(Float16(to_float(value))));
    case DType::int32:
      return saturated<std::int32_t>(value);
    case DType::int64:
      return saturated<std::int64_t>(value);
    case DType::uint8:
      return saturated<std::uint8_t>(value);
    case DType::int8:
      return saturated<std::int8_t>(value);
    case DType::boolean:
      return value != 0 ? 1 : 0;
  }
  return value;
}

Array array_of(const Tensor& tensor) {
  Array result(tensor.shape(), tensor.values());
  result.dtype = tensor.dtype();
  return result;
}

Tensor tensor_of(const Array& array, DType dtype, Layout layout) {
  const int rank = array.shape.rank();
  if (array.size() == 0) return contiguous_tensor(array, dtype);
  if (layout == Layout::offset) {
    Array base({array.size() + 1}, filler);
    for (std::int64_t i = 0; i < array.size(); ++i) base[i + 1] = array[i];
    const Tensor whole = contiguous_tensor(base, dtype);
    return view_of(whole.shared_storage(), dtype, array.shape, contiguous_strides(array.shape), 1);
  }
  if (layout == Layout::transposed && rank >= 2) {
    Shape swapped = array.shape;
    std::swap(swapped[0], swapped[rank - 1]);
    Array base(swapped);
    for_each_position(array.shape, [&](const Shape& position) {
      Shape other = position;
      std::swap(other[0], other[rank - 1]);
      base.at(other) = array.at(position);
    });
    const Tensor whole = contiguous_tensor(base, dtype);
    Shape strides = contiguous_strides(swapped);
    std::swap(strides[0], strides[rank - 1]);
    return view_of(whole.shared_storage(), dtype, array.shape, strides, 0);
  }
  if (layout == Layout::sliced && rank >= 1) {
    Shape wide = array.shape;
    wide[rank - 1] = 2 * wide[rank - 1] + 1;
    Array base(wide, filler);
    for_each_position(array.shape, [&](const Shape& position) {
      Shape other = position;
      other[rank - 1] = 2 * other[rank - 1] + 1;
      base.at(other) = array.at(position);
    });
    const Tensor whole = contiguous_tensor(base, dtype);
    Shape strides = contiguous_strides(wide);
    strides[rank - 1] = 2;
    return view_of(whole.shared_storage(), dtype, array.shape, strides, 1);
  }
  if (layout == Layout::channels_last && rank == 4) {
    const Shape& size = array.shape;
    Array base({size[0], size[2], size[3], size[1]});
    for_each_position(size, [&](const Shape& at) { base.at({at[0], at[2], at[3], at[1]}) = array.at(at); });
    const Tensor whole = contiguous_tensor(base, dtype);
    const Shape strides = contiguous_strides(base.shape);
    return view_of(whole.shared_storage(), dtype, size, {strides[0], strides[3], strides[1], strides[2]}, 0);
  }
  return contiguous_tensor(array, dtype);
}

}  // namespace tern::testing
