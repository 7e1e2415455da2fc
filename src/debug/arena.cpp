#include "debug/arena.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "tern/core/error.hpp"

namespace tern::debug {
namespace {

constexpr int reserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
constexpr std::size_t most = std::size_t{1} << (sizeof(void*) == 8 ? 34 : 28);
constexpr std::size_t least = std::size_t{1} << 26;

}  // namespace

Arena::Arena() : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
  for (size_ = most; size_ >= least; size_ /= 2) {
    void* const base = mmap(nullptr, (views + 1) * size_, PROT_NONE, reserved, -1, 0);
    if (base == MAP_FAILED) continue;
    base_ = static_cast<std::byte*>(base);
    free_[base_ + page_] = size_ - page_;
    return;
  }
  throw OutOfMemory("debug: the system has no addresses left for the device");
}

std::byte* Arena::find(std::size_t bytes) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    if (range->second < bytes) continue;
    std::byte* const found = range->first;
    const std::size_t rest = range->second - bytes;
    free_.erase(range);
    if (rest > 0) free_[found + bytes] = rest;
    return found;
  }
  return nullptr;
}

void Arena::reuse_freed() {
  for (const auto& [begin, bytes] : freed_) {
    auto range = free_.emplace(begin, bytes).first;
    const auto next = std::next(range);
    if (next != free_.end() && next->first == begin + bytes) {
      range->second += next->second;
      free_.erase(next);
    }
    if (range == free_.begin()) continue;
    const auto previous = std::prev(range);
    if (previous->first + previous->second != begin) continue;
    previous->second += range->second;
    free_.erase(range);
  }
  freed_.clear();
}

std::byte* Arena::take(std::size_t bytes) {
  const std::size_t with_closed_page = bytes + page_;
  std::byte* found = find(with_closed_page);
  if (found == nullptr) {
    reuse_freed();
    found = find(with_closed_page);
  }
  expects<OutOfMemory>(found != nullptr, "debug: the device has no addresses for another ", bytes, " bytes");
  return found;
}

void Arena::give(std::byte* pages, std::size_t bytes) noexcept {
  // A fresh mapping returns the memory and merges with its neighbours.
  for (int view = 0; view < views; ++view)
    static_cast<void>(mmap(pages + distance(view), bytes, PROT_NONE, reserved | MAP_FIXED, -1, 0));
  freed_.emplace_back(pages, bytes + page_);
}

void Arena::protect(std::byte* pages, std::size_t bytes, Protection protection) {
  const int allowed = protection == Protection::closed    ? PROT_NONE
                      : protection == Protection::reading ? PROT_READ
                                                          : PROT_READ | PROT_WRITE;
  for (int view = 0; view < views; ++view)
    expects<OutOfMemory>(mprotect(pages + distance(view), bytes, allowed) == 0,
                         "debug: the host has no memory left, or no room for another mapping (vm.max_map_count)");
}

std::byte* Arena::handed_out(const void* address) const {
  for (int view = 0; view < views; ++view) {
    const std::size_t place = offset(address, static_cast<std::size_t>(distance(view)));
    if (place < size_) return base_ + place;
  }
  return nullptr;
}

std::mutex& device_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

Arena& arena() {
  static auto& arena = *new Arena;  // never destroyed: tensors may outlive static destructors
  return arena;
}

}  // namespace tern::debug
