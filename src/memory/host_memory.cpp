// The host's memory: blocks of rounded sizes, cached for reuse. Small blocks have a cache per thread, so a typical
// allocation of an operator costs a few nanoseconds. Larger ones share a cache: its lock costs far less than fresh
// pages from the system.

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <mutex>
#include <vector>

#include "memory/block_source.hpp"
#include "memory/poison.hpp"
#include "memory/system_memory.hpp"
#include "tern/core/error.hpp"
#include "tern/memory/memory.hpp"

namespace tern {

constinit thread_local BlockSource* block_source = nullptr;

namespace {

constexpr std::size_t alignment = 64;
constexpr std::size_t small_limit = 32 * 1024;  // larger blocks go to the shared cache
constexpr int class_count = 4 * 58;
constexpr std::size_t thread_cache_blocks = 64;  // per small size class

// Four size classes per power of two: at most a quarter of a block is wasted.
int class_of(std::size_t bytes) {
  if (bytes <= alignment) return 0;
  const std::size_t last = bytes - 1;
  const int power = static_cast<int>(std::bit_width(last)) - 1;
  return 4 * (power - 6) + static_cast<int>((last >> (power - 2)) & 3) + 1;
}
std::size_t class_bytes(int index) {
  if (index == 0) return alignment;
  const int power = (index - 1) / 4 + 6, quarter = (index - 1) % 4 + 1;
  return (std::size_t{1} << power) + (std::size_t{1} << (power - 2)) * static_cast<std::size_t>(quarter);
}

// Free blocks form lists linked through the blocks themselves, so returning one cannot fail.
void push(void*& head, void* block) noexcept {
  unpoison(block, sizeof(void*));
  *static_cast<void**>(block) = head;
  head = block;
  poison(block, sizeof(void*));
}
void* pop(void*& head) noexcept {
  void* const block = head;
  unpoison(block, sizeof(void*));
  head = *static_cast<void**>(block);
  return block;
}

/// A block from the system, or null. Large ones lie in huge pages where it grants them: memory is then read and written
/// faster, because the processor looks up far fewer addresses, and first touched faster.
void* system_block(std::size_t bytes) {
  constexpr std::size_t huge = std::size_t{2} << 20;
  const bool large = bytes >= huge;
  void* block = nullptr;
  if (posix_memalign(&block, large ? huge : alignment, bytes) != 0) return nullptr;
#ifdef MADV_HUGEPAGE
  if (large) madvise(block, bytes / huge * huge, MADV_HUGEPAGE);  // it may be refused, or ignored
#endif
  return block;
}

std::size_t available_on_system() {
  return static_cast<std::size_t>(
      std::min<std::uint64_t>(available_memory("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup"),
                              std::numeric_limits<std::size_t>::max()));
}

class HostMemory final : public Memory {
 public:
  std::string_view name() const override { return "host"; }
  bool host_accessible() const override { return true; }

  void* allocate(std::size_t bytes, void*) override;
  void release(void* pointer, std::size_t bytes, void*) noexcept override;

  void copy_in(void* to, const void* from, std::size_t bytes, void*) override { __builtin_memcpy(to, from, bytes); }
  void copy_out(void* to, const void* from, std::size_t bytes, void*) override { __builtin_memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes, void*) override { __builtin_memmove(to, from, bytes); }

  MemoryStatistics statistics() const override {
    return {in_use_.load(), reserved_.load(), peak_.load(), limit_.load()};
  }
  void reset_peak() override { peak_.store(in_use_.load()); }
  void trim() override { shrink(0); }
  void set_limit(std::size_t bytes) override { limit_.store(bytes); }

  void give_back(int index, void* pointer) noexcept {
    const std::lock_guard lock(mutex_);
    push(free_[index], pointer);
  }

  // A fork while another thread holds the lock would leave it locked in the child forever.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  struct ThreadCache;
  static ThreadCache* thread_cache();

  void* fresh(int index);
  /// Returns free blocks to the system, largest first, until at most `bytes` are reserved.
  void shrink(std::size_t bytes);

