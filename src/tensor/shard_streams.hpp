#pragma once
// Parts of a batch draw random numbers apart, whoever computes them.

#include <cstdint>

#include "tern/tensor/create.hpp"

namespace tern {

/// What the thread draws to the end of the block comes from the streams of one part: so many further on, beyond those
/// of the block around it. The position of the generator goes on as without it, so a Step may be recorded.
class [[nodiscard]] ShardStreams {
 public:
  explicit ShardStreams(std::uint64_t further) : outer_(further_) { further_ += further; }
  ShardStreams(const ShardStreams&) = delete;
  ShardStreams& operator=(const ShardStreams&) = delete;
  ~ShardStreams() { further_ = outer_; }

  /// Sets the position of the thread's generator to one that lies as far from where the batch began in every run:
  /// unlike Generator::set_position, a Step may record it.
  static void place(Generator& generator, std::uint64_t position) {
    set_back_ += generator.position() - position;
    generator.set_position(position);
  }
  /// By how much that set the thread's generator back so far, modulo 2^64.
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
