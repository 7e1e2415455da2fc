#include "modes/branches.hpp"

#include "modes/aside.hpp"
#include "modes/observed.hpp"

namespace tern {

namespace {
thread_local bool branching = false;
}

Branches::Branches() {
  if (branching || WorkAside::inside()) return;
  const Capture* const capture = capturing();
  if (capture == nullptr || capture->branch == nullptr) return;
  capture_ = capture;
  stream_ = current_scope().context.stream;
  WorkAside::join();
  branching = true;
}

Branches::~Branches() {
  if (capture_ == nullptr) return;
  branching = false;
  capture_->join(stream_);
}

bool in_branches() { return branching; }

void leave_branches() noexcept {
  WorkAside::join();
  if (!branching) return;
  const Capture* const capture = capturing();
  if (capture != nullptr && capture->join != nullptr) capture->join(current_scope().context.stream);
}

void Branches::next() {
  if (capture_ != nullptr) capture_->branch(stream_);
}

}  // namespace tern