  std::mutex mutex_;
  std::array<void*, class_count> free_{};
  std::atomic<std::size_t> in_use_{0}, reserved_{0}, peak_{0}, limit_{0};
  std::atomic<std::size_t> most_used_{0};  // the most ever in use at once
};

struct HostMemory::ThreadCache {
  static constexpr int classes = 4 * (15 - 6) + 1;  // up to small_limit = 2^15
  std::array<void*, classes> head{};
  std::array<std::uint32_t, classes> count{};
  static thread_local bool alive;
  ThreadCache() { alive = true; }
  ~ThreadCache() {
    alive = false;
    auto& memory = static_cast<HostMemory&>(host_memory());
    for (int i = 0; i < classes; ++i)
      while (head[i] != nullptr) memory.give_back(i, pop(head[i]));
  }
};
thread_local bool HostMemory::ThreadCache::alive = false;

// Null once the thread's storage is being destroyed: other thread-locals may still release tensors then.
HostMemory::ThreadCache* HostMemory::thread_cache() {
  static thread_local bool made = false;
  if (made && !ThreadCache::alive) return nullptr;
  static thread_local ThreadCache cache;
  made = true;
  return &cache;
}

void* HostMemory::allocate(std::size_t bytes, void*) {
  if (block_source != nullptr) [[unlikely]]
    if (void* const block = block_source->take(bytes)) return block;
  constexpr std::size_t most = std::size_t{1} << (std::numeric_limits<std::size_t>::digits - 1);
  expects<OutOfMemory>(bytes <= most, "host memory: ", bytes, " bytes were requested at once");
  const int index = class_of(bytes);
  const std::size_t size = class_bytes(index);
  void* block = nullptr;
  if (size <= small_limit) {
    if (ThreadCache* cache = thread_cache(); cache != nullptr && cache->head[index] != nullptr) {
      block = pop(cache->head[index]);
      --cache->count[index];
    }
  }
  if (block == nullptr) {
    const std::lock_guard lock(mutex_);
    if (free_[index] != nullptr) block = pop(free_[index]);
  }
  if (block == nullptr) block = fresh(index);
  unpoison(block, bytes);
  poison(static_cast<char*>(block) + bytes, size - bytes);
  const std::size_t now = in_use_.fetch_add(size, std::memory_order_relaxed) + size;
  std::size_t peak = peak_.load(std::memory_order_relaxed);
  while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return block;
}

void* HostMemory::fresh(int index) {
  const std::size_t size = class_bytes(index);
  const std::size_t limit = limit_.load();
  if (limit != 0 && reserved_.load() + size > limit) {
    trim();
    // The rest is in the caches of other threads, which only they can empty.
    expects<OutOfMemory>(in_use_.load() + size <= limit, "host memory: ", size, " bytes would pass the limit of ",
                         limit, " (", in_use_.load(), " in use); use a smaller batch or raise the limit");
  }
  // Sizes that never recur (a growing buffer) would pile up, so at most as much stays free as was ever used at once.
  const std::size_t most = most_used_.load(), now = in_use_.load() + size;
  if (now > most) most_used_.store(now);
  if (const std::size_t kept = 2 * std::max(most, now); size > small_limit && reserved_.load() + size > kept)
    shrink(kept - size);
  // The kernel may overcommit and kill the process later, so a large request checks first.
  const bool large = size >= (std::size_t{64} << 20);
  void* block = large && size > available_on_system() ? nullptr : system_block(size);
  if (block == nullptr) {
    trim();
    if (!large || size <= available_on_system()) block = system_block(size);
  }
  expects<OutOfMemory>(block != nullptr, "host memory: ", size, " bytes requested, ", in_use_.load(),
                       " in use by tensors, ", available_on_system(), " available on the system; use a smaller batch");
  keep(block);
  reserved_.fetch_add(size);
  return block;
}

void HostMemory::release(void* pointer, std::size_t bytes, void*) noexcept {
  if (block_source != nullptr && block_source->give_back(pointer)) [[unlikely]]
    return;
  const int index = class_of(bytes);
  const std::size_t size = class_bytes(index);
  poison(pointer, size);
  in_use_.fetch_sub(size, std::memory_order_relaxed);
  if (size <= small_limit) {
    if (ThreadCache* cache = thread_cache(); cache != nullptr && cache->count[index] < thread_cache_blocks) {
      push(cache->head[index], pointer);
      ++cache->count[index];
      return;
    }
  }
  give_back(index, pointer);
}

void HostMemory::shrink(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  for (int i = class_count - 1; i >= 0; --i)
    while (free_[i] != nullptr && reserved_.load() > bytes) {
      void* const block = pop(free_[i]);
      unpoison(block, class_bytes(i));
      std::free(block);
      reserved_.fetch_sub(class_bytes(i));
    }
}

}  // namespace

Memory& host_memory() {
  static HostMemory* const memory = [] {
    pthread_atfork([] { static_cast<HostMemory&>(host_memory()).lock(); },
                   [] { static_cast<HostMemory&>(host_memory()).unlock(); },
                   [] { static_cast<HostMemory&>(host_memory()).unlock(); });
    return new HostMemory;  // never destroyed: tensors may outlive static destructors
  }();
  return *memory;
}

}  // namespace tern
