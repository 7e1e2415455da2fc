#include "text.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <sstream>

#include "tern/core/error.hpp"

namespace tern::tool {

std::string fixed(double value, int digits) {
  PlainStream text;
  text.precision(digits);
  text << std::fixed << value;
  return text.str();
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, width_of(text)), ' ');
}

std::string left_padded(const std::string& text, std::size_t width) {
  return std::string(width - std::min(width, width_of(text)), ' ') + text;
}

std::string shortened(const std::string& text, std::size_t width) {
  if (width_of(text) <= width || width == 0) return text;
  std::string result;
  std::size_t count = 0;
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xc0) != 0x80 && ++count == width) break;
    result += c;
  }
  return result + "…";
}

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3 + (digits[0] == '-' ? 1u : 0u); i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string duration(double seconds) {
  const auto whole = static_cast<long>(std::llround(std::min(seconds, 3.6e8)));
  char text[40];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
  else
    std::snprintf(text, sizeof text, "%ld:%02ld", whole / 60, whole % 60);
  return text;
}

std::string visible(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (c == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F, which terminals obey, too
      result += '?';
      ++i;
    } else {
      result += (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ? '?' : text[i];
    }
  }
  return result;
}

void say(const std::string& sentence) { std::fprintf(stderr, "%s\n", visible(sentence).c_str()); }

std::string shell_word(const std::string& text) {
  constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-";
  if (!text.empty() && text.find_first_not_of(plain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string counted(std::int64_t count, const std::string& thing) {
  return grouped(count) + " " + thing + (count == 1 ? "" : "s");
}

std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  words.imbue(std::locale::classic());
  std::string word, line;
  while (words >> word) {
    if (!line.empty() && width_of(line) + 1 + width_of(word) > width) {
      lines.push_back(line);
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  if (!line.empty()) lines.push_back(line);
  return lines;
}

std::string number_text(double value) {
  PlainStream text;  // six digits, as printf's %g
  text << value;
  return text.str();
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

bool is_onnx(const std::string& path) { return path.ends_with(".onnx"); }

}  // namespace tern::tool
