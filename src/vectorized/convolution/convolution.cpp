// Convolution: the slots.

#include "vectorized/activated.hpp"
#include "vectorized/convolution/choice.hpp"
#include "vectorized/convolution/inverted_residual.hpp"
#include "vectorized/convolution/kept.hpp"
#include "vectorized/convolution/kept_linear.hpp"
#include "vectorized/finish.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace convolution {
namespace {

template <class T>
Layout layout(const Context& context, const Conv2d& shape) {
  return choose_layout<T>(context, problem_of(context, shape, Pass::forward, sizeof(T)));
}

template <class T>
struct Call {
  Problem problem;
  Arrays<T> arrays;
};

/// What packed or transformed weights depend on: neither the batch nor the image's size, so all batches share them.
Problem of_weights(const Problem& problem) {
  return {.pass = problem.pass,
          .N = 1,
          .groups = problem.groups,
          .C = problem.C,
          .O = problem.O,
          .H = 1,
          .W = 1,
          .KH = problem.KH,
          .KW = problem.KW,
          .stride_h = problem.stride_h,
          .stride_w = problem.stride_w,
          .pad_h = problem.plain() ? 0 : 1,
          .layout = problem.layout,
          .element = problem.element,
          .precision = problem.precision};
}

/// Runs the forward pass. If the caller knows the version of the weights, what is derived from them is cached.
template <class T>
void run_forward(Context& context, const Plan<T>& plan, const Call<T>& call, std::string_view algorithm) {
  const auto& problem = call.problem;
  const kernels::WeightVersion& version = *kernels::weight_version;
  const auto size = static_cast<std::size_t>(plan.shared());
  const Problem derived = of_weights(problem);
  const Kept kept = kept_weights(version, derived, algorithm, size * sizeof(T));
  const Scratch scratch(context, kept.data == nullptr ? size * sizeof(T) : 0);
  T* const weights = kept.data == nullptr ? scratch.as<T>() : static_cast<T*>(kept.data.get());
  run_on_weights(context, problem.threads, plan, weights, kept.ready);
  if (kept.data != nullptr && !kept.ready) keep(version, derived, algorithm, kept);
}

/// Calls body(first element, elements) for the dense parts of y: all of it, or each position.
template <class Body>
void for_dense(const Problem& problem, const Body& body) {
  const std::int64_t positions = problem.N * problem.positions();
  const std::int64_t channels = problem.groups * problem.O;
  if (problem.y_pitch == channels) return body(0, positions * channels);
  for (std::int64_t p = 0; p < positions; ++p) body(p * problem.y_pitch, channels);
}

/// What an algorithm left out.
template <class T>
void finish(Context& context, const Problem& problem, const Arrays<T>& arrays) {
  if (arrays.added == nullptr && arrays.after == Activation::none) return;
  const auto& kernels = finish_kernels<T>();
  const double nanoseconds = clips(arrays.after) || arrays.after == Activation::none ? 0.3 : 1.5;  // an element
  std::int64_t done = 0;
  for_dense(problem, [&](std::int64_t at, std::int64_t n) {
    const T* const added = arrays.added == nullptr ? nullptr : arrays.added + done;
    parallel_for(context, n, nanoseconds, [&](std::int64_t begin, std::int64_t end) {
      kernels.run(arrays.out + at + begin, added == nullptr ? nullptr : added + begin, end - begin, arrays.after);
    });
    done += n;
  });
}

/// Chooses an algorithm for each pass of a convolution, and runs them concurrently, the last one first.
template <class T>
void run_all(Context& context, std::span<const Call<T>> calls) {
  std::array<PlanPointer<T>, most_plans> plans;
  std::array<const char*, most_plans> names{};
  const std::size_t count = calls.size();
  for (std::size_t i = 0; i < count; ++i) {
    const auto& [problem, arrays] = calls[i];
    const Algorithm<T>& algorithm = choose(context, problem, arrays);
    plans[count - 1 - i] = algorithm.plan(problem, arrays);
    names[i] = algorithm.name;
  }
  if (calls[0].arrays.keeps && plans[0]->first_prepares_weights())
    run_forward(context, *plans[0], calls[0], names[0]);
  else
    run(context, calls[0].problem.threads, std::span<const PlanPointer<T>>(plans.data(), count));
  for (std::size_t i = 0; i < count; ++i) {
    if (plans[count - 1 - i]->done()) continue;
    const auto& [problem, arrays] = calls[i];
    const Algorithm<T>& algorithm = surest<T>(problem);
    took_algorithm(context, decision(problem.pass), algorithm.name);
    Arrays<T> bare = arrays;
    bare.added = nullptr;
    bare.after = Activation::none;
    run_by(context, algorithm, problem, bare);
    finish(context, problem, arrays);
  }
  const auto& [problem, arrays] = calls[0];
  if (problem.pass == Pass::forward && plans[0]->done() && !plans[0]->finishes()) finish(context, problem, arrays);
}

/// y = activation(x * weight + bias + added); `added` may be null here.
template <class T>
void conv2d_add(Context& context, T* y, const T* x, const T* weight, const T* bias, const T* added,
                const Conv2d& shape) {
  if (shape.N * shape.O * shape.OH * shape.OW == 0) return;
  Problem problem = problem_of(context, shape, Pass::forward, sizeof(T));
  const bool inside = added == nullptr && clips(shape.activation);  // the kernels that sum apply it
  const Activation after = inside ? Activation::none : shape.activation;
  if (!inside) problem.activation = Activation::none;
  problem.bias = bias != nullptr;
  problem.threads = useful_threads(context, nanoseconds(problem));
  const Call<T> call{problem,
                     {.out = y,
                      .in = x,
                      .weight = weight,
                      .bias = bias,
                      .added = added,
                      .after = after,
                      .keeps = kernels::weight_version != nullptr}};
  run_all(context, std::span(&call, 1));
}

template <class T>
void conv2d(Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape) {
  conv2d_add<T>(context, y, x, weight, bias, nullptr, shape);
}

template <class T>
void conv2d_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const Conv2d& shape) {
  Problem problem = problem_of(context, shape, Pass::forward, sizeof(T));
  const std::int64_t n = shape.N * shape.O * problem.positions();
  if (n == 0 || problem.K() == 0) {  // no gradient passes
    if (grad_x != nullptr) std::fill_n(grad_x, shape.N * shape.C * problem.plane(), T{0});
    if (grad_weight != nullptr) std::fill_n(grad_weight, shape.O * problem.K(), T{0});
    if (grad_bias != nullptr && n == 0) std::fill_n(grad_bias, shape.O, T{0});
    if (n == 0) return;
    grad_x = grad_weight = nullptr;
  }
  problem.threads = useful_threads(context, 2 * nanoseconds(problem));
  // Channels last, relu's gradient masks the reads; otherwise the gradient before the activation is written first.
  const bool last = shape.layout == Layout::channels_last, relu = shape.activation == Activation::relu;
  const bool writes = shape.activation != Activation::none && !(last && relu);
  const Scratch written(context, writes ? static_cast<std::size_t>(n) * sizeof(T) : 0);
  if (writes) {
    std::int64_t done = 0;
    for_dense(problem, [&](std::int64_t at, std::int64_t count) {
      through_activation(context, shape.activation, written.as<T>() + done, grad_y + at, y + at, count);
      done += count;
    });
    problem.y_pitch = shape.O;
  }
  problem.mask = last && relu;
  const T* const g = writes ? written.as<T>() : grad_y;
  const T* const mask = problem.mask ? y : nullptr;

  std::array<Call<T>, most_plans> calls;
  std::size_t count = 0;
  const auto add = [&](Pass pass, bool bias, const Arrays<T>& arrays) {
    calls[count] = {problem, arrays};
    calls[count].problem.pass = pass;
    calls[count++].problem.bias = bias;
  };
  // Channels last, the gradient of bias is computed with that of weight.
  const bool together = last && grad_weight != nullptr && grad_bias != nullptr;
  if (grad_x != nullptr) add(Pass::grad_x, false, {.out = grad_x, .in = g, .mask = mask, .weight = weight});
  if (grad_weight != nullptr)
    add(Pass::grad_weight, together,
        {.out = grad_weight, .grad_bias = together ? grad_bias : nullptr, .in = x, .g = g, .mask = mask});
  if (grad_bias != nullptr && !together) add(Pass::grad_bias, true, {.grad_bias = grad_bias, .g = g, .mask = mask});
  if (count > 0) run_all(context, std::span<const Call<T>>(calls.data(), count));
}

