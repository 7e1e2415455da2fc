#include "tern/tensor/storage.hpp"

#include <cstring>

#include "memory/no_memory.hpp"
#include "modes/observed.hpp"
#include "tern/core/error.hpp"

namespace tern {

namespace {
// Out of line, to keep `prepare`, which every new storage calls, small.
[[gnu::noinline]] void move_bytes(Memory& from, const void* source, void* source_stream, Memory& to, void* target,
                                  void* stream, std::size_t bytes) {
  if (&to == &no_memory()) return;
  const ObservedMove move({from, to, bytes});
  if (!from.host_accessible() && !to.host_accessible() &&
      to.copy_from(from, target, source, bytes, source_stream, stream))
    return;
  // A copy to the host waits anyway; observers see the wait separately from the copy.
  if (!from.host_accessible() && detail::observer != nullptr) {
    const ObservedWait wait;
    from.finish(source_stream);
  }
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
  for (Copy* copy = &first_; copy != nullptr;) {
    Memory* const memory = copy->memory.load(std::memory_order_relaxed);
    void* const owner = copy->owner.load(std::memory_order_relaxed);
    if (copy->shared.load(std::memory_order_relaxed))
      memory->finish(nullptr);
    else if (copy->handed_over.load(std::memory_order_relaxed) && owner != copy->home)
      memory->finish(owner);  // what it read concurrently with the last reader; reuse at home is ordered after that
                              // anyway
    if (void* const pointer = copy->pointer.load(std::memory_order_relaxed))
      memory->release(pointer, bytes_, copy->stream.load(std::memory_order_relaxed));
    Copy* const next = copy->next.load(std::memory_order_relaxed);
    if (copy != &first_) delete copy;
    copy = next;
  }
}

bool Storage::valid_in(const Memory& memory) const {
  const Copy* const copy = find(&memory);
  return copy != nullptr && copy->valid.load(std::memory_order_acquire);
}

const void* Storage::pointer_in(const Memory& memory) const {
  const Copy* const copy = find(&memory);
  return copy != nullptr ? copy->pointer.load(std::memory_order_acquire) : nullptr;
}

const Storage::Copy* Storage::find(const Memory* memory) const {
  const Copy* copy = &first_;
  while (copy != nullptr && copy->memory.load(std::memory_order_acquire) != memory)
    copy = copy->next.load(std::memory_order_acquire);
  return copy;
}

void Storage::for_each_valid(const std::function<void(const Memory&)>& visit) const {
  for (const Copy* copy = &first_; copy != nullptr; copy = copy->next.load(std::memory_order_acquire))
    if (copy->valid.load(std::memory_order_acquire)) visit(*copy->memory.load(std::memory_order_relaxed));
}

void Storage::peek(std::size_t position, std::span<std::byte> bytes) const {
  for (const Copy* copy = &first_; copy != nullptr; copy = copy->next.load(std::memory_order_acquire)) {
    const void* const pointer = copy->pointer.load(std::memory_order_acquire);
    if (!copy->valid.load(std::memory_order_acquire) || pointer == nullptr || bytes.empty()) continue;
    Memory& memory = *copy->memory.load(std::memory_order_relaxed);
    const auto* const source = static_cast<const std::byte*>(pointer) + position;
    if (memory.host_accessible())
      std::memcpy(bytes.data(), source, bytes.size());
    else
      memory.copy_out(bytes.data(), source, bytes.size(), copy->stream.load(std::memory_order_acquire));
    return;
  }
}

Storage::Copy& Storage::copy_in_memory(Memory* memory, bool exclusive) {
  if (const Copy* known = find(memory)) return const_cast<Copy&>(*known);
  // A writer is alone; readers may be concurrent.
  std::unique_lock lock(moving_, std::defer_lock);
  if (!exclusive) lock.lock();
  if (const Copy* known = find(memory)) return const_cast<Copy&>(*known);
  if (first_.memory.load(std::memory_order_relaxed) == nullptr) {
    first_.memory.store(memory, std::memory_order_release);
    return first_;
  }
  Copy* last = &first_;
  while (Copy* const next = last->next.load(std::memory_order_relaxed)) last = next;
  auto* const fresh = new Copy;
  fresh->memory.store(memory, std::memory_order_relaxed);
  last->next.store(fresh, std::memory_order_release);
  return *fresh;
}

void* Storage::access(Memory* memory, Scope& scope, bool reads, bool writes) {
  if (bytes_ == 0) {
    if (writes) count_write();
    return nullptr;
  }
  if (detail::observer != nullptr) [[unlikely]]
    tell([&](Observer& observer) { observer.uses(*this, *memory, reads, writes); });
  const bool first = first_.memory.load(std::memory_order_acquire) == memory;
  Copy& copy = first ? first_ : copy_in_memory(memory, writes);
  void* const stream = memory == scope.context.memory ? scope.context.stream : memory->stream();
  if (copy.pointer.load(std::memory_order_acquire) == nullptr || (reads && !copy.valid.load(std::memory_order_acquire)))
    prepare(copy, stream, reads);
  if (copy.stream.load(std::memory_order_relaxed) != stream || (writes && copy.shared.load(std::memory_order_relaxed)))
    change_stream(copy, stream, writes);
  if (writes) {
    for (Copy* each = &first_; each != nullptr; each = each->next.load(std::memory_order_relaxed))
      each->valid.store(each == &copy, std::memory_order_release);
    count_write();
  }
  return copy.pointer.load(std::memory_order_acquire);
}

void* Storage::access_on_host(bool reads, bool writes) {
  if (detail::observer != nullptr) [[unlikely]]
    tell([&](Observer& observer) { observer.host_uses(*this, writes); });
  return access(&host_memory(), current_scope(), reads, writes);
}

// Work of other streams on this copy comes first. What one thread makes for another (batches ahead of a training) is
// handed over between streams only. A further reader waits on the host, once; from then on readers need not know each
// other, and threads that share data (examples, weights) run concurrently.
void Storage::change_stream(Copy& copy, void* stream, bool writes) {
  Memory* const memory = copy.memory.load(std::memory_order_relaxed);
  void* const last = copy.stream.load(std::memory_order_acquire);
  if (!writes) {
    if (copy.shared.load(std::memory_order_acquire)) return;
    if (!copy.handed_over.exchange(true)) {
      copy.owner.store(last, std::memory_order_relaxed);
      memory->order(last, stream);
      copy.stream.store(stream, std::memory_order_release);
    } else {
      memory->finish(last);
      copy.shared.store(true, std::memory_order_release);
    }
    return;
  }
  if (copy.shared.load(std::memory_order_relaxed)) {
    memory->finish(nullptr);
  } else {
    // The owner's thread may have read concurrently with the stream that took it over.
    void* const owner = copy.owner.load(std::memory_order_relaxed);
    if (copy.handed_over.load(std::memory_order_relaxed) && owner != stream) memory->order(owner, stream);
    if (last != stream) memory->order(last, stream);
  }
  copy.shared.store(false, std::memory_order_relaxed);
  copy.handed_over.store(false, std::memory_order_relaxed);
  copy.stream.store(stream, std::memory_order_relaxed);
}

// Allocates the copy if necessary. For reading, copies the bytes from a valid copy if there is one; a storage that was
// never written has none, and its bytes are undefined.
void Storage::prepare(Copy& copy, void* stream, bool reads) {
  std::unique_lock lock(moving_, std::defer_lock);
  if (reads) lock.lock();
  Memory* const memory = copy.memory.load(std::memory_order_relaxed);
  if (reads && &copy != &first_ && first_.memory.load(std::memory_order_relaxed) == &no_memory() &&
      first_.valid.load(std::memory_order_relaxed)) [[unlikely]]
    throw NoElements("the elements of a result are read that was inferred, not computed: only its shape is known");
  if (copy.pointer.load(std::memory_order_relaxed) == nullptr) {
    void* const pointer = memory->allocate(bytes_, stream);
    copy.home = stream;
    copy.stream.store(stream, std::memory_order_relaxed);
    copy.pointer.store(pointer, std::memory_order_release);  // another thread may look for it without the lock
  }
  if (!reads || copy.valid.load(std::memory_order_relaxed)) return;
  Copy* source = nullptr;
  for (Copy* each = &first_; each != nullptr; each = each->next.load(std::memory_order_relaxed))
    if (each->valid.load(std::memory_order_relaxed)) source = each;
  if (source == nullptr) return;
  Memory* const from = source->memory.load(std::memory_order_relaxed);
  change_stream(copy, stream, true);
  move_bytes(*from, source->pointer.load(std::memory_order_relaxed), source->stream.load(std::memory_order_relaxed),
             *memory, copy.pointer.load(std::memory_order_relaxed), stream, bytes_);
  copy.valid.store(true, std::memory_order_release);
}

}  // namespace tern
