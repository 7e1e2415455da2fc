// The engines of cuDNN: which run a convolution, and their plans.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/convolution/engine_graph.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/streams.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr std::size_t most_workspace = std::size_t{1} << 30;

/// What cuDNN says about the arithmetic of an engine.
class Notes {
 public:
  explicit Notes(const Descriptor& configuration) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t handle = engine.get();
    std::int64_t count = 0;
    known_ = cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      1, &count, &handle) == CUDNN_STATUS_SUCCESS &&
             cudnnBackendGetAttribute(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                      CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count_, notes_.data()) == CUDNN_STATUS_SUCCESS;
  }
  bool has(cudnnBackendNumericalNote_t note) const {
    return std::find(notes_.begin(), notes_.begin() + count_, note) != notes_.begin() + count_;
  }
  /// Whether an engine rounds as the problem allows, and is reproducible if it must be.
  bool allowed(const Problem& problem) const {
    return known_ && !(problem.deterministic && has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) &&
           !has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) && !has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
           (problem.tensor_cores() || !has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
  }

 private:
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes_{};
  std::int64_t count_ = 0;
  bool known_ = false;
};

// What cuDNN proposes for the graph, most promising first.
std::vector<Descriptor> configurations(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  std::vector<Descriptor> made;
  if (!heuristics.try_finalize()) return made;
  std::int64_t count = 0;
  cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count,
                           nullptr);
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    made.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(made.back().get());
  }
  std::int64_t returned = 0;
  cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                           &returned, handles.data());
  while (static_cast<std::int64_t>(made.size()) > returned) made.pop_back();
  return made;
}

// What one call runs: a few wide groups run faster as separate convolutions on slices of the channels than as one
// grouped convolution.
Problem one_call(Problem problem) {
  if (runs_together(problem)) return problem;
  problem.C /= problem.groups;
  problem.O /= problem.groups;
  problem.groups = 1;
  if (problem.by_groups) problem.x_channels = problem.C, problem.y_channels = problem.O;
  return problem;
}

/// A handle of cuDNN, shared by everything that was made with it.
using Library = std::shared_ptr<std::remove_pointer_t<cudnnHandle_t>>;

Library start_library() {
  cudnnHandle_t handle = nullptr;
  check_library(cudnnCreate(&handle), "starting cuDNN");
  return {handle, [](cudnnHandle_t started) { cudnnDestroy(started); }};
}

/// A plan of cuDNN with everything that it refers to.
struct Engine {
  Library library;
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<const Descriptor> configuration;
  Descriptor plan;
  std::size_t workspace;
};

/// What cuDNN proposes for a problem, and the plan that was used last.
class Proposals {
 public:
  Proposals(Library library, const Problem& problem)
      : library_(std::move(library)),
        problem_(problem),
        graph_(std::make_shared<const Graph>(graph_of(library_.get(), one_call(problem)))) {
    ask(asks_second_mode(problem) ? CUDNN_HEUR_MODE_B : CUDNN_HEUR_MODE_A);
  }

  int next(int number) {
    if (number >= 0) return search(number + 1);
    if (!first_) {
      first_ = search(0);
      if (*first_ < 0 && !asked_all_) {  // the other query is for problems for which none of these runs
        const int before = count();
        ask(CUDNN_HEUR_MODE_FALLBACK);
        asked_all_ = true;
        first_ = search(before);
      }
    }
    return *first_;
  }
  /// The plan, or the first one that runs if cuDNN refused it. -1: none.
  int usable(int number) { return refused_.contains(number) ? next(-1) : number; }
  /// An engine that can be planned may still refuse to run (cuDNN 9, gradients of weights in 16 bits).
  void refuse(int number) {
    refused_.insert(number);
    if (first_ == number) first_.reset();
  }
  /// Whether the first one transforms its images as a whole.
  bool transforms() {
    const int first = next(-1);
    return first >= 0 && Notes(*configurations_[static_cast<std::size_t>(first)]).has(CUDNN_NUMERICAL_NOTE_FFT);
  }
  /// Null if it cannot run.
  const std::shared_ptr<const Engine>& plan(int number) {
    if (number == planned_) return engine_;
    if (number >= count()) next(-1);  // another thread found none in the first list
    auto made = number < count() ? make(configurations_[static_cast<std::size_t>(number)]) : nullptr;
    if (engine_ != nullptr) finish(thread_stream());  // it may still be running
    planned_ = number;
    return engine_ = std::move(made);
  }

