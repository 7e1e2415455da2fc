#pragma once
// The kernels that a graph calls on the host, recorded with their memory, to run again without the operators.

#include <memory>
#include <string>
#include <vector>

#include "graph/memory_plan.hpp"
#include "graph/slices.hpp"
#include "tern/graph/graph.hpp"
#include "tern/kernels/tape.hpp"
#include "tern/kernels/weight_version.hpp"

namespace tern::graph {

/// A block of the host's memory.
class Block {
 public:
  explicit Block(std::size_t bytes);
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block();
  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

/// What one call of the recorded program does, in order.
struct Action {
  std::unique_ptr<kernels::Launch> launch;               ///< null: writes `bytes` to `place`
  std::unique_ptr<kernels::WeightVersion> weights = {};  ///< that its kernel may keep something of
  mutable kernels::DerivedWeights derived = {};          ///< what it has kept
  const char* algorithm = nullptr;                       ///< that its kernel has to take; null: any
  std::byte* place = nullptr;
  std::vector<std::byte> bytes = {};  ///< what the host wrote while it was recorded
};

/// The first call runs the graph and plans the memory, the second runs it there and is recorded, later ones run the
/// recording, in the scope of the thread. Later ones allocate nothing but new results. Where slices of the batch save
/// memory, one more call comes first, which notes the algorithms of the whole batch.
class HostRecording {
 public:
  /// `slice_bytes`: what slices of the batch should need at a time.
  HostRecording(const Graph& graph, std::int64_t batch, std::size_t slice_bytes)
      : graph_(graph), slices_(sliced(graph, batch, slice_bytes)) {}

  /// Writes into the results that fit (dtype, shape, contiguous) and makes others anew. Where the graph cannot be
  /// recorded `reason` says why, the results are empty, and run may not be called again.
  void run(const std::vector<Tensor>& inputs, std::vector<Tensor>& results, Context& context, std::string& reason);
  bool in_slices() const { return slices_.has_value(); }
  bool recorded() const { return block_ != nullptr; }
  std::size_t bytes() const { return block_ == nullptr ? 0 : block_->bytes(); }

 private:
  struct Result {
    const std::byte* place;
    DType dtype;
    Shape shape;
    Tensor held;  ///< an input or a constant that is a result as well
  };

  std::vector<Tensor> run_graph();
  std::vector<Tensor> note();
  std::vector<Tensor> measure();
  void record(std::string& reason);
  void replay(Context& context);
  void forget_slices();
  void take_in(const std::vector<Tensor>& inputs, Context& context);
  void write(std::vector<Tensor>& results) const;

  Graph graph_;
  std::optional<Slices> slices_;
  AlgorithmChoices choices_;  // of the slices
  bool noted_ = false, measured_ = false;
  std::vector<Lifetime> blocks_;  ///< of the first run
  MemoryPlan plan_;
  std::vector<Tensor> inputs_;  ///< the kernels read these
  std::unique_ptr<Block> block_;
  std::vector<Action> actions_;
  std::vector<Result> results_;
};

}  // namespace tern::graph
