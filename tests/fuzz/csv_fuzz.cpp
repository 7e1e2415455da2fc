// Any bytes either are a table or a FileError, whatever the options; and what is a table is one again when only its
// features are wanted.

#include <cstddef>
#include <cstdint>
#include <span>

#include "tern/core/error.hpp"
#include "tern/data/csv.hpp"
#include "tern/data/encoding.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  tern::data::CsvOptions options;
  if (data[0] & 1) options.header = (data[0] & 2) != 0;
  if (data[0] & 4) options.labelled = tern::data::CsvTarget::absent;
  if (data[0] & 8) options.target = "1";
  if (data[0] & 16) options.ignore = {"-1"};
  if (data[0] & 32) options.separator = ';';
  if (data[0] & 64) options.classes = {"a", "b"};
  if (data[0] & 128) {
    options.missing = options.find_categorical = true;
    options.numbers.reset();
  }
  try {
    const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
    const tern::data::Table table = tern::data::parse_csv(bytes, "fuzz", options);
    if (table.labels.defined()) table.dataset().check();
    if (data[0] & 128)
      tern::data::encoding_of(table, table.features, tern::data::Missing::indicator)
          .apply(table.features, table.categories);
    if (table.features.size(0) < 1 || table.features.size(1) < 1) __builtin_trap();
  } catch (const tern::FileError&) {
  }
  return 0;
}
