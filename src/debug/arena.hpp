#pragma once
// The addresses of the debug device. Every byte has three: the one that the library gets, which is inaccessible, and
// one in each of two views, where kernels access it while they run. Unwritten bytes differ between the views, so
// results that depend on them differ, too.

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace tern::debug {

enum class Protection { closed, reading, writing };

/// Not thread-safe except `holds` and `handed_out`: hold device_mutex().
class Arena {
 public:
  static constexpr int views = 2;

  /// Reserves only addresses from the system. Throws OutOfMemory.
  Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::size_t page() const { return page_; }
  std::size_t size() const { return size_; }
  /// Inaccessible pages for `bytes`, with a closed page before and after them. Throws OutOfMemory.
  std::byte* take(std::size_t bytes);
  /// Returns their memory. Their addresses stay closed until no others are left.
  void give(std::byte* pages, std::size_t bytes) noexcept;
  /// Sets the access that the views allow to kernels. Throws OutOfMemory if the system cannot add a mapping.
  void protect(std::byte* pages, std::size_t bytes, Protection protection);

  /// Whether the library got this address.
  bool holds(const void* address) const { return offset(address, 0) < size_; }
  /// From the library's address to the one in a view.
  std::ptrdiff_t distance(int view) const { return static_cast<std::ptrdiff_t>(size_) * (view + 1); }
  /// The library's address for one in a view; null for any other.
  std::byte* handed_out(const void* address) const;

 private:
  std::size_t offset(const void* address, std::size_t from) const {
    return reinterpret_cast<std::size_t>(address) - reinterpret_cast<std::size_t>(base_) - from;
  }
  std::byte* find(std::size_t bytes);
  void reuse_freed();

  std::byte* base_ = nullptr;
  std::size_t size_ = 0, page_ = 0;
  std::map<std::byte*, std::size_t> free_;
  std::deque<std::pair<std::byte*, std::size_t>> freed_;
};

/// The device runs one piece of work at a time.
std::mutex& device_mutex();
Arena& arena();

inline std::byte* in_view(const void* address, int view) {
  return static_cast<std::byte*>(const_cast<void*>(address)) + arena().distance(view);
}

}  // namespace tern::debug
