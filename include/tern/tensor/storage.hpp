#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"

namespace tern {

/// Bytes that live in one or more memories. Each memory holds at most one copy, valid or stale. Reading in a memory
/// makes its copy valid and moves the bytes only if it was not; writing makes the others stale. Concurrent reads are
/// safe; a write needs exclusive access.
class Storage : public std::enable_shared_from_this<Storage> {
 public:
  explicit Storage(std::size_t bytes) : bytes_(bytes) {}
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();

  std::size_t bytes() const { return bytes_; }

  /// A pointer for kernels of `scope`; null for no bytes. `read` moves the bytes if necessary; `write` promises to
  /// overwrite all of them and moves nothing; `update` reads and then writes.
  const void* read(Scope& scope) { return access(scope.mode->memory, scope, true, false); }
  void* write(Scope& scope) { return access(scope.mode->memory, scope, false, true); }
  void* update(Scope& scope) { return access(scope.mode->memory, scope, true, true); }
  /// The same for the host; waits for the device work that produces the bytes.
  const void* read_host() { return access_on_host(true, false); }
  void* write_host() { return access_on_host(false, true); }
  void* update_host() { return access_on_host(true, true); }

  /// Whether `memory` holds a valid copy.
  bool valid_in(const Memory& memory) const;
  /// Calls visit(memory) for each memory that holds a valid copy.
  void for_each_valid(const std::function<void(const Memory&)>& visit) const;
  /// The pointer in `memory`, valid or stale; null when there is none.
  const void* pointer_in(const Memory& memory) const;
  /// Copies the bytes to the host from any valid copy, without counting a move or notifying observers. Waits for the
  /// work that produces them. Without a valid copy `bytes` stays unchanged.
  void peek(std::size_t position, std::span<std::byte> bytes) const;
  /// Grows with every write. Autograd compares it to detect a saved tensor that was changed.
  std::uint64_t version() const { return version_.load(std::memory_order_relaxed); }

  /// True until the first read or write of a byte.
  bool untouched() const { return first_.memory.load(std::memory_order_acquire) == nullptr; }
  /// Grows when a tensor of these bytes starts or stops requiring a gradient.
  std::uint32_t roles() const { return roles_.load(std::memory_order_relaxed); }
  void change_role() { roles_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Copy {
    std::atomic<Memory*> memory{nullptr};
    std::atomic<void*> pointer{nullptr};
    void* home = nullptr;                // the stream that it was allocated for
    std::atomic<void*> stream{nullptr};  // the last stream that used it, unless it is shared
    std::atomic<bool> valid{false};
    std::atomic<bool> handed_over{false};  // was read on a stream other than the one that wrote it
    std::atomic<void*> owner{nullptr};     // if so: the stream that wrote it, whose thread may continue reading
    std::atomic<bool> shared{false};       // was read on more streams: all that wrote it is done, so any stream may
                                           // read it
    std::atomic<Copy*> next{nullptr};      // in another memory
  };

  void* access(Memory* memory, Scope& scope, bool reads, bool writes);
  void* access_on_host(bool reads, bool writes);
  const Copy* find(const Memory* memory) const;
  Copy& copy_in_memory(Memory* memory, bool exclusive);
  // A write is exclusive, so no locked instruction is needed.
  void count_write() { version_.store(version() + 1, std::memory_order_relaxed); }
  void prepare(Copy& copy, void* stream, bool reads);
  static void change_stream(Copy& copy, void* stream, bool writes);

  std::size_t bytes_;
  Copy first_;  // head of a list that only grows, so readers need no lock
  std::atomic<std::uint64_t> version_{0};
  std::atomic<std::uint32_t> roles_{0};
  std::mutex moving_;
};

}  // namespace tern
