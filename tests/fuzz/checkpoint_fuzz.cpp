// Any bytes either are a checkpoint or a FileError.

#include <cstddef>
#include <cstdint>
#include <span>

#include "tern/core/error.hpp"
#include "tern/io/checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    tern::io::checkpoint_from(tern::io::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz"), "fuzz");
  } catch (const tern::FileError&) {
  }
  return 0;
}
