// The forward pass as an implicit product, and the gradient of x at stride 1, which is one of the flipped weight.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/implicit_product.cuh"
#include "cuda/convolution/rule.cuh"

namespace tern::cuda::convolution {
namespace {

using namespace implicit_product;

Plan plan_of(const Problem& problem) {
  struct Rule;
  return remembered<Rule>(problem, [&] {
    const Work work{problem.positions(), problem.KH * problem.KW * (problem.C / problem.groups)};
    return choose_plan({&work, 1}, problem.O / problem.groups, problem.groups, problem.tensor_cores());
  });
}

}  // namespace

double implicit_time(const Problem& engine) { return plan_of(engine).cycles / card().clock; }

bool implicit_fits(const Problem& problem) {
  // Places in the arrays are counted in 32 bits.
  constexpr std::int64_t most = std::int64_t{1} << 31;
  return card().code >= 80 && problem.pass != Pass::grad_x && problem.element == Element::float32 &&
         problem.C / problem.groups % 4 == 0 && problem.O / problem.groups % 4 == 0 && problem.x_channels % 4 == 0 &&
         (problem.N * problem.H + problem.KH * problem.dilation_h) * problem.W * problem.x_channels < most &&
         problem.N * problem.OH * problem.OW * problem.y_channels < most &&
         problem.O * problem.KH * problem.KW * problem.C / problem.groups < most &&
         card().shared_per_block >= most_shared_bytes;
}

namespace {

void run_implicit(const Context& context, const Problem& problem, const Arrays& arrays, bool apart) {
  Convolutions<1> all{};
  all.of[0] = {.sizes = sizes_of(problem),
               .y = static_cast<float*>(arrays.y),
               .x = static_cast<const float*>(arrays.x),
               .weight = static_cast<const float*>(arrays.weight),
               .bias = problem.epilogue ? static_cast<const float*>(arrays.bias) : nullptr,
               .activation = problem.activation,
               .fours = aligned<4>(static_cast<const float*>(arrays.y)) && problem.y_channels % 4 == 0};
  implicit_product::run(context, all, 1, problem.groups, problem.tensor_cores(), plan_of(problem), apart);
}

// ---- the algorithms ----

struct Implicit {
  static int next_plan(const Problem&, const Task&, int plan) { return plan < 0 ? 0 : -1; }
  static std::size_t workspace(const Problem&, const Task&, int) { return 0; }
  static void run(Context& context, const Problem& requested, const Task& task, const Arrays& arrays, int, void*) {
    run_implicit(context, task.problem(), arrays, requested.pass == Pass::forward);
  }
};

bool fuses_epilogue(const Problem& requested) {
  return requested.activation == Activation::none || requested.activation == Activation::relu ||
         requested.activation == Activation::relu6;
}
Task forward_task(const Problem& requested) {
  const Problem problem =
      fuses_epilogue(requested) ? with_epilogue(requested, Element::float32) : packed(requested, Element::float32);
  return {problem, takes_image(requested, problem), takes_weight(requested, problem),
          problem.epilogue || requested.y_channels == requested.O};
}
// The other activations run in a separate pass. So an activation never decides the algorithm: fused or not, the bits
// are the same.
bool forward_fits(const Problem& requested) {
  return requested.channels_last() && implicit_fits(forward_task(requested).packed);
}

Task grad_x_task(const Problem& requested) {
  return {packed(requested, Element::float32), requested.inputs.x % 16 == 0, false, true, true};
}
bool grad_x_fits(const Problem& requested) {
  if (!requested.channels_last() || requested.element != Element::float32) return false;
  const Task task = grad_x_task(requested);
  return flips(requested, task.packed) && implicit_fits(task.problem());
}

/// Whether cuDNN transforms the images of a large kernel, and that should be faster.
bool is_transformed(const Problem& requested, const Problem& engine) {
  constexpr std::int64_t large = 25, side = 32;
  if (engine.KH * engine.KW < large || engine.KH > side || engine.KW > side || engine.stride_h * engine.stride_w > 1 ||
      engine.dilation_h * engine.dilation_w > 1)
    return false;
  struct Rule;
  return remembered<Rule>(engine, [&] {
    // Of several tiles an image most would be beyond its edges.
    const bool one_tile = engine.OH + engine.KH <= side + 1 && engine.OW + engine.KW <= side + 1;
    return (one_tile ? 0.7 : 1.8) * transform_time(engine) < implicit_time(engine) &&
           transforms(packed(requested, Element::float32));
  });
}

// In strict float32 other engines of the library need channels first, and rearrange inputs and outputs; the newest ones
// read TF32 factors faster if both are contiguous along the sum.
bool before_library(const Problem& requested, const Problem& engine) {
  if (!requested.tensor_cores() || !has_engines()) return true;
  return requested.precision == Precision::tf32 &&
         (is_short(engine) || (starves_library(engine) && prefers_implicit(engine, engine)));
}
template <bool first>
bool forward_in_order(const Problem& requested) {
  if (!forward_fits(requested)) return false;
  const Problem engine = forward_task(requested).packed;
  const bool transformed = !requested.tensor_cores() && has_engines() && is_transformed(requested, engine);
  return (before_library(requested, engine) && !transformed) == first;
}
template <bool first>
bool grad_x_in_order(const Problem& requested) {
  return grad_x_fits(requested) && before_library(requested, grad_x_task(requested).problem()) == first;
}

constexpr auto named = "implicit";

}  // namespace

const Algorithm implicit_forward_first = Around<forward_task, Implicit>::algorithm(named, forward_in_order<true>);
const Algorithm implicit_forward_last = Around<forward_task, Implicit>::algorithm(named, forward_in_order<false>);
const Algorithm implicit_grad_x_first = Around<grad_x_task, Implicit>::algorithm(named, grad_x_in_order<true>);
const Algorithm implicit_grad_x_last = Around<grad_x_task, Implicit>::algorithm(named, grad_x_in_order<false>);

}  // namespace tern::cuda::convolution
