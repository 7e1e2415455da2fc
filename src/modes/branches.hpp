#pragma once

#include "tern/modes/device.hpp"

namespace tern {

/// What the calling thread queues after each next() may run beside what it queued after the others, until the end of
/// the block. Does nothing where no Step is being recorded, or within another one of its kind.
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

/// What the thread queues from here to the next branch comes after all that it has queued so far: for work on the
/// scope's own stream, such as what ranks exchange.
void leave_branches() noexcept;

}  // namespace tern
