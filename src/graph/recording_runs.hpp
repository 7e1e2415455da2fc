#pragma once
// The two runs that make a recording: the first measures blocks, the second records kernels in the planned places.

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "graph/host_recording.hpp"
#include "memory/block_source.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/memory/memory.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"

namespace tern::graph {

inline std::size_t bytes_of(const Tensor& x) { return static_cast<std::size_t>(x.numel()) * size_of(x.dtype()); }

/// Thrown out of a run that cannot be recorded, and caught where it began.
struct Unrecordable {
  std::string reason;
};

inline constexpr const char* slices_differ = "slices of its batch run other kernels";

/// The pool, and the height of the stack that a kernel's blocks would make.
class Counted final : public BlockSource {
 public:
  void* take(std::size_t bytes) override {
    block_source = nullptr;
    void* const block = host_memory().allocate(bytes, nullptr);
    block_source = this;
    places_[block] = stack_.push(bytes);
    most = std::max(most, stack_.top());
    return block;
  }
  bool give_back(void* block) noexcept override {
    if (const auto found = places_.find(block); found != places_.end()) {
      stack_.pop(found->second);
      places_.erase(found);
    }
    return false;
  }
  std::size_t most = 0;

 private:
  std::map<const void*, std::size_t> places_;
  Stack stack_;
};

/// What both runs have in common: blocks of tensors are seen, those that kernels take for themselves are the pool's.
class Watch : public BlockSource, public kernels::Tape, public Observer {
 public:
  explicit Watch(AlgorithmChoices& choices)
      : source_(std::exchange(block_source, this)), tape_(std::exchange(kernels::tape, this)), choices_(choices) {
    begin();
  }
  ~Watch() override {
    end();
    block_source = source_;
    kernels::tape = tape_;
  }
  void begins() override {
    block_source = nullptr;
    choices_.launch();
  }
  void touches(const void*, bool) override {}
  void elementwise(const void*, const void*, const void*) override {}
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

 protected:
  AlgorithmChoices& choices_;
};

/// The first run: which blocks there are, from when to when, and which kernel may write into the block that it reads.
class Measure final : public Watch {
 public:
  using Watch::Watch;
  void* take(std::size_t bytes) override {
    void* const block = fresh(bytes);
    live_[static_cast<const std::byte*>(block)] = blocks.size();
    blocks.push_back({bytes, event_, 0});
    uses_.push_back({});
    ++event_;
    return block;
  }
  bool give_back(void* block) noexcept override {
    if (const auto found = live_.find(static_cast<const std::byte*>(block)); found != live_.end()) {
      blocks[found->second].end = ++event_;
      live_.erase(found);
    }
    return false;  // it is the pool's
  }
  void touches(const void* pointer, bool) override {
    const std::size_t i = find(pointer);
    if (i == none) return;
    if (uses_[i].first == none) uses_[i].first = launch_;
    uses_[i].last = launch_;
  }
  void elementwise(const void* out, const void* in, const void* other) override {
    const std::size_t to = find(out), from = find(in);
    if (to == none || from == none || to == from || find(other) == from) return;
    const auto starts = [&](const void* pointer) { return live_.contains(static_cast<const std::byte*>(pointer)); };
    if (starts(out) && starts(in) && blocks[to].bytes == blocks[from].bytes) pairs_.push_back({to, from, launch_});
  }
  void begins() override {
    Watch::begins();
    ++launch_;
    block_source = &own_.emplace();
  }
  void ends(std::unique_ptr<kernels::Launch> launch) noexcept override {
    if (launch != nullptr) workspaces.push_back({own_->most, event_, event_ + 1});
    ++event_;
    Watch::ends(std::move(launch));
  }

