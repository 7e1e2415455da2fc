#pragma once
// Every error of the library is one of these. A message names the operator (or file), what was expected,
// what came and what to try. The library never exits, aborts or prints.

#include <algorithm>
#include <cstddef>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace tern {

namespace detail {

/// The text with the middle of each line of more than 2,000 bytes left out: names come from files, of any length.
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

/// Base of every exception that the library throws. The middle of a line of more than 2,000 bytes is left out.
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
/// The mode is unknown, was not built, or finds no device; the message says which.
class DeviceUnavailable : public Error {
  using Error::Error;
};
/// Memory ran out on the host or the device; the process stays usable.
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
/// The autograd graph was used in a way that has no meaning (a second backward, a saved tensor changed in place).
class AutogradError : public Error {
  using Error::Error;
};
/// A transfer was needed inside a scope that forbids transfers.
class TransferError : public Error {
  using Error::Error;
};
/// The debug device found a fault of the program: a race, a missing wait, memory that was used out of bounds, before it
/// was written or after its release.
class DeviceFault : public Error {
  using Error::Error;
};

/// An operator of a mode differs from the reference by more than rounding explains.
class VerifyError : public Error {
  using Error::Error;
};

/// Ranks of a group do not fit together, or one of them failed or did not come.
class ParallelError : public Error {
  using Error::Error;
};

/// A stream into a string that writes numbers as C++ source has them, whatever the program's locale is.
class PlainStream : public std::ostringstream {
 public:
  PlainStream() { imbue(std::locale::classic()); }
};

/// Joins its arguments into one message. The program's locale does not matter.
template <class... Parts>
std::string message(const Parts&... parts) {
  PlainStream text;
  (text << ... << parts);
  return text.str();
}

/// Throws `Kind` with the joined parts unless `condition` holds. The parts are only formatted on failure.
template <class Kind = Error, class... Parts>
void expects(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw Kind(message(parts...));
}

}  // namespace tern
