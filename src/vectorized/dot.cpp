#include <algorithm>

#include "kernels/gradient.hpp"
#include "tern/kernels/algorithms.hpp"
#include "tern/kernels/weight_version.hpp"
#include "vectorized/activated.hpp"
#include "vectorized/convolution/kept_linear.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/product.hpp"
#include "vectorized/sums.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

using kernels::Activation;
using product::Arrays;
using product::choose;
using product::Plan;
using product::Problem;

// Elements of weights whose packing is worth a look-up.
constexpr std::int64_t least_kept = 64 * 64;

/// Scratch per thread starts on its own cache line.
std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }

template <class T>
void multiply(Context& context, const char* decision, Problem problem, const Arrays<T>& arrays) {
  if (problem.shape.batch == 0 || problem.shape.m == 0 || problem.shape.n == 0) return;
  const auto choice = choose<T>(context, decision, problem);
  const int threads = problem.threads = useful_threads(context, choice.nanoseconds);
  const Plan<T> plan(problem, arrays, choice.algorithms);
  took_algorithm(context, decision, plan.algorithm());
  const std::int64_t each = aligned(plan.scratch());
  const Scratch scratch(context, static_cast<std::size_t>(each * threads + plan.shared()) * sizeof(T));
  T* const shared = scratch.as<T>() + each * threads;
  const std::int64_t parts = plan.parts();
  const int packing = plan.packs_first() ? 1 : 0;
  parallel_phases(threads, packing + 1, [&](const Team& team, int phase) {
    if (phase < packing) return plan.pack(team, shared);
    plan.run(team.begin(parts), team.end(parts), scratch.as<T>() + each * team.index, shared);
  });
  plan.add(shared);
}

/// One matrix b for many consecutive a is one product.
kernels::Matmul joined(kernels::Matmul shape) {
  if (shape.batch <= 1 || shape.stride_b != 0 || shape.transpose_a || shape.stride_a != shape.m * shape.k) return shape;
  shape.m *= shape.batch;
  shape.batch = 1;
  return shape;
}

template <class T>
void matmul(Context& context, T* out, const T* a, const T* b, const kernels::Matmul& shape) {
  multiply<T>(context, "matmul", {.shape = joined(shape), .precision = context.precision}, {.c = out, .a = a, .b = b});
}

/// With weights that stay as they are, packed for the calls to come, where that keeps the bits; else false.
template <class T>
bool linear_by_kept(Context& context, const Problem& problem, const Arrays<T>& arrays, const kernels::Linear& shape) {
  if (kernels::weight_version == nullptr || !forced_algorithm(context, "linear").empty()) return false;
  if (shape.rows == 0 || shape.in * shape.out < least_kept) return false;
  const auto choice = choose<T>(context, "linear", problem);
  if (!Plan<T>(problem, arrays, choice.algorithms).sums_in_chains()) return false;
  const int threads = useful_threads(context, choice.nanoseconds);
  if (!convolution::kept_linear(context, threads, arrays, shape)) return false;
  took_algorithm(context, "linear", "panels");
  return true;
}

template <class T>
void linear(Context& context, T* y, const T* x, const T* weight, const T* bias, const kernels::Linear& shape) {
  const Problem problem{.shape = {.m = shape.rows, .n = shape.out, .k = shape.in, .transpose_b = true},
                        .activation = shape.activation,
                        .precision = context.precision};
  const Arrays<T> arrays{.c = y, .a = x, .b = weight, .column_bias = bias};
  if (linear_by_kept(context, problem, arrays, shape)) return;
  multiply<T>(context, "linear", problem, arrays);
  if (shape.activation != Activation::none && !clips(shape.activation))
    activate_rest(context, shape.activation, y, shape.rows * shape.out);
}

