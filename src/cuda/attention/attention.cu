// Attention: chooses between our kernels, which are for float32 and 16 bits, and the composed form.

#include <algorithm>
#include <array>
#include <initializer_list>

#include "cuda/attention/attention.cuh"
#include "cuda/choice.cuh"
#include "cuda/cuda.hpp"
#include "cuda/elementwise.cuh"

namespace tern::cuda {
namespace {

using namespace scaled_dot_product;
using kernels::ScaledDotProduct;

constexpr const char* decision = "attention";

/// Rows of 16 bytes, and arrays aligned to them.
template <class T>
bool packs(const ScaledDotProduct& sizes, std::initializer_list<const T*> arrays) {
  constexpr int packet = 16 / sizeof(T);
  const auto all = [&](const kernels::HeadStrides& of) {
    return of.outer % packet == 0 && of.middle % packet == 0 && of.inner % packet == 0 && of.row % packet == 0;
  };
  return sizes.width % packet == 0 && sizes.values % packet == 0 && all(sizes.query) && all(sizes.key) &&
         all(sizes.value) && all(sizes.out) && all(sizes.grad_query) && all(sizes.grad_key) && all(sizes.grad_value) &&
         all(sizes.grad_out) &&
         std::all_of(arrays.begin(), arrays.end(), [](const T* array) { return aligned<packet>(array); });
}

Sizes sizes_of(const ScaledDotProduct& sizes, bool packed) {
  return {.heads = static_cast<int>(sizes.heads),
          .queries = static_cast<int>(sizes.queries),
          .keys = static_cast<int>(sizes.keys),
          .width = static_cast<int>(sizes.width),
          .values = static_cast<int>(sizes.values),
          .causal = sizes.causal,
          .scale = static_cast<float>(sizes.scale),
          .packs = packed,
          .middle = static_cast<int>(sizes.middle),
          .inner = static_cast<int>(sizes.inner),
          .query = sizes.query,
          .key = sizes.key,
          .value = sizes.value,
          .out = sizes.out,
          .grad_query = sizes.grad_query,
          .grad_key = sizes.grad_key,
          .grad_value = sizes.grad_value,
          .grad = sizes.grad_out};
}

/// Sizes and what else the choice reads.
struct Problem : ScaledDotProduct {
  Precision precision = Precision::strict;
  Element element = Element::float32;
  Context context() const { return {.precision = precision}; }
};

/// Whether the kernels can run it: positions in a head are int, and a block's tiles must fit the card.
bool fits(const Problem& sizes) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const std::int64_t widest = std::max(sizes.width, sizes.values), longest = std::max(sizes.queries, sizes.keys);
  if (widest > most_width || longest > most / most_width || sizes.heads > most / (longest / 16 + 1)) return false;
  const Sizes own = sizes_of(sizes, false);
  const auto shared = [&]<class T>() {
    return std::max(forward_shared<T>(sizes.context(), own), backward_shared<T>(sizes.context(), own));
  };
  const bool halves = sizes.element != Element::float32;
  return (!halves || card().code >= 80) &&
         (halves ? shared.operator()<BFloat16>() : shared.operator()<float>()) <= card().shared_per_block;
}

/// Sizes for which products and a softmax were measured to be faster (benchmarks/results/fused-h200.md).
bool composes_faster(const Problem& sizes) {
  return sizes.element == Element::float32 && !on_tensor_cores(sizes.context()) &&
         std::max(sizes.width, sizes.values) > 64 && !sizes.causal && std::min(sizes.queries, sizes.keys) >= 256;
}

using Algorithm = cuda::Algorithm<Problem, kernels::NoArrays>;
const Algorithm fused_first{.name = "fused", .fits = [](const Problem& p) { return fits(p) && !composes_faster(p); }};
const Algorithm composed{.name = "composed"};
const Algorithm fused_last{.name = "fused", .fits = fits};
constexpr std::array algorithms{&fused_first, &composed, &fused_last};
constexpr std::array without_kernels{&composed};

template <class T>
bool fuses(const Context& context, const ScaledDotProduct& sizes) {
  const Candidates<Problem, kernels::NoArrays> with_kernels = algorithms, without = without_kernels;
  return kernels::fuses(context, decision, std::is_same_v<Scalar<T>, float> ? with_kernels : without,
                        Problem{sizes, context.precision, element_of<T>});
}

bool takes_strides(const Context&) { return true; }

template <class T>
void attend(Context& context, T* out, Scalar<T>* log_sum, const T* query, const T* key, const T* value,
            const ScaledDotProduct& sizes) {
  if constexpr (std::is_same_v<T, double>) {
    throw Error("cuda: attention of float64 is composed");
  } else {
    took_algorithm(context, decision, "fused");
    run_forward<T>(context, {out, log_sum, query, key, value},
                   sizes_of(sizes, packs<T>(sizes, {out, query, key, value})));
  }
}

template <class T>
void attend_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out, const T* query,
                     const T* key, const T* value, const T* out, const Scalar<T>* log_sum,
                     const ScaledDotProduct& sizes) {
  if constexpr (std::is_same_v<T, double>) {
    throw Error("cuda: attention of float64 is composed");
  } else {
    took_algorithm(context, decision, "fused");
    const Sizes own =
        sizes_of(sizes, packs<T>(sizes, {grad_query, grad_key, grad_value, grad_out, query, key, value, out}));
    const Scratch inner(context, static_cast<std::size_t>(sizes.heads * sizes.queries) * sizeof(float));
    run_inner<T>(context, inner.as<float>(), grad_out, out, own);
    run_backward<T>(context,
                    {grad_query, grad_key, grad_value, grad_out, query, key, value, log_sum, inner.as<float>()}, own);
  }
}

}  // namespace

template <class T>
kernels::Attention<T> attention() {
  return {.fuses = fuses<T>,
          .takes_strides = takes_strides,
          .attention = attend<T>,
          .attention_backward = attend_backward<T>};
}
template kernels::Attention<float> attention<float>();
template kernels::Attention<double> attention<double>();
template kernels::Attention<BFloat16> attention<BFloat16>();
template kernels::Attention<Float16> attention<Float16>();

}  // namespace tern::cuda