bool fuses_max_pool2d(const Context&, const Conv2d&) { return false; }

}  // namespace

template <class T>
bool kept_linear(Context& context, int threads, const product::Arrays<T>& arrays, const kernels::Linear& shape) {
  Problem problem{.pass = Pass::forward,
                  .N = 1,
                  .C = shape.in,
                  .O = shape.out,
                  .H = 1,
                  .W = 1,
                  .OH = 1,
                  .OW = 1,
                  .layout = Layout::channels_last,
                  .x_pitch = shape.in,
                  .y_pitch = shape.out,
                  .element = sizeof(T)};
  const Problem packed = problem;  // the weights: alike for any number of rows
  problem.H = problem.OH = shape.rows;
  const bool inside = clips(shape.activation);
  problem.activation = inside ? shape.activation : Activation::none;
  problem.bias = arrays.column_bias != nullptr;
  problem.threads = threads;
  const PlanPointer<T> plan = rows<T>(problem, {.out = arrays.c,
                                                .in = arrays.a,
                                                .weight = arrays.b,
                                                .bias = arrays.column_bias,
                                                .after = inside ? Activation::none : shape.activation,
                                                .keeps = true});
  const kernels::WeightVersion& version = *kernels::weight_version;
  constexpr std::string_view algorithm = "linear";
  const Kept kept = kept_weights(version, packed, algorithm, static_cast<std::size_t>(plan->shared()) * sizeof(T));
  if (kept.data == nullptr) return false;
  run_on_weights(context, threads, *plan, static_cast<T*>(kept.data.get()), kept.ready);
  if (!kept.ready) keep(version, packed, algorithm, kept);
  return true;
}
template bool kept_linear(Context&, int, const product::Arrays<float>&, const kernels::Linear&);
template bool kept_linear(Context&, int, const product::Arrays<double>&, const kernels::Linear&);

}  // namespace convolution

template <class T>
kernels::Conv<T> conv() {
  return {.layout = convolution::layout<T>,
          .conv2d = convolution::conv2d<T>,
          .conv2d_add = convolution::conv2d_add<T>,
          .conv2d_backward = convolution::conv2d_backward<T>,
          .fuses_max_pool2d = convolution::fuses_max_pool2d,
          .conv2d_max_pool2d = kernels::absent,
          .conv2d_max_pool2d_backward = kernels::absent,
          .fuses_inverted_residual = convolution::fuses_inverted_residual<T>,
          .inverted_residual = convolution::inverted_residual<T>};
}
template kernels::Conv<float> conv();
template kernels::Conv<double> conv();

}  // namespace tern::vectorized
