// Any bytes either are a model of the program tern or a FileError.

#include <cstddef>
#include <cstdint>
#include <span>

#include "model_file.hpp"
#include "tern/io/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    tern::tool::model_from(tern::io::parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz"), "fuzz");
  } catch (const tern::FileError&) {
  }
  return 0;
}
