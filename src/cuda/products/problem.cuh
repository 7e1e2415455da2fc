#pragma once
// A matrix product as all code about products sees it: rules, trials and the library.

#include <compare>
#include <cstdint>
#include <string>

#include "cuda/choice.cuh"
#include "cuda/elements.cuh"
#include "cuda/fused.cuh"
#include "cuda/tuning/costs.cuh"
#include "tern/kernels/dot.hpp"

namespace tern::cuda::products {

enum class Slot : std::uint8_t { matmul, linear, linear_backward };

/// out = activation(op(a) op(b) + bias); a linear layer has op(b) = weight^T. Its backward pass is both products of a
/// layer with m rows, n outputs and k inputs.
struct Problem : kernels::Matmul {
  Slot slot = Slot::matmul;
  std::int64_t pitch = 0;  ///< elements from one row of out to the next; 0: n
  Activation activation = Activation::none;
  Element in = Element::float32, out = Element::float32;  ///< of the factors; of out and bias
  Precision precision = Precision::strict;
  bool deterministic = true;
  tuning::Rule rule = tuning::Rule::fitted;  ///< how our own kernels cut it
  /// alignment_of the arrays; 0: absent. In a backward pass a, b and out are x, weight and y.
  struct Alignments {
    std::uint32_t out = 0, a = 0, b = 0, bias = 0;
    auto operator<=>(const Alignments&) const = default;
  } inputs{};
  /// For a backward pass: grad_y, grad_x, grad_weight, grad_bias.
  Alignments gradients{};
  int device = 0;
  auto operator<=>(const Problem&) const = default;

  double work() const {
    return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * static_cast<double>(batch);
  }
};

struct Arrays {
  void* out = nullptr;
  const void *a = nullptr, *b = nullptr, *bias = nullptr;
};

/// The arrays of a layer's backward pass. The first three, which it writes, may be null.
struct Gradients {
  void *grad_x, *grad_weight, *grad_bias;
  const void *grad_y, *x, *weight, *y;
};

/// "linear 64 x 256 x 120, ...": for messages and lists.
std::string text_of(const Problem& problem);

using Algorithm = cuda::Algorithm<Problem, Arrays>;

}  // namespace tern::cuda::products
