// Any bytes either are a model that becomes a graph, or an error of the library.

#include <cstddef>
#include <cstdint>
#include <span>

#include "tern/core/error.hpp"
#include "tern/onnx/onnx.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    tern::onnx::read(std::as_bytes(std::span(data, size)), {.largest_tensor = 1 << 12, .most_nodes = 500});
  } catch (const tern::Error&) {
  }
  return 0;
}
