#pragma once
// The addresses of the debug device. Every byte has three: the one that the library is handed, which nobody can touch,
// and one in each of two views, where kernels find it while they run. What nothing wrote differs between the views, so
// that results which depend on it differ too.

#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

namespace tern::debug {

enum class Protection { closed, reading, writing };

/// Not thread-safe but for `holds` and `handed_out`: hold device_mutex().
class Arena {
 public:
  static constexpr int views = 2;

  /// Takes nothing but addresses from the system. Throws OutOfMemory.
  Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::size_t page() const { return page_; }
  std::size_t size() const { return size_; }
  /// Closed pages for `bytes`, a closed page before and behind them. Throws OutOfMemory.
  std::byte* take(std::size_t bytes);
  /// Gives their memory back. Their addresses stay closed until there are no others.
  void give(std::byte* pages, std::size_t bytes) noexcept;
  /// What the views let kernels do. Throws OutOfMemory where the system has no room for another mapping.
  void protect(std::byte* pages, std::size_t bytes, Protection protection);

  /// True for addresses that the library was handed.
  bool holds(const void* address) const { return offset(address, 0) < size_; }
  /// From an address that was handed out to the one in a view.
  std::ptrdiff_t distance(int view) const { return static_cast<std::ptrdiff_t>(size_) * (view + 1); }
  /// The address that was handed out for one in a view; null for any other.
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

/// The device's state is one: its pieces of work run one at a time.
std::mutex& device_mutex();
Arena& arena();

inline std::byte* in_view(const void* address, int view) {
  return static_cast<std::byte*>(const_cast<void*>(address)) + arena().distance(view);
}

}  // namespace tern::debug
