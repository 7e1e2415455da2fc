#pragma once
// The role of each column of a CSV file.

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

/// Assigns the columns that the options name, from the first record; `names` are empty if it is not a header. Throws
/// FileError.
CsvColumns assign_columns(const CsvOptions& options, const std::vector<std::string>& names, const CsvRecords& records);

/// Finds a column by header name or number, for `purpose`. Throws FileError.
std::size_t find_column(const std::vector<std::string>& names, const CsvRecords& records, const std::string& name,
                        const char* purpose);

/// A found text, shortened and without control characters, for a message.
std::string shown(std::string_view text);

}  // namespace tern::data
