#pragma once
// Work that waits on a stream of the debug device.

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "debug/block.hpp"

namespace tern::debug {

/// A pointer argument of a piece of work.
struct Use {
  std::shared_ptr<Block> block;
  std::byte* start = nullptr;  ///< what the pointer refers to
  bool writes = false;
  int argument = 0;  ///< its number, from 1; 0 if it is the only one
};

/// A piece of work: its operands are known when it is queued, to check the order.
struct Work {
  const char* name = nullptr;  ///< of the operator
  std::vector<Use> uses;
  std::function<void(const Work&, Stream&)> run;  ///< may run many times, in replays
};

struct Stream {
  struct Queued {
    std::shared_ptr<const Work> work;
    std::vector<std::pair<const Stream*, std::uint64_t>> after;  ///< work of other streams that must be done first
  };

  Card* card = nullptr;
  std::size_t index = 0;
  std::deque<Queued> queue;
  std::uint64_t submitted = 0, done = 0;                       ///< pieces of work; the difference is queued
  Clock clock;                                                 ///< what precedes the next piece
  std::vector<std::pair<const Stream*, std::uint64_t>> after;  ///< for the next piece
  Recording* recording = nullptr;
  std::exception_ptr problem;  ///< that its work hit

  bool ready() const {
    if (queue.empty()) return false;
    for (const auto& [other, time] : queue.front().after)
      if (other->done < time) return false;
    return true;
  }
};

}  // namespace tern::debug
