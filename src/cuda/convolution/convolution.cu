#include <array>
#include <optional>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/grouped.cuh"
#include "cuda/cuda.hpp"
#include "cuda/elements.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/pooling.cuh"
#include "cuda/streams.cuh"

namespace tern::cuda::convolution {

// ---- problems ----

Problem problem_of(const Context& context, Pass pass, const Conv2d& shape, Element element) {
  Problem problem{shape};
  problem.pass = pass;
  problem.x_channels = shape.C;
  if (shape.y_channels == 0) problem.y_channels = shape.O;
  problem.element = element;
  problem.precision = context.precision;
  problem.deterministic = context.deterministic;
  problem.rule = tuning::rule_of(context);
  problem.device = card().device;
  return problem;
}

std::string text_of(const Problem& p) {
  constexpr const char* passes[]{"conv2d", "conv2d_grad_x", "conv2d_grad_weight", "conv2d_backward"};
  const auto pair = [](std::int64_t h, std::int64_t w) { return message(h, 'x', w); };
  return message(passes[static_cast<int>(p.pass)], " [", p.N, ", ", p.C, ", ", p.H, ", ", p.W, "] to ", p.O,
                 " channels, kernel ", pair(p.KH, p.KW), ", stride ", pair(p.stride_h, p.stride_w), ", padding ",
                 pair(p.pad_h, p.pad_w), ", dilation ", pair(p.dilation_h, p.dilation_w), ", groups ", p.groups,
                 p.channels_last() ? ", channels last" : "", p.pools ? ", pooled, " : ", ", name_of(p.element), ", ",
                 name_of(p.precision), p.deterministic ? ", deterministic" : "",
                 p.rule == tuning::Rule::plain ? ", plain cuts" : "",
                 p.device == 0 ? std::string() : message(", card ", p.device));
}

namespace {

template <class T>
constexpr Element element_type = std::is_same_v<T, double> ? Element::float64 : Element::float32;

void* address(const void* array) { return const_cast<void*>(array); }

template <class T>
Layout layout(const Context& context, const Conv2d& shape) {
  return std::is_same_v<T, float> ? layout_of(context, shape) : Layout::channels_first;
}

// ---- forward ----

template <class T>
void conv2d(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  Problem problem = problem_of(context, Pass::forward, shape, element_of<T>);
  if (problem.outputs() == 0) return;
  const Arrays arrays{address(x), address(weight), y, address(bias)};
  problem.inputs = alignments_of(arrays);
  Prepared<Problem, Arrays>(context, "conv2d", algorithms_of(problem), problem, arrays).run(context);
}

template <class T>
__global__ void add_kernel(T* y, const T* added, std::int64_t count, Activation activation) {
  begin_kernel();
  const std::int64_t step = global_threads();
  for (std::int64_t i = global_thread(); i < count; i += step) y[i] = activate(y[i] + added[i], activation);
}
template <class T>
__global__ void add_packs_kernel(T* y, const T* added, std::int64_t packs, Activation activation) {
  begin_kernel();
  constexpr int V = pack_size<T>;
  const std::int64_t step = global_threads();
  for (std::int64_t i = global_thread(); i < packs; i += step) {
    Pack<T, V> values = load<V>(y + i * V);
    const Pack<T, V> more = load<V>(added + i * V);
#pragma unroll
    for (int lane = 0; lane < V; ++lane)
      values.value[lane] = activate(values.value[lane] + more.value[lane], activation);
    store<V>(y + i * V, values);
  }
}

template <class T>
void conv2d_add(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* added,
                const Conv2d& shape) {
  Conv2d plain = shape;
  plain.activation = Activation::none;
  conv2d(context, y, x, weight, bias, plain);
  const std::int64_t count = shape.N * shape.O * shape.OH * shape.OW;
  if (count == 0) return;
  constexpr int V = pack_size<T>;
  if (count % V == 0 && aligned<V>(y) && aligned<V>(added))
    launch(context, Grid(blocks_for(count / V), 256), add_packs_kernel<T>, y, added, count / V, shape.activation);
  else
    launch(context, Grid(blocks_for(count), 256), add_kernel<T>, y, added, count, shape.activation);
}

// ---- backward ----

/// The outputs of a backward pass. The first three may be null; `index` belongs to a pooled y.
struct Gradients {
  void *grad_x, *grad_weight, *grad_bias;
  const void *grad_y, *x, *weight, *y;
  const std::uint8_t* index = nullptr;
};

/// y's gradient through the activation, and what the weight's pass computes: whether it runs, and the bias's gradient,
/// or null.
struct Incoming {
  const void* g;
  bool weight;
  void* grad_bias;
};

/// The gradients; last(context) is queued after that of x. Those of x and the weight are independent: in a replayed
/// step they run concurrently.
template <class Last>
void run_halves(Context& context, Problem problem, const Gradients& to, const Incoming& from, const Last& last) {
  using Half = Prepared<Problem, Arrays>;
  const auto prepare = [&](std::optional<Half>& half, const char* decision, Pass pass, const Arrays& arrays) {
    problem.pass = pass;
    problem.gradients = {};
    problem.inputs = alignments_of(arrays);
    half.emplace(context, decision, algorithms_of(problem), problem, arrays);
  };
  auto* const index = const_cast<std::uint8_t*>(to.index);
  std::optional<Half> to_x, to_weight;
  if (to.grad_x != nullptr)
    prepare(to_x, "conv2d_grad_x", Pass::grad_x, {to.grad_x, address(to.weight), address(from.g), nullptr, index});
  if (from.weight)
    prepare(to_weight, "conv2d_grad_weight", Pass::grad_weight,
            {address(to.x), to.grad_weight, address(from.g), from.grad_bias, index});
  run_side_by_side(context, to_x, to_weight, last);
}

/// The gradient of y through the activation, whose output y is.
struct Through {
  Activation activation;
  template <class T>
  __device__ T operator()(T gradient, T y) const {
    return through_activation(gradient, y, activation);
  }
};

template <class T>
__global__ void bias_only_kernel(T* grad_bias, const T* g, std::int64_t N, std::int64_t O, std::int64_t area) {
  begin_kernel();
  const std::int64_t o = blockIdx.x * std::int64_t{blockDim.x} + threadIdx.x;
  if (o >= O) return;
  T sum = 0;
  for (std::int64_t n = 0; n < N; ++n)
    for (std::int64_t i = 0; i < area; ++i) sum += g[(n * O + o) * area + i];
  grad_bias[o] = sum;
}

Pool2d pool_of(const Conv2d& s) {
  return {.planes = s.N * s.O,
          .H = s.OH,
          .W = s.OW,
          .OH = s.OH / 2,
          .OW = s.OW / 2,
          .KH = 2,
          .KW = 2,
          .stride_h = 2,
          .stride_w = 2};
}

/// Whether kernels read a pooled gradient. Forward may have been called with another precision.
bool fuses_backward(Problem problem) {
  const auto fits = [&](Pass pass, const Algorithm& algorithm) {
    problem.pass = pass;
    return algorithm.fits(problem);
  };
  return fits(Pass::grad_x, direct_tensor_grad_x_pooled) && fits(Pass::grad_weight, direct_tensor_grad_weight);
}

template <class T>
void backward_channels_first(Context& context, Problem problem, Gradients to) {
  const std::int64_t outputs = problem.outputs() / (problem.pools ? 4 : 1);
  const bool masked = problem.activation != Activation::none;
  const Scratch masked_gradient(context, masked ? static_cast<std::size_t>(outputs) * sizeof(T) : 0);
  const auto* g = static_cast<const T*>(to.grad_y);
  if (masked) {
    g = masked_gradient.as<T>();
    map(context, outputs, Through{problem.activation}, masked_gradient.as<T>(), static_cast<const T*>(to.grad_y),
        static_cast<const T*>(to.y));
  }
  const bool wants_weight = to.grad_weight != nullptr || to.grad_bias != nullptr;
  // For very many outputs, multiply-adds are the fastest algorithm for x in strict float32, and they read no pooled
  // gradient (LeNet's second layer, 512 images, an H100: 98 microseconds for both gradients, compared with 106).
  const bool many = to.grad_x != nullptr && !problem.tensor_cores() && problem.outputs() >= 1000000;
  const bool spreads = problem.pools && (many || !fuses_backward(problem));
  const Scratch spread(context, spreads ? static_cast<std::size_t>(problem.outputs()) * sizeof(T) : 0);
  if (spreads) {
    max_pool2d_backward(context, spread.as<T>(), g, to.index, pool_of(problem));
    g = spread.as<T>();
    problem.pools = false, to.index = nullptr;
  }
  if (problem.weights() == 0) {
    // No input channels: the output is the bias alone.
    if (to.grad_bias != nullptr)
      launch(context, Grid(blocks_for(problem.O), 256), bias_only_kernel<T>, static_cast<T*>(to.grad_bias), g,
             problem.N, problem.O, problem.OH * problem.OW);
    return;
  }
  run_halves(context, problem, to, {g, wants_weight, to.grad_bias}, [](Context&) {});
}

/// An array, or an aligned copy: views may have any alignment.
class Aligned {
 public:
  Aligned(Context& context, const void* array, std::int64_t count)
      : copies_(reinterpret_cast<std::uintptr_t>(array) % 16 != 0),
        copy_(context, copies_ ? static_cast<std::size_t>(count) * sizeof(float) : 0),
        data_(copies_ ? copy_.as<float>() : static_cast<const float*>(array)) {
    if (copies_)
      check(cudaMemcpyAsync(copy_.as<void>(), array, static_cast<std::size_t>(count) * sizeof(float),
                            cudaMemcpyDeviceToDevice, stream_of(context)),
            "aligning an array");
  }
  const float* data() const { return data_; }

