// The elements of tensors in files: raw, as numbers of a field, or in a file beside the model.

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "onnx/model.hpp"
#include "onnx/narrow.hpp"
#include "tern/core/convert.hpp"
#include "tern/io/file.hpp"
#include "tern/onnx/onnx.hpp"
#include "tern/tensor/create.hpp"

namespace tern::onnx {

namespace {

constexpr std::string_view element_names[]{
    "undefined", "float32",    "uint8",      "int8",         "uint16",         "int16",      "int32",
    "int64",     "string",     "bool",       "float16",      "float64",        "uint32",     "uint64",
    "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2"};

/// Files are little-endian.
template <class T>
T from_little(const char* bytes) {
  std::array<char, sizeof(T)> own;
  std::memcpy(own.data(), bytes, sizeof(T));
  if constexpr (std::endian::native == std::endian::big) std::reverse(own.begin(), own.end());
  return std::bit_cast<T>(own);
}

std::uint64_t number_at(const TensorProto& proto, const std::string& key) {
  const auto found = proto.place.find(key);
  if (found == proto.place.end()) return 0;
  std::uint64_t number = 0;
  const char* end = found->second.data() + found->second.size();
  const auto [stop, error] = std::from_chars(found->second.data(), end, number);
  expects<FileError>(error == std::errc() && stop == end, "ONNX: tensor '", proto.name, "': external data with ", key,
                     " '", found->second, "'");
  return number;
}

/// External data lies in the model's folder: a file says nothing about others.
std::string external_bytes(const TensorProto& proto, const std::string& folder, std::size_t size) {
  namespace fs = std::filesystem;
  const auto found = proto.place.find("location");
  expects<FileError>(found != proto.place.end() && !found->second.empty(), "ONNX: tensor '", proto.name,
                     "': external data without a location");
  const fs::path place(found->second);
  const bool inside =
      place.is_relative() && std::ranges::none_of(place, [](const fs::path& part) { return part == ".."; });
  expects<FileError>(inside && !folder.empty(), "ONNX: tensor '", proto.name, "': external data at '", found->second,
                     folder.empty() ? "', but the model comes from memory" : "', which is outside the model's folder");
  const std::uint64_t offset = number_at(proto, "offset"), length = number_at(proto, "length");
  expects<FileError>(length == 0 || length == size, "ONNX: tensor '", proto.name, "': ", length,
                     " bytes of external data, expected ", size);
  const fs::path whole = fs::path(folder) / place;
  std::error_code error;
  const fs::path real = fs::weakly_canonical(whole, error), home = fs::weakly_canonical(folder, error);
  const auto [rest, unused] = std::mismatch(home.begin(), home.end(), real.begin(), real.end());
  expects<FileError>(!error && rest == home.end(), "ONNX: tensor '", proto.name, "': external data at '", found->second,
                     "' is a link out of the model's folder");
  const io::InputFile file(real.string());
  expects<FileError>(offset <= file.size() && size <= file.size() - offset, "ONNX: tensor '", proto.name,
                     "': external data beyond the end of ", real.string());
  std::string bytes(size, '\0');
  file.read(offset, std::as_writable_bytes(std::span(bytes.data(), bytes.size())));
  return bytes;
}

template <class T>
void fill(std::span<T> elements, const TensorProto& proto, std::string_view raw, bool has_raw) {
  if (has_raw) {
    if constexpr (std::is_same_v<T, bool>) {
      for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = raw[i] != 0;
    } else if constexpr (std::endian::native == std::endian::little) {
      if (!elements.empty()) std::memcpy(elements.data(), raw.data(), elements.size_bytes());
    } else {
      for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = from_little<T>(raw.data() + i * sizeof(T));
    }
    return;
  }
  for (std::size_t i = 0; i < elements.size(); ++i)
    if constexpr (std::is_same_v<T, float>)
      elements[i] = proto.floats[i];
    else if constexpr (std::is_same_v<T, double>)
      elements[i] = proto.doubles[i];
    else if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Float16>)
      elements[i].bits = static_cast<std::uint16_t>(proto.integers[i]);
    else if constexpr (std::is_same_v<T, bool>)
      elements[i] = proto.integers[i] != 0;
    else
      elements[i] = static_cast<T>(proto.integers[i]);
}

}  // namespace

std::string name_of_element(std::int64_t type) {
  return type >= 0 && type < std::ssize(element_names) ? std::string(element_names[type]) : message("type ", type);
}

std::optional<DType> dtype_of_element(std::int64_t type) {
  for (const DTypeFacts& facts : dtype_facts)
    if (element_of(facts.dtype) == type) return facts.dtype;
  return {};
}

