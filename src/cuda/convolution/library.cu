// Channels-last convolutions by cuDNN, with the passes around its engines.

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

bool fits(const Problem& requested) {
  const std::int64_t lanes = requested.tensor_cores() ? engine_lanes : engine_lanes / 2;
  const bool whole = requested.O / requested.groups % lanes == 0 &&
                     (requested.groups == 1 || requested.C / requested.groups % lanes == 0);
  // No kernel of ours computes the gradient of x with a stride as a product.
  constexpr std::int64_t most_tried = 32;
  const bool alone =
      requested.tensor_cores() && requested.pass == Pass::grad_x && requested.stride_h * requested.stride_w > 1;
  return requested.channels_last() && has_engines() && whole &&
         (runs_together(requested) ||
          requested.groups <= (requested.deterministic && !alone ? most_engine_groups : most_tried));
}
bool narrow(const Problem& requested) { return fits(requested) && rounds_factors(requested); }

/// The same task on arrays in which the images of each group lie together, in 16 bits: one copy has all groups, where
/// cuDNN would copy the channels of each around its engine.
Task by_groups(Task task, const Problem& requested) {
  if (requested.groups == 1 || bytes_of(requested.stored) != 2 || runs_together(task.packed) || task.packed.float_out)
    return task;
  task.packed.by_groups = true;
  task.takes_image = task.takes_y = false;
  return task;
}

// ---- forward ----

template <bool narrow>
Task two_passes(const Problem& requested) {
  Problem problem = packed(requested, narrow ? Element::bfloat16 : requested.stored);
  bool takes_y = !narrow && requested.y_channels == requested.O;
  if (bytes_of(requested.stored) == 2) {  // rounded once, by the second pass if there is one
    takes_y = takes_y && requested.inputs.bias == 0 && requested.activation == Activation::none;
    problem.float_out = !takes_y;
  }
  return by_groups({problem, takes_image(requested, problem), takes_weight(requested, problem), takes_y}, requested);
}
template <bool narrow>
Task one_pass(const Problem& requested) {
  Problem problem = with_epilogue(requested, narrow ? Element::bfloat16 : requested.stored);
  const bool takes_y = !writes_slice(requested);
  if (!takes_y) problem.y_channels = requested.O;
  return by_groups({problem, takes_image(requested, problem), takes_weight(requested, problem), takes_y}, requested);
}

// Relu, with or without a top, is the only activation that the engines have.
bool fuses_epilogue(const Problem& requested) {
  return requested.inputs.bias != 0 && requested.inputs.bias % 16 == 0 &&
         (requested.activation == Activation::none || requested.activation == Activation::relu ||
          requested.activation == Activation::relu6);
}

// ---- gradients: writing in place is a separate algorithm where engines may write bfloat16 or float32 ----

bool in_place(const Problem& requested, const Problem& packed) {
  return requested.pass == Pass::grad_x ? same_image(requested, packed) && requested.inputs.x % 16 == 0
                                        : keeps_weight(requested, packed) && requested.inputs.weight % 16 == 0;
}
template <bool flip, bool float_out>
Task gradient(const Problem& requested) {
  Task task{packed(requested, requested.element), false, false, true, flip};
  task.packed.float_out = float_out;
  const bool narrow_out = requested.element == requested.stored && !wide_weight(requested);
  const bool in_its_place = (float_out || narrow_out) && in_place(requested, task.packed);
  task.takes_image = requested.pass == Pass::grad_x ? in_its_place : takes_image(requested, task.packed);
  task.takes_weight = requested.pass == Pass::grad_weight
                          ? in_its_place
                          : (!flip || requested.packed_weight) && takes_weight(requested, task.packed);
  return by_groups(task, requested);
}
bool converts(const Problem& requested) {
  const bool widens =
      requested.stored == Element::float32 ? requested.element == Element::bfloat16 : wide_weight(requested);
  return fits(requested) && widens && in_place(requested, packed(requested, requested.element));
}
bool flippable(const Problem& requested) { return flips(requested, packed(requested, requested.element)); }

}  // namespace

const Algorithm library_forward_bf16 = Around<two_passes<true>, Library>::algorithm("library", narrow);
const Algorithm library_forward = Around<two_passes<false>, Library>::algorithm("library", fits);
const Algorithm fused_epilogue_forward_bf16 = Around<one_pass<true>, Library>::algorithm(
    "fused_epilogue", [](const Problem& requested) { return narrow(requested) && fuses_epilogue(requested); });
const Algorithm fused_epilogue_forward = Around<one_pass<false>, Library>::algorithm(
    "fused_epilogue", [](const Problem& requested) { return fits(requested) && fuses_epilogue(requested); });

const Algorithm flipped_grad_x = Around<gradient<true, false>, Library>::algorithm(
    "flipped", [](const Problem& requested) { return fits(requested) && flippable(requested); });
const Algorithm flipped_grad_x_in_place = Around<gradient<true, true>, Library>::algorithm(
    "flipped", [](const Problem& requested) { return converts(requested) && flippable(requested); });
const Algorithm library_grad_x = Around<gradient<false, false>, Library>::algorithm("library", fits);
const Algorithm library_grad_x_in_place = Around<gradient<false, true>, Library>::algorithm("library", converts);
const Algorithm library_grad_weight = Around<gradient<false, false>, Library>::algorithm("library", fits);
const Algorithm library_grad_weight_in_place = Around<gradient<false, true>, Library>::algorithm("library", converts);

}  // namespace tern::cuda::convolution