template <class T>
void linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const kernels::Linear& shape) {
  const auto& kernels = sum_kernels<T>();
  const std::int64_t n = shape.rows * shape.out;
  const Scratch activated(context, shape.activation == Activation::none ? 0 : static_cast<std::size_t>(n) * sizeof(T));
  const T* g = grad_y;
  if (shape.activation != Activation::none) g = activated.as<T>();
  if (shape.activation != Activation::none && shape.activation != Activation::relu)
    through_activation(context, shape.activation, activated.as<T>(), grad_y, y, n);

  Problem to_x{.shape = {.m = shape.rows, .n = shape.in, .k = shape.out}, .precision = context.precision};
  Problem to_weight{.shape = {.m = shape.out, .n = shape.in, .k = shape.rows, .transpose_a = true},
                    .precision = context.precision};
  const Arrays<T> arrays_x{.c = grad_x, .a = g, .b = weight}, arrays_weight{.c = grad_weight, .a = g, .b = x};
  const auto choice_x = choose<T>(context, "linear_grad_x", to_x);
  const auto choice_weight = choose<T>(context, "linear_grad_weight", to_weight);
  const double nanoseconds =
      (grad_x == nullptr ? 0 : choice_x.nanoseconds) + (grad_weight == nullptr ? 0 : choice_weight.nanoseconds);
  const int threads = to_x.threads = to_weight.threads = useful_threads(context, nanoseconds);
  const Plan<T> plan_x(to_x, arrays_x, choice_x.algorithms),
      plan_weight(to_weight, arrays_weight, choice_weight.algorithms);
  if (grad_x != nullptr) took_algorithm(context, "linear_grad_x", plan_x.algorithm());
  if (grad_weight != nullptr) took_algorithm(context, "linear_grad_weight", plan_weight.algorithm());
  const bool wants_x = grad_x != nullptr && shape.rows > 0 && shape.in > 0;
  const bool wants_weight = grad_weight != nullptr && shape.out > 0 && shape.in > 0;
  const std::int64_t each = aligned(std::max(plan_x.scratch(), plan_weight.scratch()));
  const std::int64_t shared_x = wants_x ? aligned(plan_x.shared()) : 0;
  const std::int64_t shared_weight = wants_weight ? plan_weight.shared() : 0;
  const Scratch scratch(context, static_cast<std::size_t>(each * threads + shared_x + shared_weight) * sizeof(T));
  T* const for_x = scratch.as<T>() + each * threads;
  T* const for_weight = for_x + shared_x;
  const std::int64_t parts_x = plan_x.parts(), parts_weight = plan_weight.parts();
  const int relu = shape.activation == Activation::relu ? 1 : 0;
  const bool packs = (wants_x && plan_x.packs_first()) || (wants_weight && plan_weight.packs_first());
  const int last = relu + (packs ? 1 : 0);
  parallel_phases(threads, last + 1, [&](const Team& team, int phase) {
    if (phase < relu) {
      const std::int64_t begin = team.begin(n, 16), end = team.end(n, 16);
      return kernels.relu_gradient(activated.as<T>() + begin, grad_y + begin, y + begin, end - begin);
    }
    if (phase < last) {
      if (wants_weight) plan_weight.pack(team, for_weight);
      if (wants_x) plan_x.pack(team, for_x);
      return;
    }
    T* const mine = scratch.as<T>() + each * team.index;
    if (wants_weight) plan_weight.run(team.begin(parts_weight), team.end(parts_weight), mine, for_weight);
    if (wants_x) plan_x.run(team.begin(parts_x), team.end(parts_x), mine, for_x);
    if (grad_bias != nullptr) {
      const std::int64_t begin = team.begin(shape.out, 16), end = team.end(shape.out, 16);
      kernels.column_sums(grad_bias + begin, g + begin, shape.out, shape.rows, end - begin);
    }
  });
  if (wants_x) plan_x.add(for_x);
  if (wants_weight) plan_weight.add(for_weight);
}

}  // namespace

template <class T>
kernels::Dot<T> dot() {
  return {.matmul = matmul<T>, .linear = linear<T>, .linear_backward = kernels::gradient<linear_backward<T>>()};
}
template kernels::Dot<float> dot();
template kernels::Dot<double> dot();

}  // namespace tern::vectorized
