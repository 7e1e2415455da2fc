#pragma once
// Separate random streams for the shards of a batch, on any rank.

#include <cstdint>

#include "tern/tensor/create.hpp"

namespace tern {

/// To the end of the block, the thread draws from the streams of one shard, which follow those of the enclosing block.
/// The generator's position advances as without it, so a Step may be recorded.
class [[nodiscard]] ShardStreams {
 public:
  explicit ShardStreams(std::uint64_t further) : outer_(further_) { further_ += further; }
  ShardStreams(const ShardStreams&) = delete;
  ShardStreams& operator=(const ShardStreams&) = delete;
  ~ShardStreams() { further_ = outer_; }

  /// Sets the position of the thread's generator to one with the same distance from the batch's start in every run.
  /// Unlike Generator::set_position, a Step may record it.
  static void place(Generator& generator, std::uint64_t position) {
    set_back_ += generator.position() - position;
    generator.set_position(position);
  }
  /// How far this has set the thread's generator back, modulo 2^64.
  static std::uint64_t set_back() { return set_back_; }

  static random::Key shifted(random::Key key) {
    key.offset += further_;
    return key;
  }

 private:
  static constinit thread_local std::uint64_t further_, set_back_;
  std::uint64_t outer_;
};

}  // namespace tern
