#include "tern/io/dlpack.hpp"

#if TERN_DLPACK_BUILT

#include <dlpack/dlpack.h>

#include <cstring>
#include <memory>
#include <vector>

#include "io/tensor_bytes.hpp"
#include "tern/core/error.hpp"

namespace tern::io {

namespace {

DLDataType type_of(DType dtype) { return {facts_of(dtype).dlpack, static_cast<std::uint8_t>(8 * size_of(dtype)), 1}; }

DType dtype_of_type(const DLDataType& type) {
  for (const DTypeFacts& facts : dtype_facts) {
    const DLDataType own = type_of(facts.dtype);
    if (own.code == type.code && own.bits == type.bits && own.lanes == type.lanes) return facts.dtype;
  }
  throw DTypeError(message("from_dlpack: elements of type code ", int{type.code}, ", ", int{type.bits}, " bits and ",
                           type.lanes,
                           " lanes; Tern has float16 to float64, bfloat16, int8, int32, int64, uint8 and "
                           "bool"));
}

/// An exported tensor and its description.
struct Exported {
  Tensor tensor;
  std::vector<std::int64_t> shape, strides;
  DLManagedTensor managed;
};

/// The byte offset of the element at `position` from the first.
std::int64_t byte_at(const Shape& position, const Shape& strides, std::size_t element) {
  std::int64_t place = 0;
  for (int i = 0; i < position.rank(); ++i) place += position[i] * strides[i];
  return place * static_cast<std::int64_t>(element);
}

}  // namespace

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  expects(tensor.defined(), "to_dlpack: the tensor is undefined");
  expects<AutogradError>(!tensor.requires_grad(), "to_dlpack: the tensor requires a gradient; detach() it");
  const auto sizes = [](const Shape& shape) { return std::vector<std::int64_t>(shape.begin(), shape.end()); };
  auto lent = std::make_unique<Exported>(Exported{tensor, sizes(tensor.shape()), sizes(tensor.strides()), {}});
  // The receiver only reads, but the interface has no pointer to const.
  auto* const first = static_cast<std::byte*>(const_cast<void*>(tensor.storage().read_host()));
  lent->managed = {.dl_tensor = {.data = first,
                                 .device = {kDLCPU, 0},
                                 .ndim = tensor.rank(),
                                 .dtype = type_of(tensor.dtype()),
                                 .shape = lent->shape.data(),
                                 .strides = lent->strides.data(),
                                 .byte_offset = static_cast<std::uint64_t>(tensor.offset()) * size_of(tensor.dtype())},
                   .manager_ctx = lent.get(),
                   .deleter = [](DLManagedTensor* self) { delete static_cast<Exported*>(self->manager_ctx); }};
  return &lent.release()->managed;
}

Tensor from_dlpack(DLManagedTensor* managed) {
  expects(managed != nullptr, "from_dlpack: the tensor is null");
  const DLTensor& foreign = managed->dl_tensor;
  expects<DeviceUnavailable>(foreign.device.device_type == kDLCPU || foreign.device.device_type == kDLCUDAHost,
                             "from_dlpack: the elements are on a device of kind ", int{foreign.device.device_type},
                             " (of DLPack's DLDeviceType); move them to the host in the other library first");
  const DType dtype = dtype_of_type(foreign.dtype);
  expects<ShapeError>(foreign.ndim >= 0 && foreign.ndim <= Shape::max_rank, "from_dlpack: ", foreign.ndim,
                      " dimensions, expected at most ", Shape::max_rank);
  Shape shape;
  for (int i = 0; i < foreign.ndim; ++i) {
    expects<ShapeError>(foreign.shape[i] >= 0, "from_dlpack: dimension ", i, " has size ", foreign.shape[i]);
    shape.push_back(foreign.shape[i]);
  }
  const Shape dense = contiguous_strides(shape);
  const Shape strides = foreign.strides == nullptr ? dense : Shape(foreign.strides, foreign.strides + foreign.ndim);
  Tensor result(shape, dtype);
  const std::span<std::byte> bytes = writable_bytes(result);
  expects(bytes.empty() || foreign.data != nullptr, "from_dlpack: ", shape, " elements at a null pointer");
  if (!bytes.empty()) {
    const std::size_t element = size_of(dtype);
    const auto* const first = static_cast<const std::byte*>(foreign.data) + foreign.byte_offset;
    if (strides == dense) {
      std::memcpy(bytes.data(), first, bytes.size());
    } else {
      Shape position = Shape::filled(shape.rank(), 0);
      for (std::size_t at = 0; at < bytes.size(); at += element) {
        std::memcpy(&bytes[at], first + byte_at(position, strides, element), element);
        for (int i = shape.rank() - 1; i >= 0 && ++position[i] == shape[i]; --i) position[i] = 0;
      }
    }
  }
  // Any value other than 0 is true, and true is 1.
  if (dtype == DType::boolean)
    for (std::byte& value : bytes) value = std::byte{value != std::byte{0}};
  if (managed->deleter != nullptr) managed->deleter(managed);
  return result;
}

}  // namespace tern::io

#else

#include "tern/core/error.hpp"

namespace tern::io {

DLManagedTensor* to_dlpack(const Tensor&) {
  throw Error("to_dlpack: this library was built without DLPack (apt install libdlpack-dev)");
}
Tensor from_dlpack(DLManagedTensor*) {
  throw Error("from_dlpack: this library was built without DLPack (apt install libdlpack-dev)");
}

}  // namespace tern::io

#endif
