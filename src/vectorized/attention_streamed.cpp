#include "vectorized/attention_streamed.hpp"

#include <algorithm>
#include <cmath>

#include "vectorized/attention_rows.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized {

using kernels::ScaledDotProduct;

namespace {

constexpr std::int64_t most_queries = 4;

}  // namespace

/// What the passes over a head share (named, because lambdas capture it); the keys are those that its queries see.
template <class T>
struct StreamedHead {
  const ScaledDotProduct& sizes;
  const GemmKernels<T>& gemm = gemm_kernels<T>();
  const SumKernels<T>& sums = sum_kernels<T>();
  const AttentionRows<T>& row = attention_rows<T>();
  std::int64_t keys = sizes.causal ? std::min(sizes.keys, sizes.queries) : sizes.keys;
  std::int64_t pitch = round_up(keys, 16);
  T scale = static_cast<T>(sizes.scale);

  ScoredRows scored() const { return {sizes.queries, pitch, keys, sizes.causal ? 1 : keys, sizes.causal}; }
  /// c [rows, n] = a b^T for a [rows, length] and b [n, length].
  void dots(T* c, std::int64_t c_row, const T* a, const T* b, std::int64_t rows, std::int64_t n,
            std::int64_t length) const {
    const Run run{.k = length};
    sums.dots({.c = c,
               .c_row = c_row,
               .a = a,
               .a_row = length,
               .b = b,
               .b_row = length,
               .m = rows,
               .n = n,
               .runs = &run,
               .run_count = 1});
  }
  /// Elements of a panel for the last columns.
  std::int64_t rest(std::int64_t columns) const {
    return columns % gemm.panel_width == 0 ? 0 : keys * gemm.panel_width;
  }
  /// c [queries, columns] = weights [queries, keys] b [keys, columns]. Reads b in place but for the last columns.
  void mix(T* c, const T* weights, const T* b, std::int64_t columns, T* panel) const {
    const std::int64_t whole = columns / gemm.panel_width * gemm.panel_width;
    Block<T> block{.m = sizes.queries,
                   .n = whole,
                   .k = keys,
                   .a = weights,
                   .a_row = pitch,
                   .a_column = 1,
                   .b = b,
                   .b_row = columns,
                   .b_panel = gemm.panel_width,
                   .c = c,
                   .c_row = columns};
    if (whole > 0) gemm.multiply(block);
    if (whole == columns) return;
    gemm.pack(panel, b + whole, columns, keys, columns - whole);
    block.n = columns - whole;
    block.b = panel;
    block.b_row = gemm.panel_width;
    block.c = c + whole;
    gemm.multiply(block);
  }
  /// c [keys, columns] = weights^T b for b [queries, columns], of which `panels` are the panels; 0 for keys that are
  /// not seen.
  void spread(T* c, const T* weights, const T* b, std::int64_t columns, T* panels) const {
    gemm.pack(panels, b, columns, sizes.queries, columns);
    gemm.multiply({.m = keys,
                   .n = columns,
                   .k = sizes.queries,
                   .a = weights,
                   .a_row = 1,
                   .a_column = pitch,
                   .b = panels,
                   .b_row = gemm.panel_width,
                   .b_panel = sizes.queries * gemm.panel_width,
                   .c = c,
                   .c_row = columns});
    std::fill_n(c + keys * columns, (sizes.keys - keys) * columns, T(0));
  }
  double nanoseconds() const {
    return 0.1 * static_cast<double>(keys) * static_cast<double>((sizes.width + sizes.values) * sizes.queries);
  }
};

bool streams(const ScaledDotProduct& sizes) { return sizes.queries <= most_queries; }

