#pragma once
// Transports of elements between the ranks of a group: threads of one process, MPI between processes, NCCL between
// GPUs. Users call Group; a transport sees pointers, counts and dtypes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/dtype.hpp"
#include "tern/memory/memory.hpp"

namespace tern::parallel {

/// How the elements of all ranks are combined.
enum class Reduction : std::uint8_t { sum, mean, max, min };

/// Consecutive elements.
struct Piece {
  void* data = nullptr;
  std::size_t count = 0;

  using Members = MemberList<&Piece::data, &Piece::count>;
};

/// One rank's end of a group. All ranks make the same calls in the same order, with the same counts and dtypes. If a
/// call differs and the transport detects it, every rank gets a ParallelError; likewise if a rank fails or does not
/// arrive within the time limit. After a ParallelError the group is unusable. One thread at a time.
///
/// Pointers are in `memory` and hold `count` elements of `dtype`; the work is ordered on `stream`, and done on return
/// if the memory is the host's. Reductions are sum, max and min for float32, float64, int32, int64, uint8 and, except
/// sum, bool; transports on devices also have the mean of floating dtypes. Every rank gets the same bits.
class Collective {
 public:
  Collective() = default;
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  /// "threads", "mpi", "nccl".
  virtual std::string_view name() const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// The memory that pointers must be in; null: the host's.
  virtual Memory* memory() = 0;

  virtual void barrier(void* stream) = 0;
  /// In place.
  virtual void all_reduce(void* data, std::size_t count, DType dtype, Reduction reduction, void* stream) = 0;
  /// As all_reduce of each piece, in as few messages as possible, concurrently with what is queued on `stream` from
  /// here on. No rank may use the pieces until `join`. On the host they are one message, which is done on return.
  virtual void begin_all_reduce(std::span<const Piece> pieces, DType dtype, Reduction reduction, void* stream) {
    if (pieces.size() == 1) return all_reduce(pieces[0].data, pieces[0].count, dtype, reduction, stream);
    std::size_t count = 0;
    for (const Piece& piece : pieces) count += piece.count;
    std::vector<std::byte> message(count * size_of(dtype));
    std::size_t place = 0;
    for (const Piece& piece : pieces) {
      if (piece.count > 0) std::memcpy(message.data() + place, piece.data, piece.count * size_of(dtype));
      place += piece.count * size_of(dtype);
    }
    all_reduce(message.data(), count, dtype, reduction, stream);
    place = 0;
    for (const Piece& piece : pieces) {
      if (piece.count > 0) std::memcpy(piece.data, message.data() + place, piece.count * size_of(dtype));
      place += piece.count * size_of(dtype);
    }
  }
  /// Later work on `stream` waits for everything that was begun. Throws ParallelError.
  virtual void join(void* /*stream*/) {}
  virtual void broadcast(void* data, std::size_t count, DType dtype, int root, void* stream) = 0;
  /// `from` holds `size` blocks of `count` elements; this rank's block, reduced, goes into `to`.
  virtual void reduce_scatter(const void* from, void* to, std::size_t count, DType dtype, Reduction reduction,
                              void* stream) = 0;
  /// `count` elements of each rank, in the order of the ranks, into `to`.
  virtual void all_gather(const void* from, void* to, std::size_t count, DType dtype, void* stream) = 0;
  /// Block i of `from`, of `count` elements, goes to rank i; block i of `to` comes from rank i.
  virtual void all_to_all(const void* from, void* to, std::size_t count, DType dtype, void* stream) = 0;
  /// Matches one `receive` of the other rank; messages between two ranks stay in order.
  virtual void send(const void* from, std::size_t count, DType dtype, int to, void* stream) = 0;
  virtual void receive(void* to, std::size_t count, DType dtype, int from, void* stream) = 0;

  /// Device seconds spent in the transport, and those for which the rank's other work waited. The difference was
  /// overlapped.
  struct Spent {
    double busy = 0, waited = 0;
  };
  /// Starts counting the transport's time by the device's clock, for transports on devices. On the host the calls
  /// themselves take that time.
  virtual void measure() {}
  /// The time since `measure`; waits for the device.
  virtual Spent spent() { return {}; }
  /// A transport on devices that `on_devices` opened over this one.
  virtual void opened(const std::shared_ptr<Collective>& /*transport*/) {}

  /// A group of the ranks with the same `colour`, numbered by `key` and then by their rank here.
  virtual std::unique_ptr<Collective> split(int colour, int key) = 0;
  /// Declares this rank failed, so that the others do not wait for it. Never throws.
  virtual void abandon(const std::string& reason) noexcept = 0;
  /// The ranks part: no further call is made. A collective call.
  virtual void leave() {}
};

}  // namespace tern::parallel
