// Any text either is a configuration, a FileError or a UsageError; and one that is taken gives itself back.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "errors.hpp"
#include "options.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::tool;
  static Settings settings;
  static const Options options = training_options(settings);  // the table points into the settings
  try {
    settings = {};
    apply_config(options, parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"), "fuzz", {});
    const Json taken = to_config(options);
    settings = {};
    apply_config(options, taken, "fuzz", {});
    if (to_config(options) != taken) __builtin_trap();
  } catch (const tern::FileError&) {
  } catch (const UsageError&) {
  }
  return 0;
}
