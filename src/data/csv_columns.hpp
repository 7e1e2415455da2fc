#pragma once
// What each column of a CSV file is for.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/csv_records.hpp"
#include "tern/data/csv.hpp"

namespace tern::data {

struct CsvColumns {
  std::vector<std::size_t> features, ignored;
  std::optional<std::size_t> target;
  std::size_t count = 0;  // of fields in a row
};

/// The columns as the options name them, from the first record, whose `names` are empty where it is no header. Throws
/// FileError.
CsvColumns assign_columns(const CsvOptions& options, const std::vector<std::string>& names, const CsvRecords& records);

/// A column by a name of the header, or by its number, for `purpose`. Throws FileError.
std::size_t find_column(const std::vector<std::string>& names, const CsvRecords& records, const std::string& name,
                        const char* purpose);

/// What was found, fit for a sentence: not endless, no control characters.
std::string shown(std::string_view text);

}  // namespace tern::data
