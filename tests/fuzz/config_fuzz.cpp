// Any text either is a configuration, a FileError or a UsageError; and one that is taken gives itself back.

#include <cstddef>
#include <cstdint>
#include <string>

#include "errors.hpp"
#include "options.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::tool;
  try {
    Settings settings, again;
    const Options options = training_options(settings), others = training_options(again);
    apply_config(options, parse_json(std::string(reinterpret_cast<const char*>(data), size), "fuzz"), "fuzz", {});
    const Json taken = to_config(options);
    apply_config(others, taken, "fuzz", {});
    if (to_config(others) != taken) __builtin_trap();
  } catch (const tern::FileError&) {
  } catch (const UsageError&) {
  }
  return 0;
}
