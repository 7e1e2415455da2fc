// Convolutions channels last by cuDNN, with what surrounds its engines.

#include "cuda/convolution/algorithms.cuh"
#include "cuda/convolution/engines.cuh"
#include "cuda/convolution/packed.cuh"

namespace tern::cuda::convolution {
namespace {

struct Library {
  static int next_plan(const Problem&, const Task& task, int plan) { return next_engine(task.problem(), plan); }
  static std::size_t workspace(const Problem&, const Task& task, int plan) {
    return engine_workspace(task.problem(), plan);
  }
  static void run(Context& context, const Problem&, const Task& task, const Arrays& arrays, int plan, void* workspace) {
    run_engine(context, task.problem(), arrays, plan, workspace);
  }
};

bool fits(const Problem& asked) { return asked.channels_last() && has_engines(); }
bool narrow(const Problem& asked) { return fits(asked) && asked.precision == Precision::bf16; }

// ---- forward ----

template <Element element>
Task two_passes(const Problem& asked) {
  const Problem problem = packed(asked, element);
  return {problem, takes_image(asked, problem), takes_weight(asked, problem),
          element == Element::float32 && asked.y_channels == asked.O};
}
template <Element element>
Task one_pass(const Problem& asked) {
  const Problem problem = with_epilogue(asked, element);
  return {problem, takes_image(asked, problem), takes_weight(asked, problem), true};
}

// Of the activations the engines know relu alone.
bool fuses_epilogue(const Problem& asked) {
  return asked.given.bias != 0 && asked.given.bias % 16 == 0 &&
         (asked.activation == Activation::none || asked.activation == Activation::relu);
}

// ---- gradients: an algorithm in place is one of its own where engines may write bfloat16 or float32 ----

bool in_place(const Problem& asked, const Problem& packed) {
  return asked.pass == Pass::grad_x ? same_image(asked, packed) && asked.given.x % 16 == 0
                                    : same_weight(asked, packed) && asked.given.weight % 16 == 0;
}
template <bool flip, bool float_out>
Task gradient(const Problem& asked) {
  Task task{packed(asked, asked.element), false, false, true, flip};
  task.packed.float_out = float_out;
  const bool in_its_place = (float_out || asked.element == Element::float32) && in_place(asked, task.packed);
  task.takes_image = asked.pass == Pass::grad_x ? in_its_place : takes_image(asked, task.packed);
  task.takes_weight = asked.pass == Pass::grad_weight ? in_its_place : !flip && takes_weight(asked, task.packed);
  return task;
}
bool converts(const Problem& asked) {
  return fits(asked) && asked.element == Element::bfloat16 && in_place(asked, packed(asked, asked.element));
}
bool flippable(const Problem& asked) { return flips(asked, packed(asked, asked.element)); }

constexpr Element f32 = Element::float32, f16 = Element::bfloat16;

}  // namespace

const Algorithm library_forward_bf16 = Around<two_passes<f16>, Library>::algorithm("library", narrow);
const Algorithm library_forward = Around<two_passes<f32>, Library>::algorithm("library", fits);
const Algorithm fused_epilogue_forward_bf16 = Around<one_pass<f16>, Library>::algorithm(
    "fused_epilogue", [](const Problem& asked) { return narrow(asked) && fuses_epilogue(asked); });
const Algorithm fused_epilogue_forward = Around<one_pass<f32>, Library>::algorithm(
    "fused_epilogue", [](const Problem& asked) { return fits(asked) && fuses_epilogue(asked); });

const Algorithm flipped_grad_x = Around<gradient<true, false>, Library>::algorithm(
    "flipped", [](const Problem& asked) { return fits(asked) && flippable(asked); });
const Algorithm flipped_grad_x_in_place = Around<gradient<true, true>, Library>::algorithm(
    "flipped", [](const Problem& asked) { return converts(asked) && flippable(asked); });
const Algorithm library_grad_x = Around<gradient<false, false>, Library>::algorithm("library", fits);
const Algorithm library_grad_x_in_place = Around<gradient<false, true>, Library>::algorithm("library", converts);
const Algorithm library_grad_weight = Around<gradient<false, false>, Library>::algorithm("library", fits);
const Algorithm library_grad_weight_in_place = Around<gradient<false, true>, Library>::algorithm("library", converts);

}  // namespace tern::cuda::convolution
