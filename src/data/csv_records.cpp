#include "data/csv_records.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "tern/core/error.hpp"

namespace tern::data {

namespace {

constexpr std::size_t first_window = std::size_t{256} << 10, largest_window = std::size_t{8} << 20;
constexpr std::size_t most_fields = 65536;

bool is_line_end(char c) { return c == '\n' || c == '\r'; }

}  // namespace

CsvRecords::CsvRecords(const CsvSource& source, char separator)
    : source_(source),
      separator_(separator),
      window_(static_cast<std::size_t>(std::min<std::uint64_t>(first_window, source.size + 1))) {
  refill();
  const std::string_view start(window_.data(), end_);
  expects<FileError>(!start.starts_with("\xff\xfe") && !start.starts_with("\xfe\xff"), source_.name,
                     ":1:1: found text in UTF-16, expected UTF-8; save the file as CSV UTF-8");
  if (start.starts_with("\xef\xbb\xbf")) begin_ = 3;
  if (separator_ == 0) find_separator();
}

void CsvRecords::refill() {
  if (begin_ > 0) {
    std::memmove(window_.data(), window_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  } else if (end_ == window_.size()) {
    expects<FileError>(window_.size() < largest_window, source_.name, ":", next_line_, ":1: found a row of more than ",
                       largest_window >> 20, " MiB, expected shorter ones; is a quote left open?");
    window_.resize(std::min(2 * window_.size(), largest_window));
  }
  const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(window_.size() - end_, source_.size - read_));
  if (count > 0) source_.read(read_, std::as_writable_bytes(std::span(window_).subspan(end_, count)));
  const std::string_view added(window_.data() + end_, count);
  if (const std::size_t zero = added.find('\0'); zero != std::string_view::npos) [[unlikely]] {
    const std::string_view before(window_.data() + begin_, end_ - begin_ + zero);
    const bool utf16 = added.starts_with("\xff\xfe") || added.starts_with("\xfe\xff");
    expects<FileError>(read_ == 0 && utf16, source_.name, ":",
                       next_line_ + static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n')),
                       ":1: found bytes that are not text, expected a CSV file");
  }
  read_ += count;
  end_ += count;
}

void CsvRecords::find_separator() {
  constexpr std::array<char, 3> candidates{';', ',', '\t'};
  std::array<std::size_t, 3> counts{};
  bool quoted = false;
  std::size_t i = begin_;
  while (i < end_ && is_line_end(window_[i])) ++i;
  for (; i < end_ && (quoted || !is_line_end(window_[i])); ++i) {
    if (window_[i] == '"') quoted = !quoted;
    for (std::size_t c = 0; c < candidates.size() && !quoted; ++c) counts[c] += window_[i] == candidates[c];
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  separator_ = *most == 0 ? ',' : candidates[static_cast<std::size_t>(most - counts.begin())];
}

bool CsvRecords::next() {
  if (repeat_) {
    repeat_ = false;
    return true;
  }
  do {
    line_ = next_line_;
    while (begin_ == end_ && read_ < source_.size) refill();
    if (begin_ == end_) return false;
    while (split() == Found::need_more) refill();
    const char* bytes = window_.data() + record_;
    next_line_ += 1;
    for (std::size_t i = 0; i < end_of_record_; ++i) next_line_ += bytes[i] == '\n';
    begin_ = record_ + length_;
  } while (blank());
  return true;
}

bool CsvRecords::blank() const {
  if (keeps_empty_ && fields_.size() > 1) return false;
  return std::all_of(fields_.begin(), fields_.end(),
                     [](const Field& field) { return field.raw.empty() && !field.quoted; });
}

CsvRecords::Found CsvRecords::split() {
  const bool at_end = read_ == source_.size;
  const char* const bytes = window_.data() + begin_;
  const std::size_t size = end_ - begin_;
  fields_.clear();
  record_ = begin_;
  std::size_t i = 0;
  const auto is_blank = [&](char c) { return c == ' ' || (c == '\t' && separator_ != '\t'); };
  for (;;) {
    // The place is formatted only when needed: this runs for every field.
    if (fields_.size() == most_fields) [[unlikely]]
      throw FileError(message(place(i), "found more than ", most_fields, " fields in a row, expected fewer"));
    Field field;
    while (i < size && is_blank(bytes[i])) ++i;
    field.offset = i;
    if (i < size && bytes[i] == '"') {
      const std::size_t start = ++i;
      field.quoted = true;
      for (;;) {
        const void* quote = i < size ? std::memchr(bytes + i, '"', size - i) : nullptr;
        if (quote == nullptr) {
          if (!at_end) return Found::need_more;
          throw FileError(message(place(field.offset), "found a quote that is never closed, expected another one"));
        }
        i = static_cast<std::size_t>(static_cast<const char*>(quote) - bytes);
        if (i + 1 == size && !at_end) return Found::need_more;
        if (i + 1 == size || bytes[i + 1] != '"') break;
        field.escaped = true;
        i += 2;
      }
      field.raw = {bytes + start, i - start};
      ++i;
      while (i < size && is_blank(bytes[i])) ++i;
      if (i < size && bytes[i] != separator_ && !is_line_end(bytes[i])) [[unlikely]]
        throw FileError(message(place(i), "found more text after a closing quote, expected a separator"));
    } else {
      const std::size_t start = i;
      while (i < size && bytes[i] != separator_ && !is_line_end(bytes[i])) ++i;
      std::size_t last = i;
      while (last > start && is_blank(bytes[last - 1])) --last;
      field.raw = {bytes + start, last - start};
    }
    if (i == size && !at_end) return Found::need_more;
    fields_.push_back(field);
    if (i < size && bytes[i] == separator_) {
      ++i;
      continue;
    }
    end_of_record_ = i;
    // "\r
    // " is one line end, which must not be split.
    if (i + 1 == size && bytes[i] == '\r' && !at_end) return Found::need_more;
    length_ = i;
    if (i < size) length_ += bytes[i] == '\r' && i + 1 < size && bytes[i + 1] == '\n' ? 2 : 1;
    return Found::record;
  }
}

std::string CsvRecords::text(const Field& field) {
  std::string result(field.raw);
  if (!field.escaped) return result;
  for (auto at = result.find("\"\""); at != std::string::npos; at = result.find("\"\"", at + 1)) result.erase(at, 1);
  return result;
}

std::string CsvRecords::place(std::size_t offset) const {
  const std::string_view before(window_.data() + record_, offset);
  const auto lines = static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n'));
  const auto start = before.rfind('\n');
  const std::size_t column = start == std::string_view::npos ? offset + 1 : offset - start;
  return message(source_.name, ":", line_ + lines, ":", column, ": ");
}

std::uint64_t count_lines(const CsvSource& source) {
  std::vector<char> part(static_cast<std::size_t>(std::min<std::uint64_t>(first_window, source.size)));
  std::uint64_t lines = 1;
  for (std::uint64_t at = 0; at < source.size; at += part.size()) {
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(part.size(), source.size - at));
    source.read(at, std::as_writable_bytes(std::span(part).first(count)));
    lines +=
        static_cast<std::uint64_t>(std::count(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    lines +=
        static_cast<std::uint64_t>(std::count(part.begin(), part.begin() + static_cast<std::ptrdiff_t>(count), '\r'));
  }
  return lines;
}

}  // namespace tern::data
