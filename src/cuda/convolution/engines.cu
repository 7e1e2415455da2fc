#include <cudnn.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/rule.cuh"
#include "cuda/streams.cuh"

// The handle of an operation graph is marked deprecated by the newest cuDNN and required by the older ones.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace tern::cuda::convolution {
namespace {

constexpr std::size_t most_workspace = std::size_t{1} << 30;
constexpr std::int64_t id_x = 'x', id_weight = 'w', id_y = 'y', id_bias = 'b', id_product = 'p', id_sum = 's';

void check_library(cudnnStatus_t status, const char* doing,
                   const std::source_location& where = std::source_location::current()) {
  if (status != CUDNN_STATUS_SUCCESS) [[unlikely]]
    throw Error(message("cuda: ", doing, " failed: ", cudnnGetErrorString(status), " (line ", where.line(), ")"));
}

/// A descriptor of cuDNN's graph interface.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check_library(cudnnBackendCreateDescriptor(type, &handle_), "describing a convolution");
  }
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (handle_ != nullptr) cudnnBackendDestroyDescriptor(handle_);
  }
  cudnnBackendDescriptor_t get() const { return handle_; }

  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
                  const void* values) {
    check_library(cudnnBackendSetAttribute(handle_, name, type, count, values), "describing a convolution");
    return *this;
  }
  template <class T, std::size_t n>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T (&values)[n]) {
    return set(name, type, static_cast<std::int64_t>(n), values);
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    const T values[1] = {value};
    return set(name, type, values);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.handle_);
  }
  Descriptor& finalize() {
    check_library(cudnnBackendFinalize(handle_), "describing a convolution");
    return *this;
  }
  bool try_finalize() { return cudnnBackendFinalize(handle_) == CUDNN_STATUS_SUCCESS; }

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

Descriptor tensor(std::int64_t id, cudnnDataType_t type, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w,
                  std::int64_t pitch, bool in_memory = true) {
  const std::int64_t size[] = {n, c, h, w}, stride[] = {h * w * pitch, 1, w * pitch, pitch};
  Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id)
      .set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type)
      .set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, std::int64_t{16})
      .set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, size)
      .set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, stride)
      .set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, !in_memory)
      .finalize();
  return made;
}

struct Names {
  cudnnBackendDescriptorType_t operation;
  cudnnBackendAttributeName_t x, weight, y, convolution, alpha, beta;
};
Names names_of(Pass pass) {
  switch (pass) {
    case Pass::grad_x:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Pass::grad_weight:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    default:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
  }
}

Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& in, const Descriptor* added, const Descriptor& out,
                     Activation activation = Activation::none) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN);
  if (activation == Activation::relu6) function.set(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 6.0);
  function.finalize();
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, function)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, in)
      .set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
  if (added != nullptr) operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *added);
  operation.finalize();
  return operation;
}

/// An operation graph and what it refers to.
struct Graph {
  std::vector<Descriptor> parts;
  Descriptor graph;
};

// The type of the tensor that this pass computes.
Element element_of(const Problem& problem, Pass computed) {
  return problem.float_out && problem.pass == computed ? Element::float32 : problem.element;
}

Graph graph_of(cudnnHandle_t library, const Problem& p) {
  const auto type = [&](Pass computed) {
    const Element element = element_of(p, computed);
    return element == Element::float32   ? CUDNN_DATA_FLOAT
           : element == Element::float16 ? CUDNN_DATA_HALF
                                         : CUDNN_DATA_BFLOAT16;
  };
  Descriptor x = tensor(id_x, type(Pass::grad_x), p.N, p.C, p.H, p.W, p.x_channels),
             weight = tensor(id_weight, type(Pass::grad_weight), p.O, p.C / p.groups, p.KH, p.KW, p.C / p.groups),
             y = tensor(id_y, type(Pass::forward), p.N, p.O, p.OH, p.OW, p.y_channels);
  const std::int64_t stride[] = {p.stride_h, p.stride_w}, pad[] = {p.pad_h, p.pad_w},
                     dilation[] = {p.dilation_h, p.dilation_w};
  Descriptor convolution(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  convolution.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION)
      .set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, std::int64_t{2})
      .set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dilation)
      .set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, stride)
      .set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pad)
      .set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pad)
      .finalize();
  const auto between = [&](std::int64_t id) {
    return tensor(id, CUDNN_DATA_FLOAT, p.N, p.O, p.OH, p.OW, p.y_channels, false);
  };
  std::vector<Descriptor> parts, operations;
  const Names names = names_of(p.pass);
  Descriptor product = p.epilogue ? between(id_product) : std::move(y);
  operations.emplace_back(names.operation);
  operations[0]
      .set(names.convolution, convolution)
      .set(names.x, x)
      .set(names.weight, weight)
      .set(names.y, product)
      .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .set(names.beta, CUDNN_TYPE_FLOAT, 0.0f)
      .finalize();
  if (p.epilogue) {
    const bool relu = p.activation != Activation::none;
    Descriptor bias = tensor(id_bias, type(Pass::forward), 1, p.O, 1, 1, p.O);
    Descriptor sum = relu ? between(id_sum) : std::move(y);
    operations.push_back(pointwise(CUDNN_POINTWISE_ADD, product, &bias, sum));
    if (relu) {
      operations.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, y, p.activation));
      parts.push_back(std::move(y));
    }
    parts.push_back(std::move(bias));
    parts.push_back(std::move(sum));
  }
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const Descriptor& operation : operations) handles.push_back(operation.get());
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, library);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(handles.size()),
            handles.data());
  graph.finalize();
  for (Descriptor* part : {&x, &weight, &product, &convolution}) parts.push_back(std::move(*part));
  for (Descriptor& operation : operations) parts.push_back(std::move(operation));
  return {std::move(parts), std::move(graph)};
}

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
