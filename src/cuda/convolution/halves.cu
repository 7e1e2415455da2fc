// Convolutions of 16-bit arrays: by the library's engines, which read and write them, with float32 sums. Those that no
// engine runs as they are have kernels of ours that convert in registers; the rest is converted for the kernels of
// float32.

#include <algorithm>
#include <array>

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/cuda.hpp"
#include "cuda/fused_rows.cuh"
#include "cuda/halves.cuh"
#include "cuda/streams.cuh"

namespace tern::cuda::convolution {
namespace {

constexpr std::array to_image{&flipped_grad_x, &library_grad_x, &product_grad_x};
constexpr std::array to_weight{&stem_grad_weight_first, &library_grad_weight_in_place, &library_grad_weight,
                               &stem_grad_weight_last};

// Of a problem whose elements are float32 in registers, in either order.
constexpr std::array own_forward{&narrow_forward_first, &depthwise_forward,    &single_forward_first,
                                 &planes_forward_first, &padded_forward_first, &grouped_forward_first,
                                 &single_forward_last,  &padded_forward_last,  &grouped_forward_last,
                                 &narrow_forward_last,  &planes_forward_last};
constexpr std::array own_to_image{&narrow_grad_x_first, &depthwise_grad_x,    &single_grad_x_first,
                                  &planes_grad_x_first, &padded_grad_x_first, &grouped_grad_x_first,
                                  &single_grad_x_last,  &padded_grad_x_last,  &grouped_grad_x_last,
                                  &narrow_grad_x_last,  &planes_grad_x_last};
constexpr std::array own_to_weight{&narrow_grad_weight_first, &depthwise_grad_weight,    &single_grad_weight_first,
                                   &planes_grad_weight_first, &padded_grad_weight_first, &grouped_grad_weight_first,
                                   &single_grad_weight_last,  &padded_grad_weight_last,  &grouped_grad_weight_last,
                                   &narrow_grad_weight_last,  &planes_grad_weight_last};

const kernels::Conv<float>& of_float() {
  static const kernels::Conv<float> kernels = conv<float>();
  return kernels;
}

template <class T>
Problem problem_for(const Context& context, Pass pass, const Conv2d& shape) {
  Problem problem = problem_of(context, pass, shape, element_of<T>);
  problem.stored = problem.element;
  problem.precision = Precision::tf32;  // tensor cores; the elements keep their digits
  return problem;
}

/// The same for kernels of ours.
template <class T>
Problem own_problem_for(const Context& context, Pass pass, const Conv2d& shape) {
  Problem problem = problem_for<T>(context, pass, shape);
  problem.element = Element::float32;
  problem.wide_parameters = false;  // see Narrow
  return problem;
}
/// Whether one of them runs it; not if another algorithm is forced.
bool runs_own(const Context& context, const char* decision, Algorithms algorithms, const Problem& problem) {
  if (problem.outputs() == 0 || problem.weights() == 0) return false;
  const std::string_view forced = forced_algorithm(context, decision);
  return std::any_of(algorithms.begin(), algorithms.end(), [&](const Algorithm* algorithm) {
    return (forced.empty() || forced == algorithm->name) && algorithm->fits(problem);
  });
}

/// Whether engines run all passes, channels last.
template <class T>
bool runs(const Context& context, const Conv2d& shape) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  const std::int64_t positions = shape.N * shape.OH * shape.OW, C = shape.C / shape.groups;
  if (positions == 0 || shape.O == 0 || positions >= most || shape.N * (shape.H + 8) * (shape.W + 8) >= most)
    return false;
  if (C == 0 || (C % engine_lanes != 0 && (shape.groups > 1 || C > 4)) || shape.y_channels % engine_lanes != 0)
    return false;
  Conv2d last = shape;
  last.layout = Layout::channels_last;
  return library_forward.fits(problem_for<T>(context, Pass::forward, last));
}

/// In the order of float32, but where engines run it.
template <class T>
Layout layout(const Context& context, const Conv2d& shape) {
  if (runs<T>(context, shape)) return Layout::channels_last;
  Context converted = context;
  converted.precision = Precision::tf32;  // as InFloat sets it
  return of_float().layout(converted, shape);
}

/// The elements that an output of `shape` spans; those of other tensors between its own are `gaps`.
struct Span {
  std::int64_t count, own, pitch;
  explicit Span(const Conv2d& shape)
      : count(shape.N * shape.OH * shape.OW * shape.O),
        own(shape.O),
        pitch(shape.layout == Layout::channels_last && shape.y_channels != 0 ? shape.y_channels : shape.O) {}
  bool gaps() const { return pitch != own; }
  kernels::Strided strided(bool into) const {
    kernels::Strided copy;
    copy.rank = 2;
    copy.count = count;
    copy.size[0] = own == 0 ? 0 : count / own;
    copy.size[1] = own;
    copy.out[0] = into ? pitch : own;
    copy.in[0] = into ? own : pitch;
    copy.out[1] = copy.in[1] = 1;
    return copy;
  }
};

/// A gradient of y, or y, without gaps.
template <class T>
const T* dense(Context& context, const Scratch& copy, const T* array, const Span& span) {
  if (array == nullptr || !span.gaps()) return array;
  movement().copy(context, copy.as<T>(), array, span.strided(false), sizeof(T));
  return copy.as<T>();
}
template <class T>
std::size_t dense_bytes(const T* array, const Span& span) {
  return array == nullptr || !span.gaps() ? 0 : static_cast<std::size_t>(span.count) * sizeof(T);
}

// ---- forward ----

template <class T>
void converted(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  InFloat arrays(context);
  const Span span(shape);
  Conv2d dense_shape = shape;
  dense_shape.y_channels = 0;
  float* const out = arrays.out(y, span.count);
  of_float().conv2d(context, out, arrays.in(x, shape.N * shape.C * shape.H * shape.W),
                    arrays.in(weight, shape.O * (shape.C / shape.groups) * shape.KH * shape.KW),
                    arrays.in(bias, shape.O), dense_shape);
  if (!span.gaps()) return arrays.round(y, out, span.count);
  const Scratch rounded(context, static_cast<std::size_t>(span.count) * sizeof(T));
  arrays.round(rounded.as<T>(), out, span.count);
  movement().copy(context, y, rounded.as<T>(), span.strided(true), sizeof(T));
}

void run_converted(Context& context, const Problem& problem, const Arrays& arrays, int, void*) {
  with_elements(problem.stored, arrays.y, [&]<class T>(T* y) {
    if constexpr (is_half<T>)
      converted(context, y, static_cast<const T*>(arrays.x), static_cast<const T*>(arrays.weight),
                static_cast<const T*>(arrays.bias), problem);
  });
}

bool no_engine_runs(const Problem& problem) {
  constexpr std::array engines{&product_forward_first, &fused_epilogue_forward, &product_forward, &library_forward};
  return std::none_of(engines.begin(), engines.end(), [&](const Algorithm* algorithm) {
    return algorithm->fits(problem) && algorithm->plan_after(problem, -1) >= 0;
  });
}
const Algorithm converted_forward{.name = "general", .fits = no_engine_runs, .run = run_converted};
constexpr std::array forward{&stem_forward_first,    &boxes_halves_first,     &product_forward_first,
                             &implicit_halves_first, &fused_epilogue_forward, &product_forward,
                             &library_forward,       &boxes_halves_last,      &implicit_halves_last,
                             &stem_forward_last,     &converted_forward};
/// With `added`, y becomes after(y + added) where the algorithm can do that. Whether it did.
template <class T>
bool convolve(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape,
              const T* added = nullptr, Activation after = Activation::none) {
  const Arrays arrays{const_cast<T*>(x), const_cast<T*>(weight), y, const_cast<T*>(bias)};
  if (shape.layout != Layout::channels_last || !runs<T>(context, shape)) {
    Problem own = own_problem_for<T>(context, Pass::forward, shape);
    own.inputs = alignments_of(arrays);
    if (runs_own(context, "conv2d", own_forward, own))
      cuda::Prepared<Problem, Arrays>(context, "conv2d", own_forward, own, arrays).run(context);
    else
      converted(context, y, x, weight, bias, shape);
    return false;
  }
  Problem problem = problem_for<T>(context, Pass::forward, shape);
  problem.inputs = alignments_of(arrays);
  cuda::Prepared<Problem, Arrays> work(context, "conv2d", forward, problem, arrays);
  const bool boxes = work.algorithm() == &boxes_halves_first || work.algorithm() == &boxes_halves_last;
  const bool implicit = work.algorithm() == &implicit_halves_first || work.algorithm() == &implicit_halves_last;
  const bool adds = implicit || (boxes && clips(after) && reinterpret_cast<std::uintptr_t>(added) % 16 == 0);
  if (adds) work.arrays().added = added, work.arrays().after = after;
  work.run(context);
  return adds;
}

template <class T>
void conv2d(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  convolve(context, y, x, weight, bias, shape);
}

/// What conv2d, an addition and an activation compute one after the other.
template <class T>
struct AddActivated {
  Activation activation;
  __device__ float operator()(float y, float added) const {
    T sum;
    put(sum, y + added);
    return activate(widened(sum), activation);
  }
};

template <class T>
void conv2d_add(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* added,
                const Conv2d& shape) {
  Conv2d plain = shape;
  plain.activation = Activation::none;
  if (!convolve(context, y, x, weight, bias, plain, added, shape.activation))
    map(context, Span(plain).count, AddActivated<T>{shape.activation}, y, y, added);
}

// ---- backward ----

template <class T>
void converted_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                        const T* weight, const T* y, const Conv2d& shape) {
  const Span span(shape);
  Conv2d dense_shape = shape;
  dense_shape.y_channels = 0;
  const Scratch g_copy(context, dense_bytes(grad_y, span)), y_copy(context, dense_bytes(y, span));
  const T* const g = dense(context, g_copy, grad_y, span);
  const T* const out = dense(context, y_copy, y, span);
  InFloat arrays(context);
  const bool wide = shape.wide_parameters;
  const std::int64_t images = shape.N * shape.C * shape.H * shape.W;
  const std::int64_t weights = shape.O * (shape.C / shape.groups) * shape.KH * shape.KW;
  float* const to_x = arrays.out(grad_x, images);
  float* const to_weight = wide ? reinterpret_cast<float*>(grad_weight) : arrays.out(grad_weight, weights);
  float* const to_bias = wide ? reinterpret_cast<float*>(grad_bias) : arrays.out(grad_bias, shape.O);
  of_float().conv2d_backward(context, to_x, to_weight, to_bias, arrays.in(g, span.count), arrays.in(x, images),
                             arrays.in(weight, weights), arrays.in(out, span.count), dense_shape);
  arrays.round(grad_x, to_x, images);
  if (wide) return;
  arrays.round(grad_weight, to_weight, weights);
  arrays.round(grad_bias, to_bias, shape.O);
}

