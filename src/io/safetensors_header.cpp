#include "io/safetensors_header.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "tern/core/error.hpp"

namespace tern::io {

namespace {

// Short keys take many times the memory of their text.
constexpr std::size_t most_keys = 100'000;

// Length of the UTF-8 sequence at the front of `text`; 0 if it is invalid (overlong forms and surrogates are).
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  const unsigned char second = at(1);
  const bool bad = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                   (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return bad ? 0 : length;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | (code >> 6));
    add(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    add(0xe0 | (code >> 12));
    add(0x80 | ((code >> 6) & 0x3f));
    add(0x80 | (code & 0x3f));
  } else {
    add(0xf0 | (code >> 18));
    add(0x80 | ((code >> 12) & 0x3f));
    add(0x80 | ((code >> 6) & 0x3f));
    add(0x80 | (code & 0x3f));
  }
}

// A parser for exactly the header's grammar, not all of JSON: objects of known depth, strings, arrays of non-negative
// integers. General parsers accept repeated keys, negative sizes and fractions, each of which is an attack here.
class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header parse() {
    // The format requires the brace first; spaces may only follow, as padding.
    if (text_.empty() || text_[0] != '{') fail("expected '{' as the first character");
    Header header;
    std::set<std::string> names;
    object([&](std::string key) {
      if (!names.insert(key).second) fail("the key ", quoted_name(key), " is repeated");
      if (names.size() > most_keys) fail("more than ", most_keys, " keys");
      if (key == "__metadata__")
        parse_metadata(header.metadata);
      else
        header.entries.push_back(parse_entry(std::move(key)));
    });
    skip_space();
    if (position_ != text_.size()) fail("expected nothing but spaces after the last '}'");
    return header;
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw FileError(message(file_, ": safetensors header, character ", position_, ": ", parts...));
  }

  void skip_space() {
    while (position_ < text_.size() && std::string_view(" \t\n\r").find(text_[position_]) != std::string_view::npos)
      ++position_;
  }
  bool take(char wanted) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != wanted) return false;
    ++position_;
    return true;
  }
  void need(char wanted) {
    if (!take(wanted)) fail("expected '", wanted, "'");
  }

  template <class Member>
  void object(Member member) {
    need('{');
    if (take('}')) return;
    do {
      std::string key = string();
      need(':');
      member(std::move(key));
    } while (take(','));
    need('}');
  }

  std::uint32_t hexadecimal() {
    std::uint32_t value = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = position_ < text_.size() ? text_[position_++] : '\0';
      const auto digit =
          std::string_view("0123456789abcdef").find(static_cast<char>(c >= 'A' && c <= 'F' ? c + 32 : c));
      if (digit == std::string_view::npos) fail("expected four hexadecimal digits after \\u");
      value = value * 16 + static_cast<std::uint32_t>(digit);
    }
    return value;
  }

  void escape(std::string& result) {
    const char c = position_ < text_.size() ? text_[position_++] : '\0';
    constexpr std::string_view names = "\"\\/bfnrt", values = "\"\\/\b\f\n\r\t";
    if (const auto found = names.find(c); found != std::string_view::npos) {
      result += values[found];
      return;
    }
    if (c != 'u') fail("unknown escape in a string");
    std::uint32_t code = hexadecimal();
    if (code >= 0xd800 && code < 0xdc00) {
      const bool pair = text_.substr(position_, 2) == "\\u";
      if (pair) position_ += 2;
      const std::uint32_t low = pair ? hexadecimal() : 0;
      if (low < 0xdc00 || low > 0xdfff) fail("half a surrogate pair in a string");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      fail("half a surrogate pair in a string");
    }
    append_utf8(result, code);
  }

  std::string string() {
    need('"');
    std::string result;
    for (;;) {
      if (position_ == text_.size()) fail("a string does not end");
      const char c = text_[position_++];
      if (c == '"') return result;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c == '\\')
        escape(result);
      else
        result += c;
    }
  }

  std::uint64_t integer() {
    skip_space();
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    const std::size_t start = position_;
    std::uint64_t value = 0;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
      const auto digit = static_cast<std::uint64_t>(text_[position_++] - '0');
      if (value > (most - digit) / 10) fail("a number beyond 2^63");
      value = value * 10 + digit;
    }
    if (position_ == start) fail("expected a non-negative integer");
    if (text_[start] == '0' && position_ - start > 1) fail("a number with a leading zero");
    return value;
  }

  std::vector<std::uint64_t> integers(std::size_t most, const char* what) {
    std::vector<std::uint64_t> values;
    need('[');
    if (take(']')) return values;
    do {
      if (values.size() == most) fail("more than ", most, ' ', what);
      values.push_back(integer());
    } while (take(','));
    need(']');
    return values;
  }

  void parse_metadata(std::map<std::string, std::string>& metadata) {
    object([&](std::string key) {
      if (metadata.size() == most_keys) fail("more than ", most_keys, " keys");
      std::string value = string();
      if (!metadata.emplace(key, std::move(value)).second) fail("the key ", quoted_name(key), " is repeated");
    });
  }

  HeaderEntry parse_entry(std::string name) {
    HeaderEntry entry{.name = std::move(name)};
    bool has_dtype = false, has_shape = false, has_offsets = false;
    const auto once = [&](bool& seen, const std::string& key) {
      if (std::exchange(seen, true))
        fail("tensor ", quoted_name(entry.name), ": the key ", quoted_name(key), " is repeated");
    };
    object([&](const std::string& key) {
      if (key == "dtype") {
        once(has_dtype, key);
        const std::string type = string();
        const auto* const found = std::ranges::find(dtype_facts, type, &DTypeFacts::safetensors);
        if (found == std::end(dtype_facts))
          fail("tensor ", quoted_name(entry.name), ": the dtype ", quoted_name(type),
               " is not supported (F64, F32, F16, BF16, I64, I32, I8, U8 and BOOL are); convert the file first");
        entry.dtype = found->dtype;
      } else if (key == "shape") {
        once(has_shape, key);
        for (const std::uint64_t size : integers(Shape::max_rank, "dimensions"))
          entry.shape.push_back(static_cast<std::int64_t>(size));
      } else if (key == "data_offsets") {
        once(has_offsets, key);
        const auto offsets = integers(2, "data_offsets");
        if (offsets.size() != 2) fail("tensor ", quoted_name(entry.name), ": expected two data_offsets");
        entry.begin = offsets[0];
        entry.end = offsets[1];
      } else {
        fail("tensor ", quoted_name(entry.name), ": unknown key ", quoted_name(key));
      }
    });
    if (!has_dtype || !has_shape || !has_offsets)
      fail("tensor ", quoted_name(entry.name), ": expected dtype, shape and data_offsets");
    return entry;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t position_ = 0;
};

