// The gradients of a convolution by cuDNN, cuBLASLt and our own implicit products.

#include <optional>
#include <vector>

#include "cuda/conv_implicit.cuh"
#include "cuda/conv_library.cuh"
#include "cuda/streams.cuh"
#include "cuda/timing.cuh"
#include "tern/kernels/ways.hpp"

namespace tern::cuda {
namespace {

/// What computes a gradient: an engine of cuDNN, our implicit product, or, where the kernel has one element, a matrix
/// product (grad_x).
enum class Engine : std::uint8_t { convolution, implicit, product };

/// How a gradient is computed.
struct Way {
  Engine engine = Engine::convolution;
  bool turned = false;  ///< grad_x as a forward convolution of g with the turned weight: its engines are faster
  bool direct = false;  ///< written in its place, not packed first
};

const char* name_of(const Way& way) {
  if (way.engine == Engine::implicit) return "implicit";
  if (way.engine == Engine::product) return "product";
  return way.turned ? "turned" : "library";
}

/// One gradient. `factor` is what meets g: the weight for grad_x, x for grad_weight.
template <class T>
class Gradient {
 public:
  Gradient(LibraryConv<T>& conv, Half half, const Way& way, float* gradient, const float* factor, T* g)
      : conv_(conv),
        half_(half),
        way_(way),
        problem_(problem_of(conv, half, way)),
        gradient_(gradient),
        factor_(factor),
        g_(g),
        takes_factor_(!way.turned && (to_x() ? conv.takes_weight(factor) : conv.takes_image(factor))),
        packed_factor_(conv.context, takes_factor_ ? factor : nullptr, to_x() ? conv.weights() : conv.images()),
        packed_(conv.context, way.direct ? gradient : nullptr, to_x() ? conv.images() : conv.weights()),
        plan_(way.engine == Engine::convolution ? conv_plan(conv.context, problem_, x(), weight(), y()) : ConvPlan{}),
        product_(way.engine == Engine::product ? product_plan() : LibraryPlan{}),
        workspace_(conv.context, workspace_bytes()) {}

  bool exists() const { return way_.engine != Engine::convolution || plan_.engine != nullptr; }

  /// All its work on the stream of `where`.
  void run(const Context& where) const {
    if (!takes_factor_) {
      if (way_.turned)
        turn_weight(where, packed_factor_.data(), factor_, conv_.shape);
      else if (to_x())
        pack_weight(where, packed_factor_.data(), factor_, conv_.shape, conv_.packing);
      else
        pack_image(where, packed_factor_.data(), factor_, conv_.shape, conv_.packing);
    }
    run_engine(where);
    if (way_.direct) return;
    if (to_x())
      unpack_image(where, gradient_, packed_.data(), conv_.shape, conv_.packing);
    else
      unpack_weight(where, gradient_, packed_.data(), conv_.shape, conv_.packing);
  }

 private:
  bool to_x() const { return half_ == Half::grad_x; }
  T* x() const { return way_.turned ? g_ : to_x() ? packed_.data() : packed_factor_.data(); }
  T* weight() const { return to_x() ? packed_factor_.data() : packed_.data(); }
  T* y() const { return way_.turned ? packed_.data() : g_; }
  kernels::Matmul product_shape() const { return {.m = conv_.rows().count, .n = conv_.shape.C, .k = conv_.shape.O}; }
  LibraryPlan product_plan() const {
    return library_plan<float, T>(conv_.context, gradient_, g_, weight(), product_shape());
  }
  std::size_t workspace_bytes() const {
    if (way_.engine == Engine::convolution) return plan_.workspace;
    if (way_.engine == Engine::product) return product_.workspace();
    if (way_.turned) return 0;
    return static_cast<std::size_t>(implicit_slices(problem_) * conv_.weights()) * sizeof(float);
  }
  void run_engine(const Context& where) const {
    if (way_.engine == Engine::convolution)
      return run_conv(plan_, problem_, stream_of(where), workspace_.template as<void>(), x(), weight(), y());
    if (way_.engine == Engine::product)
      return library_product<float, T>(product_, stream_of(where), workspace_.template as<void>(), gradient_, g_,
                                       weight());
    if constexpr (std::is_same_v<T, float>) {
      if (way_.turned)
        implicit_forward(where, y(), x(), weight(), nullptr, problem_);
      else
        implicit_grad_weight(where, weight(), workspace_.template as<float>(), x(), y(), problem_);
    }
  }

  static ConvProblem problem_of(const LibraryConv<T>& conv, Half half, const Way& way) {
    ConvProblem problem = way.turned ? conv.turned() : conv.problem(half);
    // Our own products write float anyway.
    problem.float_out = way.direct && !conv.is_float && way.engine == Engine::convolution;
    return problem;
  }