 private:
  int count() const { return static_cast<int>(configurations_.size()); }
  int search(int number) {
    while (number < count() && (refused_.contains(number) || plan(number) == nullptr)) ++number;
    return number < count() ? number : -1;
  }
  void ask(cudnnBackendHeurMode_t mode) {
    // Engines of 16 bits without tensor cores, which cuDNN may propose first for large kernels, are last among those of
    // gradients, and never run forward: 128 x 496 x 7 x 7 to 16 by 7x7 takes them 2.8 ms.
    std::vector<std::shared_ptr<const Descriptor>> others;
    for (Descriptor& configuration : configurations(graph_->graph, mode)) {
      const Notes notes(configuration);
      const bool cores = bytes_of(problem_.element) != 2 || notes.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
      if (!notes.allowed(problem_) || (!cores && problem_.pass == Pass::forward)) continue;
      (cores ? configurations_ : others).push_back(std::make_shared<const Descriptor>(std::move(configuration)));
    }
    configurations_.insert(configurations_.end(), others.begin(), others.end());
  }
  std::shared_ptr<const Engine> make(const std::shared_ptr<const Descriptor>& configuration) const {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, library_.get())
        .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, *configuration);
    if (!plan.try_finalize()) return nullptr;
    std::int64_t bytes = 0, returned = 0;
    check_library(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                           &returned, &bytes),
                  "asking cuDNN for a workspace");
    if (static_cast<std::size_t>(bytes) > most_workspace) return nullptr;
    return std::make_shared<const Engine>(
        Engine{library_, graph_, configuration, std::move(plan), static_cast<std::size_t>(bytes)});
  }

  Library library_;
  Problem problem_;
  std::shared_ptr<const Graph> graph_;
  std::vector<std::shared_ptr<const Descriptor>> configurations_;
  std::shared_ptr<const Engine> engine_;  ///< of the plan
  int planned_ = -1;
  std::optional<int> first_;  ///< that runs
  std::set<int> refused_;
  bool asked_all_ = false;
};

/// The handle of a thread (of its stream, which outlives it), and the plans made with it: cuDNN does not promise that a
/// plan can run from two threads at once, or with another handle.
struct ThreadLibrary {
  Library handle = start_library();
  Memo<Problem, std::shared_ptr<Proposals>> proposals;
};

Proposals& proposals_of(const Problem& problem) {
  Stream& stream = thread_stream();
  if (stream.library == nullptr) stream.library = std::make_shared<ThreadLibrary>();
  ThreadLibrary& library = *static_cast<ThreadLibrary*>(stream.library.get());
  if (const auto* known = library.proposals.find(problem)) return **known;
  const auto made = std::make_shared<Proposals>(library.handle, problem);
  // The plan that is dropped may still be running.
  if (library.proposals.full()) finish(stream);
  return *library.proposals.keep(problem, made);
}

}  // namespace

bool has_engines() { return true; }

int next_engine(const Problem& problem, int plan) { return proposals_of(problem).next(plan); }

bool transforms(const Problem& problem) { return proposals_of(problem).transforms(); }

std::size_t engine_workspace(const Problem& problem, int plan) {
  Proposals& proposals = proposals_of(problem);
  if (proposals.usable(plan) != plan) return 0;  // run_engine allocates it
  const auto& engine = proposals.plan(plan);
  return engine == nullptr ? 0 : engine->workspace;
}

namespace {

cudnnStatus_t execute(const Context& context, const Problem& problem, const Arrays& arrays, const Engine& engine,
                      void* workspace) {
  if (const auto status = cudnnSetStream(engine.library.get(), stream_of(context)); status != CUDNN_STATUS_SUCCESS)
    return status;
  const Problem call = one_call(problem);
  const auto step = [&](std::int64_t elements, Pass computed) {
    return elements * bytes_of(element_of(problem, computed));
  };
  const std::int64_t x_step = step(problem.by_groups ? call.images() : call.C, Pass::grad_x),
                     y_step = step(problem.by_groups ? call.outputs() : call.O, Pass::forward),
                     bias_step = step(call.O, Pass::forward), weight_step = step(call.weights(), Pass::grad_weight);
  for (std::int64_t i = 0; i < problem.groups / call.groups; ++i) {
    void* const bias = arrays.bias == nullptr ? nullptr : static_cast<std::byte*>(arrays.bias) + i * bias_step;
    void* const pointers[] = {static_cast<std::byte*>(arrays.x) + i * x_step,
                              static_cast<std::byte*>(arrays.weight) + i * weight_step,
                              static_cast<std::byte*>(arrays.y) + i * y_step, bias};
    const std::int64_t ids[] = {id_x, id_weight, id_y, id_bias}, count = problem.epilogue ? 4 : 3;
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers)
        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
        .finalize();
    const auto status = cudnnBackendExecute(engine.library.get(), engine.plan.get(), pack.get());
    if (status != CUDNN_STATUS_SUCCESS) return status;
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

void run_engine(Context& context, const Problem& problem, const Arrays& arrays, int plan, void* workspace) {
  Proposals& proposals = proposals_of(problem);
  cudnnStatus_t status = CUDNN_STATUS_NOT_SUPPORTED;
  for (int number = proposals.usable(plan); number >= 0; number = proposals.next(-1)) {
    if (const auto& engine = proposals.plan(number); engine != nullptr) {
      keep_for_replays(thread_stream(), engine);
      const Scratch own(context, number == plan ? 0 : engine->workspace);
      status = execute(context, problem, arrays, *engine, number == plan ? workspace : own.as<void>());
      if (status == CUDNN_STATUS_SUCCESS) return;
    }
    if (status != CUDNN_STATUS_NOT_SUPPORTED) break;
    proposals.refuse(number);
  }
  throw Error(
      message("cuda: cuDNN failed to run plan ", plan, " of ", text_of(problem), ": ", cudnnGetErrorString(status)));
}

}  // namespace tern::cuda::convolution
