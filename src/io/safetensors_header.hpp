#pragma once
// The header of a safetensors file: text to checked entries and back. No tensor is touched here.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/dtype.hpp"
#include "tern/core/shape.hpp"

namespace tern::io {

struct HeaderEntry {
  std::string name;
  DType dtype = DType::float32;
  Shape shape = {};
  std::uint64_t begin = 0, end = 0;  // bytes of the buffer after the header
};

struct Header {
  std::vector<HeaderEntry> entries;  // in buffer order
  std::map<std::string, std::string> metadata;
};

/// Checks everything that can be known without the buffer; `buffer_bytes` follow the header. Throws FileError that
/// begins with `file`.
Header parse_header(std::string_view text, std::uint64_t buffer_bytes, const std::string& file);

/// The header's text, padded so that the buffer begins at a multiple of 8.
std::string write_header(const Header& header);

bool is_utf8(std::string_view text);
/// `text` in quotation marks, shortened and without control characters: names from a hostile file end up in messages.
std::string quoted_name(std::string_view text);

}  // namespace tern::io
