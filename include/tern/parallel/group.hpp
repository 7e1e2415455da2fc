#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tern/parallel/collective.hpp"
#include "tern/tensor/tensor.hpp"

namespace tern::parallel {

/// Ranks that work together, each running the same program, and what they tell each other. A handle: copies are the
/// same group. All ranks of a group make the same calls in the same order, with tensors of one shape and dtype; where a
/// rank's differ, fails or does not come in time, the others throw ParallelError, and the group is of no more use.
///
/// Tensors are of any dtype and layout. Elements move, and come back, as with every other use of a tensor: a transport
/// of the host's memory waits for the device that makes them. float16 and bfloat16 are reduced in float32. Nothing is
/// recorded by autograd.
class Group {
 public:
  /// A group of one rank.
  Group();
  /// What a transport opened.
  explicit Group(std::shared_ptr<Collective> transport) : transport_(std::move(transport)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  /// What carries the elements: "threads", "mpi" or "nccl".
  std::string_view transport() const { return transport_->name(); }
  /// Whether elements go through the host's memory.
  bool on_host() const { return transport_->memory() == nullptr; }
  /// Machine, process and mode of each rank: "node1, process 4711, vectorized". A collective call.
  std::vector<std::string> places() const;

  /// A group of the ranks that give the same `colour` (0 or more), numbered by `key` and then by their rank here.
  Group split(int colour, int key = 0) const;
  /// Waits until all ranks are here.
  void barrier() const;

  // ---- in place, like Tensor::copy_ ----
  /// Every rank gets the sum (mean, maximum, minimum) over the ranks, with the same bits. Throws DTypeError for a mean
  /// of integers, and for a sum or a mean of bool.
  void all_reduce(Tensor x, Reduction reduction = Reduction::sum) const;
  /// As all_reduce of each of some tensors of one dtype, in as few messages as can be, beside what this thread queues
  /// next on its device, where the group is on devices: until `join` do not read, write or release them, and no
  /// other call of the group is made but this one.
  void begin_all_reduce(const std::vector<Tensor>& tensors, Reduction reduction = Reduction::sum) const;
  void begin_all_reduce(const Tensor& x, Reduction reduction = Reduction::sum) const {
    begin_all_reduce(std::vector{x}, reduction);
  }
  void join() const;
  /// Every rank gets the elements of rank `root`.
  void broadcast(Tensor x, int root = 0) const;

  // ---- blocks along the first dimension ----
  /// x [n, ...] of every rank -> [size n, ...], in the order of the ranks.
  Tensor all_gather(const Tensor& x) const;
  /// x [size n, ...] -> [n, ...]: the block of this rank's number, reduced over the ranks.
  Tensor reduce_scatter(const Tensor& x, Reduction reduction = Reduction::sum) const;
  /// x [size n, ...] -> [size n, ...]: block i goes to rank i.
  Tensor all_to_all(const Tensor& x) const;

  // ---- between two ranks ----
  void send(const Tensor& x, int to) const;
  /// Into x, which has the shape and dtype of what is sent.
  void receive(Tensor x, int from) const;

  // ---- a few words ----
  /// What every rank says, of any length.
  std::vector<std::string> all_gather(const std::string& text) const;
  /// Throws ParallelError in every rank where a rank's text is not rank 0's: with `what`, the first line that differs,
  /// and the rank. For what has to be alike, such as options and fingerprints of data: a line for each. A collective
  /// call.
  void check_same(const std::string& what, const std::string& text) const;
  /// What rank `root` says.
  std::string broadcast(const std::string& text, int root = 0) const;
  /// This rank fails, for this reason: the others are not to wait for it.
  void abandon(const std::string& reason) const noexcept { transport_->abandon(reason); }
  /// The ranks part: no further call is made, and one that dies from here on takes no other along. With MPI, which
  /// would wait for it in its end, MPI itself ends here. A collective call.
  void leave() const { transport_->leave(); }
  /// For transports that are opened over another one.
  Collective& collective() const { return *transport_; }

 private:
  void* lend(const Tensor& x, bool reads, bool writes) const;
  void* stream() const;
  Reduction carried(Reduction reduction) const;
  Tensor blocks(const char* call, const Tensor& x) const;

  std::shared_ptr<Collective> transport_;
};

/// The same ranks with elements in the memory of the device of the scope: over NCCL (the plug-in libtern_nccl.so), in
/// the order of the device's stream, so that a Step records them. Returns `host` itself where the device of a rank is
/// the host, where two ranks use one device, or where NCCL is missing: elements then go through the host. A collective
/// call, in the Device that the group is to be used in.
Group on_devices(const Group& host);

/// How the ranks of a program come about.
struct LaunchOptions {
  /// "threads": `ranks` threads of this process. "mpi": one rank for each process that `mpirun` or `srun` started, over
  /// the plug-in libtern_mpi.so.
  std::string transport = "threads";
  int ranks = 1;  ///< of "threads"; MPI knows its own number
  /// The longest that a rank waits for another one; 0: for ever.
  std::chrono::milliseconds limit{600'000};
};

/// Runs `program` in every rank and returns when this process's are done. Threads inherit the scope and the random
/// generator of the caller. What one rank throws is thrown here, and ends the others. With MPI, which is started once
/// in a process and ended with it, the process has to end after an error: then mpirun ends all others. Throws
/// DeviceUnavailable when there is no such transport.
void launch(const LaunchOptions& options, const std::function<void(const Group& group)>& program);

/// The transports by name, and why those that cannot be used are missing. Does not start MPI.
struct TransportStatus {
  std::string name;
  bool available = false;
  std::string reason;
};
std::vector<TransportStatus> transports();

}  // namespace tern::parallel
