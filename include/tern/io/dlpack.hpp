#pragma once

#include "tern/tensor/tensor.hpp"

struct DLManagedTensor;  // <dlpack/dlpack.h>

namespace tern::io {

// Tensors of other libraries in the same process (NumPy, PyTorch, JAX), by DLPack. Both throw Error where Tern was
// built without <dlpack/dlpack.h> (apt install libdlpack-dev).

/// The tensor's elements for another library: on the host, where they are and with the strides that they have, not
/// copied. They live until the deleter is called, which is the receiver's to do, once, from any thread. For reading:
/// what is written through it reaches no device, and backward does not notice it. Throws AutogradError for a tensor
/// that requires a gradient.
DLManagedTensor* to_dlpack(const Tensor& tensor);

/// A contiguous copy of another library's tensor, whose deleter has been called when this returns; when it throws, the
/// tensor is still the caller's. Throws DeviceUnavailable unless its elements are on the host, DTypeError for a type
/// that Tern does not have, ShapeError beyond 8 dimensions or for a negative size.
Tensor from_dlpack(DLManagedTensor* managed);

}  // namespace tern::io
