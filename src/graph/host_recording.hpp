#pragma once
// The kernels that a graph calls on the host, recorded with their memory, to run again without the operators.

#include <memory>
#include <string>
#include <vector>

#include "graph/memory_plan.hpp"
#include "graph/slices.hpp"
#include "memory/block_source.hpp"
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

/// Places one on top of the other, by their offsets.
class Stack {
 public:
  std::size_t push(std::size_t bytes) {
    const std::size_t top = this->top();
    taken_.push_back({top, top + bytes / 64 * 64 + 64});
    return top;
  }
  /// A place below others is free when they are.
  void pop(std::size_t offset) {
    for (Place& place : taken_) place.free |= place.begin == offset;
    while (!taken_.empty() && taken_.back().free) taken_.pop_back();
  }
  std::size_t top() const { return taken_.empty() ? 0 : taken_.back().end; }
  void clear() { taken_.clear(); }

 private:
  struct Place {
    std::size_t begin, end;
    bool free = false;
  };
  std::vector<Place> taken_;
};

/// A part of the block, for what a kernel takes for itself. What does not fit is the pool's.
class Workspace final : public BlockSource {
 public:
  void begin(std::byte* data, std::size_t bytes) {
    data_ = data;
    bytes_ = bytes;
    stack_.clear();
  }
  void* take(std::size_t bytes) override {
    const std::size_t offset = stack_.push(bytes);
    if (stack_.top() <= bytes_) return data_ + offset;
    stack_.pop(offset);
    return nullptr;
  }
  bool give_back(void* block) noexcept override {
    auto* const place = static_cast<std::byte*>(block);
    if (place < data_ || place >= data_ + bytes_) return false;
    stack_.pop(static_cast<std::size_t>(place - data_));
    return true;
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  Stack stack_;
};

/// What one call of the recorded program does, in order.
struct Action {
  struct Place {
    std::size_t offset = 0, bytes = 0;
  };
  std::unique_ptr<kernels::Launch> launch;               ///< null: writes `bytes` to `place`
  std::unique_ptr<kernels::WeightVersion> weights = {};  ///< that its kernel may keep something of
  bool keeps = false;                                    ///< from call to call: they are the graph's, and stay
  mutable kernels::DerivedWeights derived = {};          ///< what it has kept
  const char* algorithm = nullptr;                       ///< that its kernel has to take; null: any
  Place workspace = {};                                  ///< of the block, for what the kernel takes for itself
  std::byte* place = nullptr;
  std::vector<std::byte> bytes = {};  ///< what the host wrote while it was recorded
};

/// The first call runs the graph; where slices of the batch save memory it notes the algorithms of the whole batch. The
/// second, which finds what kernels keep of their weights, plans the memory, the third runs there and is recorded, and
/// later ones run the recording, in the scope of the thread. They allocate nothing but new results: what kernels take
/// for themselves has its place in the plan.
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
  bool ran_ = false, measured_ = false;
  std::vector<Lifetime> blocks_;  ///< of the first run
  MemoryPlan plan_;
  std::vector<Action::Place> workspaces_;  ///< of the launches
  Workspace workspace_;
  std::vector<Tensor> inputs_;  ///< the kernels read these
  std::unique_ptr<Block> block_;
  std::vector<Action> actions_;
  std::vector<Result> results_;
};

}  // namespace tern::graph
