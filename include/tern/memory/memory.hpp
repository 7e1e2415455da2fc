#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tern/core/member_list.hpp"

namespace tern {

/// What a memory has allocated, in bytes.
struct MemoryStatistics {
  std::size_t in_use = 0;    ///< held by live tensors and scratch
  std::size_t reserved = 0;  ///< taken from the system: in use or cached for reuse
  std::size_t peak = 0;      ///< the largest `in_use` since the last `reset_peak`
  std::size_t limit = 0;     ///< the most that may be reserved; 0: no limit

  using Members = MemberList<&MemoryStatistics::in_use, &MemoryStatistics::reserved, &MemoryStatistics::peak,
                             &MemoryStatistics::limit>;
};

/// A kind of memory that tensors can live in: the host's or a device's. Streams order all work on it; a memory without
/// streams ignores them. Implementations are thread-safe.
class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  virtual ~Memory() = default;

  /// "host", "cuda", "cuda:1": the name used in messages and in the transfer ledger.
  virtual std::string_view name() const = 0;
  /// Whether the host may read and write the pointers directly.
  virtual bool host_accessible() const = 0;

  /// Allocates `bytes` > 0, aligned to at least 64 bytes, usable by work queued on `stream` from now on. Throws
  /// OutOfMemory.
  virtual void* allocate(std::size_t bytes, void* stream) = 0;
  /// Releases a block. Work already queued on `stream` may still use it. Never throws.
  virtual void release(void* pointer, std::size_t bytes, void* stream) noexcept = 0;

  /// Host to this memory. `from` may be reused as soon as the call returns.
  virtual void copy_in(void* to, const void* from, std::size_t bytes, void* stream) = 0;
  /// From this memory to the host. Waits for `stream`, so `to` is complete when the call returns.
  virtual void copy_out(void* to, const void* from, std::size_t bytes, void* stream) = 0;
  /// Inside this memory, ordered on `stream`.
  virtual void copy(void* to, const void* from, std::size_t bytes, void* stream) = 0;
  /// From another memory to this one by a direct path: after the work queued so far on `producer`, a stream of
  /// `source`, and before later work on it or on `consumer`, a stream of this memory. Returns false if there is no
  /// direct path: nothing was done, and the bytes go through the host.
  virtual bool copy_from(Memory& /*source*/, void* /*to*/, const void* /*from*/, std::size_t /*bytes*/,
                         void* /*producer*/, void* /*consumer*/) {
    return false;
  }

  /// The stream of the calling thread; null if there are none.
  virtual void* stream() { return nullptr; }
  /// Makes later work on `consumer` wait for the work queued so far on `producer`.
  virtual void order(void* /*producer*/, void* /*consumer*/) {}
  /// Waits for the work queued so far on `stream`, or on all streams if null. Errors of that work are left to the
  /// thread that queued it.
  virtual void finish(void* /*stream*/) noexcept {}
  /// Waits for the work queued on `stream`; throws the errors that it reported (a label out of range, ...).
  virtual void synchronize(void* /*stream*/) {}

  virtual MemoryStatistics statistics() const = 0;
  virtual void reset_peak() = 0;
  /// Gives cached blocks back to the system.
  virtual void trim() = 0;
  /// Limits what may be reserved; 0 removes the limit. Small host blocks that other threads have cached do not count.
  virtual void set_limit(std::size_t bytes) = 0;
};

/// The host's memory, pooled: blocks are 64-byte aligned and reused per thread.
Memory& host_memory();

}  // namespace tern
