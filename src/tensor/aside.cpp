#include "modes/aside.hpp"

#include <algorithm>

#include "modes/branches.hpp"
#include "modes/observed.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern {

namespace {

constinit thread_local WorkAside* current = nullptr;
constinit thread_local bool ahead = false;
constinit thread_local Marks* marks = nullptr;

// A recording alone watches: other observers look at each operator's work after its call.
bool alone() {
  int observers = 0;
  tell([&](Observer&) { ++observers; });
  return observers == 1 && current_scope().observer == nullptr;
}

/// Whether the thread's work is recorded so that some may leave its order.
bool may_leave() {
  const Capture* const capture = capturing();
  return capture != nullptr && capture->aside != nullptr && capture == current_scope().mode->capture &&
         !in_branches() && alone();
}

/// Whether work ahead may use the tensor.
bool unchanged(const Tensor& tensor) {
  if (!may_leave()) return false;
  bool written = false;
  tell([&](Observer& observer) { written = written || observer.has_written(tensor.storage()); });
  return !written;
}

}  // namespace

WorkAside::WorkAside(bool joined) : outer_(current) {
  if (outer_ != nullptr) outer_->end();
  current = this;
  if (joined || outer_ != nullptr || !may_leave()) return;
  capture_ = current_scope().mode->capture;
  stream_ = current_scope().context.stream;
}

WorkAside::~WorkAside() {
  end();
  current = outer_;
}

void WorkAside::end() noexcept {
  if (capture_ == nullptr) return;
  inside_ = false;
  capture_->aside(stream_, {});
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

void WorkAside::uses(Storage& storage, bool writes) {
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
  work_->capture_->aside(work_->stream_, {.everything = true});
  work_->inside_ = true;
}

Aside::~Aside() {
  if (work_ == nullptr || work_->capture_ == nullptr) return;
  work_->inside_ = false;
  work_->capture_->aside(work_->stream_, {});
}

Ahead::Ahead(const Tensor& input) {
  if (current != nullptr || !input.is_leaf() || !input.requires_grad() || !unchanged(input)) return;
  capture_ = current_scope().mode->capture;
  stream_ = current_scope().context.stream;
  ahead = true;
  capture_->aside(stream_, {.ahead = true});
}

Ahead::~Ahead() {
  if (capture_ == nullptr) return;
  ahead = false;
  capture_->aside(stream_, {});
}

bool Ahead::goes() { return ahead; }

namespace {

/// Large kernels fill a device, and run best one after the other (ResNet50's training of 64 images in TF32 on an H200:
/// 18,453 microseconds, 18,803 with the gradients of weights aside).
bool small(const KernelAside::Tensors& tensors) {
  constexpr std::size_t most_bytes = std::size_t{4} << 20;
  return std::ranges::all_of(tensors.read, [](const Tensor* tensor) {
    return !tensor->defined() || static_cast<std::size_t>(tensor->numel()) * size_of(tensor->dtype()) <= most_bytes;
  });
}

}  // namespace

KernelAside::KernelAside(const Tensor& weight, std::size_t element, const Tensors& tensors) {
  if (!weight.defined() || size_of(weight.dtype()) != element) return;
  Capture::Aside what{.weights = !WorkAside::inside() && unchanged(weight)};
  if (WorkAside* const work = WorkAside::open(); work != nullptr && tensors.written.size() > 0 && small(tensors)) {
    what.parameters = true;
    for (const Tensor* const tensor : tensors.read)
      if (tensor->defined()) work->add(tensor->storage(), false);
    for (const Tensor* const tensor : tensors.written)
      if (tensor->defined()) work->add(tensor->storage(), true);
  }
  if (!what.any()) return;
  capture_ = current_scope().mode->capture;
  stream_ = current_scope().context.stream;
  capture_->aside(stream_, what);
}

KernelAside::~KernelAside() {
  if (capture_ != nullptr) capture_->aside(stream_, {});
}

Marks::Marks() { marks = this; }

Marks::~Marks() { marks = nullptr; }

void Marks::uses(const Storage& storage) {
  if (marks != nullptr) marks->last_[&storage] = marks->count_;
}

void Marks::arrived(const Tensor& gradient) {
  if (marks == nullptr || !WorkAside::writes(gradient) || !may_leave()) return;
  const Scope& scope = current_scope();
  const Capture& capture = *scope.mode->capture;
  if (capture.mark == nullptr || (marks->stream_ != nullptr && marks->stream_ != scope.context.stream)) return;
  marks->bytes_ += gradient.storage().bytes();
  if (marks->bytes_ < capture.bytes_per_mark || capture.mark(scope.context.stream) < 0) return;
  marks->capture_ = &capture;
  marks->stream_ = scope.context.stream;
  marks->bytes_ = 0;
  ++marks->count_;
}

int Marks::behind(std::initializer_list<const Tensor*> tensors) {
  if (marks == nullptr || marks->count_ == 0 || current != nullptr || !may_leave() ||
      current_scope().context.stream != marks->stream_)
    return none;
  int last = 0;
  for (const Tensor* const tensor : tensors) {
    if (!tensor->defined()) continue;
    if (const auto found = marks->last_.find(&tensor->storage()); found != marks->last_.end())
      last = std::max(last, found->second);
  }
  return last < marks->count_ ? last : none;
}

Early::Early(int mark) : marks_(mark == Marks::none ? nullptr : marks) {
  if (marks_ != nullptr) marks_->capture_->early(marks_->stream_, mark);
}

Early::~Early() {
  if (marks_ != nullptr) marks_->capture_->early(marks_->stream_, -1);
}

}  // namespace tern
