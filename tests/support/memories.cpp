#include "support/memories.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tern/core/error.hpp"

namespace tern::testing {
namespace {

constexpr std::size_t guard = 256;
constexpr int pattern = 0xff;  // a float or double of these bytes is a NaN, an int64 is -1

std::vector<unsigned char> pattern_of(std::size_t bytes) {
  return std::vector<unsigned char>(bytes, static_cast<unsigned char>(pattern));
}

}  // namespace

void* GuardedMemory::allocate(std::size_t bytes, void* stream) {
  if (bytes == 0) note("an allocation of 0 bytes");
  auto* block = static_cast<unsigned char*>(inner_.allocate(bytes + 2 * guard, stream));
  if (inner_.host_accessible())
    std::memset(block, pattern, bytes + 2 * guard);
  else
    inner_.copy_in(block, pattern_of(bytes + 2 * guard).data(), bytes + 2 * guard, stream);
  ++live_;
  const std::lock_guard lock(mutex_);
  sizes_[block + guard] = bytes;
  return block + guard;
}

void GuardedMemory::release(void* pointer, std::size_t bytes, void* stream) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      const auto known = sizes_.find(pointer);
      if (known == sizes_.end()) {
        findings_.push_back("a release of a pointer that was not handed out");
        return;
      }
      if (known->second != bytes)
        findings_.push_back(message("a block of ", known->second, " bytes was released as ", bytes));
      bytes = known->second;
      sizes_.erase(known);
    }
    auto* block = static_cast<unsigned char*>(pointer) - guard;
    std::vector<unsigned char> before(guard), after(guard);
    inner_.copy_out(before.data(), block, guard, stream);
    inner_.copy_out(after.data(), block + guard + bytes, guard, stream);
    const std::vector<unsigned char> whole = pattern_of(guard);
    if (before != whole) note(message("something was written before a block of ", bytes, " bytes"));
    if (after != whole) note(message("something was written behind a block of ", bytes, " bytes"));
    inner_.release(block, bytes + 2 * guard, stream);
    --live_;
  } catch (const std::exception& error) {
    note(error.what());
  }
}

void GuardedMemory::note(std::string finding) noexcept {
  const std::lock_guard lock(mutex_);
  findings_.push_back(std::move(finding));
}

std::vector<std::string> GuardedMemory::take_findings() {
  const std::lock_guard lock(mutex_);
  return std::exchange(findings_, {});
}

GuardedMemory& guarded_memory(const std::string& name) {
  // Never destroyed: pools and recordings may outlive static destructors.
  static auto& memories = *new std::map<std::string, GuardedMemory*>;
  GuardedMemory*& memory = memories[name];
  if (memory == nullptr) memory = new GuardedMemory(*mode(name).memory);
  return *memory;
}

const Mode& guarded_mode(const std::string& name) {
  static auto& known = *new std::map<std::string, const Mode*>;
  const Mode*& guarded = known[name];
  if (guarded == nullptr) {
    Mode copy = mode(name);
    copy.memory = &guarded_memory(name);
    copy.capture = nullptr;
    copy.places = nullptr;
    std::string own = "guarded-" + name;
    std::ranges::replace(own, ':', '-');  // of "cuda:1"
    guarded = &register_mode(own, copy);
  }
  return *guarded;
}

void* FakeMemory::allocate(std::size_t bytes, void*) {
  expects<OutOfMemory>(limit == 0 || in_use + bytes <= limit, name_, " memory: ", bytes,
                       " bytes would pass the limit of ", limit.load());
  void* pointer = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  expects<OutOfMemory>(pointer != nullptr, name_, " memory: the host has none left");
  std::memset(pointer, pattern, bytes);
  const std::size_t now = in_use += bytes;
  for (std::size_t most = peak; most < now && !peak.compare_exchange_weak(most, now);) {
  }
  ++live;
  return pointer;
}

void FakeMemory::release(void* pointer, std::size_t bytes, void*) noexcept {
  std::free(pointer);
  in_use -= bytes;
  --live;
}

void FakeMemory::copy_in(void* to, const void* from, std::size_t bytes, void*) {
  ++copies_in;
  std::memcpy(to, from, bytes);
}
void FakeMemory::copy_out(void* to, const void* from, std::size_t bytes, void*) {
  ++copies_out;
  std::memcpy(to, from, bytes);
}
void FakeMemory::copy(void* to, const void* from, std::size_t bytes, void*) { std::memmove(to, from, bytes); }

bool FakeMemory::copy_from(Memory& source, void* to, const void* from, std::size_t bytes, void* producer,
                           void* consumer) {
  const auto* const other = dynamic_cast<const FakeMemory*>(&source);
  if (other == nullptr || !straight || !other->straight) return false;
  ++copies_across;
  note(message("across ", reinterpret_cast<std::uintptr_t>(producer), " ", reinterpret_cast<std::uintptr_t>(consumer)));
  std::memcpy(to, from, bytes);
  return true;
}

void* FakeMemory::stream() {
  static std::atomic<std::uintptr_t> count{0};
  thread_local const std::uintptr_t own = ++count;
  return streams ? reinterpret_cast<void*>(own) : nullptr;
}
void FakeMemory::order(void* producer, void* consumer) {
  note(message("order ", reinterpret_cast<std::uintptr_t>(producer), " ", reinterpret_cast<std::uintptr_t>(consumer)));
}
void FakeMemory::finish(void* stream) noexcept {
  note(stream == nullptr ? "finish all" : message("finish ", reinterpret_cast<std::uintptr_t>(stream)));
}
void FakeMemory::note(std::string synchronization) {
  const std::lock_guard lock(mutex_);
  if (streams) synchronizations.push_back(std::move(synchronization));
}

FakeMemory& fake_memory() {
  static FakeMemory& memory = *new FakeMemory("fake");
  return memory;
}

const Mode& fake_mode() {
  static const Mode& fake = [&]() -> const Mode& {
    Mode copy = mode("sequential");
    copy.memory = &fake_memory();
    copy.description = "sequential kernels on memory that the host may not touch";
    return register_mode("fake", copy);
  }();
  return fake;
}

const Mode& second_fake_mode() {
  static const Mode& fake = [&]() -> const Mode& {
    Mode copy = mode("sequential");
    copy.memory = new FakeMemory("fake2");
    return register_mode("fake2", copy);
  }();
  return fake;
}

FakeMemory& fake_card(int index) {
  static auto& memories = *new std::vector<FakeMemory*>([] {
    std::vector<FakeMemory*> made;
    for (int i = 0; i + 1 < fake_cards; ++i) {
      made.push_back(new FakeMemory(i == 0 ? "cards" : message("cards:", i)));
      made.back()->straight = true;
    }
    return made;
  }());
  expects<DeviceUnavailable>(index + 1 < fake_cards, "card ", index, " is out of order");
  return *memories[static_cast<std::size_t>(index)];
}

const Mode& fake_cards_mode() {
  static const Mode& cards = []() -> const Mode& {
    static constexpr Places places{
        .count = fake_cards,
        .memory = [](int index) -> Memory& { return fake_card(index); },
        .description = [](int index) { return message(fake_card(index).name(), ", a fake"); }};
    Mode copy = mode("sequential");
    copy.memory = &fake_card(0);
    copy.description = places.description(0);
    copy.places = &places;
    return register_mode("cards", copy);
  }();
  return cards;
}

}  // namespace tern::testing
