#pragma once
// The bytes of a contiguous tensor on the host, whatever its dtype, and their byte order: for readers and writers of
// files.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <vector>

#include "tern/tensor/tensor.hpp"

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

/// Reverses elements of `element` bytes in place if the machine's byte order is not `order`.
inline void reorder(std::span<std::byte> bytes, std::size_t element, std::endian order) {
  if (element == 1 || order == std::endian::native) return;
  for (; !bytes.empty(); bytes = bytes.subspan(element)) std::ranges::reverse(bytes.first(element));
}

/// `readable_bytes` in a file's byte order; `swapped` holds them if that is not the machine's.
inline std::span<const std::byte> bytes_in(std::endian order, const Tensor& tensor, std::vector<std::byte>& swapped) {
  const std::span<const std::byte> bytes = readable_bytes(tensor);
  const std::size_t element = size_of(tensor.dtype());
  if (element == 1 || order == std::endian::native) return bytes;
  swapped.assign(bytes.begin(), bytes.end());
  reorder(swapped, element, order);
  return swapped;
}

}  // namespace tern::io
