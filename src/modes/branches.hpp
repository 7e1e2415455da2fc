#pragma once

#include "tern/modes/device.hpp"

namespace tern {

/// Until the end of the block, work that the calling thread queues after each next() may run concurrently with the work
/// after the others. Does nothing if no Step is being recorded, or inside another Branches.
class Branches {
 public:
  Branches();
  ~Branches();
  Branches(const Branches&) = delete;
  Branches& operator=(const Branches&) = delete;
  void next();

 private:
  const Capture* capture_ = nullptr;  // null: one after the other
  void* stream_ = nullptr;
};

/// Whether the thread is between a next() of Branches and their end.
bool in_branches();

/// Work that the thread queues until the next branch comes after all earlier work: for the scope's own stream, such as
/// communication between ranks.
void leave_branches() noexcept;

}  // namespace tern
