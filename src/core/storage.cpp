#include "tern/core/storage.hpp"

#include "device/ledger.hpp"
#include "device/profiler.hpp"
#include "tern/core/error.hpp"

namespace tern {

namespace {
thread_local AccessListener* listener_of_thread = nullptr;
}

void Storage::listen(AccessListener* listener) { listener_of_thread = listener; }

Storage::~Storage() {
  for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i) {
    Copy& copy = copies_[i];
    if (copy.pointer != nullptr)
      copy.memory->release(copy.pointer, bytes_, copy.stream.load(std::memory_order_relaxed));
  }
}

bool Storage::valid_in(const Memory& memory) const {
  for (int i = 0; i < count_.load(std::memory_order_acquire); ++i)
    if (copies_[i].memory == &memory) return copies_[i].valid.load(std::memory_order_acquire);
  return false;
}

const void* Storage::pointer_in(const Memory& memory) const {
  for (int i = 0; i < count_.load(std::memory_order_acquire); ++i)
    if (copies_[i].memory == &memory) return copies_[i].pointer;
  return nullptr;
}

void Storage::written_in(const Memory& memory) {
  for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i)
    copies_[i].valid.store(copies_[i].memory == &memory, std::memory_order_release);
  count_write();
}

Storage::Copy& Storage::copy_in_memory(Memory* memory, bool exclusive) {
  for (int i = 0; i < count_.load(std::memory_order_acquire); ++i)
    if (copies_[i].memory == memory) return copies_[i];
  // Who writes is alone; readers may come together.
  std::unique_lock lock(moving_, std::defer_lock);
  if (!exclusive) lock.lock();
  const int count = count_.load(std::memory_order_relaxed);
  for (int i = 0; i < count; ++i)
    if (copies_[i].memory == memory) return copies_[i];
  expects(count < max_copies, "storage: the bytes already live in ", max_copies, " memories, no room for ",
          memory->name());
  copies_[count].memory = memory;
  count_.store(count + 1, std::memory_order_release);
  return copies_[count];
}

void* Storage::access(Memory* memory, Scope& scope, bool reads, bool writes) {
  if (bytes_ == 0) {
    if (writes) count_write();
    return nullptr;
  }
  const bool first = count_.load(std::memory_order_acquire) > 0 && copies_[0].memory == memory;
  Copy& copy = first ? copies_[0] : copy_in_memory(memory, writes);
  void* const stream = memory == scope.context.memory ? scope.context.stream : memory->stream();
  if (copy.pointer == nullptr || (reads && !copy.valid.load(std::memory_order_acquire)))
    prepare(copy, scope, stream, reads);
  // Work of another stream on this copy comes first.
  if (void* last = copy.stream.load(std::memory_order_relaxed); last != stream) {
    memory->order(last, stream);
    copy.stream.store(stream, std::memory_order_relaxed);
  }
  if (writes) {
    for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i)
      copies_[i].valid.store(&copies_[i] == &copy, std::memory_order_release);
    count_write();
  }
  if (listener_of_thread != nullptr && !memory->host_accessible()) listener_of_thread->accessed(*this, writes);
  return copy.pointer;
}

// Allocates the copy if need be. When it will be read, brings the bytes from a valid copy if there is one (a storage
// that nothing has written yet has none: its bytes are whatever they are).
void Storage::prepare(Copy& copy, Scope& scope, void* stream, bool reads) {
  std::unique_lock lock(moving_, std::defer_lock);
  if (reads) lock.lock();
  if (copy.pointer == nullptr) {
    copy.pointer = copy.memory->allocate(bytes_, stream);
    copy.stream.store(stream, std::memory_order_relaxed);
  }
  if (!reads || copy.valid.load(std::memory_order_relaxed)) return;
  Copy* source = nullptr;
  for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i)
    if (copies_[i].valid.load(std::memory_order_relaxed)) source = &copies_[i];
  if (source == nullptr) return;
  count_transfer(scope, *source->memory, *copy.memory, bytes_);
  if (void* last = copy.stream.load(std::memory_order_relaxed); last != stream) {
    copy.memory->order(last, stream);
    copy.stream.store(stream, std::memory_order_relaxed);
  }
  void* const source_stream = source->stream.load(std::memory_order_relaxed);
  // A copy to the host waits anyway; a Profile sees the wait apart from the copy.
  if (!source->memory->host_accessible() && ProfileRecorder::active() != nullptr) {
    const ProfileSpan span("wait", ProfileSpan::Kind::wait);
    source->memory->synchronize(source_stream);
  }
  const ProfileSpan span(*source->memory, *copy.memory);
  if (source->memory->host_accessible()) {
    copy.memory->copy_in(copy.pointer, source->pointer, bytes_, stream);
  } else if (copy.memory->host_accessible()) {
    source->memory->copy_out(copy.pointer, source->pointer, bytes_, source_stream);
  } else {
    const Context host{.memory = &host_memory()};
    Context context = host;
    const Scratch staging(context, bytes_);
    source->memory->copy_out(staging.as<void>(), source->pointer, bytes_, source_stream);
    copy.memory->copy_in(copy.pointer, staging.as<void>(), bytes_, stream);
  }
  copy.valid.store(true, std::memory_order_release);
}

}  // namespace tern
