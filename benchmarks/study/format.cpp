#include "format.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tern::study {

namespace {

std::string fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

}  // namespace

std::string escape(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else if (c == '>')
      result += "&gt;";
    else if (c == '"')
      result += "&quot;";
    else
      result += c;
  }
  return result;
}

std::string number(double value, int digits) {
  if (!std::isfinite(value)) return "not a number";
  if (value == 0) return "0";
  const double size = std::abs(value);
  int whole = static_cast<int>(std::floor(std::log10(size))) + 1;
  // 9.996 with three digits is 10.0, one digit more before the point.
  if (size >= std::pow(10.0, whole) * (1 - 0.5 * std::pow(10.0, -digits))) ++whole;
  std::string text = fixed(value, std::clamp(digits - whole, 0, 12));
  const std::size_t point = std::min(text.find('.'), text.size());
  for (std::size_t i = point; i > 3 + (value < 0 ? 1u : 0u); i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string count(std::int64_t value) {
  std::string text = std::to_string(value);
  for (std::size_t i = text.size(); i > 3 + (value < 0 ? 1u : 0u); i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string duration(double seconds, int digits) {
  if (seconds < 1e-3) return number(seconds * 1e6, digits) + " µs";
  if (seconds < 1) return number(seconds * 1e3, digits) + " ms";
  if (seconds < 600) return number(seconds, digits) + " s";
  return seconds < 3 * 3600 ? number(seconds / 60, digits) + " min" : number(seconds / 3600, digits) + " h";
}

std::string bytes(double size) {
  if (size < 1e3) return count(std::llround(size)) + " B";
  if (size < 1e6) return number(size * 1e-3, 3) + " kB";
  if (size < 1e9) return number(size * 1e-6, 3) + " MB";
  return number(size * 1e-9, 3) + " GB";
}

std::string times(double ratio) {
  return number(ratio < 1000 ? ratio : std::round(ratio / 100) * 100, ratio < 100 ? 2 : 3) + "×";
}

std::string percent(double share) { return fixed(share * 100, share < 0.1 ? 1 : 0) + " %"; }

std::string coordinate(double value) { return fixed(value, 1); }

}  // namespace tern::study