template <class T>
void streamed_attention(Context& context, T* out, T* log_sum, const T* query, const T* key, const T* value,
                        const ScaledDotProduct& sizes) {
  const StreamedHead<T> h{sizes};
  const std::int64_t queries = sizes.queries * sizes.width, scores = sizes.queries * h.pitch;
  const std::int64_t each = round_up(queries, 16) + scores + round_up(h.rest(sizes.values), 16);
  const int threads = useful_threads(context, static_cast<double>(sizes.heads) * h.nanoseconds());
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  parallel(threads, [&](const Team& team) {
    T* const scaled = scratch.as<T>() + each * team.index;
    T* const weights = scaled + round_up(queries, 16);
    for (std::int64_t head = team.begin(sizes.heads); head < team.end(sizes.heads); ++head) {
      T* const result = out + head * sizes.queries * sizes.values;
      h.row.scale(scaled, query + head * queries, h.scale, queries);
      h.dots(weights, h.pitch, scaled, key + head * sizes.keys * sizes.width, sizes.queries, h.keys, sizes.width);
      RunningSoftmax<T> running[most_queries];
      h.row.weigh(weights, h.scored(), running, nullptr, sizes.values);
      h.mix(result, weights, value + head * sizes.keys * sizes.values, sizes.values, weights + scores);
      for (std::int64_t i = 0; i < sizes.queries; ++i) {
        if (running[i].sum == 0)  // every score was -infinity
          std::fill_n(result + i * sizes.values, sizes.values, std::numeric_limits<T>::quiet_NaN());
        if (log_sum != nullptr) log_sum[head * sizes.queries + i] = running[i].largest + std::log(running[i].sum);
      }
    }
  });
}

template <class T>
void streamed_attention_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out,
                                 const T* query, const T* key, const T* value, const T* out, const T* log_sum,
                                 const ScaledDotProduct& sizes) {
  const StreamedHead<T> h{sizes};
  const std::int64_t queries = sizes.queries * sizes.width, values = sizes.queries * sizes.values;
  const std::int64_t scores = sizes.queries * h.pitch;
  const std::int64_t panels =
      std::max(h.rest(sizes.width), sizes.queries * round_up(std::max(sizes.width, sizes.values), h.gemm.panel_width));
  const std::int64_t each = round_up(queries, 16) + 2 * scores + round_up(panels, 16);
  const int threads = useful_threads(context, static_cast<double>(sizes.heads) * 2.5 * h.nanoseconds());
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  parallel(threads, [&](const Team& team) {
    T* const scaled = scratch.as<T>() + each * team.index;
    T *const weights = scaled + round_up(queries, 16), *const grads = weights + scores, *const panel = grads + scores;
    for (std::int64_t head = team.begin(sizes.heads); head < team.end(sizes.heads); ++head) {
      const T *const keys = key + head * sizes.keys * sizes.width, *const grad = grad_out + head * values;
      h.row.scale(scaled, query + head * queries, h.scale, queries);
      h.dots(weights, h.pitch, scaled, keys, sizes.queries, h.keys, sizes.width);
      h.dots(grads, h.pitch, grad, value + head * sizes.keys * sizes.values, sizes.queries, h.keys, sizes.values);
      T inner[most_queries];  // by dots like `grads`: where one key has all the weight they are the same
      for (std::int64_t i = 0; i < sizes.queries; ++i)
        h.dots(inner + i, 1, grad + i * sizes.values, out + head * values + i * sizes.values, 1, 1, sizes.values);
      h.row.differentiate(weights, grads, h.scored(), log_sum + head * sizes.queries, inner);
      if (grad_value != nullptr)
        h.spread(grad_value + head * sizes.keys * sizes.values, weights, grad, sizes.values, panel);
      if (grad_key != nullptr) h.spread(grad_key + head * sizes.keys * sizes.width, grads, scaled, sizes.width, panel);
      if (grad_query == nullptr) continue;
      h.mix(grad_query + head * queries, grads, keys, sizes.width, panel);
      h.row.scale(grad_query + head * queries, grad_query + head * queries, h.scale, queries);
    }
  });
}

template void streamed_attention(Context&, float*, float*, const float*, const float*, const float*,
                                 const ScaledDotProduct&);
template void streamed_attention(Context&, double*, double*, const double*, const double*, const double*,
                                 const ScaledDotProduct&);
template void streamed_attention_backward(Context&, float*, float*, float*, const float*, const float*, const float*,
                                          const float*, const float*, const float*, const ScaledDotProduct&);
template void streamed_attention_backward(Context&, double*, double*, double*, const double*, const double*,
                                          const double*, const double*, const double*, const double*,
                                          const ScaledDotProduct&);

}  // namespace tern::vectorized
