#pragma once

#include <cstddef>

namespace tern {

/// Where a thread takes blocks of the host's memory from in the place of the pool: a program's plan
/// (graph/program.cpp).
class BlockSource {
 public:
  virtual ~BlockSource() = default;
  /// 64-byte aligned; null: the pool gives it.
  virtual void* take(std::size_t bytes) = 0;
  /// Whether the block came from here; else it goes to the pool.
  virtual bool give_back(void* block) noexcept = 0;
};

/// Of the calling thread; null: the pool.
extern constinit thread_local BlockSource* block_source;

}  // namespace tern
