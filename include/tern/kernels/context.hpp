#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/memory/memory.hpp"

namespace tern {

struct Algorithms;

/// How float32 matrix products and convolutions may round. `strict` is IEEE float32. `tf32` lets a mode that has such
/// units read the factors with 10 mantissa bits, `bf16` with 7. Sums stay float32. Modes without such units compute
/// `strict`. In a mode with tables for the dtype, `bf16` and `f16` are mixed precision: activations and their gradients
/// have 16 bits, weights stay float32 (operators/mixed.hpp); a kernel then reads float32 factors as with `bf16` and
/// `tf32`.
enum class Precision : std::uint8_t { strict, tf32, bf16, f16 };

/// What a kernel knows about its call. The scope makes it; a kernel never keeps it.
struct Context {
  Memory* memory = nullptr;  ///< where all pointers that the kernel gets live
  void* stream = nullptr;    ///< the order in which the kernel's work runs; null on the host
  int threads = 1;           ///< the largest number of threads that a kernel may use
  Precision precision = Precision::strict;
  bool deterministic = true;  ///< use only algorithms that are reproducible bit for bit; false allows faster ones
  const Algorithms* algorithms = nullptr;  ///< see kernels/algorithms.hpp; null: kernels choose freely and report
                                           ///< nothing

  using Members = MemberList<&Context::memory, &Context::stream, &Context::threads, &Context::precision,
                             &Context::deterministic, &Context::algorithms>;
};

/// Temporary memory for one kernel call, released in stream order at the end of the block.
class Scratch {
 public:
  Scratch(Context& context, std::size_t bytes)
      : memory_(context.memory),
        stream_(context.stream),
        bytes_(bytes),
        pointer_(bytes == 0 ? nullptr : memory_->allocate(bytes, stream_)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (pointer_ != nullptr) memory_->release(pointer_, bytes_, stream_);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(pointer_);
  }

 private:
  Memory* memory_;
  void* stream_;
  std::size_t bytes_;
  void* pointer_;
};

}  // namespace tern
