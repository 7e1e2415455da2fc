#pragma once
// Tells data sets apart, so that no other one is taken for the one that a model was trained on.

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/data/dataset.hpp"

namespace tern::data {

/// A sum of 64 bits over everything that is added, in its order. Gigabytes take a second; it is no guard against
/// somebody who wants two sets to look the same.
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
