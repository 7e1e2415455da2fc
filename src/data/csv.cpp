#include "tern/data/csv.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "data/csv_classes.hpp"
#include "data/csv_columns.hpp"
#include "data/csv_records.hpp"
#include "io/safetensors_header.hpp"
#include "tern/io/file.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

namespace {

using Field = CsvRecords::Field;

// The first row, if it may be a header of numbers.
struct Suspect {
  std::string label;    // its field in the class column
  bool counts = false;  // its fields are 0, 1, 2, ... or 1, 2, 3, ...
  std::string place;
};

class Reader {
 public:
  /// `categorical`: the columns found to hold categories; absent: to be detected.
  Reader(const CsvSource& source, const CsvOptions& options, std::optional<std::vector<bool>> categorical)
      : source_(source),
        options_(options),
        records_(source, options.separator),
        classes_(options.classes),
        categorical_(std::move(categorical)),
        maybe_numbers_(!options.numbers) {}
  /// No value if a column may hold categories; `survey` then says which.
  std::optional<Table> read();
  /// For every column, whether most of its values are not numbers.
  std::vector<bool> survey() const;

 private:
  bool is_header() const;
  void take_names();
  void note_suspect();
  void check_suspect() const;
  void check_unique_names() const;
  void check_header_of_words(const Table& table) const;
  void check_count() const;
  void assign_categories();
  void read_row(float* features);
  float read_category(std::size_t feature);
  bool is_missing(const Field& field) const { return options_.missing && means_missing(field.raw); }
  void finish_categories(Table& table);
  bool lacks_target(const Field& field);
  void read_target(const Field& field);
  bool takes_numbers() const;
  std::int64_t read_class(const Field& field);
  float read_number(std::size_t column);
  std::string utf8(const Field& field) const;
  std::string name_of(std::size_t column) const;
  void check_names(const std::vector<std::string>& names, const char* what) const;
  const std::vector<Field>& fields() const { return records_.fields(); }

