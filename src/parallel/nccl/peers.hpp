#pragma once
// Sums short messages between devices of one process that can access each other's memory: one kernel on each.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "parallel/nccl/meter.hpp"
#include "parallel/nccl/pieces.hpp"

namespace tern::parallel {

/// One rank's end. Each rank writes its data into the memory of every other one and sums what it finds in its own, in
/// rank order, so all get the same bits. The data carry the number of the call, which the kernel counts, so a recording
/// continues the count by itself.
class Peers {
 public:
  /// For all ranks of `host`, or null for all: if they are not threads of one process, are more than eight, or a device
  /// cannot access another one's memory. A collective call; `device` is the current one.
  static std::unique_ptr<Peers> open(Collective& host, int device);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  /// Waits for the device. If an exception unwinds this rank, the others stop waiting for its data.
  ~Peers();

  /// The longest message: 4 MiB between two ranks, less between more, as each writes it to all others.
  std::size_t most_bytes() const;
  /// The sum, or the mean, of float32 or float64 in all ranks, in stream order; calls are ordered one after the other.
  /// Throws ParallelError if the launch fails.
  void all_reduce(const Pieces& pieces, DType dtype, bool mean, const Counting& counting, void* stream);
  /// The other ranks stop waiting for this one, and this one for them.
  void leave() noexcept;
  /// A rank that was awaited and is gone: later sums must not be used. -1: none.
  int lost() const;

 private:
  struct Body;
  explicit Peers(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace tern::parallel
