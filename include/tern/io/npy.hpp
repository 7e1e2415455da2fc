#pragma once

#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::io {

/// Writes a tensor (of any layout and place) as a NumPy file: numpy.load reads it. The file appears whole or not at
/// all. Throws DTypeError for bfloat16, which NumPy does not have, and FileError.
void save_npy(const std::string& file, const Tensor& tensor);

}  // namespace tern::io