  const CsvSource& source_;
  const CsvOptions& options_;
  CsvRecords records_;
  CsvClasses classes_;
  CsvColumns columns_;
  std::vector<std::string> names_;  // of all columns; empty without a header
  std::optional<Suspect> suspect_;
  std::optional<std::vector<bool>> categorical_;
  std::vector<std::optional<CsvClasses>> categories_;  // per feature; empty if all are numbers
  bool met_text_ = false;                              // in a place where a number was expected and categories may be
                                                       // detected
  std::vector<std::int64_t> labels_;
  std::vector<float> numbers_;     // of the target, while it can be a number
  bool maybe_numbers_ = false;     // whether the target is a number is to be detected
  bool too_many_classes_ = false;  // so it can only be a number
  bool fractions_ = false;
  bool unlabelled_ = false;  // a target is missing where it is optional
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

// A first row without any number, or with all names that the model knows. Another row with some numbers is data: a
// mistyped number must not pass for a name.
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

// Numbers that count the columns up, or a number where every other class is a word, form a header, unless that class
// occurs again.
void Reader::check_suspect() const {
  const auto unique = [](const auto& targets) {
    return targets.size() >= 2 && std::count(targets.begin(), targets.end(), targets[0]) == 1;
  };
  const bool numbers = takes_numbers();
  if (!suspect_ || unlabelled_ || !(numbers ? unique(numbers_) : unique(labels_))) return;
  const auto& names = classes_.names();
  const bool words = !numbers && std::none_of(names.begin(), names.end(), [&](const std::string& name) {
    return name != suspect_->label && number(name);
  });
  expects<FileError>(!suspect_->counts && !words, suspect_->place, "found a first row of numbers whose ",
                     name_of(*columns_.target), ", ", shown(suspect_->label),
                     ", occurs only once: this may be a header; say whether it is one with ", "CsvOptions::header");
}

// A trained net finds its columns by their names.
void Reader::check_unique_names() const {
  if (!options_.columns.empty()) return;
  std::vector<std::size_t> used = columns_.features;
  if (columns_.target) used.push_back(*columns_.target);
  for (const std::size_t column : used) {
    const auto next = std::find(names_.begin(), names_.end(), names_[column]);
    const auto again = std::find(next + 1, names_.end(), names_[column]);
    expects<FileError>(
        again == names_.end(),
        records_.place(again == names_.end() ? 0 : fields()[static_cast<std::size_t>(again - names_.begin())].offset),
        "found two columns named ", shown(names_[column]), ", expected unique names; ",
        "a column without a name is named by its number");
  }
}

// In a table without numbers a data row looks like a header, but its words occur again.
void Reader::check_header_of_words(const Table& table) const {
  if (options_.header || !table.header || !options_.columns.empty() || categories_.empty() || table.numbers()) return;
  if (std::any_of(table.categories.begin(), table.categories.end(), [](const auto& names) { return names.empty(); }))
    return;
  const auto check = [&](const std::string& name, const std::vector<std::string>& words) {
    expects<FileError>(std::find(words.begin(), words.end(), name) == words.end(), source_.name,
                       ":1:1: found a first row of words, of which ", shown(name),
                       " occurs again in its column: this may not be a header; say whether it is one with ",
                       "CsvOptions::header");
  };
  for (std::size_t c = 0; c < table.categories.size(); ++c) check(table.columns[c], table.categories[c]);
  check(table.target, table.classes);
}

void Reader::check_count() const {
  const std::size_t found = fields().size();
  if (found == columns_.count) return;
  const std::size_t at = found > columns_.count ? fields()[columns_.count].offset : records_.record_end();
  throw FileError(message(records_.place(at), "found ", found, found == 1 ? " field" : " fields", ", expected ",
                          columns_.count, " as in the first row"));
}

// A missing target is an error if it is required. NA in quotes is a class, and so is one that a net knows.
bool Reader::lacks_target(const Field& field) {
  if (!means_missing(field.raw) || (field.quoted && !field.raw.empty())) return false;
  if (classes_.fixed() && !field.raw.empty() && classes_.find(field.raw) >= 0) return false;
  if (options_.labelled != CsvTarget::required) return unlabelled_ = true;
  const bool number = options_.numbers.value_or(false);
  throw FileError(message(records_.place(field.offset), "found ", field.raw.empty() ? "nothing" : shown(field.raw),
                          " in ", name_of(*columns_.target), ", expected a ",
                          number             ? "number"
                          : options_.numbers ? "class"
                                             : "class or a number",
                          number || field.raw.empty() ? "" : "; in quotes it is a class"));
}

// Its kind may be known only after the last row.
void Reader::read_target(const Field& field) {
  if (lacks_target(field)) return;
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

// Whether the target, after the last row, is a number.
bool Reader::takes_numbers() const {
  constexpr std::size_t most_classes = 20;
  if (!maybe_numbers_ || !columns_.target) return options_.numbers.value_or(false);
  const std::size_t different = classes_.names().size();
  return fractions_ || too_many_classes_ || different > std::max(most_classes, numbers_.size() / most_classes);
}

std::int64_t Reader::read_class(const Field& field) {
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

float Reader::read_number(std::size_t column) {
  const Field& field = fields()[column];
  const auto value = number(field.raw);
  const float narrow = value ? static_cast<float>(*value) : 0;
  if (value && std::isfinite(narrow)) [[likely]]
    return narrow;
  const bool feature = columns_.target != column;
  if (feature && is_missing(field)) return std::numeric_limits<float>::quiet_NaN();
  if (feature && options_.find_categorical && !categorical_ && !value && !means_missing(field.raw)) {
    met_text_ = true;
    return 0;
  }
  std::string way_out;
  if (feature && means_missing(field.raw))
    way_out = "; CsvOptions::missing accepts missing values";
  else if (feature && !value)
    way_out = "; CsvOptions::categorical takes the values of a column as categories";
  throw FileError(message(records_.place(field.offset), "found ", field.raw.empty() ? "nothing" : shown(field.raw),
                          " in ", name_of(column), ", expected a number", way_out));
}

float Reader::read_category(std::size_t feature) {
  const std::size_t column = columns_.features[feature];
  const Field& field = fields()[column];
  if (means_missing(field.raw)) {
    if (options_.missing) return std::numeric_limits<float>::quiet_NaN();
    throw FileError(message(records_.place(field.offset), "found ", field.raw.empty() ? "nothing" : shown(field.raw),
                            " in ", name_of(column),
                            ", expected a category; CsvOptions::missing accepts missing values"));
  }
  const std::int64_t found = categories_[feature]->find(field.escaped ? CsvRecords::text(field) : field.raw);
  if (found < 0)
    throw FileError(message(records_.place(field.offset), "found more than ", CsvClasses::most, " different values in ",
                            name_of(column), ", expected categories; --ignore leaves the column out"));
  return static_cast<float>(found);
}

void Reader::assign_categories() {
  std::vector<bool> all = categorical_.value_or(std::vector<bool>(columns_.count));
  if (options_.categories) {
    for (std::size_t i = 0; i < columns_.features.size() && i < options_.categories->size(); ++i)
      all[columns_.features[i]] = (*options_.categories)[i];
  } else {
    for (const std::string& name : options_.categorical) {
      const std::size_t column = find_column(names_, records_, name, "columns of categories");
      expects<FileError>(
          std::find(columns_.features.begin(), columns_.features.end(), column) != columns_.features.end(),
          records_.place(0), "found ", shown(name), " among the columns of categories, which is the ",
          "target or ignored; expected a feature");
      all[column] = true;
    }
  }
  const auto holds = [&](std::size_t column) { return all[column]; };
  if (std::none_of(columns_.features.begin(), columns_.features.end(), holds)) return;
  for (const std::size_t column : columns_.features) {
    categories_.emplace_back();
    if (holds(column)) categories_.back().emplace(std::vector<std::string>());
  }
}

// Sorts the names and renumbers the values.
void Reader::finish_categories(Table& table) {
  table.categories.resize(columns_.features.size());
  if (categories_.empty()) return;
  const auto values = table.features.write<float>();
  const std::size_t width = columns_.features.size();
  for (std::size_t c = 0; c < width; ++c) {
    if (!categories_[c]) continue;
    const std::vector<std::int64_t> renumbered = categories_[c]->sort();
    for (std::size_t i = c; i < values.size(); i += width)
      if (!std::isnan(values[i])) values[i] = static_cast<float>(renumbered[static_cast<std::size_t>(values[i])]);
    table.categories[c] = categories_[c]->names();
    check_names(table.categories[c], "a category");
  }
}

std::vector<bool> Reader::survey() const {
  std::vector<std::int64_t> words(columns_.count);  // less the numbers
  std::vector<std::int64_t> commas(columns_.count);
  std::vector<std::string> first_comma(columns_.count);
  CsvRecords records(source_, options_.separator);
  records.next();
  if (!names_.empty()) records.next();
  do {
    for (std::size_t i = 0; i < records.fields().size() && i < columns_.count; ++i) {
      const std::string_view raw = records.fields()[i].raw;
      if (means_missing(raw)) continue;
      const bool word = !number(raw), comma = word && is_number_with_comma(raw);
      words[i] += word ? 1 : -1;
      commas[i] += comma ? 1 : word ? -1 : 0;
      if (comma && first_comma[i].empty())
        first_comma[i] = message(records.place(records.fields()[i].offset), "found ", shown(raw), " in ", name_of(i));
    }
  } while (records.next());
  std::vector<bool> found;
  for (const std::int64_t more : words) found.push_back(more > 0);
  for (std::size_t f = 0; f < columns_.features.size(); ++f) {
    const std::size_t column = columns_.features[f];
    const bool named = !categories_.empty() && categories_[f];
    expects<FileError>(named || !found[column] || commas[column] <= 0, first_comma[column],
                       ", expected a number with a decimal point, and no comma; CsvOptions::categorical takes the "
                       "values of the column as categories");
  }
  return found;
}

void Reader::check_names(const std::vector<std::string>& names, const char* what) const {
  for (const std::string& name : names)
    expects<FileError>(io::is_utf8(name), source_.name, ": found ", what,
                       " that is not UTF-8, expected UTF-8; save the file as CSV UTF-8");
}

void Reader::read_row(float* features) {
  check_count();
  if (categories_.empty())
    for (const std::size_t column : columns_.features) *features++ = read_number(column);
  else
    for (std::size_t i = 0; i < columns_.features.size(); ++i)
      *features++ = categories_[i] ? read_category(i) : read_number(columns_.features[i]);
  if (!columns_.target) return;
  read_target(fields()[*columns_.target]);
}

std::optional<Table> Reader::read() {
  // If the target is optional, a row without a single value is an example; otherwise it is an empty line.
  const bool every_row = options_.labelled != CsvTarget::required;
  if (every_row && options_.header == false) records_.keep_empty();
  expects<FileError>(records_.next(), source_.name, ":1:1: found nothing, expected rows of numbers with a class");
  Table table;
  table.source = source_.name;
  table.header = is_header();
  if (table.header) take_names();
  if (every_row) records_.keep_empty();
  columns_ = assign_columns(options_, names_, records_);
  if (table.header) check_unique_names();
  assign_categories();
  if (table.header)
    expects<FileError>(records_.next(), source_.name, ":2:1: found nothing after the header, expected rows of numbers");
  else
    note_suspect();

  // Each row takes its separators and at least one byte for every field that is read and cannot be missing, so a
  // hostile file cannot claim more memory than its size justifies.
  const std::size_t width = columns_.features.size();
  const std::uint64_t row_bytes =
      columns_.count + (options_.missing ? 0 : width) + (columns_.target && !every_row ? 1 : 0);
  const std::uint64_t rows = std::min(count_lines(source_), (source_.size + 1) / row_bytes);
  Tensor features({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(width)});
  float* const values = features.write<float>().data();
  std::uint64_t row = 0;
  std::vector<float> beyond;  // a row that is too short to count is an error, and reading it gives the best message
  do {
    if (row == rows) beyond.resize(width);
    read_row(row < rows ? values + row * width : beyond.data());
    if (met_text_) return std::nullopt;
    expects<FileError>(row++ < rows, source_.name, ": the file changed while it was read");
  } while (records_.next());
  check_suspect();

  const auto count = static_cast<std::int64_t>(row);
  table.features = row == rows ? features : features.slice(0, 0, count);
  finish_categories(table);
  for (const std::size_t column : columns_.features) table.columns.push_back(name_of(column));
  for (const std::size_t column : columns_.ignored) table.ignored.push_back(name_of(column));
  if (columns_.target) table.target = name_of(*columns_.target);
  const bool labelled = columns_.target && !unlabelled_;
  if (labelled && takes_numbers()) {
    table.labels = tensor(numbers_, {count});
    return table;
  }
  if (labelled) {
    const auto& names = classes_.names();
    expects<FileError>(
        options_.numbers || classes_.fixed() || !std::all_of(names.begin(), names.end(), is_number_with_comma),
        source_.name, ": found ", shown(names.front()), " in ", table.target,
        ", expected a class, or a number with a decimal point, and no comma; CsvOptions::numbers, where false, "
        "takes it as a class");
    const std::vector<std::int64_t> renumbered = classes_.sort();
    table.labels = Tensor({count}, DType::int64);
    const auto labels = table.labels.write<std::int64_t>();
    for (std::size_t i = 0; i < labels_.size(); ++i) labels[i] = renumbered[static_cast<std::size_t>(labels_[i])];
  }
  table.classes = classes_.names();
  check_names(table.classes, "a class");
  check_header_of_words(table);
  return table;
}

// Reads a second time if columns turn out to hold categories.
Table read_table(const CsvSource& source, const CsvOptions& options) {
  Reader reader(source, options, std::nullopt);
  if (auto table = reader.read()) return std::move(*table);
  return std::move(*Reader(source, options, reader.survey()).read());
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
  return read_table(source, options);
}

Table parse_csv(std::span<const std::byte> bytes, const std::string& name, const CsvOptions& options) {
  const CsvSource source{name, bytes.size(), [&](std::uint64_t position, std::span<std::byte> to) {
                           if (!to.empty()) std::memcpy(to.data(), bytes.data() + position, to.size());
                         }};
  return read_table(source, options);
}

}  // namespace tern::data
