#pragma once
// Every error of the library is one of these. A message names the operator or file, what was expected, what was found
// and what to try. The library never exits, aborts or prints.

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tern {

namespace detail {

/// Shortens every line of more than 2,000 bytes by leaving out its middle. Names from files can have any length.
inline std::string shortened_lines(const std::string& text) {
  constexpr std::size_t longest = 2000, front = 1500, back = 400;
  if (text.size() <= longest) return text;
  const auto continues = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };  // inside a character
  std::string result;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end - begin <= longest) {
      result.append(text, begin, end - begin);
    } else {
      std::size_t stop = begin + front, go_on = end - back;
      while (stop > begin && continues(text[stop])) --stop;
      while (go_on < end && continues(text[go_on])) ++go_on;
      result.append(text, begin, stop - begin).append(" [...] ").append(text, go_on, end - go_on);
    }
    if (end < text.size()) result += '\n';
    begin = end + 1;
  }
  return result;
}

}  // namespace detail

/// Base of all exceptions that the library throws. Lines of more than 2,000 bytes are shortened in the middle.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text) : std::runtime_error(detail::shortened_lines(text)) {}
};
/// A tensor's shape, or a size parameter, does not fit the operator.
class ShapeError : public Error {
  using Error::Error;
};
/// A tensor's dtype does not fit the operator.
class DTypeError : public Error {
  using Error::Error;
};
/// The mode is unknown, was not built, or has no device. The message says which.
class DeviceUnavailable : public Error {
  using Error::Error;
};
/// Memory ran out on the host or the device. The process stays usable.
class OutOfMemory : public Error {
  using Error::Error;
};
/// A file is missing, truncated, malformed, or could not be written.
class FileError : public Error {
  using Error::Error;
};
/// A value is outside the operator's domain: a label out of range, a NaN where none is allowed.
class NumericError : public Error {
  using Error::Error;
};
/// The autograd graph was misused: a second backward, or a saved tensor changed in place.
class AutogradError : public Error {
  using Error::Error;
};
/// A scope that forbids transfers needed one.
class TransferError : public Error {
  using Error::Error;
};
/// The debug device found a bug in the program: a race, a missing wait, or memory used out of bounds, before it was
/// written or after it was released.
class DeviceFault : public Error {
  using Error::Error;
};

/// A mode's operator differs from the reference by more than rounding explains.
class VerifyError : public Error {
  using Error::Error;
};

/// The ranks of a group do not match, one of them failed, or one did not arrive.
class ParallelError : public Error {
  using Error::Error;
};

/// A string stream that writes numbers as in C++ source, whatever the program's locale.
class PlainStream : public std::ostringstream {
 public:
  PlainStream() { imbue(std::locale::classic()); }
};

namespace detail {

/// Appends what PlainStream would print. Text, numbers, dtypes and shapes need no stream, so that small programs are
/// linked without those of the standard library.
template <class T>
void append_part(std::string& text, const T& part) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    text += std::string_view(part);
  } else if constexpr (std::same_as<T, bool>) {
    text += part ? '1' : '0';
  } else if constexpr (std::integral<T> && sizeof(T) == 1) {
    text += static_cast<char>(part);
  } else if constexpr (std::integral<T>) {
    text += std::to_string(part);
  } else if constexpr (std::same_as<T, float> || std::same_as<T, double>) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", static_cast<double>(part));
    for (const char* c = digits; *c != 0; ++c)  // the program's locale may have another decimal point
      if ((*c >= '0' && *c <= '9') || (*c >= 'a' && *c <= 'z') || *c == '-' || *c == '+')
        text += *c;
      else if (text.empty() || text.back() != '.')
        text += '.';
  } else if constexpr (requires { append_text(text, part); }) {
    append_text(text, part);
  } else if constexpr (requires { std::string_view(name_of(part)); }) {
    text += std::string_view(name_of(part));
  } else {
    PlainStream stream;
    stream << part;
    text += stream.str();
  }
}

}  // namespace detail

/// Joins its arguments into one message, independent of the program's locale.
template <class... Parts>
std::string message(const Parts&... parts) {
  std::string text;
  (detail::append_part(text, parts), ...);
  return text;
}

/// Throws `Kind` with the joined parts unless `condition` holds. The parts are formatted only on failure.
template <class Kind = Error, class... Parts>
void expects(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw Kind(message(parts...));
}

}  // namespace tern
