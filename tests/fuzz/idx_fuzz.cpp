// Any bytes, raw or packed by gzip, either are an IDX file or a FileError.

#include <cstddef>
#include <cstdint>
#include <span>

#include "tern/core/error.hpp"
#include "tern/data/idx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    tern::data::parse_idx(std::as_bytes(std::span(data, size)), "input", {.limit = 64 << 20});
  } catch (const tern::FileError&) {
  }
  return 0;
}
