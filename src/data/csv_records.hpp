#pragma once
// The records of a CSV file in order, from a window that moves over the bytes.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data {

/// The bytes of a file or of memory.
struct CsvSource {
  std::string name;
  std::uint64_t size = 0;
  std::function<void(std::uint64_t position, std::span<std::byte> bytes)> read;
};

class CsvRecords {
 public:
  /// The raw bytes of a field, without its quotes and blanks around them.
  struct Field {
    std::string_view raw;
    bool quoted = false;
    bool escaped = false;    // contains "" for "
    std::size_t offset = 0;  // of its first byte in the record
  };

  /// `separator` 0 takes the most frequent one of the first record.
  CsvRecords(const CsvSource& source, char separator);

  /// Takes the next record that is not empty; false at the end. The fields are valid until the next call.
  bool next();
  /// From now on also returns records that hold only separators.
  void keep_empty() { keeps_empty_ = true; }
  const std::vector<Field>& fields() const { return fields_; }
  /// The text of a field, with "" replaced by ".
  static std::string text(const Field& field);
  /// "file:line:column: ", the place of a byte in the current record.
  std::string place(std::size_t offset) const;
  /// The offset after the last field.
  std::size_t record_end() const { return end_of_record_; }
  /// Makes the next call of `next` return the current record again.
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
  std::size_t begin_ = 0, end_ = 0;  // the unread part of the window
  std::uint64_t read_ = 0;           // bytes read from the source
  std::size_t record_ = 0;           // where the current record begins in the window
  std::size_t length_ = 0;           // of the current record with its line end
  std::size_t end_of_record_ = 0;    // of the current record without its line end
  std::uint64_t line_ = 1, next_line_ = 1;
  bool repeat_ = false, keeps_empty_ = false;
  std::vector<Field> fields_;
};

/// An upper bound of the number of lines.
std::uint64_t count_lines(const CsvSource& source);

}  // namespace tern::data
