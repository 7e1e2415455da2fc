#pragma once

#include <map>
#include <span>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::io {

/// Writes a tensor (of any layout and memory) as a NumPy file for numpy.load. The file appears complete or not at all.
/// Throws DTypeError for bfloat16, which NumPy does not have, and FileError.
void save_npy(const std::string& file, const Tensor& tensor);
/// The array in a NumPy file, of either byte order. Throws FileError with the remedy for other or truncated files, and
/// for types that Tern does not have.
Tensor load_npy(const std::string& file);
/// The same for a file's content; `name` is the file name in messages.
Tensor parse_npy(std::span<const std::byte> content, const std::string& name);

/// Writes several named tensors like numpy.savez: a zip of uncompressed .npy files. Throws as save_npy, and FileError
/// beyond 4 GiB or 65,534 tensors.
void save_npz(const std::string& file, const std::map<std::string, Tensor>& tensors);
/// The named arrays of a file of numpy.savez or numpy.savez_compressed. Throws as load_npy.
std::map<std::string, Tensor> load_npz(const std::string& file);
std::map<std::string, Tensor> parse_npz(std::span<const std::byte> content, const std::string& name);

}  // namespace tern::io
