#pragma once
// The blocks of the debug device, by address.

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "debug/arena.hpp"
#include "debug/clock.hpp"

namespace tern::debug {

class Card;
struct Recording;
struct Stream;

/// A use of a block by a piece of work.
struct Access {
  const char* name = nullptr;  ///< of the operator
  Moment moment;
};

struct Block {
  std::uint64_t number = 0;  ///< in messages
  Card* card = nullptr;
  std::byte *begin = nullptr, *end = nullptr;  ///< the requested bytes
  std::byte* pages = nullptr;
  std::size_t page_bytes = 0;
  Stream* home = nullptr;           ///< that it was allocated for
  Recording* recording = nullptr;   ///< whose replays use it
  bool live = true;                 ///< for the host
  bool gone = false;                ///< its memory was returned
  bool written = false;             ///< by any work
  const char* released_after = "";  ///< its last user
  Access writer;
  std::vector<Access> readers;  ///< since then, the last one of each stream

  std::size_t bytes() const { return static_cast<std::size_t>(end - begin); }
  std::byte* pages_end() const { return pages + page_bytes; }
  /// "block 7 (4096 bytes, written by add)"
  std::string description() const;
  /// "byte 12 of", "4 bytes before", "the byte right after" followed by the block.
  std::string place(const std::byte* address) const;
  void protect(Protection protection) const { arena().protect(pages, page_bytes, protection); }
  /// Resets the block and the rest of its pages to the unwritten pattern. Opens them and closes them again.
  void clear();
};

/// Hold device_mutex().
class Blocks {
 public:
  /// Throws OutOfMemory.
  std::shared_ptr<Block> make(std::size_t bytes);
  /// Returns the memory; the block is remembered for a while, for messages.
  void bury(Block& block) noexcept;
  /// The block whose pages, or the closed page after them, hold a library address; null if none is known.
  const std::shared_ptr<Block>* find(const void* address) const;

 private:
  static constexpr std::size_t most_dead = 4096;
  std::map<std::byte*, std::shared_ptr<Block>> blocks_;  // by the first page
  std::deque<std::byte*> dead_;
  std::uint64_t count_ = 0;
};

Blocks& blocks();

}  // namespace tern::debug
