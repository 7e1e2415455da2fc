#pragma once
// Threads of one process as ranks.

#include <chrono>
#include <memory>
#include <vector>

#include "tern/parallel/collective.hpp"

namespace tern::parallel {

/// A rank's end that can also end in peace.
class ThreadRank : public Collective {
 public:
  /// This rank makes no further call; whoever waits for it is told.
  virtual void leave() noexcept = 0;
};

/// The ends of a group of threads, one for each.
std::vector<std::unique_ptr<ThreadRank>> thread_ranks(int size, std::chrono::milliseconds limit);

}  // namespace tern::parallel
