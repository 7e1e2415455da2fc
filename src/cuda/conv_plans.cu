#include <cudnn.h>

#include <array>
#include <memory>
#include <vector>

#include "cuda/choice.cuh"
#include "cuda/conv_plans.cuh"
#include "cuda/streams.cuh"
#include "cuda/timing.cuh"

// The handle of an operation graph is marked deprecated by the newest cuDNN and required by the older ones.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace tern::cuda {
namespace {

constexpr std::size_t most_workspace = std::size_t{1} << 30;
constexpr int candidates_asked = 12;
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
Names names_of(Half half) {
  switch (half) {
    case Half::grad_x:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case Half::grad_weight:
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

Descriptor pointwise(cudnnPointwiseMode_t mode, const Descriptor& in, const Descriptor* added, const Descriptor& out) {
  Descriptor function(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  function.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode)
      .set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT)
      .set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, CUDNN_PROPAGATE_NAN)
      .finalize();
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

// Bytes of an element of the tensor that this half computes.
std::int64_t element_of(const ConvProblem& problem, Half computed) {
  return problem.bf16 && !(problem.float_out && problem.half == computed) ? 2 : 4;
}

Graph graph_of(cudnnHandle_t library, const ConvProblem& p) {
  const auto type = [&](Half computed) {
    return element_of(p, computed) == 4 ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16;
  };
  Descriptor x = tensor(id_x, type(Half::grad_x), p.N, p.C, p.H, p.W, p.x_pitch),
             weight = tensor(id_weight, type(Half::grad_weight), p.O, p.C, p.KH, p.KW, p.C),
             y = tensor(id_y, type(Half::forward), p.N, p.O, p.OH, p.OW, p.y_pitch);
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
    return tensor(id, CUDNN_DATA_FLOAT, p.N, p.O, p.OH, p.OW, p.y_pitch, false);
  };
  std::vector<Descriptor> parts, operations;
  const Names names = names_of(p.half);
  Descriptor product = p.finished ? between(id_product) : std::move(y);
  operations.emplace_back(names.operation);
  operations[0]
      .set(names.convolution, convolution)
      .set(names.x, x)
      .set(names.weight, weight)
      .set(names.y, product)
      .set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f)
      .set(names.beta, CUDNN_TYPE_FLOAT, 0.0f)
      .finalize();
  if (p.finished) {
    Descriptor bias = tensor(id_bias, CUDNN_DATA_FLOAT, 1, p.O, 1, 1, p.O);
    Descriptor sum = p.relu ? between(id_sum) : std::move(y);
    operations.push_back(pointwise(CUDNN_POINTWISE_ADD, product, &bias, sum));
    if (p.relu) {
      operations.push_back(pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, y));
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

// An engine that rounds as the problem allows, and repeats if it must.
bool allowed(const Descriptor& configuration, const ConvProblem& problem) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  if (cudnnBackendGetAttribute(configuration.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                               &count, &handle) != CUDNN_STATUS_SUCCESS)
    return false;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  if (cudnnBackendGetAttribute(handle, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes.data()) != CUDNN_STATUS_SUCCESS)
    return false;
  for (std::int64_t i = 0; i < count; ++i) {
    if (problem.deterministic && notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) return false;
    if (notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS) return false;
    if (notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) return false;
    if (!problem.bf16 && !problem.tensor_cores && notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return false;
  }
  return true;
}

// What cuDNN proposes for the graph, the most promising first.
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
  std::int64_t given = 0;
  cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
                           &given, handles.data());
  while (static_cast<std::int64_t>(made.size()) > given) made.pop_back();
  return made;
}

// A few wide groups run faster as convolutions of their own, on slices of the channels, than as one grouped
// convolution.
ConvProblem one_group(ConvProblem problem) {
  problem.C /= problem.groups;
  problem.O /= problem.groups;
  problem.groups = 1;
  return problem;
}

/// A plan of cuDNN with everything that it refers to.
struct Engine {
  cudnnHandle_t library;
  std::shared_ptr<const Graph> graph;
  Descriptor configuration, plan;
};

/// The handle of a thread (of its stream, which outlives it), and the plans made with it: cuDNN promises neither that a
/// plan runs from two threads at once, nor with another handle.
struct ThreadLibrary {
  cudnnHandle_t handle = nullptr;
  Memo<std::pair<ConvProblem, int>, ConvPlan> plans;
};

ThreadLibrary& library_of(Stream& stream) {
  if (stream.library == nullptr) {
    const auto made = std::make_shared<ThreadLibrary>();
    check_library(cudnnCreate(&made->handle), "starting cuDNN");
    stream.library = made;
  }
  return *static_cast<ThreadLibrary*>(stream.library.get());
}

/// Which of cuDNN's proposals: their number in the list of the first way of asking, or, from `fallback` on, of the
/// second.
constexpr int first_that_runs = -1, fallback = 1 << 16;

