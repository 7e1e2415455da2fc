#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/data/dataset.hpp"

namespace tern::data {

/// Whether a table has a target column.
enum class CsvTarget : std::uint8_t {
  required,
  /// Present if a row has one field more than `CsvOptions::features`, or if it is among the names. If all its fields
  /// are empty (nothing, NA, NaN, ?), the table has no labels.
  optional,
  absent
};

struct CsvOptions {
  CsvTarget labelled = CsvTarget::required;
  std::string target = {};  ///< its name, or its number from 1 (-1 is the last); empty: the last column
  /// Whether the target is a number instead of a class: Table::labels are then float32. Absent: detected. It is a
  /// number if all values are numbers and either some have a fraction, or more than 20 and more than one in 20 rows are
  /// different.
  std::optional<bool> numbers = false;
  std::vector<std::string> ignore = {};  ///< columns to leave out, by name or number
  /// Whether the first row holds names. Detected if absent: a row with a number is no header.
  std::optional<bool> header = {};
  char separator = 0;                     ///< 0: the one of comma, semicolon and tab that is most frequent in the first
                                          ///< row
  std::vector<std::string> classes = {};  ///< the classes in order, as a trained net knows them; empty: detected
  std::int64_t features = 0;              ///< required number of features; 0: any number
  /// The names of the features, as a trained net knows them. With a header, columns are found by name and put in this
  /// order; each must occur once, and nothing else except the target and ignored columns may occur. Without a header,
  /// or if empty, the position counts.
  std::vector<std::string> columns = {};
  bool missing = false;  ///< accept missing values (nothing, NA, NaN, ?), which become NaN among the features
  std::vector<std::string> categorical = {};  ///< features that hold categories, by name or number
  /// Also treat features as categorical if most of their values are not numbers.
  bool find_categorical = false;
  /// Which features hold categories, in order, as a trained net knows it: nothing is detected.
  std::optional<std::vector<bool>> categories = {};
};

/// Numbers and classes read from a CSV file.
struct Table {
  /// float32 [rows, columns]: numbers, positions in the column's categories, NaN for missing values.
  Tensor features = {};
  /// int64 [rows], positions in `classes`; float32 [rows] if the target is a number; undefined without a target.
  Tensor labels = {};
  std::vector<std::string> columns = {};                  ///< names of the features; "column 3" without a header
  std::vector<std::vector<std::string>> categories = {};  ///< per column, ordered like classes; none for numbers
  std::vector<std::string> classes = {};                  ///< in numeric order if all are numbers, else sorted by name
  std::string target = {};                                ///< name of the target
  std::vector<std::string> ignored = {};                  ///< names of the columns that were left out
  std::string source = {};                                ///< the file
  bool header = false;                                    ///< whether the first row was a header

  /// Whether the target is a number.
  bool numbers() const { return labels.defined() && labels.dtype() == DType::float32; }
  /// The features as images, with no_classes if the target is a number. Throws FileError without a target.
  Dataset dataset() const;
};

/// Reads a table of finite numbers and a class per row. Accepts quoted fields (RFC 4180), LF, CRLF and CR, and a
/// byte-order mark. Empty lines are skipped and, if a target is required, lines that hold only separators. A row
/// without a target (nothing, NA, NaN, ?) is then an error; in quotes NA is a class. `header` must be set if a first
/// row of numbers looks like a header, such as the 0,1,2 that data frames write, or if a table of words repeats the
/// words of its first row. Feature names must be unique. Throws FileError "file:line:column: what was found, what was
/// expected". Allocates no more than the features and a few MB.
Table read_csv(const std::string& file, const CsvOptions& options = {});
/// The same for bytes in memory; `name` is the file name in messages.
Table parse_csv(std::span<const std::byte> bytes, const std::string& name, const CsvOptions& options = {});

}  // namespace tern::data