  /// What still lives is needed to the end. A block that is written first where another one is read last takes its
  /// place.
  void finish() {
    std::vector<bool> stays(blocks.size());
    for (const auto& [block, i] : live_) {
      blocks[i].end = event_ + 1;
      stays[i] = true;
    }
    place_of.resize(blocks.size());
    std::iota(place_of.begin(), place_of.end(), std::size_t{0});
    std::vector<bool> handed_on(blocks.size());
    for (const auto& [to, from, launch] : pairs_) {
      if (uses_[to].first != launch || uses_[from].last != launch || stays[from] || handed_on[from] ||
          place_of[to] != to)
        continue;
      handed_on[from] = true;
      place_of[to] = place_of[from];
      Lifetime& whole = blocks[place_of[from]];
      whole.end = std::max(whole.end, blocks[to].end);
    }
  }
  std::vector<Lifetime> blocks;
  std::vector<Lifetime> workspaces;   ///< of the launches
  std::vector<std::size_t> place_of;  ///< the block in whose place each one lies

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
  struct Uses {
    std::size_t first = none, last = none;  // launches
  };
  struct Pair {
    std::size_t to, from, launch;
  };

  std::size_t find(const void* pointer) const {
    auto entry = live_.upper_bound(static_cast<const std::byte*>(pointer));
    if (pointer == nullptr || entry == live_.begin()) return none;
    --entry;
    return static_cast<const std::byte*>(pointer) < entry->first + blocks[entry->second].bytes ? entry->second : none;
  }

  std::optional<Counted> own_;
  std::map<const std::byte*, std::size_t> live_;
  std::vector<Uses> uses_;
  std::vector<Pair> pairs_;
  std::size_t event_ = 0, launch_ = 0;
};

/// The second run, in the planned places.
class Record final : public Watch {
 public:
  Record(const std::vector<Lifetime>& blocks, const MemoryPlan& plan, const Block& block, const Structure& structure,
         const std::vector<Tensor>& inputs, std::vector<Action>& actions, AlgorithmChoices& choices)
      : Watch(choices), blocks_(blocks), plan_(plan), block_(block), actions_(actions) {
    for (const Tensor& input : inputs) inputs_.push_back(input.shared_storage().get());
    for (const Value& value : structure.values)
      if (value.tensor.defined()) held_.insert(value.tensor.shared_storage().get());
  }

  void* take(std::size_t bytes) override {
    if (next_ == blocks_.size() || blocks_[next_].bytes != bytes) {
      problem_ = "its two runs differ";
      return nullptr;  // the pool's, and the recording is dropped
    }
    std::byte* const place = block_.data() + plan_.offsets[next_];
    const State state = std::exchange(host_writes_next_, false) ? State::by_host : State::fresh;
    // Two owners: the second one takes over what the first is read for the last time for.
    if (const auto [entry, first] = live_.try_emplace(place, Live{bytes, state}); !first) ++entry->second.owners;
    ++next_;
    return place;
  }
  bool give_back(void* block) noexcept override {
    auto* const place = static_cast<std::byte*>(block);
    if (!inside(place)) return false;
    if (const auto entry = live_.find(place); entry != live_.end() && --entry->second.owners == 0) live_.erase(entry);
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
      Action action{.launch = std::move(launch), .algorithm = choices_.wanted()};
      if (kernels::weight_version != nullptr) {
        action.weights = std::make_unique<kernels::WeightVersion>(*kernels::weight_version);
        action.keeps = holds(*action.weights);
      }
      actions_.push_back(std::move(action));
    } catch (const std::exception&) {
      problem_ = "memory ran out";
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
  const std::string& problem() const { return problem_; }

 private:
  enum class State : std::uint8_t { fresh, by_host, kept, by_kernel };
  struct Live {
    std::size_t bytes = 0;
    State state = State::fresh;
    int owners = 1;
  };

  /// Whether all weights are the graph's: inputs and what is computed change from call to call.
  bool holds(const kernels::WeightVersion& weights) const {
    return held_.contains(weights.storage.lock().get()) &&
           std::ranges::all_of(weights.more, [&](const auto& each) { return holds(each); });
  }
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
  std::set<const void*> held_;
  std::map<std::byte*, Live> live_;
  std::size_t next_ = 0;
  bool host_writes_next_ = false;
  std::string problem_;
};

}  // namespace tern::graph
