#pragma once

#include "tern/tensor/tensor.hpp"

struct DLManagedTensor;  // <dlpack/dlpack.h>

namespace tern::io {

// Tensors of other libraries in the same process (NumPy, PyTorch, JAX), by DLPack. Both functions throw Error if Tern
// was built without <dlpack/dlpack.h> (apt install libdlpack-dev).

/// The tensor's elements for another library: on the host, with their strides, not copied. They live until the receiver
/// calls the deleter, once, from any thread. Read only: a write reaches no device, and backward does not notice it.
/// Throws AutogradError for a tensor that requires a gradient.
DLManagedTensor* to_dlpack(const Tensor& tensor);

/// A contiguous copy of another library's tensor, whose deleter has been called on return; on a throw the caller still
/// owns the tensor. Throws DeviceUnavailable unless its elements are on the host, DTypeError for a type that Tern does
/// not have, ShapeError beyond 8 dimensions or for a negative size.
Tensor from_dlpack(DLManagedTensor* managed);

}  // namespace tern::io
