#include "tern/data/csv.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "data/csv_classes.hpp"
#include "data/csv_records.hpp"
#include "io/safetensors_header.hpp"
#include "tern/io/file.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

namespace {

using Field = CsvRecords::Field;

// What was found, fit for a sentence: not endless, no control characters.
std::string shown(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 40)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result + (text.size() > 40 ? "...'" : "'");
}

// What each column is for.
struct Columns {
  std::vector<std::size_t> features, ignored;
  std::optional<std::size_t> target;
  std::size_t count = 0;  // of fields in a row
};

// The first row, where it may be a header of numbers.
struct Suspect {
  std::string label;    // what stands in the column of the classes
  bool counts = false;  // its fields are 0, 1, 2, ... or 1, 2, 3, ...
  std::string place;
};

class Reader {
 public:
  Reader(const CsvSource& source, const CsvOptions& options)
      : source_(source),
        options_(options),
        records_(source, options.separator),
        classes_(options.classes),
        maybe_numbers_(!options.numbers) {}
  Table read();

 private:
  std::size_t find_column(const std::string& name, const char* purpose) const;
  void assign_columns();
  void assign_by_name();
  void assign_by_position();
  void expect_target(std::size_t column) const;
  bool is_header() const;
  void take_names();
  void note_suspect();
  void check_suspect() const;
  void check_count() const;
  void read_row(float* features);
  void read_target(const Field& field);
  bool takes_numbers() const;
  std::int64_t read_class(const Field& field);
  float read_number(std::size_t column) const;
  std::string utf8(const Field& field) const;
  std::string name_of(std::size_t column) const;
  const std::vector<Field>& fields() const { return records_.fields(); }

  const CsvSource& source_;
  const CsvOptions& options_;
  CsvRecords records_;
  CsvClasses classes_;
  Columns columns_;
  std::vector<std::string> names_;  // of all columns; empty without a header
  std::optional<Suspect> suspect_;
  std::vector<std::int64_t> labels_;
  std::vector<float> numbers_;     // of the target, while it can be a number
  bool maybe_numbers_ = false;     // what it is, is to be found
  bool too_many_classes_ = false;  // so that it can only be a number
  bool fractions_ = false;
};

std::string Reader::name_of(std::size_t column) const {
  return names_.empty() ? message("column ", column + 1) : names_[column];
}

std::string Reader::utf8(const Field& field) const {
  std::string text = CsvRecords::text(field);
  expects<FileError>(io::is_utf8(text), records_.place(field.offset),
                     "found text that is not UTF-8, expected UTF-8; save the file as CSV UTF-8");
  return text;
}

// A name of the header, or a number that counts from 1, or from the end when negative.
std::size_t Reader::find_column(const std::string& name, const char* purpose) const {
  const auto named = std::find(names_.begin(), names_.end(), name);
  if (named != names_.end()) {
    expects<FileError>(std::find(named + 1, names_.end(), name) == names_.end(), records_.place(0),
                       "found more than one column named ", shown(name), ", expected one for the ", purpose,
                       "; name it by its number");
    return static_cast<std::size_t>(named - names_.begin());
  }
  const auto count = static_cast<std::int64_t>(columns_.count);
  const std::optional<std::int64_t> position = whole_number(name);
  const bool whole = position.has_value();
  if (whole && *position >= 1 && *position <= count) return static_cast<std::size_t>(*position - 1);
  if (whole && *position <= -1 && *position >= -count) return static_cast<std::size_t>(count + *position);
  throw FileError(message(records_.place(0), "found ", count, " columns", names_.empty() ? " and no header" : "",
                          ", expected one ", whole ? "with the number " : "named ", whole ? name : shown(name),
                          " for the ", purpose, whole ? "; columns count from 1, or from -1 at the end" : ""));
}

void Reader::assign_columns() {
  columns_.count = fields().size();
  if (names_.empty() || options_.columns.empty())
    assign_by_position();
  else
    assign_by_name();
}

void Reader::expect_target(std::size_t column) const {
  expects<FileError>(std::find(columns_.ignored.begin(), columns_.ignored.end(), column) == columns_.ignored.end(),
                     records_.place(0), "found the target ", shown(options_.target),
                     " among the columns to ignore, expected another one");
}

