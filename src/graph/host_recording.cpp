#include "graph/host_recording.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "memory/block_source.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/memory/memory.hpp"
#include "tern/modes/observer.hpp"

namespace tern::graph {

Block::Block(std::size_t bytes)
    : bytes_(bytes), data_(bytes == 0 ? nullptr : static_cast<std::byte*>(host_memory().allocate(bytes, nullptr))) {}
Block::~Block() {
  if (data_ != nullptr) host_memory().release(data_, bytes_, nullptr);
}

namespace {

/// Thrown out of a run that cannot be recorded, and caught where it began.
struct Unrecordable {
  std::string reason;
};

/// What both runs have in common: blocks of tensors are seen, those that kernels take for themselves are the pool's.
class Watch : public BlockSource, public kernels::Tape, public Observer {
 public:
  Watch() : source_(std::exchange(block_source, this)), tape_(std::exchange(kernels::tape, this)) { begin(); }
  ~Watch() override {
    end();
    block_source = source_;
    kernels::tape = tape_;
  }
  void begins() override { block_source = nullptr; }
  void touches(const void*, bool) override {}
  void ends(std::unique_ptr<kernels::Launch>) noexcept override { block_source = this; }
  void begin_move(const Move&) override { throw Unrecordable{"it moves bytes between memories"}; }
  void draws(Generator&) override { throw Unrecordable{"it draws random numbers"}; }

 protected:
  /// A block of the pool.
  void* fresh(std::size_t bytes) {
    block_source = nullptr;
    void* const block = host_memory().allocate(bytes, nullptr);
    block_source = this;
    return block;
  }

 private:
  BlockSource* source_;
  Tape* tape_;
};

/// The first run: which blocks there are, and from when to when.
class Measure final : public Watch {
 public:
  void* take(std::size_t bytes) override {
    void* const block = fresh(bytes);
    live_[block] = blocks.size();
    blocks.push_back({bytes, event_, 0});
    ++event_;
    return block;
  }
  bool give_back(void* block) noexcept override {
    if (const auto found = live_.find(block); found != live_.end()) {
      blocks[found->second].end = ++event_;
      live_.erase(found);
    }
    return false;  // it is the pool's
  }
  /// What still lives is needed to the end.
  void finish() {
    for (const auto& [block, i] : live_) blocks[i].end = event_ + 1;
  }
  std::vector<Lifetime> blocks;

 private:
  std::map<void*, std::size_t> live_;
  std::size_t event_ = 0;
};

/// The second run, in the planned places.
class Record final : public Watch {
 public:
  Record(const std::vector<Lifetime>& blocks, const MemoryPlan& plan, const Block& block,
         const std::vector<Tensor>& inputs, std::vector<Action>& actions)
      : blocks_(blocks), plan_(plan), block_(block), actions_(actions) {
    for (const Tensor& input : inputs) inputs_.push_back(input.shared_storage().get());
  }

  void* take(std::size_t bytes) override {
    if (next_ == blocks_.size() || blocks_[next_].bytes != bytes) {
      failed_ = "its two runs differ";
      return nullptr;  // the pool's, and the recording is dropped
    }
    std::byte* const place = block_.data() + plan_.offsets[next_];
    live_[place] = {bytes, std::exchange(host_writes_next_, false) ? State::by_host : State::fresh};
    ++next_;
    return place;
  }
  bool give_back(void* block) noexcept override {
    auto* const place = static_cast<std::byte*>(block);
    if (!inside(place)) return false;
    live_.erase(place);
    return true;
  }

  void touches(const void* pointer, bool writes) override {
    const auto entry = find(pointer);
    if (entry == live_.end()) return;
    auto& [place, live] = *entry;
    if (live.state == State::by_host)
      actions_.push_back({.launch = nullptr, .place = place, .bytes = {place, place + live.bytes}});
    if (live.state == State::by_host) live.state = State::kept;
    if (writes) live.state = State::by_kernel;
  }
  void ends(std::unique_ptr<kernels::Launch> launch) noexcept override {
    Watch::ends(nullptr);
    if (launch == nullptr) return;
    try {
      Action action{.launch = std::move(launch)};
      if (kernels::weight_version != nullptr)
        action.weights = std::make_unique<kernels::WeightVersion>(*kernels::weight_version);
      actions_.push_back(std::move(action));
    } catch (const std::exception&) {
      failed_ = "memory ran out";
    }
  }

