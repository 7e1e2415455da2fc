#pragma once
// Philox 4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1,
// 2, 3" (SC 2011): a pure function of (key, counter), so every mode and every thread computes the same bits. Everything
// is constexpr so that device code can call it.

#include <array>
#include <cstdint>

#include "tern/core/member_list.hpp"

namespace tern::random {

struct Words {
  std::uint32_t word[4];
};

/// Ten rounds of Philox on one 128-bit counter: four independent 32-bit words.
constexpr Words philox(std::uint64_t key, std::uint64_t counter_low, std::uint64_t counter_high) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter_low), c1 = static_cast<std::uint32_t>(counter_low >> 32);
  std::uint32_t c2 = static_cast<std::uint32_t>(counter_high), c3 = static_cast<std::uint32_t>(counter_high >> 32);
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = n0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = n2;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return Words{{c0, c1, c2, c3}};
}

/// A uniform float in [0, 1) with 24 random bits: exact, so equal in every mode.
constexpr float uniform(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// Names one stream of random numbers: element i of the stream is word i % 4 of philox(seed, i / 4, offset + *base).
/// `base` is null or points to a counter in the mode's memory, which a replayed step advances without changing the
/// recorded launch.
struct Key {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  const std::uint64_t* base = nullptr;

  using Members = MemberList<&Key::seed, &Key::offset, &Key::base>;
};

/// The word of element `index` in the stream `offset` (which already includes *base) of `seed`.
constexpr std::uint32_t word(std::uint64_t seed, std::uint64_t offset, std::uint64_t index) {
  return philox(seed, index / 4, offset).word[index % 4];
}

}  // namespace tern::random