// The features are known by name: the others are the target and what is ignored, whatever their order.
void Reader::assign_by_name() {
  enum : char { unknown, feature, ignored, target };
  std::vector<char> purpose(columns_.count, unknown);
  std::string missing;
  for (const std::string& name : options_.columns) {
    if (std::find(names_.begin(), names_.end(), name) == names_.end()) {
      missing += (missing.empty() ? "" : ", ") + shown(name);
      continue;
    }
    columns_.features.push_back(find_column(name, "features"));
    purpose[columns_.features.back()] = feature;
  }
  expects<FileError>(missing.empty(), records_.place(0), "found no column named ", missing,
                     ", expected the features by the names that the model knows");
  // A table to predict may lack what the training left out.
  for (const std::string& name : options_.ignore)
    for (std::size_t i = 0; i < columns_.count; ++i)
      if (purpose[i] == unknown && (names_[i] == name || whole_number(name) == static_cast<std::int64_t>(i) + 1)) {
        purpose[i] = ignored;
        columns_.ignored.push_back(i);
      }
  const bool wanted = options_.labelled == CsvTarget::required;
  if (options_.labelled != CsvTarget::absent) {
    const bool named = std::find(names_.begin(), names_.end(), options_.target) != names_.end();
    if (named || (!options_.target.empty() && (wanted || whole_number(options_.target)))) {
      columns_.target = find_column(options_.target, "target");
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
    expects<FileError>(purpose[i] != unknown, records_.place(fields()[i].offset), "found the column ", shown(names_[i]),
                       ", expected only columns that the model knows; ignore it, or name it as the target");
}

void Reader::assign_by_position() {
  std::vector<bool> ignored(columns_.count);
  for (const std::string& name : options_.ignore) ignored[find_column(name, "columns to ignore")] = true;
  for (std::size_t i = 0; i < columns_.count; ++i)
    if (ignored[i]) columns_.ignored.push_back(i);
  const auto left = static_cast<std::int64_t>(std::count(ignored.begin(), ignored.end(), false));
  bool labelled = options_.labelled != CsvTarget::absent;
  if (options_.labelled == CsvTarget::optional) labelled = left != options_.features;
  if (labelled) {
    std::size_t target = columns_.count;
    if (!options_.target.empty()) {
      target = find_column(options_.target, "target");
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

// A first row without any number, or with all the names that the model knows. Another row with some numbers is data: a
// mistyped one must not pass for a name.
bool Reader::is_header() const {
  if (options_.header) return *options_.header;
  const auto is_there = [&](const std::string& name) {
    return std::any_of(fields().begin(), fields().end(), [&](const Field& field) { return field.raw == name; });
  };
  if (!options_.columns.empty() && std::all_of(options_.columns.begin(), options_.columns.end(), is_there)) return true;
  return std::none_of(fields().begin(), fields().end(), [](const Field& field) { return number(field.raw); });
}

void Reader::take_names() {
  for (const Field& field : fields()) {
    std::string name = utf8(field);
    if (name.empty()) name = message("column ", names_.size() + 1);
    names_.push_back(std::move(name));
  }
}

void Reader::note_suspect() {
  if (options_.header || !columns_.target || classes_.fixed()) return;
  Suspect suspect{.label = std::string(fields()[*columns_.target].raw), .counts = true, .place = records_.place(0)};
  for (std::size_t i = 0; i < fields().size(); ++i) {
    if (!number(fields()[i].raw)) return;
    const auto whole = whole_number(fields()[i].raw), first = whole_number(fields()[0].raw);
    suspect.counts &= whole && first && (*first == 0 || *first == 1) && *whole == *first + static_cast<std::int64_t>(i);
  }
  suspect_ = std::move(suspect);
}

// Numbers that count the columns up, or a number where every other class is a word: a header, unless its class comes
// again.
void Reader::check_suspect() const {
  const auto unique = [](const auto& targets) {
    return targets.size() >= 2 && std::count(targets.begin(), targets.end(), targets[0]) == 1;
  };
  const bool numbers = takes_numbers();
  if (!suspect_ || !(numbers ? unique(numbers_) : unique(labels_))) return;
  const auto& names = classes_.names();
  const bool words = !numbers && std::none_of(names.begin(), names.end(), [&](const std::string& name) {
    return name != suspect_->label && number(name);
  });
  expects<FileError>(!suspect_->counts && !words, suspect_->place, "found a first row of numbers whose ",
                     name_of(*columns_.target), ", ", shown(suspect_->label),
                     ", never comes again: that may be a header; expected to be told whether it is one (--header yes ",
                     "or no, CsvOptions::header)");
}

void Reader::check_count() const {
  const std::size_t found = fields().size();
  if (found == columns_.count) return;
  const std::size_t at = found > columns_.count ? fields()[columns_.count].offset : records_.record_end();
  throw FileError(message(records_.place(at), "found ", found, found == 1 ? " field" : " fields", ", expected ",
                          columns_.count, " as in the first row"));
}

// What it is to be may be known only when all of it is read.
void Reader::read_target(const Field& field) {
  if (options_.numbers.value_or(false)) {
    numbers_.push_back(read_number(*columns_.target));
    return;
  }
  if (maybe_numbers_) {
    const auto value = number(field.raw);
    maybe_numbers_ = value && std::isfinite(static_cast<float>(*value));
    if (maybe_numbers_) {
      numbers_.push_back(static_cast<float>(*value));
      fractions_ |= *value != std::floor(*value);
      too_many_classes_ |= classes_.full();
      if (too_many_classes_) return;
    }
  }
  labels_.push_back(read_class(field));
}

// Whether the target, read to its end, is a number.
bool Reader::takes_numbers() const {
  constexpr std::size_t most_classes = 20;
  if (!maybe_numbers_ || !columns_.target) return options_.numbers.value_or(false);
  const std::size_t different = classes_.names().size();
  return fractions_ || too_many_classes_ || different > std::max(most_classes, numbers_.size() / most_classes);
}

std::int64_t Reader::read_class(const Field& field) {
  if (field.raw.empty()) [[unlikely]]
    throw FileError(
        message(records_.place(field.offset), "found nothing in ", name_of(*columns_.target), ", expected a class"));
  std::int64_t found = 0;
  if (field.escaped) {
    found = classes_.find(CsvRecords::text(field));
  } else {
    found = classes_.find(field.raw);
  }
  if (found >= 0) return found;
  if (!classes_.fixed())
    throw FileError(message(records_.place(field.offset), "found more than ", CsvClasses::most, " different values in ",
                            name_of(*columns_.target), ", expected classes; name another column as the target"));
  std::string known;
  for (std::size_t i = 0; i < classes_.names().size() && i < 8; ++i) known += (i ? ", " : "") + classes_.names()[i];
  throw FileError(message(records_.place(field.offset), "found the class ", shown(field.raw), ", expected one of ",
                          known, classes_.names().size() > 8 ? ", ..." : ""));
}

float Reader::read_number(std::size_t column) const {
  const Field& field = fields()[column];
  const auto value = number(field.raw);
  const float narrow = value ? static_cast<float>(*value) : 0;
  if (!value || !std::isfinite(narrow)) [[unlikely]]
    throw FileError(message(records_.place(field.offset), "found ", field.raw.empty() ? "nothing" : shown(field.raw),
                            " in ", name_of(column), ", expected a number"));
  return narrow;
}

void Reader::read_row(float* features) {
  check_count();
  for (const std::size_t column : columns_.features) *features++ = read_number(column);
  if (!columns_.target) return;
  read_target(fields()[*columns_.target]);
}

Table Reader::read() {
  expects<FileError>(records_.next(), source_.name, ":1:1: found nothing, expected rows of numbers with a class");
  Table table;
  table.source = source_.name;
  table.header = is_header();
  if (table.header) take_names();
  assign_columns();
  if (table.header)
    expects<FileError>(records_.next(), source_.name, ":2:1: found nothing after the header, expected rows of numbers");
  else
    note_suspect();

  // Each row takes its separators and at least one byte for every field that is read, so a hostile file cannot claim
  // more memory than its size warrants.
  const std::size_t width = columns_.features.size();
  const std::uint64_t row_bytes = columns_.count + width + (columns_.target ? 1 : 0);
  const std::uint64_t rows = std::min(count_lines(source_), (source_.size + 1) / row_bytes);
  Tensor features({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width)});
  float* const values = features.write<float>().data();
  std::uint64_t row = 0;
  std::vector<float> beyond;  // a row too short to count is an error, which reading it tells best
  do {
    if (row == rows) beyond.resize(width);
    read_row(row < rows ? values + row * width : beyond.data());
    expects<FileError>(row++ < rows, source_.name, ": the file changed while it was read");
  } while (records_.next());
  check_suspect();

  const auto count = static_cast<std::int64_t>(row);
  table.features = row == rows ? features : features.slice(0, 0, count);
  for (const std::size_t column : columns_.features) table.columns.push_back(name_of(column));
  for (const std::size_t column : columns_.ignored) table.ignored.push_back(name_of(column));
  if (columns_.target) table.target = name_of(*columns_.target);
  if (columns_.target && takes_numbers()) {
    table.labels = tensor(numbers_, {count});
    return table;
  }
  if (columns_.target) {
    const std::vector<std::int64_t> renumbered = classes_.sort();
    table.labels = Tensor({count}, DType::int64);
    const auto labels = table.labels.write<std::int64_t>();
    for (std::size_t i = 0; i < labels_.size(); ++i) labels[i] = renumbered[static_cast<std::size_t>(labels_[i])];
  }
  table.classes = classes_.names();
  for (const std::string& name : table.classes)
    expects<FileError>(io::is_utf8(name), source_.name,
                       ": found a class that is not UTF-8, expected UTF-8; save the file as CSV UTF-8");
  return table;
}

}  // namespace

Dataset Table::dataset() const {
  expects<FileError>(labels.defined(), source, ": found no column with classes, expected one");
  return {.images = features,
          .labels = labels,
          .classes = numbers() ? no_classes : static_cast<std::int64_t>(classes.size()),
          .source = source};
}

Table read_csv(const std::string& file, const CsvOptions& options) {
  const io::InputFile input(file);
  const CsvSource source{file, input.size(),
                         [&](std::uint64_t position, std::span<std::byte> bytes) { input.read(position, bytes); }};
  return Reader(source, options).read();
}

Table parse_csv(std::span<const std::byte> bytes, const std::string& name, const CsvOptions& options) {
  const CsvSource source{name, bytes.size(), [&](std::uint64_t position, std::span<std::byte> to) {
                           if (!to.empty()) std::memcpy(to.data(), bytes.data() + position, to.size());
                         }};
  return Reader(source, options).read();
}

}  // namespace tern::data
