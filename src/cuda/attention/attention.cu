// Attention: chooses between our kernels, which are for float32 and 16 bits, and the composed form.

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

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

/// Sizes and what else the choice reads. Both passes take the same kernels, whose scores have the same bits.
struct Problem {
  std::int64_t heads = 0, queries = 0, keys = 0, width = 0, values = 0;
  bool causal = false, shares = false, records = false;
  Precision precision = Precision::strict;
  Element element = Element::float32;

  Problem(const Context& context, const ScaledDotProduct& sizes, Element of, bool is_recorded)
      : heads(sizes.heads),
        queries(sizes.queries),
        keys(sizes.keys),
        width(sizes.width),
        values(sizes.values),
        causal(sizes.causal),
        shares(sizes.inner > 1 && sizes.key.inner == 0),
        records(is_recorded),
        precision(context.precision),
        element(of) {}
  Context context() const { return {.precision = precision}; }
  bool halves() const { return element != Element::float32; }
  std::int64_t widest() const { return std::max(width, values); }
};

/// Whether positions in a head are int, as the kernels have them.
bool counts(const Problem& sizes) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  const std::int64_t longest = std::max(sizes.queries, sizes.keys);
  return sizes.widest() <= most_width && longest <= most / most_width && sizes.heads <= most / (longest / 16 + 1);
}

/// Whether a block's tiles fit the card, too.
bool fits(const Problem& sizes) {
  if (!counts(sizes)) return false;
  const Sizes own{.heads = static_cast<int>(sizes.heads),
                  .queries = static_cast<int>(sizes.queries),
                  .keys = static_cast<int>(sizes.keys),
                  .width = static_cast<int>(sizes.width),
                  .values = static_cast<int>(sizes.values),
                  .causal = sizes.causal};
  const auto shared = [&]<class T>() {
    return std::max(forward_shared<T>(sizes.context(), own), backward_shared<T>(sizes.context(), own));
  };
  return (!sizes.halves() || card().code >= 80) &&
         (sizes.halves() ? shared.operator()<BFloat16>() : shared.operator()<float>()) <= card().shared_per_block;
}

/// More queries read the keys again, which pays without a backward pass where few heads leave the card idle.
bool streams(const Problem& sizes) {
  const std::int64_t blocks = sizes.heads * ceil_div(sizes.queries, most_streamed);
  const bool alone = !sizes.records && blocks <= 2 * card().multiprocessors;
  return !sizes.causal && !sizes.shares && sizes.queries <= (alone ? 8 * most_streamed : most_streamed) &&
         counts(sizes) && (!sizes.halves() || card().code >= 80);
}

bool groups(const Problem& sizes) { return sizes.halves() && has_groups() && counts(sizes); }

/// Sizes for which products and a softmax were measured to be faster (benchmarks/results/fused-h200.md): in TF32 while
/// the scores stay in the card's cache.
bool composes_faster(const Problem& sizes) {
  if (sizes.halves() || sizes.causal || std::min(sizes.queries, sizes.keys) < 256) return false;
  return on_tensor_cores(sizes.context())
             ? sizes.widest() > 96 && sizes.heads * sizes.queries * sizes.keys <= std::int64_t{8} << 20
             : sizes.widest() > 64;
}

using Algorithm = cuda::Algorithm<Problem, kernels::NoArrays>;
const Algorithm streamed{.name = "streamed", .fits = streams};
const Algorithm warpgroups{.name = "warpgroups", .fits = groups};
const Algorithm fused_first{.name = "fused", .fits = [](const Problem& p) { return fits(p) && !composes_faster(p); }};
const Algorithm composed{.name = "composed"};
const Algorithm fused_last{.name = "fused", .fits = fits};
constexpr std::array algorithms{&streamed, &warpgroups, &fused_first, &composed, &fused_last};
constexpr std::array without_kernels{&composed};

template <class T>
std::string_view chosen(const Context& context, const ScaledDotProduct& sizes, bool records) {
  const Candidates<Problem, kernels::NoArrays> with_kernels = algorithms, without = without_kernels;
  return kernels::chosen_by_rule(context, decision, std::is_same_v<Scalar<T>, float> ? with_kernels : without,
                                 Problem(context, sizes, element_of<T>, records))
      .algorithm->name;
}

template <class T>
bool fuses(const Context& context, const ScaledDotProduct& sizes) {
  if (chosen<T>(context, sizes, true) != composed.name) return true;
  took_algorithm(context, decision, composed.name);
  return false;
}

bool takes_strides(const Context&) { return true; }

/// Runs the pass by the chosen kernels.
template <class T, class Streamed, class Groups, class Fused>
void run_chosen(Context& context, const ScaledDotProduct& sizes, bool records, const Streamed& by_streamed,
                const Groups& by_groups, const Fused& by_fused) {
  const std::string_view name = chosen<T>(context, sizes, records);
  const bool streams = name == streamed.name, groups = name == warpgroups.name;
  took_algorithm(context, decision, streams ? streamed.name : groups ? warpgroups.name : fused_last.name);
  if (streams) return by_streamed();
  if constexpr (is_half<T>)
    if (groups) return by_groups();
  by_fused();
}

template <class T>
void attend(Context& context, T* out, Scalar<T>* log_sum, const T* query, const T* key, const T* value,
            const ScaledDotProduct& sizes) {
  if constexpr (std::is_same_v<T, double>) {
    throw Error("cuda: attention of float64 is composed");
  } else {
    const Sizes own = sizes_of(sizes, packs<T>(sizes, {out, query, key, value}));
    const Forward<T> pass{out, log_sum, query, key, value};
    run_chosen<T>(
        context, sizes, log_sum != nullptr, [&] { run_streamed<T>(context, pass, own); },
        [&] { run_forward_groups<T>(context, pass, own); }, [&] { run_forward<T>(context, pass, own); });
  }
}

template <class T>
void attend_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out, const T* query,
                     const T* key, const T* value, const T* out, const Scalar<T>* log_sum,
                     const ScaledDotProduct& sizes) {
  if constexpr (std::is_same_v<T, double>) {
    throw Error("cuda: attention of float64 is composed");
  } else {
    const Sizes own =
        sizes_of(sizes, packs<T>(sizes, {grad_query, grad_key, grad_value, grad_out, query, key, value, out}));
    const StreamedBackward<T> pass{{grad_query, grad_key, grad_value, grad_out, query, key, value, log_sum, nullptr},
                                   out};
    const auto with_inner = [&](const auto& run) {
      const Scratch inner(context, static_cast<std::size_t>(sizes.heads * sizes.queries) * sizeof(float));
      run_inner<T>(context, inner.as<float>(), grad_out, out, own);
      Backward<T> with = pass;
      with.inner = inner.as<float>();
      run(context, with, own);
    };
    run_chosen<T>(
        context, sizes, true, [&] { run_streamed_backward<T>(context, pass, own); },
        [&] { with_inner(run_backward_groups<T>); }, [&] { with_inner(run_backward<T>); });
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
