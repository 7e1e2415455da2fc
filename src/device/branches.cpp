#include "tern/device/branches.hpp"

#include "device/branches.hpp"
#include "device/recording.hpp"

namespace tern {

namespace {
thread_local bool branching = false;
}

Branches::Branches() {
  if (branching || Recording::current() == nullptr) return;
  const Scope& scope = current_scope();
  if (scope.mode->capture->branch == nullptr) return;
  capture_ = scope.mode->capture;
  stream_ = scope.context.stream;
  branching = true;
}

Branches::~Branches() {
  if (capture_ == nullptr) return;
  branching = false;
  capture_->join(stream_);
}

void Branches::next() {
  if (capture_ != nullptr) capture_->branch(stream_);
}

std::vector<Tensor> branches(const std::vector<std::function<Tensor()>>& functions) {
  std::vector<Tensor> results;
  Branches beside;
  for (const auto& function : functions) {
    beside.next();
    results.push_back(function());
  }
  return results;
}

}  // namespace tern
