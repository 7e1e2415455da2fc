#pragma once
// The blocks of one card's memory: allocated, cached by stream and size for reuse, and kept for the recordings that use
// them.

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/streams.cuh"

namespace tern::cuda {

// Small blocks are carved from slabs, because the card allocates at least 2 MiB.
struct Slab {
  void* base = nullptr;
  std::size_t used = 0;
  int busy = 0;  // blocks that are not in the cache
};

struct Block {
  void* pointer = nullptr;
  std::size_t size = 0;
  Slab* slab = nullptr;            // null: its own cudaMalloc
  Stream* stream = nullptr;        // whose work may still use it
  Recording* recording = nullptr;  // whose replays use it
  bool live = false, cached = false;
};

/// Thread-safe. Its functions do what Memory's functions of the same names do.
class Blocks {
 public:
  Blocks(int device, std::string name) : device_(device), name_(std::move(name)) {}

  /// `fresh`: one that the stream's recording has not used.
  void* allocate(std::size_t bytes, Stream& stream, bool fresh = false) {
    return allocate(bytes, stream, stream.recording.load(), fresh);
  }
  /// For memory that the host writes once and replays of the stream's recording only read.
  void* allocate_unrecorded(std::size_t bytes, Stream& stream) { return allocate(bytes, stream, nullptr, true); }
  /// Reused after that stream's queued work.
  void release(void* pointer, void* stream_handle) noexcept;

  MemoryStatistics statistics() const;
  void reset_peak();
  void trim();
  void set_limit(std::size_t bytes);

  /// Makes blocks that were held back reusable.
  void reuse_released(const Stream& stream) noexcept;
  // Work beside other work of a recording does without blocks that fit, and so takes more memory: up to a limit.
  /// Whether the next allocation of that size must wait for one that is held back.
  bool needs_held_back(std::size_t bytes, const Stream& stream);
  /// Whether it must take one that the recording has used.
  bool needs_used(std::size_t bytes, const Stream& stream);
  /// Returns the blocks of a recording to the cache.
  void disband(Recording* recording) noexcept;

 private:
  void* allocate(std::size_t bytes, Stream& stream, Recording* recording, bool fresh);

  using FreeLists = std::map<std::size_t, std::vector<Block*>>;
  struct Returned {
    Block* block;
    cudaEvent_t used;
  };

  bool has_used(const Stream& stream, std::size_t size);
  static bool grows_too_far(const Stream& stream, std::size_t size);
  static Block* take(FreeLists& lists, std::size_t size);
  // Into the cache of its stream, and out of it.
  void cache(Block* block);
  Block* uncache(Stream& stream, std::size_t size);
  void collect_returned();
  void* reserve(std::size_t bytes);
  void give_back(void* pointer, std::size_t bytes) noexcept;
  Block* make(std::size_t size);
  void release_cache() noexcept;
  std::string shortage(std::size_t bytes) const;

  const int device_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::unordered_map<Stream*, FreeLists> cached_;
  std::unordered_map<Recording*, FreeLists> recordings_;
  std::vector<Returned> returned_;
  std::vector<Block*> released_;  // while their streams hold back
  std::size_t in_use_ = 0, reserved_ = 0, peak_ = 0, limit_ = 0;
};

}  // namespace tern::cuda
