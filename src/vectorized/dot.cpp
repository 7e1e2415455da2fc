#include <algorithm>

#include "tern/kernels/ways.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/product.hpp"
#include "vectorized/sums.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

using kernels::Activation;
using product::Arrays;
using product::Plan;
using product::Problem;

/// Scratch per thread starts on a cache line of its own.
std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }

template <class T>
void multiply(Context& context, const char* decision, Problem problem, const Arrays<T>& arrays) {
  if (problem.shape.batch == 0 || problem.shape.m == 0 || problem.shape.n == 0) return;
  const std::string_view forced = forced_way(context, decision);
  Plan<T> plan(problem, arrays, forced);
  const int threads = problem.threads = useful_threads(context, plan.nanoseconds());
  if (threads > 1) plan = Plan<T>(problem, arrays, forced);
  took_way(context, decision, plan.way());
  const std::int64_t each = aligned(plan.scratch());
  const Scratch scratch(context, static_cast<std::size_t>(each * threads + plan.partials()) * sizeof(T));
  T* const partials = scratch.as<T>() + each * threads;
  parallel(threads, [&](const Team& team) {
    for (std::int64_t part = team.begin(plan.parts()); part < team.end(plan.parts()); ++part)
      plan.run(part, scratch.as<T>() + each * team.index, partials);
  });
  if (plan.partials() > 0) plan.add(partials);
}

template <class T>
void matmul(Context& context, T* out, const T* a, const T* b, const kernels::Matmul& shape) {
  multiply<T>(context, "matmul", {.shape = shape}, {.c = out, .a = a, .b = b});
}

template <class T>
void linear(Context& context, T* y, const T* x, const T* weight, const T* bias, const kernels::Linear& shape) {
  multiply<T>(context, "linear",
              {.shape = {.m = shape.rows, .n = shape.out, .k = shape.in, .transpose_b = true},
               .relu = shape.activation == Activation::relu},
              {.c = y, .a = x, .b = weight, .column_bias = bias});
  if (shape.activation == Activation::sigmoid) activation<T>().sigmoid(context, y, y, shape.rows * shape.out);
  if (shape.activation == Activation::tanh) activation<T>().tanh(context, y, y, shape.rows * shape.out);
}

template <class T>
void linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const kernels::Linear& shape) {
  const auto& kernels = sum_kernels<T>();
  const std::int64_t n = shape.rows * shape.out;
  const Scratch activated(context, shape.activation == Activation::none ? 0 : static_cast<std::size_t>(n) * sizeof(T));
  const T* g = grad_y;
  if (shape.activation != Activation::none) g = activated.as<T>();
  if (shape.activation == Activation::sigmoid)
    activation<T>().sigmoid_backward(context, activated.as<T>(), grad_y, y, n);
  if (shape.activation == Activation::tanh) activation<T>().tanh_backward(context, activated.as<T>(), grad_y, y, n);

  Problem to_x{.shape = {.m = shape.rows, .n = shape.in, .k = shape.out}};
  Problem to_weight{.shape = {.m = shape.out, .n = shape.in, .k = shape.rows, .transpose_a = true}};
  const Arrays<T> arrays_x{.c = grad_x, .a = g, .b = weight}, arrays_weight{.c = grad_weight, .a = g, .b = x};
  double nanoseconds = 0;
  const std::string_view forced_x = forced_way(context, "linear_grad_x");
  const std::string_view forced_weight = forced_way(context, "linear_grad_weight");
  Plan<T> plan_x(to_x, arrays_x, forced_x), plan_weight(to_weight, arrays_weight, forced_weight);
  if (grad_x != nullptr) nanoseconds += plan_x.nanoseconds();
  if (grad_weight != nullptr) nanoseconds += plan_weight.nanoseconds();
  const int threads = to_x.threads = to_weight.threads = useful_threads(context, nanoseconds);
  if (threads > 1) {
    plan_x = Plan<T>(to_x, arrays_x, forced_x);
    plan_weight = Plan<T>(to_weight, arrays_weight, forced_weight);
  }
  if (grad_x != nullptr) took_way(context, "linear_grad_x", plan_x.way());
  if (grad_weight != nullptr) took_way(context, "linear_grad_weight", plan_weight.way());
  const std::int64_t each = aligned(std::max(plan_x.scratch(), plan_weight.scratch()));
  const std::int64_t partials_x = aligned(plan_x.partials());
  const Scratch scratch(context,
                        static_cast<std::size_t>(each * threads + partials_x + plan_weight.partials()) * sizeof(T));
  T* const partials = scratch.as<T>() + each * threads;
  const bool relu = shape.activation == Activation::relu;
  parallel_phases(threads, relu ? 2 : 1, [&](const Team& team, int phase) {
    if (relu && phase == 0) {
      const std::int64_t begin = team.begin(n, 16), end = team.end(n, 16);
      return kernels.relu_gradient(activated.as<T>() + begin, grad_y + begin, y + begin, end - begin);
    }
    T* const mine = scratch.as<T>() + each * team.index;
    if (grad_weight != nullptr && shape.out > 0 && shape.in > 0) {
      for (std::int64_t part = team.begin(plan_weight.parts()); part < team.end(plan_weight.parts()); ++part)
        plan_weight.run(part, mine, partials + partials_x);
    }
    if (grad_x != nullptr && shape.rows > 0 && shape.in > 0) {
      for (std::int64_t part = team.begin(plan_x.parts()); part < team.end(plan_x.parts()); ++part)
        plan_x.run(part, mine, partials);
    }
    if (grad_bias != nullptr) {
      const std::int64_t begin = team.begin(shape.out, 16), end = team.end(shape.out, 16);
      kernels.column_sums(grad_bias + begin, g + begin, shape.out, shape.rows, end - begin);
    }
  });
  if (grad_x != nullptr && plan_x.partials() > 0) plan_x.add(partials);
  if (grad_weight != nullptr && plan_weight.partials() > 0) plan_weight.add(partials + partials_x);
}

}  // namespace

template <class T>
kernels::Dot<T> dot() {
  return {.matmul = matmul<T>, .linear = linear<T>, .linear_backward = linear_backward<T>};
}
template kernels::Dot<float> dot();
template kernels::Dot<double> dot();

}  // namespace tern::vectorized
