#include "graph/host_recording.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "graph/recording_runs.hpp"

namespace tern::graph {

Block::Block(std::size_t bytes)
    : bytes_(bytes), data_(bytes == 0 ? nullptr : static_cast<std::byte*>(host_memory().allocate(bytes, nullptr))) {}
Block::~Block() {
  if (data_ != nullptr) host_memory().release(data_, bytes_, nullptr);
}

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