std::int64_t element_of(DType dtype) {
  Element element = Element::undefined;
  switch (dtype) {
    case DType::float32:
      element = Element::float32;
      break;
    case DType::float64:
      element = Element::float64;
      break;
    case DType::bfloat16:
      element = Element::bfloat16;
      break;
    case DType::float16:
      element = Element::float16;
      break;
    case DType::int32:
      element = Element::int32;
      break;
    case DType::int64:
      element = Element::int64;
      break;
    case DType::uint8:
      element = Element::uint8;
      break;
    case DType::boolean:
      element = Element::boolean;
      break;
    case DType::int8:
      element = Element::int8;
      break;
  }
  return static_cast<std::int64_t>(element);
}

Tensor to_tensor(const TensorProto& proto, const std::string& folder) {
  const Narrow* narrow = narrow_of(proto.type);
  const std::optional<DType> dtype = holding_dtype(proto.type);
  expects<DTypeError>(dtype.has_value(), "tensor '", proto.name, "' has elements of ", name_of_element(proto.type));
  const auto fits = [&](bool fit, auto&&... parts) {
    expects<FileError>(fit, "ONNX: tensor '", proto.name, "': ", parts...);
  };
  fits(proto.dims.size() <= Shape::max_rank, proto.dims.size(), " dimensions; a tensor has at most ", Shape::max_rank);
  const Shape shape(proto.dims);
  std::size_t count = 0;
  try {
    count = static_cast<std::size_t>(element_count(shape));
  } catch (const ShapeError& error) {
    fits(false, error.what());
  }
  // No product here leaves the range, whatever the file says of its sizes.
  const auto bits = static_cast<std::size_t>(narrow != nullptr ? narrow->bits : 0);
  const std::size_t bytes =
      narrow != nullptr ? count / 8 * bits + (count % 8 * bits + 7) / 8 : byte_count(shape, size_of(*dtype));
  std::string own;
  std::string_view raw = proto.raw;
  bool has_raw = proto.has_raw;
  if (proto.external) {
    own = external_bytes(proto, folder, bytes);
    raw = own;
    has_raw = true;
  }
  // Nothing is allocated before the file is known to have that much.
  if (narrow != nullptr && !has_raw) {  // as bytes, one in each number, but for types of 16 bits
    const bool wide = narrow->bits > 8;
    const std::size_t numbers = wide ? count : bytes;
    fits(proto.integers.size() == numbers, proto.integers.size(), " numbers for ", shape, " of ",
         name_of_element(proto.type), ", expected ", numbers);
    for (const std::int64_t number : proto.integers) {
      own.push_back(static_cast<char>(number & 0xff));
      if (wide) own.push_back(static_cast<char>((number >> 8) & 0xff));
    }
    raw = own;
    has_raw = true;
  }
  if (has_raw) {
    fits(raw.size() == bytes, raw.size(), " bytes for ", shape, " of ", name_of_element(proto.type));
  } else {
    const std::size_t given = *dtype == DType::float32   ? proto.floats.size()
                              : *dtype == DType::float64 ? proto.doubles.size()
                                                         : proto.integers.size();
    fits(given == count, given, " numbers for ", shape, " of ", *dtype);
  }
  if (narrow != nullptr) {
    std::vector<double> values;
    for (const unsigned one : unpacked(*narrow, raw, count)) values.push_back(decoded(*narrow, one));
    Tensor tensor(shape, *dtype);
    with_type_of(*dtype,
                 [&]<class T>(T) { std::ranges::transform(values, tensor.write<T>().begin(), convert<T, double>); });
    return tensor;
  }
  Tensor tensor(shape, *dtype);
  with_type_of(*dtype, [&]<class T>(T) { fill(tensor.write<T>(), proto, raw, has_raw); });
  return tensor;
}

TensorProto to_proto(const Tensor& tensor, const std::string& name, std::string& storage) {
  const Tensor whole = tensor.detach().contiguous();
  TensorProto proto;
  proto.name = name;
  proto.type = element_of(whole.dtype());
  proto.dims.assign(whole.shape().begin(), whole.shape().end());
  with_type_of(whole.dtype(), [&]<class T>(T) {
    const std::span<const T> elements = whole.read<T>();
    storage.assign(reinterpret_cast<const char*>(elements.data()), elements.size_bytes());
    if constexpr (std::endian::native == std::endian::big)
      for (std::size_t i = 0; i < elements.size(); ++i)
        std::reverse(storage.begin() + i * sizeof(T), storage.begin() + (i + 1) * sizeof(T));
  });
  proto.raw = storage;
  proto.has_raw = true;
  return proto;
}

}  // namespace tern::onnx
