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

/// Ranks that run the same program and exchange data. A handle: copies are the same group. All ranks of a group make
/// the same calls in the same order, with tensors of one shape and dtype. If a rank's call differs, fails or does not
/// arrive in time, the others throw ParallelError, and the group is unusable.
///
/// Tensors may have any dtype and layout. Elements move between memories as in every other use of a tensor: a transport
/// on the host waits for the device that computes them. float16 and bfloat16 are reduced in float32. Autograd records
/// nothing.
class Group {
 public:
  /// A group of one rank.
  Group();
  /// A group over an opened transport.
  explicit Group(std::shared_ptr<Collective> transport) : transport_(std::move(transport)) {}

  int rank() const { return transport_->rank(); }
  int size() const { return transport_->size(); }
  /// The transport: "threads", "mpi" or "nccl".
  std::string_view transport() const { return transport_->name(); }
  /// Whether elements go through the host's memory.
  bool on_host() const { return transport_->memory() == nullptr; }
  /// Machine, process and mode of each rank: "node1, process 4711, vectorized". A collective call.
  std::vector<std::string> places() const;

  /// A group of the ranks with the same `colour` (0 or more), numbered by `key` and then by their rank here.
  Group split(int colour, int key = 0) const;
  /// Waits until all ranks arrive.
  void barrier() const;

  // ---- in place, like Tensor::copy_ ----
  /// Every rank gets the sum (mean, maximum, minimum) over the ranks, with the same bits. Throws DTypeError for a mean
  /// of integers, and for a sum or mean of bool.
  void all_reduce(Tensor x, Reduction reduction = Reduction::sum) const;
  /// As all_reduce of each of several tensors of one dtype, in as few messages as possible. On devices it runs
  /// concurrently with what this thread queues next. Until `join`, do not read, write or release the tensors, and make
  /// no other call of the group except this one.
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
  /// x [size n, ...] -> [n, ...]: this rank's block, reduced over the ranks.
  Tensor reduce_scatter(const Tensor& x, Reduction reduction = Reduction::sum) const;
  /// x [size n, ...] -> [size n, ...]: block i goes to rank i.
  Tensor all_to_all(const Tensor& x) const;

  // ---- between two ranks ----
  void send(const Tensor& x, int to) const;
  /// Receives into x, which has the shape and dtype of what is sent.
  void receive(Tensor x, int from) const;

  // ---- texts ----
  /// The text of every rank, of any length.
  std::vector<std::string> all_gather(const std::string& text) const;
  /// Throws ParallelError in every rank if a rank's text differs from rank 0's; the message has `what`, the first line
  /// that differs, and the rank. For what must be equal, such as options and data fingerprints: one line each. A
  /// collective call.
  void check_same(const std::string& what, const std::string& text) const;
  /// The text of rank `root`.
  std::string broadcast(const std::string& text, int root = 0) const;
  /// Declares this rank failed, with the reason: the others do not wait for it.
  void abandon(const std::string& reason) const noexcept { transport_->abandon(reason); }
  /// The ranks part: no further call is made, and a rank that dies from here on does not end the others. With MPI,
  /// which would wait for it at its end, MPI itself ends here. A collective call.
  void leave() const { transport_->leave(); }
  /// For transports that open over another one.
  Collective& collective() const { return *transport_; }

 private:
  void* lend(const Tensor& x, bool reads, bool writes) const;
  void* stream() const;
  Reduction carried(Reduction reduction) const;
  Tensor blocks(const char* call, const Tensor& x) const;

  std::shared_ptr<Collective> transport_;
};

/// The same ranks with elements in the memory of the scope's device: over NCCL (the plug-in libtern_nccl.so), in the
/// order of the device's stream, so that a Step records them. Returns `host` itself if a rank's device is the host, if
/// two ranks use one device, or if NCCL is missing; elements then go through the host. A collective call, made in the
/// Device that will use the group.
Group on_devices(const Group& host);

/// How the ranks of a program start.
struct LaunchOptions {
  /// "threads": `ranks` threads of this process. "mpi": one rank per process that `mpirun` or `srun` started, over the
  /// plug-in libtern_mpi.so.
  std::string transport = "threads";
  int ranks = 1;  ///< for "threads"; MPI knows its number
  /// The longest time that a rank waits for another; 0: forever.
  std::chrono::milliseconds limit{600'000};
};

/// Runs `program` in every rank and returns when this process's ranks are done. Threads inherit the caller's scope and
/// random generator. If a rank throws, the others end and the error is thrown here. MPI starts once per process and
/// ends with it, so the process must end after an error; mpirun then ends all others. Throws DeviceUnavailable if there
/// is no such transport.
void launch(const LaunchOptions& options, const std::function<void(const Group& group)>& program);

/// The transports by name, and why unusable ones are missing. Does not start MPI.
struct TransportStatus {
  std::string name;
  bool available = false;
  std::string reason;
};
std::vector<TransportStatus> transports();

}  // namespace tern::parallel