// Calls use(number, plan) with the plans that can run, in cuDNN's order, until it returns false. `only` limits this to
// one of them.
template <class Use>
void each_plan(cudnnHandle_t library, const ConvProblem& problem, int only, const Use& use) {
  const auto graph = std::make_shared<const Graph>(graph_of(library, one_group(problem)));
  bool some = false;
  for (const bool second : {false, true}) {
    if (some || (only >= 0 && second != (only >= fallback))) continue;
    int number = second ? fallback : 0;
    for (Descriptor& configuration :
         configurations(graph->graph, second ? CUDNN_HEUR_MODE_FALLBACK : CUDNN_HEUR_MODE_A)) {
      const int mine = number++;
      if ((only >= 0 && mine != only) || !allowed(configuration, problem)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, library)
          .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
      if (!plan.try_finalize()) continue;
      std::int64_t bytes = 0, count = 0;
      check_library(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                             &count, &bytes),
                    "asking cuDNN for a workspace");
      if (static_cast<std::size_t>(bytes) > most_workspace) continue;
      some = true;
      if (!use(mine,
               ConvPlan{std::make_shared<Engine>(Engine{library, graph, std::move(configuration), std::move(plan)}),
                        static_cast<std::size_t>(bytes)}))
        return;
    }
  }
}

bool try_run(const ConvPlan& plan, const ConvProblem& problem, cudaStream_t stream, void* workspace, void* x,
             void* weight, void* y, const float* bias) {
  const std::int64_t groups = problem.groups, x_step = problem.C / groups * element_of(problem, Half::grad_x),
                     y_step = problem.O / groups * element_of(problem, Half::forward),
                     weight_step = problem.O / groups * (problem.C / groups) * problem.KH * problem.KW *
                                   element_of(problem, Half::grad_weight);
  const auto& engine = *static_cast<const Engine*>(plan.engine.get());
  if (cudnnSetStream(engine.library, stream) != CUDNN_STATUS_SUCCESS) return false;
  for (std::int64_t group = 0; group < groups; ++group) {
    void* const pointers[] = {static_cast<std::byte*>(x) + group * x_step,
                              static_cast<std::byte*>(weight) + group * weight_step,
                              static_cast<std::byte*>(y) + group * y_step,
                              const_cast<float*>(bias == nullptr ? nullptr : bias + group * (problem.O / groups))};
    const std::int64_t ids[] = {id_x, id_weight, id_y, id_bias}, count = problem.finished ? 4 : 3;
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers)
        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace)
        .finalize();
    if (cudnnBackendExecute(engine.library, engine.plan.get(), pack.get()) != CUDNN_STATUS_SUCCESS) return false;
  }
  return true;
}

// The number of the fastest proposal: a quick look at each, and a longer one at the promising.
int trial(Context& context, cudnnHandle_t library, const ConvProblem& problem, void* x, void* weight, void* y,
          const float* bias) {
  int best = first_that_runs, seen = 0;
  float best_time = 0;
  each_plan(library, problem, first_that_runs, [&](int number, const ConvPlan& plan) {
    try {
      const Scratch workspace(context, plan.workspace);
      bool works = true;
      const auto run = [&] {
        works = works && try_run(plan, problem, stream_of(context), workspace.as<void>(), x, weight, y, bias);
      };
      const bool first = best == first_that_runs;
      float time = microseconds(context, run, 1, 1);
      if (works && (first || time < 1.5f * best_time)) time = microseconds(context, run, 2, 5);
      if (works && (first || time < best_time)) {
        best = number;
        best_time = time;
      }
    } catch (const OutOfMemory&) {
      // Its workspace has no room now.
    }
    return ++seen < candidates_asked;
  });
  return best;
}

}  // namespace

bool library_built() { return true; }

ConvPlan conv_plan(Context& context, const ConvProblem& problem, void* x, void* weight, void* y, const float* bias) {
  Stream& stream = stream_state(context.stream);
  ThreadLibrary& library = library_of(stream);
  const int number = tried<ConvPlan>(context, problem, first_that_runs,
                                     [&] { return trial(context, library.handle, problem, x, weight, y, bias); });
  const std::pair key{problem, number};
  const ConvPlan* plan = library.plans.find(key);
  if (plan == nullptr) {
    ConvPlan made;
    for (const int wanted : {number, first_that_runs})
      if (made.engine == nullptr)
        each_plan(library.handle, problem, wanted, [&](int, ConvPlan&& found) {
          made = std::move(found);
          return false;
        });
    // The plan that is forgotten may still be running.
    if (library.plans.full()) finish(stream);
    plan = &library.plans.keep(key, std::move(made));
  }
  keep_for_replays(stream, plan->engine);
  return *plan;
}

void run_conv(const ConvPlan& plan, const ConvProblem& problem, cudaStream_t stream, void* workspace, void* x,
              void* weight, void* y, const float* bias) {
  expects(plan.engine != nullptr, "cuda: cuDNN knows no engine for a convolution of ", problem.C, " to ", problem.O,
          " channels, kernel ", problem.KH, "x", problem.KW, "; configure with TERN_CUDNN=OFF to use our own");
  expects(try_run(plan, problem, stream, workspace, x, weight, y, bias), "cuda: cuDNN failed to run a convolution of ",
          problem.C, " to ", problem.O, " channels, kernel ", problem.KH, "x", problem.KW);
}

}  // namespace tern::cuda
