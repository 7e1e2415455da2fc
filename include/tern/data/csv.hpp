#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/data/dataset.hpp"

namespace tern::data {

/// Whether a table has a column with the classes.
enum class CsvTarget : std::uint8_t {
  required,
  /// There when a row has one field more than `CsvOptions::features`, or among the names. Where a row has nothing in it
  /// (nothing, NA, NaN, ?), the table has no labels.
  optional,
  absent
};

struct CsvOptions {
  CsvTarget labelled = CsvTarget::required;
  std::string target = {};  ///< its name, or its number from 1 (-1 is the last); empty: the last
  /// Whether the target is a number, no class: Table::labels are then float32. Absent: found. It is one where all are
  /// numbers and some have a fraction, or more than 20, and than one in 20 rows, are different.
  std::optional<bool> numbers = false;
  std::vector<std::string> ignore = {};  ///< columns to leave out, by name or number
  /// Whether the first row holds names; detected when absent: a row with a number is not one.
  std::optional<bool> header = {};
  char separator = 0;                     ///< 0: whichever of comma, semicolon and tab the first row has most of
  std::vector<std::string> classes = {};  ///< the classes in their order, as a trained net knows them; empty: found
  std::int64_t features = 0;              ///< how many features there must be; 0: any number
  /// The names of the features, as a trained net knows them: under a header they are found by their names and put in
  /// this order; each must be there once, and nothing else but the target and columns to ignore. Without a header, or
  /// when empty, the position counts.
  std::vector<std::string> columns = {};
  bool missing = false;  ///< values may be missing (nothing, NA, NaN, ?), and are NaN among the features
  std::vector<std::string> categorical = {};  ///< features that hold categories, by name or number
  /// Features of which most values are no numbers hold categories, too.
  bool find_categorical = false;
  /// Which features hold categories, in their order, as a trained net knows it: nothing else is looked for.
  std::optional<std::vector<bool>> categories = {};
};

/// Numbers and classes read from a CSV file.
struct Table {
  /// float32 [rows, columns]: numbers, positions in the column's categories, NaN for what is missing.
  Tensor features = {};
  /// int64 [rows], positions in `classes`; float32 [rows] where these are numbers; undefined without a target.
  Tensor labels = {};
  std::vector<std::string> columns = {};  ///< names of the features; "column 3" where there is no header
  std::vector<std::vector<std::string>> categories = {};  ///< of each column, ordered as classes; none for numbers
  std::vector<std::string> classes = {};  ///< in the order of their numbers where all are numbers, else of the alphabet
  std::string target = {};                ///< name of the target
  std::vector<std::string> ignored = {};  ///< names of the columns that were left out
  std::string source = {};                ///< the file
  bool header = false;                    ///< whether the first row was one

  /// Whether the target is a number.
  bool numbers() const { return labels.defined() && labels.dtype() == DType::float32; }
  /// Features as images, with no_classes where the target is a number. Throws FileError without a target.
  Dataset dataset() const;
};

/// Reads a table of finite numbers and a class per row: quoted fields (RFC 4180), LF, CRLF and CR, a byte-order mark.
/// Empty lines are passed over, and where a target is required those that hold only separators. A row without a target
/// (nothing, NA, NaN, ?) is an error there; in quotes NA is a class. A first row of numbers that looks like a header
/// all the same, such as the 0,1,2 that data frames write, has to be called one or none, and so has one of words that
/// come again in a table of words. Features have names of their own. Throws FileError "file:line:column: what was
/// found, what was expected". No more is allocated than the features take, and a few MB.
Table read_csv(const std::string& file, const CsvOptions& options = {});
/// The same from bytes in memory; `name` is the file name in messages.
Table parse_csv(std::span<const std::byte> bytes, const std::string& name, const CsvOptions& options = {});

}  // namespace tern::data
