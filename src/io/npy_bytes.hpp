#pragma once
// Shared by .npy and .npz.

#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::io {

/// The bytes before the elements of a tensor in a .npy file.
std::string npy_start(const Tensor& tensor);

/// All bytes of a file.
std::vector<std::byte> content_of(const std::string& file);

}  // namespace tern::io
