#pragma once
// Sums of short messages between devices of one process that reach each other's memory: one kernel on each.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "parallel/nccl/meter.hpp"
#include "parallel/nccl/pieces.hpp"

namespace tern::parallel {

/// One rank's end. Each rank writes what it has into the memory of every other one, and adds what it finds in its own,
/// in the order of the ranks: all get the same bits. What is written carries the number of the call, which the kernel
/// counts, so that a recording counts on by itself.
class Peers {
 public:
  /// For all ranks of `host`, or null for all: where they are no threads of one process, are more than eight, or where
  /// a device does not reach another one's memory. A collective call; `device` is the present one.
  static std::unique_ptr<Peers> open(Collective& host, int device);
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;
  /// Waits for the device. Where an exception unwinds this rank, nobody waits for its share any more.
  ~Peers();

  /// The longest message: 4 MiB between two ranks, less between more, as each writes it to all others.
  std::size_t most_bytes() const;
  /// The sum, or the mean, of float32 or float64 in all ranks, in the order of a stream of the device; calls are
  /// ordered one behind the other. Throws ParallelError when the launch fails.
  void all_reduce(const Pieces& pieces, DType dtype, bool mean, const Counting& counting, void* stream);
  /// The other ranks are not to wait for this one, nor this one for them.
  void leave() noexcept;
  /// A rank that was waited for and is gone: what was summed since is not to be used. -1: none.
  int lost() const;

 private:
  struct Body;
  explicit Peers(std::unique_ptr<Body> body);
  std::unique_ptr<Body> body_;
};

}  // namespace tern::parallel
