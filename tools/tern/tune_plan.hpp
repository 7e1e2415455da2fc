#pragma once
// The trainings of a search.

#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace tern::tool {

/// Options that a trial sets, in the order in which the search names them.
struct Trial {
  std::vector<std::pair<std::string, std::string>> values = {};
  bool operator==(const Trial&) const = default;
};

/// Alternatives of one option: listed, or a range to draw from.
struct Dimension {
  std::string option = {};
  std::vector<std::string> values = {};  // empty for a range
  double low = 0, high = 0;
  bool logarithmic = false, whole = false;
};

/// "learning-rate=0.1,0.01", or with bars if the values contain commas: "layers=4,8,3|4,16,3". Naming an option again
/// adds to its alternatives. Each value is checked with `options`. Throws UsageError.
void add_grid(std::vector<Dimension>& dimensions, const std::string& text, const Options& options);
/// "learning-rate=0.0001:0.1", logarithmic if the ends are positive and tenfold apart, unless ":linear" or ":log"
/// follows; whole numbers between whole ends.
void add_range(std::vector<Dimension>& dimensions, const std::string& text, const Options& options);

/// Every combination; the last option changes fastest. Throws UsageError for a range, which is not finite.
std::vector<Trial> every_combination(const std::vector<Dimension>& dimensions);
/// `count` combinations drawn by `seed`, each once if there are only so many.
std::vector<Trial> drawn_combinations(const std::vector<Dimension>& dimensions, std::int64_t count, std::uint64_t seed);

/// "learning-rate 0.1, layers 4,8,3".
std::string describe(const Trial& trial);

Json to_json(const std::vector<Trial>& trials);
std::vector<Trial> trials_from(const Json& json, const std::string& file);

}  // namespace tern::tool
