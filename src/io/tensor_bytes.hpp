#pragma once
// The bytes of a contiguous tensor on the host, whatever its dtype: for readers and writers of files.

#include <cstddef>
#include <span>

#include "tern/core/tensor.hpp"

namespace tern::io {

inline std::span<const std::byte> readable_bytes(const Tensor& tensor) {
  const std::size_t bytes = byte_count(tensor.shape(), size_of(tensor.dtype()));
  if (bytes == 0) return {};
  const auto* start = static_cast<const std::byte*>(tensor.storage().read_host());
  return {start + static_cast<std::size_t>(tensor.offset()) * size_of(tensor.dtype()), bytes};
}

/// For a tensor that owns its whole storage: its old bytes are not kept.
inline std::span<std::byte> writable_bytes(Tensor& tensor) {
  const std::size_t bytes = byte_count(tensor.shape(), size_of(tensor.dtype()));
  if (bytes == 0) return {};
  return {static_cast<std::byte*>(tensor.storage().write_host()), bytes};
}

}  // namespace tern::io
