#pragma once
// Numbers and classes in the fields of a CSV file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::data {

/// A finite number, the whole of `text`; nothing otherwise. One too small for a double is 0.
std::optional<double> number(std::string_view text);
/// "2,5" or "1,250": what a decimal point in place of the comma would make a number.
bool is_number_with_comma(std::string_view text);
/// Nothing, NA, NaN or ?.
bool means_missing(std::string_view text);
std::optional<std::int64_t> whole_number(std::string_view text);

/// Numbers classes in the order in which they are met.
class CsvClasses {
 public:
  static constexpr std::size_t most = 65536;

  /// `known` are all that there are; empty: any.
  explicit CsvClasses(const std::vector<std::string>& known);
  /// -1 for a class that is not among the known ones, or one too many.
  std::int64_t find(std::string_view name);
  bool fixed() const { return fixed_; }
  /// Whether no further one can be added.
  bool full() const { return names_.size() == most; }
  const std::vector<std::string>& names() const { return names_; }
  /// Sorts the names, as numbers where all are numbers, unless they were known; returns the new number of each old one.
  std::vector<std::int64_t> sort();

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };
  std::int64_t add(std::string name);

  bool fixed_;
  std::int64_t last_ = -1;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::int64_t, Hash, std::equal_to<>> numbers_;
};

}  // namespace tern::data
