#pragma once

#include <array>
#include <cstdint>

namespace tern::data {

/// uint8 to (x / 255 - mean) / deviation by table lookup, so that a batch and a whole set get the same bits.
class Conversion {
 public:
  Conversion(double mean, double deviation);
  void operator()(const std::uint8_t* from, std::int64_t count, float* to) const;

 private:
  std::array<float, 256> values_;
};

}  // namespace tern::data
