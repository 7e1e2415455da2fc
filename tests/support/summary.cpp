#include "support/summary.hpp"

#include <cstdlib>
#include <iostream>
#include <map>

#include "tern/core/error.hpp"
#include "tern/modes/device.hpp"

namespace tern::testing {
namespace {

struct Tally {
  std::int64_t cases = 0;
  std::int64_t skips = 0;
  std::string reason;
};

std::map<std::string, Tally>& tallies() {
  static std::map<std::string, Tally> all;
  return all;
}

}  // namespace

void count_cases(const std::string& mode, std::int64_t cases) { tallies()[mode].cases += cases; }

void skip_mode(const std::string& mode, const std::string& reason) {
  Tally& tally = tallies()[mode];
  ++tally.skips;
  tally.reason = reason;
}

void print_summary() {
  for (const auto& [mode, tally] : tallies()) {
    if (tally.cases > 0) std::cout << "mode " << mode << ": " << tally.cases << " generated cases ran\n";
    if (tally.skips > 0)
      std::cout << "mode " << mode << ": SKIPPED in " << tally.skips << " tests: " << tally.reason << '\n';
  }
}

std::vector<std::string> available_modes() {
  // Listed once, before any test registers its own mode.
  static const std::vector<ModeStatus> all = modes();
  const char* const only = std::getenv("TERN_TEST_MODE");
  std::vector<std::string> names;
  for (const ModeStatus& status : all) {
    if (only != nullptr && status.name != only) continue;
    if (status.available)
      names.push_back(status.name);
    else
      skip_mode(status.name, status.reason);
  }
  return names;
}

bool has_second_card() {
  int cards = 0;
  for (const Place& place : devices()) cards += place.mode == "cuda" ? 1 : 0;
  if (cards < 2) skip_mode("cuda:1", message("there are ", cards, " cards"));
  return cards >= 2;
}

}  // namespace tern::testing
