#pragma once
// Parses numbers and classes in the fields of a CSV file.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::data {

/// The whole `text` as a finite number; no value otherwise. A number too small for a double is 0.
std::optional<double> number(std::string_view text);
/// "2,5" or "1,250": would be a number with a decimal point instead of the comma.
bool is_number_with_comma(std::string_view text);
/// Empty, NA, NaN or ?.
bool means_missing(std::string_view text);
std::optional<std::int64_t> whole_number(std::string_view text);

/// Numbers classes in order of their first occurrence.
class CsvClasses {
 public:
  static constexpr std::size_t most = 65536;

  /// `known` lists all classes; empty: any.
  explicit CsvClasses(const std::vector<std::string>& known);
  /// -1 for an unknown class, or one too many.
  std::int64_t find(std::string_view name);
  bool fixed() const { return fixed_; }
  /// Whether no further class can be added.
  bool full() const { return names_.size() == most; }
  const std::vector<std::string>& names() const { return names_; }
  /// Sorts the names unless they were known, numerically if all are numbers; returns the new number of each old one.
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
