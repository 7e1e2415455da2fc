#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::io {

/// What a safetensors file holds.
struct Safetensors {
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

struct SafetensorsOptions {
  std::size_t header_limit = std::size_t{16} << 20;  ///< the longest header that is accepted, in bytes
};

/// Reads a safetensors file: F32, F64, F16, BF16, I32, I64, U8 and BOOL; other types are refused by name. The file is
/// untrusted: everything it declares is checked, also against the real size, before a tensor is allocated. Throws
/// FileError that names the file and the tensor.
Safetensors load_safetensors(const std::string& file, const SafetensorsOptions& options = {});
/// The same for bytes in memory; `name` is the file name in messages.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name,
                              const SafetensorsOptions& options = {});

/// Writes tensors (of any layout and memory) and metadata. The same content gives the same bytes, and the file appears
/// complete or not at all. Throws FileError: no such folder, a full disk, a folder that cannot be written.
void save_safetensors(const std::string& file, const std::map<std::string, Tensor>& tensors,
                      const std::map<std::string, std::string>& metadata = {});

}  // namespace tern::io