  void host_uses(Storage& storage, bool writes) override {
    if (std::ranges::find(inputs_, &storage) != inputs_.end()) throw Unrecordable{"the host looks at an input"};
    const void* const pointer = storage.pointer_in(host_memory());
    host_writes_next_ = writes && pointer == nullptr;  // it gets its place now
    const auto entry = find(pointer);
    if (entry == live_.end()) return;
    if (entry->second.state == State::by_kernel) throw Unrecordable{"the host looks at what a kernel computes"};
    if (writes) entry->second.state = State::by_host;
  }
  const std::string& failed() const { return failed_; }

 private:
  enum class State : std::uint8_t { fresh, by_host, kept, by_kernel };
  struct Live {
    std::size_t bytes = 0;
    State state = State::fresh;
  };

  bool inside(const std::byte* place) const { return place >= block_.data() && place < block_.data() + block_.bytes(); }
  std::map<std::byte*, Live>::iterator find(const void* pointer) {
    auto* const place = const_cast<std::byte*>(static_cast<const std::byte*>(pointer));
    if (place == nullptr || !inside(place)) return live_.end();
    auto entry = live_.upper_bound(place);
    return entry == live_.begin() ? live_.end() : --entry;
  }

  const std::vector<Lifetime>& blocks_;
  const MemoryPlan& plan_;
  const Block& block_;
  std::vector<Action>& actions_;
  std::vector<const Storage*> inputs_;
  std::map<std::byte*, Live> live_;
  std::size_t next_ = 0;
  bool host_writes_next_ = false;
  std::string failed_;
};

}  // namespace

HostRecording::HostRecording(const Graph& graph, const std::vector<Tensor>& inputs, std::string& reason) {
  const NoGrad no_grad;
  for (const Tensor& input : inputs) inputs_.push_back(input.detach().clone());
  try {
    std::vector<Lifetime> blocks;
    {
      Measure measure;
      std::vector<Tensor> results = graph.run(inputs_);
      for (Tensor& result : results) result = result.contiguous();
      measure.finish();
      blocks = measure.blocks;
    }
    const MemoryPlan plan = plan_memory(blocks);
    block_ = std::make_unique<Block>(plan.bytes);
    Record record(blocks, plan, *block_, inputs_, actions_);
    std::vector<Tensor> results = graph.run(inputs_);
    for (Tensor& result : results) {
      result = result.contiguous();
      const auto* place = static_cast<const std::byte*>(result.storage().pointer_in(host_memory()));
      const bool ours = place != nullptr && place >= block_->data() && place < block_->data() + block_->bytes();
      if (place != nullptr) place += static_cast<std::size_t>(result.offset()) * size_of(result.dtype());
      results_.push_back({place, result.dtype(), result.shape(), ours ? Tensor{} : result});
    }
    results.clear();
    reason = record.failed();
  } catch (const Unrecordable& cause) {
    reason = cause.reason;
  }
  if (reason.empty()) return;
  actions_.clear();
  results_.clear();
}

std::vector<Tensor> HostRecording::run(const std::vector<Tensor>& inputs, Context& context) {
  const auto bytes_of = [](const Tensor& x) { return static_cast<std::size_t>(x.numel()) * size_of(x.dtype()); };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor whole = inputs[i].detach().contiguous();
    if (whole.numel() == 0) continue;
    const auto* const from = static_cast<const std::byte*>(whole.storage().read_host());
    std::memcpy(inputs_[i].storage().write_host(),
                from + static_cast<std::size_t>(whole.offset()) * size_of(whole.dtype()), bytes_of(whole));
  }
  const kernels::WeightVersion* const outer = kernels::weight_version;
  for (const Action& action : actions_) {
    if (action.launch == nullptr) {
      std::memcpy(action.place, action.bytes.data(), action.bytes.size());
      continue;
    }
    kernels::weight_version = action.weights.get();
    action.launch->run(context);
  }
  kernels::weight_version = outer;
  std::vector<Tensor> results;
  for (const Result& result : results_) {
    if (result.held.defined()) {
      results.push_back(result.held.clone());
      continue;
    }
    Tensor out(result.shape, result.dtype);
    if (out.numel() > 0) std::memcpy(out.storage().write_host(), result.place, bytes_of(out));
    results.push_back(std::move(out));
  }
  return results;
}

}  // namespace tern::graph
