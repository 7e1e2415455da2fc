#pragma once
// What others have noted about a tensor, such as that this rank has a part of it, also holds for its conversion.

#include <atomic>

#include "tern/tensor/tensor.hpp"

namespace tern::autograd {

/// A floor above notes for `by` what it knows of `tensor`. Null: nothing is known of any.
inline std::atomic<void (*)(const Tensor& tensor, const Tensor& by)> place_taken{nullptr};

/// `by` has the elements of `tensor` in another dtype and takes its place.
inline void take_place(const Tensor& tensor, const Tensor& by) {
  if (const auto note = place_taken.load()) note(tensor, by);
}

}  // namespace tern::autograd
