#pragma once
// What waits to be done on a stream of the debug device.

#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "debug/block.hpp"

namespace tern::debug {

/// A pointer that a piece of work was given.
struct Use {
  std::shared_ptr<Block> block;
  std::byte* start = nullptr;  ///< where the pointer points to
  bool writes = false;
  int argument = 0;  ///< its number, from 1; 0 where there is but one way to name it
};

/// A piece of work: what it uses is known when it is queued, for the order that it needs.
struct Work {
  const char* name = nullptr;  ///< of the operator
  std::vector<Use> uses;
  std::function<void(const Work&, Stream&)> run;  ///< may run many times, in replays
};

struct Stream {
  struct Queued {
    std::shared_ptr<const Work> work;
    std::vector<std::pair<const Stream*, std::uint64_t>> after;  ///< what other streams have to have done first
  };

  Card* card = nullptr;
  std::size_t index = 0;
  std::deque<Queued> queue;
  std::uint64_t submitted = 0, done = 0;                       ///< pieces of work; the difference is in the queue
  Clock clock;                                                 ///< what comes before the next piece
  std::vector<std::pair<const Stream*, std::uint64_t>> after;  ///< of the next piece
  Recording* recording = nullptr;
  std::exception_ptr problem;  ///< that its work met

  bool ready() const {
    if (queue.empty()) return false;
    for (const auto& [other, time] : queue.front().after)
      if (other->done < time) return false;
    return true;
  }
};

}  // namespace tern::debug
