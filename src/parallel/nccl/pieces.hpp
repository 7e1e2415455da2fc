#pragma once
// Several pieces of memory that one kernel accesses as if they were contiguous.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tern/parallel/collective.hpp"

namespace tern::parallel {

/// Consecutive pieces, each starting at a multiple of 16 bytes, a unit; passed to kernels by value.
struct Pieces {
  static constexpr int most = 128;
  static constexpr std::size_t unit = 16;

  std::uint32_t* data[most];
  std::uint32_t words[most];      ///< of four bytes
  std::uint32_t begin[most + 1];  ///< in units; the entry after the last is the end
  int count;

  std::uint32_t units() const { return begin[count]; }
  std::size_t bytes() const { return units() * unit; }
};
static_assert(sizeof(Pieces) <= 4000, "the parameters of a kernel");

/// The pieces in messages of at most `room` bytes, in order; empty ones are dropped. Elements have four or eight bytes.
/// No piece is larger than `room`.
inline std::vector<Pieces> messages_of(std::span<const Piece> pieces, std::size_t element, std::size_t room) {
  std::vector<Pieces> messages;
  for (const Piece& piece : pieces) {
    if (piece.count == 0) continue;
    const std::size_t words = piece.count * element / 4, units = (words + 3) / 4;
    if (messages.empty() || messages.back().count == Pieces::most ||
        messages.back().bytes() + units * Pieces::unit > room)
      messages.push_back({});
    Pieces& last = messages.back();
    last.data[last.count] = static_cast<std::uint32_t*>(piece.data);
    last.words[last.count] = static_cast<std::uint32_t>(words);
    last.begin[last.count + 1] = last.begin[last.count] + static_cast<std::uint32_t>(units);
    ++last.count;
  }
  return messages;
}

/// Copies the pieces to `whole`, bytes() long, with zeros between them, and back, in stream order on the current
/// device. Return CUDA's launch status.
int gather(const Pieces& pieces, void* whole, void* stream);
int scatter(const void* whole, const Pieces& pieces, void* stream);
/// Loads the kernels on the current device, so that no recording has to.
int load_copies();

}  // namespace tern::parallel
