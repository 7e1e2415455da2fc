#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/data/csv.hpp"

namespace tern::data {

/// How missing values are filled.
enum class Missing : std::uint8_t {
  refuse,    ///< nothing: it is an error
  mean,      ///< the column's mean, or its most frequent category
  median,    ///< the column's median, or its most frequent category
  drop,      ///< nothing: the rows that have one are left out
  indicator  ///< the column's mean, or none of its categories, and an input more that is 1 there and else 0
};

/// A column of a table and its encoding. The figures come from the training rows and apply to all others.
struct Column {
  std::string name = {};
  double mean = 0, deviation = 1;            ///< of numbers, which are standardised
  std::vector<std::string> categories = {};  ///< an input each, 1 for that of the row and else 0; empty for numbers
  /// For a missing value: a number, not yet standardised, or the position of a category; absent: inputs of 0.
  std::optional<double> fill = {};
  bool indicator = false;  ///< an input more: whether the value is missing

  std::int64_t inputs() const;
  bool operator==(const Column&) const = default;
};

/// Rows of a table as inputs of a net.
struct Encoding {
  std::vector<Column> columns = {};

  std::int64_t inputs() const;
  /// float32 [rows, inputs] of features as a Table has them, float32 [rows, columns]; `categories` are the table's,
  /// too. One that this encoding does not know is none: inputs of 0. Throws ShapeError when the columns do not fit.
  Tensor apply(const Tensor& features, const std::vector<std::vector<std::string>>& categories = {}) const;
  bool operator==(const Encoding&) const = default;
};

/// The encoding that `features`, training rows [rows, columns] of `table`, ask for: of numbers the mean and the
/// (population) deviation, 1 for a constant column; the categories that occur among them. Throws ShapeError without
/// rows, and FileError for a column without a value, or with so many categories (more than 1,000, or than every second
/// of 50 rows and more) that they are names.
Encoding encoding_of(const Table& table, const Tensor& features, Missing missing);

/// The rows of features without a missing value.
std::vector<std::int64_t> whole_rows(const Tensor& features);

}  // namespace tern::data