  LibraryConv<T>& conv_;
  Half half_;
  Way way_;
  ConvProblem problem_;
  float* gradient_;
  const float* factor_;
  T* g_;
  bool takes_factor_;
  Packed<T> packed_factor_, packed_;
  ConvPlan plan_;
  LibraryPlan product_;
  Scratch workspace_;
};

// The ways that there are, the one that is used without a trial first. A function of what is in the key.
template <class T>
std::vector<Way> ways_of(const LibraryConv<T>& conv, Half half, const float* gradient) {
  const bool same = (half == Half::grad_x ? conv.same_image() : conv.same_weight()) && aligned(gradient);
  std::vector<Way> ways;
  for (const bool turn : {true, false}) {
    if (turn && !(half == Half::grad_x && conv.turns())) continue;
    if (library_built()) ways.push_back({Engine::convolution, turn, same && conv.is_float});
    const ConvProblem problem = turn ? conv.turned() : conv.problem(half);
    // The library's newest engines read TF32 factors faster where both lie along the sum.
    if (implicit_fits(problem))
      ways.insert(turn && problem.tensor_cores ? ways.end() : ways.begin(), {Engine::implicit, turn, same});
    if (library_built() && !conv.is_float && same) ways.push_back({Engine::convolution, turn, true});
  }
  if (half == Half::grad_x && conv.is_product()) ways.push_back({Engine::product, false, true});
  return ways;
}

Way took(const Context& context, const char* decision, const Way& way) {
  took_way(context, decision, name_of(way));
  return way;
}

template <class T>
Way choose_way(LibraryConv<T>& conv, Half half, float* gradient, const float* factor, T* g) {
  const std::vector<Way> ways = ways_of(conv, half, gradient);
  const char* const decision = half == Half::grad_x ? "conv2d_grad_x" : "conv2d_grad_weight";
  if (const std::string_view forced = forced_way(conv.context, decision); !forced.empty())
    for (const Way& way : ways)
      if (forced == name_of(way)) return took(conv.context, decision, way);
  struct GradientWay;
  const ConvKey key = key_of(conv.context, conv.shape, half, gradient, factor, static_cast<const T*>(g));
  const std::size_t best =
      fastest<GradientWay>(conv.context, key, ways.size(), [&](std::size_t i) -> std::optional<float> {
        const Gradient<T> candidate(conv, half, ways[i], gradient, factor, g);
        if (!candidate.exists()) return {};
        return microseconds(
            conv.context, [&] { candidate.run(conv.context); }, 2, 5);
      });
  return took(conv.context, decision, ways[best]);
}

}  // namespace

template <class T>
void LibraryConv<T>::backward(float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y, const float* x,
                              const float* weight, const float* y) {
  const bool masked = shape.activation != Activation::none, takes_grad = !masked && is_float && !joined();
  const std::int64_t span = rows().count * rows().pitch - (rows().pitch - shape.O);
  const AlignedInput whole_grad(context, grad_y, span), whole_y(context, masked ? y : nullptr, span);
  const Packed<T> g(context, takes_grad ? whole_grad.data() : nullptr, outputs());
  const std::int64_t slices = grad_bias == nullptr ? 0 : row_slices(rows());
  const Scratch partials(context, static_cast<std::size_t>(slices * shape.O) * sizeof(float));
  if (!takes_grad || grad_bias != nullptr)
    through_rows(context, takes_grad ? nullptr : g.data(), partials.as<float>(), whole_grad.data(), whole_y.data(),
                 rows(), shape.activation);
  const auto finish_bias = [&](const Context& where) {
    if (grad_bias != nullptr) sum_slices<float>(where, nullptr, grad_bias, partials.as<float>(), slices, 0, shape.O);
  };

  std::optional<Gradient<T>> to_x, to_weight;
  if (grad_x != nullptr)
    to_x.emplace(*this, Half::grad_x, choose_way(*this, Half::grad_x, grad_x, weight, g.data()), grad_x, weight,
                 g.data());
  if (grad_weight != nullptr)
    to_weight.emplace(*this, Half::grad_weight, choose_way(*this, Half::grad_weight, grad_weight, x, g.data()),
                      grad_weight, x, g.data());
  if (to_x && to_weight && may_fork(context)) {
    // Independent of each other: in a replayed step they run side by side.
    Context beside = context;
    beside.stream = fork(context);
    to_x->run(beside);
    finish_bias(beside);
    to_weight->run(context);
    join(context);
    return;
  }
  if (to_x) to_x->run(context);
  if (to_weight) to_weight->run(context);
  finish_bias(context);
}

template void LibraryConv<float>::backward(float*, float*, float*, const float*, const float*, const float*,
                                           const float*);
template void LibraryConv<bf16>::backward(float*, float*, float*, const float*, const float*, const float*,
                                          const float*);

}  // namespace tern::cuda
