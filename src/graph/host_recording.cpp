#include "graph/host_recording.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "memory/block_source.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/memory/memory.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"

namespace tern::graph {

Block::Block(std::size_t bytes)
    : bytes_(bytes), data_(bytes == 0 ? nullptr : static_cast<std::byte*>(host_memory().allocate(bytes, nullptr))) {}
Block::~Block() {
  if (data_ != nullptr) host_memory().release(data_, bytes_, nullptr);
}

namespace {

std::size_t bytes_of(const Tensor& x) { return static_cast<std::size_t>(x.numel()) * size_of(x.dtype()); }

/// Thrown out of a run that cannot be recorded, and caught where it began.
struct Unrecordable {
  std::string reason;
};

constexpr const char* slices_differ = "slices of its batch run other kernels";

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

}  // namespace

std::vector<Tensor> HostRecording::run_graph() {
  if (!slices_) return graph_.run(inputs_);
  bool other = false;
  std::vector<Tensor> results = slices_->run(inputs_, choices_, other);
  if (choices_.missed() || other) throw Unrecordable{slices_differ};
  return results;
}

std::vector<Tensor> HostRecording::note() {
  const Measure launches(choices_);
  std::vector<Tensor> results = slices_->run_whole(inputs_, choices_);
  for (Tensor& result : results) result = result.contiguous();
  return results;
}

std::vector<Tensor> HostRecording::measure() {
  Measure measured(choices_);
  std::vector<Tensor> results = run_graph();
  for (Tensor& result : results) result = result.contiguous();
  measured.finish();
  blocks_ = measured.blocks;
  std::vector<Lifetime> places = blocks_;
  for (std::size_t i = 0; i < places.size(); ++i)
    if (measured.place_of[i] != i) places[i].bytes = 0;  // it needs no place of its own
  std::ranges::copy(measured.workspaces, std::back_inserter(places));
  plan_ = plan_memory(places);
  workspaces_.clear();
  for (std::size_t i = blocks_.size(); i < places.size(); ++i)
    workspaces_.push_back({plan_.offsets[i], places[i].bytes});
  std::vector<std::size_t> offsets;
  for (const std::size_t place : measured.place_of) offsets.push_back(plan_.offsets[place]);
  plan_.offsets = std::move(offsets);
  // An input or a constant that is a result would be the caller's to change.
  for (Tensor& result : results) result = result.clone();
  return results;
}

void HostRecording::record(std::string& reason) {
  block_ = std::make_unique<Block>(plan_.bytes);
  Record recording(blocks_, plan_, *block_, graph_.structure(), inputs_, actions_, choices_);
  for (Tensor& whole : run_graph()) {
    const Tensor result = whole.contiguous();
    const auto* place = static_cast<const std::byte*>(result.storage().pointer_in(host_memory()));
    const bool ours = place != nullptr && place >= block_->data() && place < block_->data() + block_->bytes();
    if (place != nullptr) place += static_cast<std::size_t>(result.offset()) * size_of(result.dtype());
    results_.push_back({place, result.dtype(), result.shape(), ours ? Tensor{} : result});
  }
  reason = recording.problem();
  auto workspace = workspaces_.begin();
  for (Action& action : actions_)
    if (action.launch != nullptr && workspace != workspaces_.end()) action.workspace = *workspace++;
}

void HostRecording::replay(Context& context) {
  // Back to what it was, also where a kernel throws.
  struct Outer {
    AlgorithmChoices& choices;
    const kernels::WeightVersion* const version = kernels::weight_version;
    BlockSource* const source = std::exchange(block_source, nullptr);
    ~Outer() {
      block_source = source;
      choices.want(nullptr);
      kernels::weight_version = version;
      kernels::derived_weights = nullptr;
    }
  } const outer{choices_};
  for (const Action& action : actions_) {
    if (action.launch == nullptr) {
      std::memcpy(action.place, action.bytes.data(), action.bytes.size());
      continue;
    }
    std::shared_ptr<int> others;  // weights that no call has seen
    if (action.weights != nullptr && !action.keeps) action.weights->storage = others = std::make_shared<int>();
    kernels::weight_version = action.weights.get();
    action.derived.next = 0;
    kernels::derived_weights = action.keeps ? &action.derived : nullptr;
    choices_.want(action.algorithm);
    workspace_.begin(block_->data() + action.workspace.offset, action.workspace.bytes);
    block_source = action.workspace.bytes == 0 ? nullptr : &workspace_;
    action.launch->run(context);
  }
}

namespace {

/// Whether two contiguous tensors have elements in common.
bool overlap(const Tensor& a, const Tensor& b) {
  return a.shared_storage() == b.shared_storage() && a.offset() < b.offset() + b.numel() &&
         b.offset() < a.offset() + a.numel();
}

}  // namespace

void HostRecording::write(std::vector<Tensor>& results) const {
  results.resize(results_.size());
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const Result& result = results_[i];
    Tensor& out = results[i];
    const auto shares = [&](const Tensor& before) { return &before < &out && overlap(before, out); };
    const bool fits = out.defined() && out.dtype() == result.dtype && out.shape() == result.shape &&
                      out.is_contiguous() && !out.requires_grad() && std::ranges::none_of(results, shares);
    if (!fits) out = Tensor(result.shape, result.dtype);
    if (out.numel() == 0) continue;
    const std::byte* from = result.place;
    if (result.held.defined())
      from = static_cast<const std::byte*>(result.held.storage().read_host()) +
             static_cast<std::size_t>(result.held.offset()) * size_of(result.dtype);
    const bool whole = out.storage().bytes() == bytes_of(out);
    auto* const to = static_cast<std::byte*>(whole ? out.storage().write_host() : out.storage().update_host());
    std::memcpy(to + static_cast<std::size_t>(out.offset()) * size_of(out.dtype()), from, bytes_of(out));
  }
}

