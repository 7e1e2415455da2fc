#pragma once
// Text for terminals.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tern::tool {

std::string fixed(double value, int digits);
/// The number of UTF-8 characters, not bytes.
std::size_t width_of(const std::string& text);
/// Padded with blanks to `width` characters.
std::string padded(const std::string& text, std::size_t width);
std::string left_padded(const std::string& text, std::size_t width);
/// At most `width` characters; if it is cut, the last one is an ellipsis.
std::string shortened(const std::string& text, std::size_t width);
/// "1,234,567".
std::string grouped(std::int64_t value);
/// "0:42", "1:02:03".
std::string duration(double seconds);
/// Safe for a terminal: control characters become question marks. Lines stay lines.
std::string visible(const std::string& text);
/// Prints a line on standard error, made safe.
void say(const std::string& sentence);
/// A word of a shell's command line, quoted if necessary.
std::string shell_word(const std::string& text);
/// "1 epoch", "2 epochs".
std::string counted(std::int64_t count, const std::string& thing);
/// Lines of at most `width` characters, broken at blanks.
std::vector<std::string> wrapped(const std::string& text, std::size_t width);
/// Six digits, the precision of a float32.
std::string number_text(double value);
/// A field of a CSV file, in quotes if necessary.
std::string csv_field(const std::string& text);
/// Whether the name is one of an ONNX file.
bool is_onnx(const std::string& path);

}  // namespace tern::tool
