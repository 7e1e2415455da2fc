// Any bytes either are a safetensors file, which then survives writing and reading, or a FileError.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tern/core/error.hpp"
#include "tern/io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto content = tern::io::parse_safetensors(std::as_bytes(std::span(data, size)), "input");
    std::size_t bytes = 0;
    for (const auto& [name, tensor] : content.tensors)
      bytes += tern::byte_count(tensor.shape(), tern::size_of(tensor.dtype()));
    if (bytes > size) std::abort();
  } catch (const tern::FileError&) {
  }
  return 0;
}
