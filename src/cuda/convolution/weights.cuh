#pragma once
// Weights in the order of a channels-last engine, and their gradients back in that of the caller.

#include "cuda/convolution/packed.cuh"

namespace tern::cuda::convolution {

/// Calls body(the engine's array, the caller's array) with their element types.
template <class Body>
void with_element(const Problem& packed, void* array, void* own, const Body& body) {
  if (packed.stored == Element::bfloat16) return body(static_cast<BFloat16*>(array), static_cast<BFloat16*>(own));
  if (packed.stored == Element::float16) return body(static_cast<Float16*>(array), static_cast<Float16*>(own));
  if (packed.element == Element::bfloat16) return body(static_cast<bf16*>(array), static_cast<float*>(own));
  body(static_cast<float*>(array), static_cast<float*>(own));
}

/// Positions along one side of a space-to-depth block; 1 without space-to-depth.
inline std::int64_t block_of(const Problem& requested, const Problem& packed) {
  return requested.stride_h / packed.stride_h;
}

/// The engine's weight from the caller's: in order, flipped, or by phases, as the task says.
void pack_weight(const Context& context, void* to, void* weight, const Problem& requested, const Task& task);
/// The caller's gradient from the engine's.
void unpack_weight(const Context& context, void* weight, void* from, const Problem& requested, const Problem& packed);

}  // namespace tern::cuda::convolution
