// Any bytes either are a checkpoint or a FileError. The sum is put right, or nothing behind it would ever be reached.

#include <cstddef>
#include <cstdint>
#include <span>

#include "io/checkpoint_sum.hpp"
#include "tern/core/error.hpp"
#include "tern/io/checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::io;
  try {
    Safetensors content = parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz");
    if (content.metadata.contains(checkpoint_sum_key))
      content.metadata[checkpoint_sum_key] = checkpoint_sum(content.tensors, content.metadata);
    checkpoint_from(std::move(content), "fuzz");
  } catch (const tern::FileError&) {
  }
  return 0;
}
