#pragma once
// Text for terminals.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tern::tool {

std::string fixed(double value, int digits);
/// Characters, not bytes, of UTF-8.
std::size_t width_of(const std::string& text);
/// Filled with blanks to `width` characters.
std::string padded(const std::string& text, std::size_t width);
std::string left_padded(const std::string& text, std::size_t width);
/// At most `width` characters, the last one then an ellipsis.
std::string shortened(const std::string& text, std::size_t width);
/// "1,234,567".
std::string grouped(std::int64_t value);
/// "0:42", "1:02:03".
std::string duration(double seconds);
/// Lines of at most `width` characters, broken at blanks.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);

}  // namespace tern::tool
