#pragma once
// The work around a channels-last engine: weights and images are converted to its order and element type, and bias and
// activation are applied if it has none.

#include "cuda/aside.cuh"
#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// The convolution that engines run for `requested`: channels padded with zeros to whole lanes and, for few channels
/// with a stride, after space-to-depth: blocks of stride x stride adjacent positions become one position with all their
/// channels, and the stride becomes 1. Its y is not part of a wider tensor, and it has neither bias nor activation.
Problem packed(const Problem& requested, Element element);
/// Whether relu6 follows in a pass of its own: no engine of 16 bits with tensor cores clips. The bits are the same.
inline bool clips_afterwards(const Problem& requested) {
  return requested.activation == Activation::relu6 && bytes_of(requested.stored) == 2 &&
         requested.y_channels == requested.O;
}
/// A forward pass with bias and activation: it writes the caller's y.
Problem with_epilogue(const Problem& requested, Element element);

/// Whether y is a slice of a wider tensor in 16 bits: cuDNN would copy all channels of x and y around its engines.
inline bool writes_slice(const Problem& requested) {
  return bytes_of(requested.stored) == 2 && requested.y_channels != requested.O;
}

/// Whether the gradient of x is a forward convolution of g, with the weight flipped by 180 degrees and its channels
/// exchanged; and which.
bool flips(const Problem& requested, const Problem& packed);
Problem flipped(const Problem& packed);

/// Whether packing keeps the order of an image, or a weight.
inline bool same_image(const Problem& requested, const Problem& packed) {
  return packed.stride_h == requested.stride_h && packed.C == requested.C;
}
inline bool same_weight(const Problem& requested, const Problem& packed) {
  return same_image(requested, packed) && packed.KH * packed.KW == 1;
}
/// Likewise, or the caller's is in the order of engines.
inline bool keeps_weight(const Problem& requested, const Problem& packed) {
  return same_weight(requested, packed) || (requested.packed_weight && same_image(requested, packed));
}
/// Whether engines accept the caller's array directly.
inline bool takes_image(const Problem& requested, const Problem& packed) {
  return packed.element == packed.stored && same_image(requested, packed) && requested.inputs.x % 16 == 0;
}
inline bool takes_weight(const Problem& requested, const Problem& packed) {
  return packed.element == packed.stored && keeps_weight(requested, packed) && requested.inputs.weight % 16 == 0;
}
/// Whether a matrix product over the positions computes the same: a 1x1 kernel that visits each position once.
inline bool is_product(const Problem& requested, const Problem& packed) {
  return same_weight(requested, packed) && requested.groups == 1 && requested.stride_h == 1 &&
         requested.stride_w == 1 && requested.pad_h == 0 && requested.pad_w == 0;
}

/// Whether sum_weight has a kernel that adds this many slices of a weight's gradient in the caller's order.
bool sums_weight(const Problem& requested, const Problem& packed, std::int64_t slices);
/// weight [O, C, KH, KW] from the sums of slices [slices, O, KH, KW, C], in order; C is per group.
void sum_weight(const Context& context, float* weight, const float* partials, std::int64_t slices,
                const Problem& requested);

/// An engine's work in a pass, and the caller's arrays that it uses; it finds the others, packed, in a workspace.
/// If `packed` is by_groups, it finds x and y there, the images of each group together.
struct Task {
  Problem packed;
  bool takes_image, takes_weight, takes_y;
  bool flipped = false;    ///< the engine runs flipped(packed)
  bool by_phases = false;  ///< its weight is ordered by phases (phases.cuh)

  Problem problem() const { return flipped ? convolution::flipped(packed) : packed; }
};

/// The pass around an engine's work.
class Packed {
 public:
  /// Without arrays and a workspace it counts bytes.
  Packed(const Problem& requested, const Task& task, const Arrays& arrays, void* workspace, std::size_t engine_bytes);

  std::size_t bytes() const { return parts_.bytes(); }
  /// The engine's arrays, and its workspace.
  const Arrays& arrays() const { return engine_; }
  void* workspace() const { return workspace_; }

  /// Queues what comes before the engine's work, and after it.
  void before(const Context& context);
  void after(const Context& context) const;

 private:
  enum class Side : std::uint8_t { x, y };
  /// Copies x or y of 16 bits between the caller's array and the engine's, which has no gaps.
  void copy(const Context& context, Side side, bool to_caller) const;

  const Problem& requested_;
  const Task& task_;
  Arrays own_, engine_;
  Parts parts_;
  void *image_, *weight_, *y_, *workspace_;
  MadeAhead ahead_;
};

/// The functions of an algorithm that delegates a task to an engine; each engine function gets the request and the
/// task.
template <Task (*task_of)(const Problem&), class Engine>
struct Around {
  static int next_plan(const Problem& requested, int plan) {
    return Engine::next_plan(requested, task_of(requested), plan);
  }
  static std::size_t workspace(const Problem& requested, int plan) {
    const Task task = task_of(requested);
    return Packed(requested, task, {}, nullptr, Engine::workspace(requested, task, plan)).bytes();
  }
  static void run(Context& context, const Problem& requested, const Arrays& arrays, int plan, void* workspace) {
    const Task task = task_of(requested);
    Packed on(requested, task, arrays, workspace, Engine::workspace(requested, task, plan));
    on.before(context);
    Engine::run(context, requested, task, on.arrays(), plan, on.workspace());
    on.after(context);
  }
  static constexpr Algorithm algorithm(const char* name, bool (*fits)(const Problem&)) {
    return {name, fits, workspace, run, next_plan};
  }
};

}  // namespace tern::cuda::convolution