struct Through {
  Activation activation;
  __device__ float operator()(float gradient, float y) const { return through_activation(gradient, y, activation); }
};

/// The gradients of weight and bias that kernels of 16 bits write for a caller who wants them in float32.
template <class T>
class Narrow {
 public:
  Narrow(Context& context, bool used, const Conv2d& shape, T* weight, T* bias)
      : weights_(used && weight != nullptr ? shape.O * (shape.C / shape.groups) * shape.KH * shape.KW : 0),
        biases_(used && bias != nullptr ? shape.O : 0),
        copies_{{context, static_cast<std::size_t>(weights_) * sizeof(T)},
                {context, static_cast<std::size_t>(biases_) * sizeof(T)}},
        to_weight_(weight),
        to_bias_(bias) {}
  T* weight() const { return weights_ > 0 ? copies_[0].template as<T>() : to_weight_; }
  T* bias() const { return biases_ > 0 ? copies_[1].template as<T>() : to_bias_; }
  void widen(const Context& context) const {
    if (weights_ > 0) map(context, weights_, Same{}, reinterpret_cast<float*>(to_weight_), copies_[0].template as<T>());
    if (biases_ > 0) map(context, biases_, Same{}, reinterpret_cast<float*>(to_bias_), copies_[1].template as<T>());
  }

