#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/data/csv.hpp"

namespace tern::data {

/// How missing values are filled.
enum class Missing : std::uint8_t {
  refuse,    ///< not filled: a missing value is an error
  mean,      ///< the column's mean, or its most frequent category
  median,    ///< the column's median, or its most frequent category
  drop,      ///< not filled: rows with missing values are dropped
  indicator  ///< the column's mean, or no category; an extra input is 1 where the value is missing, else 0
};

/// A column of a table and its encoding. The figures come from the training rows and apply to all others.
struct Column {
  std::string name = {};
  double mean = 0, deviation = 1;            ///< for numbers, which are standardised
  std::vector<std::string> categories = {};  ///< one-hot inputs, one per category; empty for numbers
  /// For a missing value: a number, not yet standardised, or the position of a category; absent: inputs of 0.
  std::optional<double> fill = {};
  bool indicator = false;  ///< an extra input: whether the value is missing

  std::int64_t inputs() const;
  bool operator==(const Column&) const = default;
};

/// Rows of a table as inputs of a net.
struct Encoding {
  std::vector<Column> columns = {};

  std::int64_t inputs() const;
  /// Encodes `features` float32 [rows, columns] of a Table, with its `categories`, as float32 [rows, inputs]. An
  /// unknown category becomes inputs of 0. Throws ShapeError if the columns do not match.
  Tensor apply(const Tensor& features, const std::vector<std::vector<std::string>>& categories = {}) const;
  bool operator==(const Encoding&) const = default;
};

/// Fits the encoding of `features`, training rows [rows, columns] of `table`: for numbers the mean and (population)
/// deviation, 1 for a constant column; for others the categories that occur. Throws ShapeError without rows, and
/// FileError for a column without a value or with too many categories (more than 1,000, or more than half of 50 rows
/// and more): they are probably names.
Encoding encoding_of(const Table& table, const Tensor& features, Missing missing);

/// The rows of features without a missing value.
std::vector<std::int64_t> whole_rows(const Tensor& features);

}  // namespace tern::data
