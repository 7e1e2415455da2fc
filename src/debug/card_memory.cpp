// The memory of a debug device: its blocks, and copies from, to and inside them.

#include <algorithm>
#include <cstring>

#include "debug/capture.hpp"
#include "debug/card.hpp"
#include "debug/pattern.hpp"

namespace tern::debug {

// ---- blocks ----

void* Card::allocate(std::size_t bytes, void* handle) {
  const std::lock_guard lock(device_mutex());
  Stream& stream = state(handle);
  expects<OutOfMemory>(
      statistics_.limit == 0 || (bytes <= statistics_.limit && statistics_.in_use <= statistics_.limit - bytes),
      "debug: ", bytes, " bytes would pass the limit of ", statistics_.limit);
  const std::shared_ptr<Block> block = blocks().make(bytes);
  block->card = this;
  block->home = &stream;
  block->writer.name = allocation;
  if (stream.recording != nullptr) stream.recording->keep(block);
  statistics_.in_use += block->page_bytes;
  statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
  const auto clear = [](const Work& work, Stream&) { work.uses[0].block->clear(); };
  submit(stream, std::make_shared<Work>(Work{allocation, {{block, block->begin, true, 0}}, clear}));
  return block->begin;
}

void Card::release(void* pointer, std::size_t bytes, void* handle) noexcept {
  if (pointer == nullptr) return;
  const std::lock_guard lock(device_mutex());
  try {
    const std::shared_ptr<Block> block = use("release", 0, pointer, true).block;
    if (!block->live) return report(message("release of ", block->description(), ", which was released before"));
    if (pointer != block->begin)
      return report(message("release of a pointer to ", block->place(static_cast<std::byte*>(pointer))));
    if (bytes != block->bytes()) report(message("release of ", block->description(), " as one of ", bytes, " bytes"));
    release_block(block, state(handle));
  } catch (const DeviceFault& fault_found) {
    if (fault_.empty()) fault_ = fault_found.what();
  } catch (const std::exception& error) {
    report(error.what());
  }
}

void Card::release_block(const std::shared_ptr<Block>& block, Stream& stream) {
  block->live = false;
  statistics_.in_use -= block->page_bytes;
  if (Recording* const recording = stream.recording) {
    // A recording may use an older block, so it stays; a block of its own is unused from here on.
    if (block->recording == nullptr) return recording->keep(block);
    if (block->recording != recording) return;
    const auto clear = [](const Work& work, Stream&) { work.uses[0].block->clear(); };
    return recording->add_release(std::make_shared<Work>(Work{"release", {{block, block->begin, true, 0}}, clear}));
  }
  if (block->recording != nullptr) return;
  // Work queued on the stream, or on the one that the block was made for, may still use it.
  const auto ordered = [&](const Moment& moment) {
    return stream.clock.includes(moment) || block->home->clock.includes(moment) || done_.includes(moment);
  };
  const auto check = [&](const Access& access, const char* does) {
    if (ordered(access.moment)) return;
    report(message("release of ", block->description(), " on stream ", stream.index, ", which ", access.name, " on ",
                   "stream ", access.moment.stream, does, unordered));
    stream.after.emplace_back(&streams_[access.moment.stream - 1], access.moment.time);
  };
  check(block->writer, " writes");
  for (const Access& reader : block->readers) check(reader, " reads");
  const auto run = [](const Work& work, Stream&) { blocks().bury(*work.uses[0].block); };
  if (block->home != &stream) stream.after.emplace_back(block->home, block->home->submitted);
  push(stream, std::make_shared<Work>(Work{"release", {{block, block->begin, true, 0}}, run}));
}

void Card::disband(Recording* recording) noexcept {
  for (const std::shared_ptr<Block>& block : recording->blocks) {
    block->recording = nullptr;
    if (!block->live) blocks().bury(*block);
  }
}

MemoryStatistics Card::statistics() const {
  const std::lock_guard lock(device_mutex());
  MemoryStatistics now = statistics_;
  now.reserved = now.in_use;
  return now;
}
void Card::reset_peak() {
  const std::lock_guard lock(device_mutex());
  statistics_.peak = statistics_.in_use;
}
void Card::trim() { finish(nullptr); }
void Card::set_limit(std::size_t bytes) {
  const std::lock_guard lock(device_mutex());
  statistics_.limit = bytes;
}

// ---- copies ----

void Card::copy_in(void* to, const void* from, std::size_t bytes, void* handle) {
  if (bytes == 0) return;
  constexpr const char* name = "copy from the host";
  const std::lock_guard lock(device_mutex());
  Stream& stream = state(handle);
  refuse_recording(stream, "a copy from the host", "copy the tensor before the step, or pass it as an argument");
  if (arena().holds(from)) throw DeviceFault(fault(message(name, " reads from the device; that is Memory::copy")));
  const auto* const source = static_cast<const std::byte*>(from);
  const auto run = [kept = std::vector<std::byte>(source, source + bytes)](const Work& work, Stream&) {
    const Use& use = work.uses[0];
    use.block->protect(Protection::writing);
    for (int view = 0; view < Arena::views; ++view) std::memcpy(in_view(use.start, view), kept.data(), kept.size());
    use.block->written = true;
    use.block->protect(Protection::closed);
  };
  submit(stream, std::make_shared<Work>(Work{name, {part(name, to, bytes, true)}, run}));
}

// On the calling thread's stream, after the producer's queued work: the producer's stream may be recording.
void Card::copy_out(void* to, const void* from, std::size_t bytes, void* producer_handle) {
  if (bytes == 0) return;
  constexpr const char* name = "copy to the host";
  void* const reader_handle = stream();
  order(producer_handle, reader_handle);
  const std::lock_guard lock(device_mutex());
  Stream& producer = state(producer_handle);
  Stream& reader = state(reader_handle);
  refuse_recording(reader, "a copy to the host", "read the value after the step");
  if (arena().holds(to)) throw DeviceFault(fault(message(name, " writes to the device; that is Memory::copy")));
  const auto run = [to, bytes](const Work& work, Stream& stream) {
    const Use& use = work.uses[0];
    use.block->protect(Protection::reading);
    std::size_t unwritten = 0;
    std::ptrdiff_t first = -1;
    for_each_difference(use.start, use.start + bytes, [&](std::byte* at, std::byte, std::byte, std::byte) {
      if (unwritten++ == 0) first = at - use.block->begin;
      return true;
    });
    std::memcpy(to, in_view(use.start, 0), bytes);
    use.block->protect(Protection::closed);
    if (unwritten > 0)
      stream.card->report(message(work.name, " of ", bytes, " bytes reads ", unwritten,
                                  " that nothing wrote, from byte ", first, " of ", use.block->description(), " on"));
  };
  submit(reader, std::make_shared<Work>(Work{name, {part(name, from, bytes, false)}, run}));
  wait(reader);
  throw_problem(reader);
  if (&producer != &reader) throw_problem(producer);
}

void Card::copy(void* to, const void* from, std::size_t bytes, void* handle) {
  if (bytes == 0) return;
  constexpr const char* name = "copy";
  const std::lock_guard lock(device_mutex());
  Stream& stream = state(handle);
  const auto run = [bytes](const Work& work, Stream&) {
    const Use &target = work.uses[0], &source = work.uses[1];
    source.block->protect(Protection::reading);
    target.block->protect(Protection::writing);
    for (int view = 0; view < Arena::views; ++view)
      std::memmove(in_view(target.start, view), in_view(source.start, view), bytes);
    // Copying unwritten bytes leaves them unwritten.
    for_each_difference(target.start, target.start + bytes, [](std::byte* at, std::byte, std::byte, std::byte pattern) {
      *in_view(at, 0) = std::byte{0xff};
      *in_view(at, 1) = pattern;
      return true;
    });
    target.block->written = true;
    source.block->protect(Protection::closed);
    target.block->protect(Protection::closed);
  };
  submit(stream,
         std::make_shared<Work>(Work{name, {part(name, to, bytes, true), part(name, from, bytes, false)}, run}));
}

}  // namespace tern::debug
