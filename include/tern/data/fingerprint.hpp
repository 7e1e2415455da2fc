#pragma once
// Distinguishes data sets, so that none is mistaken for the one that a model was trained on.

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/data/dataset.hpp"

namespace tern::data {

/// A 64-bit checksum over everything that is added, in order. Gigabytes take a second. It does not protect against
/// deliberate collisions.
class Fingerprint {
 public:
  Fingerprint& add(std::uint64_t word);
  Fingerprint& add(std::string_view bytes);
  /// Shape and elements, of any dtype; an undefined tensor adds nothing.
  Fingerprint& add(const Tensor& tensor);
  /// Examples with their labels.
  Fingerprint& add(const Dataset& examples);
  /// 16 hexadecimal digits.
  std::string text() const;

 private:
  std::uint64_t sum_ = 0x9e3779b97f4a7c15ull;
};

}  // namespace tern::data
