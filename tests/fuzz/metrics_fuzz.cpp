// Any text either is the metrics of a run, which then can be written again, or a FileError.

#include <cstddef>
#include <cstdint>
#include <string>

#include "errors.hpp"
#include "run_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::tool;
  try {
    const auto check = [](const Json& event) {
      if (parse_json(event.dump(), "again") != event) __builtin_trap();
    };
    std::size_t line = 1;
    if (parse_metrics({reinterpret_cast<const char*>(data), size}, "fuzz", check, line) > size) __builtin_trap();
  } catch (const tern::FileError&) {
  }
  return 0;
}
