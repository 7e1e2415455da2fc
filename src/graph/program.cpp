#include "tern/graph/program.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "graph/host_recording.hpp"
#include "run/recording.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/graph/passes.hpp"
#include "tern/graph/trace.hpp"
#include "tern/kernels/weight_version.hpp"
#include "tern/modes/device.hpp"
#include "tern/run/step.hpp"

namespace tern::graph {

namespace {

constexpr std::size_t most_batches = 32;
constexpr std::size_t slice_bytes = std::size_t{2}
                                    << 20;  // per thread: smaller ones cost more launches than they save memory

/// What keeps every call from being recorded; empty: nothing.
std::string obstacle(const Scope& scope) {
  if (scope.observer != nullptr) return "the device checks every operator";
  if (scope.mode->capture != nullptr) return "";
  return scope.mode->memory == &host_memory() ? "" : "the mode's memory is not the host's";
}

Graph traced_in_evaluation(const nn::Module& module, const std::vector<Tensor>& examples) {
  module.visit([](const std::string& path, const nn::Module& below) {
    expects(!below.training(), "program: the module ", path.empty() ? below.describe() : path,
            " trains; call eval() first, so that nothing changes while it answers");
  });
  return trace(module, examples);
}

}  // namespace

struct Program::State {
  State(Graph made, bool folds) : graph(folds ? for_inference(made) : optimized(made)), scope(current_scope()) {
    reason = obstacle(scope);
    if (reason.empty() && scope.mode->capture != nullptr)
      step.emplace(Step::Function([this](const std::vector<Tensor>& inputs) {
        kernels::lasting_storages = within_step ? nullptr : &storages;
        const struct Outer {
          ~Outer() { kernels::lasting_storages = nullptr; }
        } outer;
        return graph.run(inputs);
      }));
    for (const Value& value : graph.structure().values)
      if (value.tensor.defined()) held.push_back(value.tensor);
    for (const Tensor& tensor : held) storages.push_back(tensor.shared_storage().get());
    versions = present_versions();
  }

  std::vector<std::uint64_t> present_versions() const {
    std::vector<std::uint64_t> present;
    for (const Tensor& tensor : held) present.push_back(tensor.storage().version());
    return present;
  }

  /// Whether a tensor of the graph has changed since the last call.
  bool changed() {
    bool any = false;
    for (std::size_t i = 0; i < held.size(); ++i) {
      const std::uint64_t present = held[i].storage().version();
      any |= std::exchange(versions[i], present) != present;
    }
    return any;
  }

  /// A recording for this batch that no other thread uses; null where none can be made.
  std::unique_ptr<HostRecording> take(std::int64_t n) {
    {
      const std::lock_guard lock(mutex);
      if (!reason.empty()) return nullptr;
      if (changed()) free.clear();  // their kernels may have kept something of the weights
      if (auto& known = free[n]; !known.empty()) {
        std::unique_ptr<HostRecording> recording = std::move(known.back());
        known.pop_back();
        return recording;
      }
    }
    const auto threads = static_cast<std::size_t>(current_scope().context.threads);
    return std::make_unique<HostRecording>(graph, n, threads * slice_bytes);
  }

  /// One call with a recording; the graph itself runs where that is not possible.
  void run(std::int64_t n, const std::vector<Tensor>& inputs, std::vector<Tensor>& results) {
    std::unique_ptr<HostRecording> recording = take(n);
    std::string problem;
    if (recording != nullptr) {
      recording->run(inputs, results, current_scope().context, problem);
      if (problem.empty()) return put_back(n, std::move(recording));
      const std::lock_guard lock(mutex);
      if (reason.empty()) reason = problem;
      free.clear();
    }
    results = graph.run(inputs);
    set_apart(results, inputs);
  }

  /// A result that is an input or a tensor of the graph would be the caller's to change.
  void set_apart(std::vector<Tensor>& results, const std::vector<Tensor>& inputs) const {
    for (Tensor& result : results) {
      const auto shares = [&](const Tensor& x) { return x.shared_storage() == result.shared_storage(); };
      if (std::ranges::any_of(inputs, shares) || std::ranges::any_of(held, shares)) result = result.clone();
    }
  }

  void put_back(std::int64_t n, std::unique_ptr<HostRecording> recording) {
    const std::lock_guard lock(mutex);
    if (free.size() > most_batches) free.clear();
    free[n].push_back(std::move(recording));
  }

  Graph graph;
  Scope scope;
  std::string reason;  // set once, under the lock: references to it stay good
  std::vector<Tensor> held;
  std::vector<const void*> storages;  // of these
  bool within_step = false;           // of the caller, whose replays do not come by here
  std::mutex mutex;
  std::vector<std::uint64_t> versions;
  std::map<std::int64_t, std::vector<std::unique_ptr<HostRecording>>> free;
  std::optional<Step> step;
};

Program::Program(const Graph& graph, const ProgramOptions& options)
    : state_(std::make_unique<State>(graph, options.fold)) {}
Program::Program(const nn::Module& module, const std::vector<Tensor>& examples, const ProgramOptions& options)
    : Program(traced_in_evaluation(module, examples), options) {}
Program::Program(std::unique_ptr<State> state) : state_(std::move(state)) {}
Program::~Program() = default;
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;

const Graph& Program::graph() const { return state_->graph; }
const std::string& Program::unrecorded() const {
  static const std::string none;
  const std::lock_guard lock(state_->mutex);
  return state_->reason.empty() ? none : state_->reason;
}

void Program::run(const std::vector<Tensor>& inputs, std::vector<Tensor>& results) const {
  const std::int64_t n = state_->graph.batch_of(inputs);
  const NoGrad no_grad;
  const Device device(state_->scope);
  if (state_->step) {
    const std::lock_guard lock(state_->mutex);
    if (state_->changed()) state_->step->reset();  // its recordings hold packed weights
    state_->within_step = Recording::running() != nullptr;
    results = state_->step->run_all(inputs);
    state_->set_apart(results, inputs);
  } else {
    state_->run(n, inputs, results);
  }
}

std::vector<Tensor> Program::operator()(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> results;
  run(inputs, results);
  return results;
}

Tensor Program::operator()(const Tensor& x) const {
  std::vector<Tensor> results = (*this)(std::vector{x});
  expects(results.size() == 1, "program: ", results.size(), " results; call it with a list of inputs");
  return std::move(results[0]);
}

std::size_t Program::planned_bytes(std::int64_t batch) const {
  if (state_->step) return 0;
  const Structure& own = state_->graph.structure();
  std::vector<Tensor> inputs, results;
  for (const int id : own.inputs) inputs.push_back(zeros(own.values[id].shape_at(batch), own.values[id].dtype));
  const NoGrad no_grad;
  const Device device(state_->scope);
  for (int i = 0; i < 3; ++i) state_->run(batch, inputs, results);
  std::unique_ptr<HostRecording> recording = state_->take(batch);
  const std::size_t bytes = recording == nullptr ? 0 : recording->bytes();
  if (recording != nullptr) state_->put_back(batch, std::move(recording));
  return bytes;
}

void Program::save(const std::string& file) const { state_->graph.save(file); }

Program Program::load(const std::string& file) { return Program(std::make_unique<State>(Graph::load(file), false)); }

}  // namespace tern::graph
