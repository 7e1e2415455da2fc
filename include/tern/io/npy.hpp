#pragma once

#include <map>
#include <span>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::io {

/// Writes a tensor (of any layout and place) as a NumPy file: numpy.load reads it. The file appears whole or not at
/// all. Throws DTypeError for bfloat16, which NumPy does not have, and FileError.
void save_npy(const std::string& file, const Tensor& tensor);
/// The array of a NumPy file, of either byte order. Throws FileError for other or truncated files, and for types
/// that Tern does not have, with the remedy.
Tensor load_npy(const std::string& file);
/// The same from a file's content; `name` is for messages.
Tensor parse_npy(std::span<const std::byte> content, const std::string& name);

/// Writes several tensors, by name, as numpy.savez does: a zip of .npy files that are stored as they are. Throws as
/// save_npy, and FileError beyond 4 GiB or 65,534 tensors.
void save_npz(const std::string& file, const std::map<std::string, Tensor>& tensors);
/// The arrays of a file of numpy.savez or numpy.savez_compressed, by name. Throws as load_npy.
std::map<std::string, Tensor> load_npz(const std::string& file);
std::map<std::string, Tensor> parse_npz(std::span<const std::byte> content, const std::string& name);

}  // namespace tern::io