// Bytes of a tensor, even one that this machine cannot hold; no value if the product exceeds 64 bits.
std::optional<std::uint64_t> bytes_of(const HeaderEntry& entry) {
  try {
    return byte_count(entry.shape, size_of(entry.dtype));
  } catch (const ShapeError&) {
    return std::nullopt;
  } catch (const OutOfMemory&) {
    return static_cast<std::uint64_t>(element_count(entry.shape)) * size_of(entry.dtype);
  }
}

// Every byte of the buffer belongs to exactly one tensor: no holes to hide data in, no overlaps that would multiply
// memory.
void check_layout(const Header& header, std::uint64_t buffer_bytes, const std::string& file) {
  std::uint64_t reached = 0;
  for (const HeaderEntry& entry : header.entries) {
    const std::string tensor = quoted_name(entry.name);
    expects<FileError>(entry.begin <= entry.end, file, ": tensor ", tensor, ": data_offsets [", entry.begin, ",",
                       entry.end, "] run backwards");
    expects<FileError>(entry.begin == reached, file, ": tensor ", tensor, ": begins at byte ", entry.begin,
                       " of the buffer, expected ", reached,
                       (entry.begin < reached ? " (tensors overlap)" : " (a hole)"));
    const auto bytes = bytes_of(entry);
    expects<FileError>(bytes.has_value(), file, ": tensor ", tensor, ": its size overflows: shape ", entry.shape);
    expects<FileError>(*bytes == entry.end - entry.begin, file, ": tensor ", tensor, ": ", name_of(entry.dtype), ' ',
                       entry.shape, " takes ", *bytes, " bytes, its data_offsets hold ", entry.end - entry.begin);
    reached = entry.end;
  }
  expects<FileError>(reached == buffer_bytes, file, ": the tensors take ", reached, " bytes, the file holds ",
                     buffer_bytes,
                     (reached > buffer_bytes ? "; it was cut short" : "; bytes follow that belong to no tensor"));
}

void append_string(std::string& text, std::string_view value) {
  text += '"';
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      text += "\\u00";
      text += "01"[(c >> 4) & 1];
      text += "0123456789abcdef"[c & 15];
    } else {
      text += c;
    }
  }
  text += '"';
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string quoted_name(std::string_view text) {
  std::string result = "'";
  for (const char c : text.substr(0, 80)) result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return result + (text.size() > 80 ? "...'" : "'");
}

Header parse_header(std::string_view text, std::uint64_t buffer_bytes, const std::string& file) {
  expects<FileError>(is_utf8(text), file, ": the safetensors header is not valid UTF-8");
  Header header = Parser(text, file).parse();
  std::sort(header.entries.begin(), header.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  check_layout(header, buffer_bytes, file);
  return header;
}

std::string write_header(const Header& header) {
  std::string text = "{";
  if (!header.metadata.empty()) {
    append_string(text, "__metadata__");
    text += ":{";
    for (const auto& [key, value] : header.metadata) {
      if (text.back() != '{') text += ',';
      append_string(text, key);
      text += ':';
      append_string(text, value);
    }
    text += '}';
  }
  for (const HeaderEntry& entry : header.entries) {
    if (text.size() > 1) text += ',';
    append_string(text, entry.name);
    text += message(":{\"dtype\":\"", facts_of(entry.dtype).safetensors, "\",\"shape\":", entry.shape,
                    ",\"data_offsets\":[", entry.begin, ',', entry.end, "]}");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace tern::io
