#include "tern/io/number.hpp"

#include <cerrno>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>

namespace tern::io {

std::from_chars_result read_number(std::string_view text, double& value) {
#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 200000
  return detail::read_number_by_strtod(text, value);
#else
  return std::from_chars(text.data(), text.data() + text.size(), value);
#endif
}

// strtod accepts more than from_chars: leading blanks and '+', and hexadecimal digits after "0x".
std::from_chars_result detail::read_number_by_strtod(std::string_view text, double& value) {
  static const locale_t plain = newlocale(LC_ALL_MASK, "C", nullptr);
  const std::size_t begin = text.starts_with('-') ? 1 : 0;
  const bool starts = begin < text.size() && text[begin] != '+' && text[begin] != '-' &&
                      std::string_view(" \t\n\v\f\r").find(text[begin]) == std::string_view::npos;
  if (!starts) return {text.data(), std::errc::invalid_argument};
  const std::size_t x = text.find_first_of("xX");
  const std::string copy(x == begin + 1 ? text.substr(0, x) : text);
  char* end = nullptr;
  const int before = errno;
  errno = 0;
  const double found = strtod_l(copy.c_str(), &end, plain);
  const bool outside = errno == ERANGE && (found == 0 || std::isinf(found));
  errno = before;
  const char* const stop = text.data() + (end - copy.c_str());
  if (end == copy.c_str()) return {text.data(), std::errc::invalid_argument};
  if (outside) return {stop, std::errc::result_out_of_range};
  value = found;
  return {stop, std::errc()};
}

}  // namespace tern::io
