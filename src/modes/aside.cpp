#include "modes/aside.hpp"

#include <cstdlib>

#include "modes/branches.hpp"
#include "modes/observed.hpp"

namespace tern {

namespace {

constinit thread_local WorkAside* current = nullptr;

// A recording alone watches: other observers look at each operator's work after its call.
bool alone() {
  int observers = 0;
  tell([&](Observer&) { ++observers; });
  return observers == 1 && current_scope().observer == nullptr;
}

}  // namespace

WorkAside::WorkAside(bool joined) : outer_(current) {
  if (outer_ != nullptr) outer_->end();
  current = this;
  const Capture* const capture = capturing();
  if (std::getenv("TERN_NO_ASIDE") != nullptr) return;
  if (joined || outer_ != nullptr || capture == nullptr || capture->aside == nullptr || in_branches()) return;
  if (current_scope().mode->capture != capture || !alone()) return;
  capture_ = capture;
  stream_ = current_scope().context.stream;
}

WorkAside::~WorkAside() {
  end();
  current = outer_;
}

void WorkAside::end() noexcept {
  if (capture_ == nullptr) return;
  inside_ = false;
  capture_->aside(stream_, Capture::Aside::nothing);
  join();
  capture_ = nullptr;
}

WorkAside* WorkAside::open() {
  const bool opens = current != nullptr && current->capture_ != nullptr && !current->inside_ && !in_branches() &&
                     current_scope().context.stream == current->stream_ &&
                     current_scope().mode->capture == current->capture_;
  return opens ? current : nullptr;
}

bool WorkAside::inside() { return current != nullptr && current->inside_; }

bool WorkAside::writes(const Tensor& tensor) {
  return current != nullptr && tensor.defined() && current->written_.contains(&tensor.storage());
}

void WorkAside::uses(Storage& storage, bool writes) noexcept {
  if (current == nullptr || current->capture_ == nullptr) return;
  if (current->inside_) return current->add(storage, writes);
  if (current->written_.contains(&storage) || (writes && current->read_.contains(&storage))) join();
}

void WorkAside::join() noexcept {
  if (current == nullptr || current->inside_) return;
  if (current->read_.empty() && current->written_.empty()) return;
  current->capture_->await(current->stream_);
  current->read_.clear();
  current->written_.clear();
}

// The weak pointers keep another storage from getting the address.
void WorkAside::add(Storage& storage, bool writes) {
  (writes ? written_ : read_).try_emplace(&storage, storage.weak_from_this());
}

Aside::Aside(bool goes) : work_(goes ? WorkAside::open() : nullptr) {
  if (work_ == nullptr) return;
  work_->capture_->aside(work_->stream_, Capture::Aside::everything);
  work_->inside_ = true;
}

Aside::~Aside() {
  if (work_ == nullptr || work_->capture_ == nullptr) return;
  work_->inside_ = false;
  work_->capture_->aside(work_->stream_, Capture::Aside::nothing);
}

Ahead::Ahead(const Tensor& input) {
  const Capture* const capture = capturing();
  if (capture == nullptr || capture->aside == nullptr || current != nullptr || in_branches()) return;
  if (std::getenv("TERN_NO_AHEAD") != nullptr) return;
  if (!input.is_leaf() || !input.requires_grad() || current_scope().mode->capture != capture || !alone()) return;
  bool written = false;
  tell([&](Observer& observer) { written = written || observer.has_written(input.storage()); });
  if (written) return;
  capture_ = capture;
  stream_ = current_scope().context.stream;
  capture_->aside(stream_, Capture::Aside::ahead);
}

Ahead::~Ahead() {
  if (capture_ != nullptr) capture_->aside(stream_, Capture::Aside::nothing);
}

ParametersAside::ParametersAside(bool may, const Tensors& tensors) : work_(may ? WorkAside::open() : nullptr) {
  if (work_ == nullptr) return;
  for (const Tensor* const tensor : tensors.read)
    if (tensor->defined()) work_->add(tensor->storage(), false);
  for (const Tensor* const tensor : tensors.written)
    if (tensor->defined()) work_->add(tensor->storage(), true);
  work_->capture_->aside(work_->stream_, Capture::Aside::parameters);
}

ParametersAside::~ParametersAside() {
  if (work_ != nullptr && work_->capture_ != nullptr) work_->capture_->aside(work_->stream_, Capture::Aside::nothing);
}

}  // namespace tern
