// Any text either is the trials of a search, which then give themselves back, or a FileError; and the values of a trial
// either are options or a UsageError.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "errors.hpp"
#include "tune_plan.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tern::tool;
  static Settings settings;
  static const Options options = training_options(settings);  // the table points into the settings
  try {
    const auto trials = trials_from(parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"), "fuzz");
    if (trials_from(to_json(trials), "again") != trials) __builtin_trap();
    settings = {};
    for (const Trial& trial : trials)
      for (const auto& [name, value] : trial.values) set_option(options, name, value);
  } catch (const tern::FileError&) {
  } catch (const UsageError&) {
  }
  return 0;
}