 private:
  std::int64_t weights_, biases_;
  Scratch copies_[2];
  T *to_weight_, *to_bias_;
};

/// The algorithms of both gradients.
struct Lists {
  Algorithms image, weight;
};
constexpr Lists of_engines{to_image, to_weight}, of_own{own_to_image, own_to_weight};

/// Whether our own kernels compute all gradients that are wanted.
template <class T>
bool runs_own_backward(const Context& context, bool image, bool weight, const Conv2d& shape) {
  const auto runs = [&](const char* decision, Algorithms algorithms, Pass pass) {
    Problem problem = own_problem_for<T>(context, pass, shape);
    problem.inputs = {256, 256, 256, 0};
    return runs_own(context, decision, algorithms, problem);
  };
  const bool rows = shape.layout != Layout::channels_last || shape.O % 4 == 0;  // of through_rows
  return rows && (!image || runs("conv2d_grad_x", own_to_image, Pass::grad_x)) &&
         (!weight || runs("conv2d_grad_weight", own_to_weight, Pass::grad_weight));
}

template <class T>
void conv2d_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Conv2d& shape) {
  const auto at_16_bytes = [](const T* array) { return reinterpret_cast<std::uintptr_t>(array) % 16 == 0; };
  const bool last = shape.layout == Layout::channels_last, engines = last && runs<T>(context, shape);
  // Channels first, the weight's pass sums the bias's gradient.
  const bool wants_weight = grad_weight != nullptr || (!last && grad_bias != nullptr);
  if ((!engines && !runs_own_backward<T>(context, grad_x != nullptr, wants_weight, shape)) || !at_16_bytes(grad_y) ||
      !at_16_bytes(y))
    return converted_backward(context, grad_x, grad_weight, grad_bias, grad_y, x, weight, y, shape);
  Problem problem =
      engines ? problem_for<T>(context, Pass::backward, shape) : own_problem_for<T>(context, Pass::backward, shape);
  const Lists& lists = engines ? of_engines : of_own;
  const Rows rows{problem.positions(), problem.O, problem.y_channels};
  // g passes through the activation once, for both gradients.
  const bool takes_grad = problem.activation == Activation::none && (!last || problem.y_channels == problem.O);
  const Scratch made(context, takes_grad ? 0 : static_cast<std::size_t>(problem.outputs()) * sizeof(T));
  const std::int64_t slices = !last || grad_bias == nullptr ? 0 : row_slices(rows);
  const Scratch partials(context, static_cast<std::size_t>(slices * problem.O) * sizeof(float));
  if (!last && !takes_grad)
    map(context, problem.outputs(), Through{problem.activation}, made.as<T>(), grad_y, y);
  else if (last && (!takes_grad || grad_bias != nullptr))
    through_rows(context, made.as<T>(), partials.as<float>(), grad_y, y, rows, problem.activation);
  void* const g = takes_grad ? const_cast<T*>(grad_y) : made.as<T>();
  const Narrow<T> narrow(context, shape.wide_parameters && !engines, shape, grad_weight, last ? nullptr : grad_bias);

  using Half = cuda::Prepared<Problem, Arrays>;
  const auto prepare = [&](std::optional<Half>& half, const char* decision,
                           std::span<const Algorithm* const> algorithms, Pass pass, const Arrays& arrays) {
    problem.pass = pass;
    problem.inputs = alignments_of(arrays);
    half.emplace(context, decision, algorithms, problem, arrays);
  };
  std::optional<Half> image, weights;
  if (grad_x != nullptr)
    prepare(image, "conv2d_grad_x", lists.image, Pass::grad_x, {grad_x, const_cast<T*>(weight), g});
  if (wants_weight)
    prepare(weights, "conv2d_grad_weight", lists.weight, Pass::grad_weight,
            {const_cast<T*>(x), narrow.weight(), g, narrow.bias()});
  run_side_by_side(context, image, weights, [&](const Context& where) {
    narrow.widen(where);
    if (last && grad_bias != nullptr)
      sum_bias(where, grad_bias, shape.wide_parameters, partials.as<float>(), slices, problem.O);
  });
}

bool never(const Context&, const Conv2d&) { return false; }
bool never_fuses(const Context&, const kernels::InvertedResidual&) { return false; }

template <class T>
kernels::Conv<T> of_halves() {
  return {.layout = layout<T>,
          .conv2d = conv2d<T>,
          .conv2d_add = conv2d_add<T>,
          .conv2d_backward = conv2d_backward<T>,
          .fuses_max_pool2d = never,
          .conv2d_max_pool2d = kernels::absent,
          .conv2d_max_pool2d_backward = kernels::absent,
          .fuses_inverted_residual = never_fuses,
          .inverted_residual = kernels::absent};
}

}  // namespace
}  // namespace tern::cuda::convolution

namespace tern::cuda {

template <>
kernels::Conv<BFloat16> conv<BFloat16>() {
  return convolution::of_halves<BFloat16>();
}
template <>
kernels::Conv<Float16> conv<Float16>() {
  return convolution::of_halves<Float16>();
}

}  // namespace tern::cuda