 private:
  bool copies_;
  Scratch copy_;
  const float* data_;
};

/// All gradients, with factors of that type: the gradient of y passes through the activation, into that type, once.
template <class T>
void backward_channels_last(Context& context, const Problem& requested, const Gradients& to, int, void*) {
  constexpr bool is_float = std::is_same_v<T, float>;
  Problem problem = requested;
  problem.element = is_float ? Element::float32 : Element::bfloat16;
  if (is_float && problem.precision == Precision::bf16) problem.precision = Precision::tf32;
  const Rows rows{problem.positions(), problem.O, problem.y_channels};
  const bool masked = problem.activation != Activation::none;
  const bool takes_grad = !masked && is_float && problem.y_channels == problem.O;
  const std::int64_t span = rows.count * rows.pitch - (rows.pitch - rows.channels);
  const Aligned grad_y(context, to.grad_y, span), y(context, masked ? to.y : nullptr, span);
  const Scratch made(context, takes_grad ? 0 : static_cast<std::size_t>(problem.outputs()) * sizeof(T));
  const std::int64_t slices = to.grad_bias == nullptr ? 0 : row_slices(rows);
  const Scratch partials(context, static_cast<std::size_t>(slices * problem.O) * sizeof(float));
  if (!takes_grad || to.grad_bias != nullptr)
    through_rows(context, made.as<T>(), partials.as<float>(), grad_y.data(), y.data(), rows, problem.activation);
  const void* const g = takes_grad ? static_cast<const void*>(grad_y.data()) : made.as<void>();
  run_halves(context, problem, to, {g, to.grad_weight != nullptr, nullptr}, [&](const Context& where) {
    if (to.grad_bias != nullptr)
      sum_slices<float>(where, nullptr, static_cast<float*>(to.grad_bias), partials.as<float>(), slices, 0, problem.O);
  });
}

// Both gradients read g, so the type of the factors is one choice for the whole pass. bf16 also permits reading them
// with more bits, which needs no conversion.
using Backward = cuda::Algorithm<Problem, Gradients>;
const Backward backward_bf16{.name = "bfloat16", .fits = rounds_factors, .run = backward_channels_last<bf16>};
const Backward backward_float{.name = "float32", .run = backward_channels_last<float>};
constexpr std::array backward{&backward_bf16, &backward_float};

template <class T>
void clear(const Context& context, T* array, std::int64_t count) {
  if (array == nullptr || count == 0) return;
  check(cudaMemsetAsync(array, 0, static_cast<std::size_t>(count) * sizeof(T), stream_of(context)), "clearing");
}

template <class T>
void conv2d_backward(Context& context, T* grad_x_to, T* grad_weight_to, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Conv2d& shape) {
  Problem problem = problem_of(context, Pass::backward, shape, element_of<T>);
  if (problem.outputs() == 0) {
    clear(context, grad_x_to, problem.images());
    clear(context, grad_weight_to, problem.weights());
    clear(context, grad_bias, problem.O);
    return;
  }
  const Gradients to{grad_x_to, grad_weight_to, grad_bias, grad_y, x, weight, y};
  if (!problem.channels_last()) return backward_channels_first<T>(context, problem, to);
  if constexpr (std::is_same_v<T, float>) {
    problem.inputs = {alignment_of(x), alignment_of(weight), alignment_of(y)};
    problem.gradients = {alignment_of(grad_x_to), alignment_of(grad_weight_to), alignment_of(grad_y),
                         alignment_of(grad_bias)};
    // A forced algorithm is not timed: our own kernels have no bfloat16.
    const std::string_view forced = forced_algorithm(context, "conv2d_grad_x");
    const bool own = problem.groups > 1 && (grouped::is_narrow(problem) || problem.groups > most_engine_groups);
    if (!rounds_factors(problem) || own || forced == "implicit" || forced == "grouped" || forced == "padded")
      return backward_float.run(context, problem, to, 0, nullptr);
    if (!forced.empty()) return backward_bf16.run(context, problem, to, 0, nullptr);
    Prepared<Problem, Gradients>(context, nullptr, backward, problem, to).run(context);
  }
}

// ---- fused with 2 x 2 max pooling ----

constexpr const char* pooled = "conv2d_max_pool2d";  // the decision

Problem pooled_problem(const Context& context, Pass pass, const Conv2d& shape) {
  Problem problem = problem_of(context, pass, shape, Element::float32);
  problem.pools = true;
  return problem;
}

// Not with a slope, whose product with losing elements is NaN where y is.
bool fits_pooled(const Problem& requested) {
  Problem problem = requested;
  const auto runs = [&](Pass pass, const Algorithm& algorithm) {
    problem.pass = pass;
    return algorithm.fits(problem);
  };
  const bool passes = problem.activation == Activation::none || problem.activation == Activation::relu;
  const bool whole = problem.OH % 2 == 0 && problem.OW % 2 == 0 && problem.outputs() * problem.C > 0;
  return passes && whole && runs(Pass::forward, direct_tensor_forward_pooled) &&
         runs(Pass::grad_x, direct_tensor_grad_x_pooled) && runs(Pass::grad_weight, direct_tensor_grad_weight);
}
using Pooled = cuda::Algorithm<Problem, kernels::NoArrays>;
const Pooled pooled_fused{.name = "fused", .fits = fits_pooled}, pooled_composed{.name = "composed"};
constexpr std::array pooled_algorithms{&pooled_fused, &pooled_composed};
constexpr std::array without_kernels{&pooled_composed};

template <class T>
bool fuses_max_pool2d(const Context& context, const Conv2d& shape) {
  // Not if another algorithm is forced for one of the passes.
  const auto forces_another = [&](const char* decision) {
    const std::string_view forced = forced_algorithm(context, decision);
    return !forced.empty() && forced != direct_tensor_forward_pooled.name;
  };
  const bool composes = !std::is_same_v<T, float> || forces_another("conv2d") || forces_another("conv2d_grad_x") ||
                        forces_another("conv2d_grad_weight");
  const Candidates<Problem, kernels::NoArrays> with_kernels = pooled_algorithms, without = without_kernels;
  return kernels::fuses(context, pooled, composes ? without : with_kernels,
                        pooled_problem(context, Pass::forward, shape));
}

bool fuses_inverted_residual(const Context&, const kernels::InvertedResidual&) { return false; }

template <class T>
void conv2d_max_pool2d(Context& context, T* y, std::uint8_t* index, const T* x, const T* weight, const T* bias,
                       const Conv2d& shape) {
  took_algorithm(context, pooled, "fused");
  Problem problem = pooled_problem(context, Pass::forward, shape);
  const Arrays arrays{address(x), address(weight), y, address(bias), index};
  problem.inputs = alignments_of(arrays);
  Prepared<Problem, Arrays>(context, "conv2d", algorithms_of(problem), problem, arrays).run(context);
}

template <class T>
void conv2d_max_pool2d_backward(Context& context, T* grad_x_to, T* grad_weight_to, T* grad_bias, const T* grad_y,
                                const std::uint8_t* index, const T* x, const T* weight, const T* y,
                                const Conv2d& shape) {
  took_algorithm(context, pooled, "fused");
  backward_channels_first<T>(context, pooled_problem(context, Pass::backward, shape),
                             {grad_x_to, grad_weight_to, grad_bias, grad_y, x, weight, y, index});
}

}  // namespace
}  // namespace tern::cuda::convolution

namespace tern::cuda {

template <class T>
kernels::Conv<T> conv() {
  return {.layout = convolution::layout<T>,
          .conv2d = convolution::conv2d<T>,
          .conv2d_add = convolution::conv2d_add<T>,
          .conv2d_backward = convolution::conv2d_backward<T>,
          .fuses_max_pool2d = convolution::fuses_max_pool2d<T>,
          .conv2d_max_pool2d = convolution::conv2d_max_pool2d<T>,
          .conv2d_max_pool2d_backward = convolution::conv2d_max_pool2d_backward<T>,
          .fuses_inverted_residual = convolution::fuses_inverted_residual,
          .inverted_residual = kernels::absent};
}

template kernels::Conv<float> conv<float>();
template kernels::Conv<double> conv<double>();

}  // namespace tern::cuda
