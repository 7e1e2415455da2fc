#pragma once
// The records of a CSV file one after another, from a window that moves over the bytes.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data {

/// Bytes of a file or of memory.
struct CsvSource {
  std::string name;
  std::uint64_t size = 0;
  std::function<void(std::uint64_t position, std::span<std::byte> bytes)> read;
};

class CsvRecords {
 public:
  /// The bytes of a field as they stand, without the quotes around them and blanks outside of these.
  struct Field {
    std::string_view raw;
    bool quoted = false;
    bool escaped = false;    // holds "" for "
    std::size_t offset = 0;  // of its first byte in the record
  };

  /// `separator` 0 takes the most frequent one of the first record.
  CsvRecords(const CsvSource& source, char separator);

  /// Takes the next record that is not empty; false at the end. The fields are valid until the next call.
  bool next();
  /// From here on records that hold only separators are taken too.
  void keep_empty() { keeps_empty_ = true; }
  const std::vector<Field>& fields() const { return fields_; }
  /// The text of a field, with "" made ".
  static std::string text(const Field& field);
  /// "file:line:column: ", the place of a byte of the present record.
  std::string place(std::size_t offset) const;
  /// The offset behind the last field.
  std::size_t record_end() const { return end_of_record_; }
  /// The present record again, at the next call of `next`.
  void put_back() { repeat_ = true; }

 private:
  enum class Found { record, need_more };
  void refill();
  Found split();
  void find_separator();
  bool blank() const;

  const CsvSource& source_;
  char separator_;
  std::vector<char> window_;
  std::size_t begin_ = 0, end_ = 0;  // what is left of the window
  std::uint64_t read_ = 0;           // bytes taken from the source
  std::size_t record_ = 0;           // where the present record begins in the window
  std::size_t length_ = 0;           // of the present record with its line end
  std::size_t end_of_record_ = 0;    // of the present record without its line end
  std::uint64_t line_ = 1, next_line_ = 1;
  bool repeat_ = false, keeps_empty_ = false;
  std::vector<Field> fields_;
};

/// At most how many lines there are.
std::uint64_t count_lines(const CsvSource& source);

}  // namespace tern::data
