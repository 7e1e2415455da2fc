// The streams of a debug device: what is queued, in which order it may run, and what is unordered.

#include "debug/card.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "debug/capture.hpp"
#include "debug/signals.hpp"

namespace tern::debug {
namespace {

constexpr std::size_t most_pending = 512;  // pieces of work, to limit their memory

std::uint64_t requested_seed() {
  const char* const text = std::getenv("TERN_DEBUG_SEED");
  if (text == nullptr) return 1;
  char* end = nullptr;
  const std::uint64_t seed = std::strtoull(text, &end, 10);
  expects(end != text && *end == '\0', "debug: TERN_DEBUG_SEED is \"", text, "\", expected a whole number");
  return seed;
}

// Every stream that ever existed.
std::set<const void*>& known_streams() {
  static auto& streams = *new std::set<const void*>;
  return streams;
}

// The thread's stream of each device.
using Owned = std::vector<std::pair<Card*, Stream*>>;
constinit thread_local Owned* owned = nullptr;

struct EndOfThread {
  ~EndOfThread() {
    const std::lock_guard lock(device_mutex());
    for (const auto& [card, stream] : *owned) card->give_back(stream);
    delete owned;
    owned = nullptr;
  }
};

Owned& owned_streams() {
  if (owned == nullptr) {
    owned = new Owned;
    static thread_local const EndOfThread end;
  }
  return *owned;
}

std::string argument_of(const Use& use) { return use.argument == 0 ? "" : message(" (argument ", use.argument, ")"); }

}  // namespace

Card::Card(std::string name, const Mode& kernels)
    : name_(std::move(name)), kernels_(kernels), seed_(requested_seed()), dice_(seed_) {
  expects<DeviceUnavailable>(kernels.on_host(), "debug: the kernels of \"", kernels.name,
                             "\" do not run on the host's memory; take those of another mode");
  static_cast<void>(arena());
  hear_signals();
}

std::string Card::fault(const std::string& what) const {
  return message(name_, ": ", what, " (TERN_DEBUG_SEED=", seed_, ")");
}

void Card::report(const std::string& fault_found) noexcept {
  if (fault_.empty()) fault_ = fault(fault_found);
}

void Card::throw_problem(Stream& stream) {
  if (!fault_.empty()) throw DeviceFault(std::exchange(fault_, {}));
  if (stream.problem != nullptr) std::rethrow_exception(std::exchange(stream.problem, nullptr));
}

// ---- pointers ----

Use Card::use(const char* name, int argument, const void* pointer, bool writes) const {
  const auto* const address = static_cast<const std::byte*>(pointer);
  const auto which = argument == 0 ? std::string("a pointer") : message("argument ", argument);
  if (!arena().holds(pointer)) {
    throw DeviceFault(fault(message(name, ": ", which, " is ", pointer,
                                    ", memory of the host or of another device; a kernel gets what allocate or a "
                                    "Tensor returned for this device")));
  }
  const std::shared_ptr<Block>* const found = blocks().find(pointer);
  if (found == nullptr)
    throw DeviceFault(fault(message(name, ": ", which,
                                    " points to memory that was released long ago, or never "
                                    "handed out")));
  Block& block = **found;
  if (block.card != this)
    throw DeviceFault(fault(message(name, ": ", which, " is memory of the device ", block.card->name())));
  if (address < block.begin || address > block.end)
    throw DeviceFault(fault(message(name, ": ", which, " points to ", block.place(address))));
  return {*found, block.begin + (address - block.begin), writes, argument};
}

void Card::check_live(const char* name, const Use& use, const Recording* recording) const {
  if (use.block->live || (recording != nullptr && use.block->recording == recording)) return;
  throw DeviceFault(fault(message(name, argument_of(use), " uses ", use.block->description(), " after its release")));
}

Use Card::part(const char* name, const void* pointer, std::size_t bytes, bool writes) const {
  Use found = use(name, 0, pointer, writes);
  if (bytes > static_cast<std::size_t>(found.block->end - found.start))
    throw DeviceFault(
        fault(message(name, " of ", bytes, " bytes from ", found.block->place(found.start), " on passes its end")));
  return found;
}

Stream& Card::state(void* stream) {
  if (!known_streams().contains(stream)) throw DeviceFault(message("debug: ", stream, " is no stream of this device"));
  return *static_cast<Stream*>(stream);
}

// ---- order ----

void Card::check_order(const Stream& stream, const char* name, const Use& use) const {
  const auto ordered = [&](const Access& access) {
    return stream.clock.includes(access.moment) || done_.includes(access.moment);
  };
  const auto race = [&](const Access& other, const char* does) {
    return DeviceFault(
        fault(message(name, argument_of(use), " on stream ", stream.index, use.writes ? " writes " : " reads ",
                      use.block->description(), ", which ", other.name, " on ", "stream ", other.moment.stream, does,
                      ", and nothing orders the two: a Memory::order, or a wait, is missing")));
  };
  const Block& block = *use.block;
  if (!ordered(block.writer)) throw race(block.writer, block.writer.name == allocation ? " made" : " writes");
  if (!use.writes) return;
  for (const Access& reader : block.readers)
    if (!ordered(reader)) throw race(reader, " reads");
}

void Card::note_access(const Stream& stream, const char* name, const Use& use) {
  const Access access{name, {stream.index, stream.submitted}};
  Block& block = *use.block;
  if (use.writes) {
    block.writer = access;
    block.readers.clear();
    return;
  }
  for (Access& reader : block.readers)
    if (reader.moment.stream == stream.index) {
      reader = access;
      return;
    }
  block.readers.push_back(access);
}

void Card::submit(Stream& stream, std::shared_ptr<const Work> work) {
  for (const Use& use : work->uses) check_live(work->name, use, stream.recording);
  if (stream.recording != nullptr) return stream.recording->add(*this, std::move(work));
  for (const Use& use : work->uses) check_order(stream, work->name, use);
  const Work& submitted = *work;
  push(stream, work);
  for (const Use& use : submitted.uses) note_access(stream, submitted.name, use);
}

void Card::push(Stream& stream, std::shared_ptr<const Work> work) {
  stream.queue.push_back({std::move(work), std::exchange(stream.after, {})});
  stream.clock.add({stream.index, ++stream.submitted});
  ++pending_;
  // A device may be early or far behind.
  if (choose(4) == 0) run_one();
  while (pending_ > most_pending) run_one();
}

bool Card::run_one() {
  std::vector<Stream*> ready;
  for (Stream& stream : streams_)
    if (stream.ready()) ready.push_back(&stream);
  if (ready.empty()) return false;
  Stream& stream = *ready[choose(ready.size())];
  const auto work = std::move(stream.queue.front().work);
  stream.queue.pop_front();
  try {
    work->run(*work, stream);
  } catch (...) {
    if (stream.problem == nullptr) stream.problem = std::current_exception();
  }
  ++stream.done;
  --pending_;
  return true;
}

void Card::wait(Stream& stream) {
  const std::uint64_t target = stream.submitted;
  const auto waits = [&] {
    if (stream.done < target) return true;
    for (const auto& [other, time] : stream.after)
      if (other->done < time) return true;
    return false;
  };
  while (waits()) expects(run_one(), "debug: the streams wait for each other");
  done_.join(stream.clock);
}

void Card::order(void* producer, void* consumer) {
  if (producer == consumer || producer == nullptr || consumer == nullptr) return;
  const std::lock_guard lock(device_mutex());
  Stream& first = state(producer);
  Stream& second = state(consumer);
  // Replays come after this wait, so a recording needs nothing else.
  if (second.recording != nullptr) return wait(first);
  second.clock.join(first.clock);
  second.after.insert(second.after.end(), first.after.begin(), first.after.end());
  second.after.emplace_back(&first, first.submitted);
}

void Card::settle(Stream& stream) noexcept {
  try {
    wait(stream);
  } catch (const std::exception& error) {
    report(error.what());
  }
}

void Card::finish(void* handle) noexcept {
  const std::lock_guard lock(device_mutex());
  for (Stream& stream : streams_)
    if (handle == nullptr || handle == &stream) settle(stream);
}

void Card::synchronize(void* handle) {
  const std::lock_guard lock(device_mutex());
  Stream& stream = state(handle);
  refuse_recording(stream, "a wait", "synchronise after the step");
  wait(stream);
  throw_problem(stream);
}

void Card::refuse_recording(const Stream& stream, const char* what, const char* instead) {
  expects(stream.recording == nullptr, "debug: ", what,
          " cannot be part of a recorded step, which never meets the host; ", instead);
}

Stream* Card::make_stream() {
  constexpr std::size_t most_idle = 32;  // a stream that was not used before reveals more races
  if (idle_.size() > most_idle) {
    Stream* const oldest = idle_.front();
    idle_.pop_front();
    return oldest;
  }
  Stream& made = streams_.emplace_back();
  made.card = this;
  made.index = streams_.size();
  known_streams().insert(&made);
  return &made;
}

void* Card::stream() {
  for (const auto& [card, stream] : owned_streams())
    if (card == this) return stream;
  const std::lock_guard lock(device_mutex());
  return owned_streams().emplace_back(this, make_stream()).second;
}

void Card::give_back(Stream* stream) { idle_.push_back(stream); }

}  // namespace tern::debug
