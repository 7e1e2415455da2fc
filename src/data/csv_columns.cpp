#include "data/csv_columns.hpp"

#include <algorithm>
#include <utility>

#include "data/csv_classes.hpp"

namespace tern::data {

namespace {

class Assigner {
 public:
  Assigner(const CsvOptions& options, const std::vector<std::string>& names, const CsvRecords& records)
      : options_(options), names_(names), records_(records) {
    columns_.count = records.fields().size();
  }
  CsvColumns columns() {
    if (names_.empty() || options_.columns.empty())
      assign_by_position();
    else
      assign_by_name();
    return std::move(columns_);
  }

 private:
  void assign_by_name();
  void assign_by_position();
  void expect_target(std::size_t column) const;
  bool is_ignored(const std::string& name) const {
    return std::any_of(columns_.ignored.begin(), columns_.ignored.end(),
                       [&](std::size_t column) { return names_[column] == name; });
  }

  const CsvOptions& options_;
  const std::vector<std::string>& names_;
  const CsvRecords& records_;
  CsvColumns columns_;
};

void Assigner::expect_target(std::size_t column) const {
  expects<FileError>(std::find(columns_.ignored.begin(), columns_.ignored.end(), column) == columns_.ignored.end(),
                     records_.place(0), "found the target ", shown(options_.target),
                     " among the columns to ignore, expected another one");
}

// Features are found by name; the others are the target and ignored columns, in any order.
void Assigner::assign_by_name() {
  enum : char { unknown, feature, ignored, target };
  std::vector<char> purpose(columns_.count, unknown);
  std::string missing;
  for (const std::string& name : options_.columns) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      missing += (missing.empty() ? "" : ", ") + shown(name);
      continue;
    }
    columns_.features.push_back(find_column(names_, records_, name, "features"));
    purpose[columns_.features.back()] = feature;
  }
  expects<FileError>(missing.empty(), records_.place(0), "found no column named ", missing,
                     ", expected the features by the names that the model knows");
  // A table to predict may lack columns that the training ignored.
  for (const std::string& name : options_.ignore)
    for (std::size_t i = 0; i < columns_.count; ++i)
      if (purpose[i] == unknown && (names_[i] == name || whole_number(name) == static_cast<std::int64_t>(i) + 1)) {
        purpose[i] = ignored;
        columns_.ignored.push_back(i);
      }
  const bool wanted = options_.labelled == CsvTarget::required;
  if (options_.labelled != CsvTarget::absent) {
    const bool named = std::find(names_.begin(), names_.end(), options_.target) != names_.end();
    if (!wanted && named && is_ignored(options_.target)) {
      // Predictions may leave it out.
    } else if (named || (!options_.target.empty() && (wanted || whole_number(options_.target)))) {
      columns_.target = find_column(names_, records_, options_.target, "target");
      expect_target(*columns_.target);
      expects<FileError>(purpose[*columns_.target] == unknown, records_.place(0), "found the target ",
                         shown(options_.target), " among the features, expected another column");
    } else if (options_.target.empty()) {
      const auto last = std::find(purpose.rbegin(), purpose.rend(), unknown);
      if (last != purpose.rend()) columns_.target = static_cast<std::size_t>(purpose.rend() - last - 1);
    }
    expects<FileError>(columns_.target || !wanted, records_.place(0), "found no column beside the features, expected ",
                       "the class");
    if (columns_.target) purpose[*columns_.target] = target;
  }
  for (std::size_t i = 0; i < columns_.count; ++i)
    expects<FileError>(purpose[i] != unknown, records_.place(records_.fields()[i].offset), "found the column ",
                       shown(names_[i]),
                       ", expected only columns that the model knows; ignore it, or name it as the target");
}

void Assigner::assign_by_position() {
  std::vector<bool> ignored(columns_.count);
  for (const std::string& name : options_.ignore)
    ignored[find_column(names_, records_, name, "columns to ignore")] = true;
  for (std::size_t i = 0; i < columns_.count; ++i)
    if (ignored[i]) columns_.ignored.push_back(i);
  const auto left = static_cast<std::int64_t>(std::count(ignored.begin(), ignored.end(), false));
  bool labelled = options_.labelled != CsvTarget::absent;
  if (options_.labelled == CsvTarget::optional) labelled = left != options_.features;
  if (labelled) {
    std::size_t target = columns_.count;
    if (!options_.target.empty()) {
      target = find_column(names_, records_, options_.target, "target");
      expect_target(target);
    } else {
      while (target > 0 && ignored[target - 1]) --target;
      expects<FileError>(target > 0, records_.place(0), "found no column that is not ignored, expected at least two");
      --target;
    }
    columns_.target = target;
  }
  for (std::size_t i = 0; i < columns_.count; ++i)
    if (!ignored[i] && columns_.target != i) columns_.features.push_back(i);
  const auto found = static_cast<std::int64_t>(columns_.features.size());
  expects<FileError>(found > 0, records_.place(0), "found ", columns_.count,
                     columns_.count == 1 ? " column" : " columns", ", expected at least one feature",
                     labelled ? " and the class" : "", "; columns are separated by commas, semicolons or tabs");
  expects<FileError>(options_.features == 0 || options_.features == found, records_.place(0), "found ", found,
                     " features", labelled ? " and the class" : "", ", expected ", options_.features);
}

}  // namespace

CsvColumns assign_columns(const CsvOptions& options, const std::vector<std::string>& names, const CsvRecords& records) {
  return Assigner(options, names, records).columns();
}

// A header name, or a number that counts from 1, or from the end if negative.
std::size_t find_column(const std::vector<std::string>& names, const CsvRecords& records, const std::string& name,
                        const char* purpose) {
  const auto named = std::find(names.begin(), names.end(), name);
  if (named != names.end()) {
    expects<FileError>(std::find(named + 1, names.end(), name) == names.end(), records.place(0),
                       "found more than one column named ", shown(name), ", expected one for the ", purpose,
                       "; name it by its number");
    return static_cast<std::size_t>(named - names.begin());
  }
  const auto count = static_cast<std::int64_t>(records.fields().size());
  const std::optional<std::int64_t> position = whole_number(name);
  const bool whole = position.has_value();
  if (whole && *position >= 1 && *position <= count) return static_cast<std::size_t>(*position - 1);
  if (whole && *position <= -1 && *position >= -count) return static_cast<std::size_t>(count + *position);
  throw FileError(message(records.place(0), "found ", count, " columns", names.empty() ? " and no header" : "",
                          ", expected one ", whole ? "with the number " : "named ", whole ? name : shown(name),
                          " for the ", purpose, whole ? "; columns count from 1, or from -1 at the end" : ""));
}

std::string shown(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 40)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result + (text.size() > 40 ? "...'" : "'");
}

}  // namespace tern::data
