#pragma once
// One pass of a convolution, as all code about convolutions sees it: rules, trials, engines, and the kernels' own forms
// of it.

#include <compare>
#include <cstdint>
#include <string>

#include "cuda/choice.cuh"
#include "cuda/elements.cuh"
#include "cuda/fused.cuh"
#include "cuda/tuning/costs.cuh"
#include "tern/kernels/conv.hpp"

namespace tern::cuda::convolution {

using kernels::Conv2d;
using kernels::Layout;

/// What is computed: y, the gradient of x, that of the weight; or all gradients at once.
enum class Pass : std::uint8_t { forward, grad_x, grad_weight, backward };

/// alignment_of the arrays; 0: absent.
struct Alignments {
  std::uint32_t x = 0, weight = 0, y = 0, bias = 0;
  auto operator<=>(const Alignments&) const = default;
};

/// The requested convolution or, channels last, the one that an engine runs for it (packed.cuh). In a backward pass y's
/// gradient passes through the activation. `y_channels` is never 0.
struct Problem : Conv2d {
  Pass pass = Pass::forward;
  std::int64_t x_channels = 0;         ///< elements from one position of x to the next, channels last
  Element element = Element::float32;  ///< of an engine's arrays, and of the gradient of y
  /// Of the caller's arrays. If it has 16 bits, `element` is the same, or float32 where a kernel of ours converts in
  /// registers (halves.cu).
  Element stored = Element::float32;
  bool pools = false;      ///< y is the largest of each 2 x 2 outputs
  bool float_out = false;  ///< an engine's output is float32 nevertheless
  bool epilogue =
      false;  ///< forward: the engine adds the bias, if present, and applies the activation (relu, relu6 or none)
  bool packed_weight = false;  ///< the caller's weight has the order of engines (padded.cu)
  bool by_groups = false;      ///< the images of each group lie together (padded.cu, library.cu)
  Precision precision = Precision::strict;
  bool deterministic = true;
  tuning::Rule rule = tuning::Rule::fitted;  ///< how our own kernels cut it
  Alignments inputs{}, gradients{};  ///< the second for a whole backward: grad_x, grad_weight, grad_y, grad_bias
  int device = 0;
  auto operator<=>(const Problem&) const = default;

  bool channels_last() const { return layout == Layout::channels_last; }
  bool tensor_cores() const { return precision != Precision::strict; }  ///< float32 factors may be read as TF32
  std::int64_t positions() const { return N * OH * OW; }
  std::int64_t images() const { return N * C * H * W; }  ///< elements of x; of y; of a weight
  std::int64_t outputs() const { return positions() * O; }
  std::int64_t weights() const { return O * (C / groups) * KH * KW; }
};

/// The arrays of a pass. It writes the one that it is named after, which is a gradient in a backward pass; y is then a
/// gradient, too. The forward pass reads the bias; the weight pass writes its gradient. `index` says which output each
/// element of a pooled y is. Null: absent.
struct Arrays {
  void *x = nullptr, *weight = nullptr, *y = nullptr, *bias = nullptr;
  std::uint8_t* index = nullptr;
  const void* added = nullptr;  ///< after a forward pass by an algorithm that can: y = after(y + added)
  Activation after = Activation::none;
};

/// Whether a pass of 16 bits writes the gradient of the weight in float32.
inline bool wide_weight(const Problem& problem) {
  return problem.pass == Pass::grad_weight && problem.wide_parameters && bytes_of(problem.stored) == 2;
}

inline Alignments alignments_of(const Arrays& arrays) {
  return {alignment_of(arrays.x), alignment_of(arrays.weight), alignment_of(arrays.y), alignment_of(arrays.bias)};
}

/// The problem of a call; the caller fills in the arrays.
Problem problem_of(const Context& context, Pass pass, const Conv2d& shape, Element element);

/// "conv2d_grad_x 8 x 64 x 12 x 12 to 32, kernel 3x3, stride 1x1, ...": for messages and lists.
std::string text_of(const Problem& problem);

/// Calls use(pointer) with a null pointer to the type of the caller's elements, which a kernel computes in float32.
template <class Use>
void with_stored(const Problem& problem, const Use& use) {
  if (problem.stored == Element::bfloat16) return use(static_cast<BFloat16*>(nullptr));
  if (problem.stored == Element::float16) return use(static_cast<Float16*>(nullptr));
  use(static_cast<float*>(nullptr));
}

using Algorithm = cuda::Algorithm<Problem, Arrays>;

}  // namespace tern::cuda::convolution
