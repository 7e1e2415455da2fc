#pragma once
// The units of Pieces in a kernel.

#include "parallel/nccl/pieces.hpp"

namespace tern::parallel {

/// Where a unit is, and how many of its four words belong to its piece.
struct Unit {
  std::uint32_t* words;
  std::uint32_t count;

  /// Whether it can be read and written in one access.
  __device__ bool whole() const { return count >= 4 && reinterpret_cast<std::uintptr_t>(words) % Pieces::unit == 0; }

  __device__ uint4 load() const {
    if (whole()) return *reinterpret_cast<const uint4*>(words);
    return {words[0], count > 1 ? words[1] : 0, count > 2 ? words[2] : 0, count > 3 ? words[3] : 0};
  }
  __device__ void store(uint4 value) const {
    if (whole()) {
      *reinterpret_cast<uint4*>(words) = value;
      return;
    }
    words[0] = value.x;
    if (count > 1) words[1] = value.y;
    if (count > 2) words[2] = value.z;
    if (count > 3) words[3] = value.w;
  }
};

__device__ inline Unit unit_of(const Pieces& pieces, std::uint32_t number) {
  int first = 0, last = pieces.count - 1;
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (pieces.begin[middle] <= number)
      first = middle;
    else
      last = middle - 1;
  }
  const std::uint32_t word = (number - pieces.begin[first]) * 4;
  return {pieces.data[first] + word, pieces.words[first] - word};
}

}  // namespace tern::parallel
