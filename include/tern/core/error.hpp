#pragma once
// Every error of the library is one of these. A message names the operator (or file), what was expected,
// what came and what to try. The library never exits, aborts or prints.

#include <sstream>
#include <stdexcept>
#include <string>

namespace tern {

/// Base of every exception that the library throws.
class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
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

/// Joins its arguments into one message.
template <class... Parts>
std::string message(const Parts&... parts) {
  std::ostringstream text;
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
