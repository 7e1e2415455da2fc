#pragma once
// A forward pass, channels last, as a product by cuBLASLt: the windows are written out in the order of the weight,
// [groups, positions, C / groups, KH, KW], so that the weight is read as it lies (im2col.cu, patches.cu).

#include <algorithm>

#include "cuda/convolution/problem.cuh"
#include "cuda/elementwise.cuh"
#include "cuda/products/library.cuh"

namespace tern::cuda::convolution::windows {

struct Activated {
  Activation activation;
  __device__ float operator()(float value) const { return activate(value, activation); }
};

/// Others run in a pass of their own.
inline bool in_epilogue(const Problem& p) {
  return p.activation == Activation::none || p.activation == Activation::relu;
}

/// Elements of a group's window, and of all.
inline std::int64_t length_of(const Problem& p) { return p.C / p.groups * p.KH * p.KW; }
inline std::int64_t elements_of(const Problem& p) { return p.positions() * length_of(p) * p.groups; }
inline std::size_t bytes_of_all(const Problem& p) { return static_cast<std::size_t>(elements_of(p)) * sizeof(float); }

/// What is common to problems that such a product runs.
inline bool fits(const Problem& p) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  return p.channels_last() && p.element == Element::float32 && p.stored == Element::float32 && p.C > 0 &&
         p.KH * p.KW > 1 && elements_of(p) < most && p.inputs.bias != 0 && p.inputs.bias % 16 == 0 &&
         (in_epilogue(p) || p.y_channels == p.O);
}

/// Of each group. The channels of a group are whole lanes if there are several.
inline products::Problem product_of(const Problem& p) {
  constexpr std::uint32_t lane = 16;
  const std::uint32_t most = p.groups == 1 ? 256 : lane;
  products::Problem product;
  product.m = p.positions(), product.n = p.O / p.groups, product.k = length_of(p);
  product.transpose_b = true;
  product.pitch = p.y_channels;
  product.activation = in_epilogue(p) ? p.activation : Activation::none;
  product.precision = p.precision == Precision::bf16 ? Precision::tf32 : p.precision;
  product.deterministic = p.deterministic;
  product.device = p.device;
  product.inputs = {std::min(p.inputs.y, most), most, std::min(p.inputs.weight, most), std::min(p.inputs.bias, most)};
  return product;
}

inline int next_plan(const Problem& p, int plan) { return products::next_algorithm(product_of(p), plan); }

/// The windows, then the product's workspace.
inline std::size_t workspace(const Problem& p, int plan) {
  Parts parts(nullptr);
  parts.take(bytes_of_all(p));
  parts.take(products::algorithm_workspace(product_of(p), plan));
  return parts.bytes();
}

/// write(windows) queues what writes them.
template <class Write>
void run(const Context& context, const Problem& p, const Arrays& arrays, int plan, void* workspace,
         const Write& write) {
  const products::Problem product = product_of(p);
  Parts parts(workspace);
  auto* const windows = static_cast<float*>(parts.take(bytes_of_all(p)));
  void* const rest = parts.take(products::algorithm_workspace(product, plan));
  write(windows);
  auto* const y = static_cast<float*>(arrays.y);
  const auto* const weight = static_cast<const float*>(arrays.weight);
  const auto* const bias = static_cast<const float*>(arrays.bias);
  for (std::int64_t group = 0; group < p.groups; ++group)
    products::run_algorithm(context, product,
                            {y + group * product.n, windows + group * product.m * product.k,
                             weight + group * product.n * product.k, bias + group * product.n},
                            plan, rest);
  if (!in_epilogue(p)) map(context, p.outputs(), Activated{p.activation}, y, y);
}

}  // namespace tern::cuda::convolution::windows
