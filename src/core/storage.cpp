#include "tern/core/storage.hpp"

#include "device/ledger.hpp"
#include "device/profiler.hpp"
#include "tern/core/error.hpp"

namespace tern {

namespace {
// Apart from `prepare`, which every new storage goes through.
[[gnu::noinline]] void move_bytes(Memory& from, const void* source, void* source_stream, Memory& to, void* target,
                                  void* stream, std::size_t bytes) {
  // A copy to the host waits anyway; a Profile sees the wait apart from the copy.
  if (!from.host_accessible() && ProfileRecorder::active() != nullptr) {
    const ProfileSpan span("wait", ProfileSpan::Kind::wait);
    from.finish(source_stream);
  }
  const ProfileSpan span(from, to);
  if (from.host_accessible()) {
    to.copy_in(target, source, bytes, stream);
  } else if (to.host_accessible()) {
    from.copy_out(target, source, bytes, source_stream);
  } else {
    Context host{.memory = &host_memory()};
    const Scratch staging(host, bytes);
    from.copy_out(staging.as<void>(), source, bytes, source_stream);
    to.copy_in(target, staging.as<void>(), bytes, stream);
  }
}

}  // namespace

Storage::~Storage() {
  for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i) {
    Copy& copy = copies_[i];
    void* const owner = copy.owner.load(std::memory_order_relaxed);
    if (copy.shared.load(std::memory_order_relaxed))
      copy.memory->finish(nullptr);
    else if (copy.handed_over.load(std::memory_order_relaxed) && owner != copy.home)
      copy.memory->finish(owner);  // what it read beside the last reader; at home, reuse comes after that by itself
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
  if (detail::listener != nullptr) [[unlikely]]
    detail::listener->uses(*this, *memory, reads, writes);
  const bool first = count_.load(std::memory_order_acquire) > 0 && copies_[0].memory == memory;
  Copy& copy = first ? copies_[0] : copy_in_memory(memory, writes);
  void* const stream = memory == scope.context.memory ? scope.context.stream : memory->stream();
  if (copy.pointer == nullptr || (reads && !copy.valid.load(std::memory_order_acquire)))
    prepare(copy, scope, stream, reads);
  if (copy.stream.load(std::memory_order_relaxed) != stream || (writes && copy.shared.load(std::memory_order_relaxed)))
    change_stream(copy, stream, writes);
  if (writes) {
    for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i)
      copies_[i].valid.store(&copies_[i] == &copy, std::memory_order_release);
    count_write();
  }
  return copy.pointer;
}

// Work of other streams on this copy comes first. What one thread makes for another (batches ahead of a training) is
// handed over in the streams alone. A further reader waits on the host, once: from then on readers need not know of
// each other, and threads that share what they read (examples, weights) run side by side.
void Storage::change_stream(Copy& copy, void* stream, bool writes) {
  void* const last = copy.stream.load(std::memory_order_acquire);
  if (!writes) {
    if (copy.shared.load(std::memory_order_acquire)) return;
    if (!copy.handed_over.exchange(true)) {
      copy.owner.store(last, std::memory_order_relaxed);
      copy.memory->order(last, stream);
      copy.stream.store(stream, std::memory_order_release);
    } else {
      copy.memory->finish(last);
      copy.shared.store(true, std::memory_order_release);
    }
    return;
  }
  if (copy.shared.load(std::memory_order_relaxed)) {
    copy.memory->finish(nullptr);
  } else {
    // The owner's thread may have read beside the one that it was handed over to.
    void* const owner = copy.owner.load(std::memory_order_relaxed);
    if (copy.handed_over.load(std::memory_order_relaxed) && owner != stream) copy.memory->order(owner, stream);
    if (last != stream) copy.memory->order(last, stream);
  }
  copy.shared.store(false, std::memory_order_relaxed);
  copy.handed_over.store(false, std::memory_order_relaxed);
  copy.stream.store(stream, std::memory_order_relaxed);
}

// Allocates the copy if need be. When it will be read, brings the bytes from a valid copy if there is one (a storage
// that nothing has written yet has none: its bytes are whatever they are).
void Storage::prepare(Copy& copy, Scope& scope, void* stream, bool reads) {
  std::unique_lock lock(moving_, std::defer_lock);
  if (reads) lock.lock();
  if (copy.pointer == nullptr) {
    copy.pointer = copy.memory->allocate(bytes_, stream);
    copy.home = stream;
    copy.stream.store(stream, std::memory_order_relaxed);
  }
  if (!reads || copy.valid.load(std::memory_order_relaxed)) return;
  Copy* source = nullptr;
  for (int i = 0; i < count_.load(std::memory_order_relaxed); ++i)
    if (copies_[i].valid.load(std::memory_order_relaxed)) source = &copies_[i];
  if (source == nullptr) return;
  count_transfer(scope, *source->memory, *copy.memory, bytes_);
  change_stream(copy, stream, true);
  move_bytes(*source->memory, source->pointer, source->stream.load(std::memory_order_relaxed), *copy.memory,
             copy.pointer, stream, bytes_);
  copy.valid.store(true, std::memory_order_release);
}

}  // namespace tern