namespace {

/// Large arrays are worth the mode's threads.
void copy_elements(Context& context, void* to, const void* from, std::int64_t count, std::size_t element) {
  const std::size_t bytes = static_cast<std::size_t>(count) * element;
  constexpr std::size_t large = std::size_t{1} << 20;
  const Mode& mode = *current_scope().mode;
  if (bytes < large || context.threads == 1 || mode.inner != nullptr)
    std::memcpy(to, from, bytes);
  else
    mode.movement.copy(context, to, from, {.rank = 1, .size = {count}, .out = {1}, .in = {1}, .count = count}, element);
}

}  // namespace

void HostRecording::take_in(const std::vector<Tensor>& inputs, Context& context) {
  const bool first = inputs_.empty();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (first) {
      inputs_.push_back(inputs[i].detach().clone());
      continue;
    }
    const Tensor whole = inputs[i].is_contiguous() ? inputs[i] : inputs[i].detach().contiguous();
    if (whole.numel() == 0) continue;
    const auto* const from = static_cast<const std::byte*>(whole.storage().read_host());
    const std::size_t element = size_of(whole.dtype());
    copy_elements(context, inputs_[i].storage().write_host(), from + static_cast<std::size_t>(whole.offset()) * element,
                  whole.numel(), element);
  }
}

void HostRecording::run(const std::vector<Tensor>& inputs, std::vector<Tensor>& results, Context& context,
                        std::string& reason) {
  const NoGrad no_grad;
  take_in(inputs, context);
  std::optional<AlgorithmChoices::Use> use;
  if (slices_) use.emplace(choices_, context);
  try {
    if (!std::exchange(ran_, true)) {
      results = slices_ ? note() : measure();
    } else if (!std::exchange(measured_, true)) {
      results = measure();
    } else if (!recorded()) {
      record(reason);
      if (reason.empty()) write(results);
    } else {
      replay(context);
      // A kernel that could not handle an image would have taken the other algorithm for all of them.
      if (choices_.missed())
        results = graph_.run(inputs);
      else
        write(results);
    }
  } catch (const Unrecordable& cause) {
    reason = cause.reason;
  }
  if (!reason.empty() && slices_) {
    forget_slices();
    reason.clear();
    results = graph_.run(inputs);
  }
  if (!reason.empty()) results.clear();
}

void HostRecording::forget_slices() {
  slices_.reset();
  measured_ = false;
  block_.reset();
  actions_.clear();
  results_.clear();
}

}  // namespace tern::graph
