#include "vectorized/attention_streamed.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "vectorized/attention_rows.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized {

using kernels::ScaledDotProduct;

namespace {

constexpr std::int64_t most_queries = 4;
/// Heads that lie side by side in rows are taken together, a few keys at a time: so memory is read in its order.
constexpr std::int64_t most_together = 16, bytes_at_once = 65536;

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
  void dots(Pitched<T> c, Pitched<const T> a, Pitched<const T> b, std::int64_t rows, std::int64_t n,
            std::int64_t length) const {
    const Run run{.k = length};
    sums.dots({.c = c.at,
               .c_row = c.pitch,
               .a = a.at,
               .a_row = a.pitch,
               .b = b.at,
               .b_row = b.pitch,
               .m = rows,
               .n = n,
               .runs = &run,
               .run_count = 1});
  }
  /// Elements of a panel for the last columns.
  std::int64_t rest(std::int64_t columns) const {
    return columns % gemm.panel_width == 0 ? 0 : keys * gemm.panel_width;
  }
  /// c [queries, columns] = weights [queries, keys] b [keys, columns] over some of the keys, added unless they are the
  /// first. Reads b in place but for the last columns.
  void mix(Pitched<T> c, const T* weights, Pitched<const T> b, std::int64_t columns, Range of_keys, T* panel) const {
    const std::int64_t whole = columns / gemm.panel_width * gemm.panel_width;
    b = b.from(of_keys.first);
    Block<T> block{.m = sizes.queries,
                   .n = whole,
                   .k = of_keys.count(),
                   .a = weights + of_keys.first,
                   .a_row = pitch,
                   .a_column = 1,
                   .b = b.at,
                   .b_row = b.pitch,
                   .b_panel = gemm.panel_width,
                   .c = c.at,
                   .c_row = c.pitch,
                   .accumulate = of_keys.first > 0};
    if (whole > 0) gemm.multiply(block);
    if (whole == columns) return;
    gemm.pack(panel, b.at + whole, b.pitch, of_keys.count(), columns - whole);
    block.n = columns - whole;
    block.b = panel;
    block.b_row = gemm.panel_width;
    block.c = c.at + whole;
    gemm.multiply(block);
  }
  /// c [keys, columns] = weights^T b for b [queries, columns], of which `panels` are the panels; 0 for keys that are
  /// not seen.
  void spread(Pitched<T> c, const T* weights, Pitched<const T> b, std::int64_t columns, T* panels) const {
    gemm.pack(panels, b.at, b.pitch, sizes.queries, columns);
    gemm.multiply({.m = keys,
                   .n = columns,
                   .k = sizes.queries,
                   .a = weights,
                   .a_row = 1,
                   .a_column = pitch,
                   .b = panels,
                   .b_row = gemm.panel_width,
                   .b_panel = sizes.queries * gemm.panel_width,
                   .c = c.at,
                   .c_row = c.pitch});
    for (std::int64_t i = keys; i < sizes.keys; ++i) std::fill_n(c.row(i), columns, T(0));
  }
  /// The most heads that are taken together.
  std::int64_t together() const { return sizes.key.inner < sizes.key.row ? std::min(sizes.inner, most_together) : 1; }
  /// Calls visit(head, some keys) for `count` heads and all keys.
  template <class Visit>
  void for_keys(std::int64_t count, const Visit& visit) const {
    constexpr std::int64_t columns = 24;  // whole tiles of dots
    const auto row_bytes = sizes.key.row * static_cast<std::int64_t>(sizeof(T));
    const std::int64_t step = count > 1 ? round_up(divide_up(bytes_at_once, row_bytes), columns) : keys;
    for (std::int64_t first = 0; first < keys; first += step)
      for (std::int64_t head = 0; head < count; ++head) visit(head, Range{first, std::min(first + step, keys)});
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
  const std::int64_t queries = round_up(sizes.queries * sizes.width, 16), scores = sizes.queries * h.pitch;
  const std::int64_t each = h.together() * (queries + scores) + round_up(h.rest(sizes.values), 16);
  const int threads = useful_threads(context, static_cast<double>(sizes.heads) * h.nanoseconds());
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  parallel(threads, [&](const Team& team) {
    T* const all_scaled = scratch.as<T>() + each * team.index;
    T *const all_weights = all_scaled + h.together() * queries, *const panel = all_weights + h.together() * scores;
    std::int64_t count = 0;
    for (std::int64_t first = team.begin(sizes.heads); first < team.end(sizes.heads); first += count) {
      count = std::min({h.together(), sizes.inner - first % sizes.inner, team.end(sizes.heads) - first});
      for (std::int64_t i = 0; i < count; ++i)
        h.row.scale({all_scaled + i * queries, sizes.width}, rows_of(first + i, query, sizes.query, sizes), h.scale,
                    sizes.queries, sizes.width);
      h.for_keys(count, [&](std::int64_t i, Range keys) {
        h.dots({all_weights + i * scores + keys.first, h.pitch}, {all_scaled + i * queries, sizes.width},
               rows_of(first + i, key, sizes.key, sizes).from(keys.first), sizes.queries, keys.count(), sizes.width);
      });
      RunningSoftmax<T> running[most_together][most_queries];
      for (std::int64_t i = 0; i < count; ++i)
        h.row.weigh(all_weights + i * scores, h.scored(), running[i], {}, sizes.values);
      h.for_keys(count, [&](std::int64_t i, Range keys) {
        h.mix(rows_of(first + i, out, sizes.out, sizes), all_weights + i * scores,
              rows_of(first + i, value, sizes.value, sizes), sizes.values, keys, panel);
      });
      for (std::int64_t i = 0; i < count * sizes.queries; ++i) {
        const std::int64_t head = first + i / sizes.queries, row = i % sizes.queries;
        const RunningSoftmax<T>& own = running[i / sizes.queries][row];
        if (own.sum == 0)  // every score was -infinity
          std::fill_n(rows_of(head, out, sizes.out, sizes).row(row), sizes.values, std::numeric_limits<T>::quiet_NaN());
        if (log_sum != nullptr) log_sum[head * sizes.queries + row] = own.largest + std::log(own.sum);
      }
    }
  });
}

template <class T>
void streamed_attention_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out,
                                 const T* query, const T* key, const T* value, const T* out, const T* log_sum,
                                 const ScaledDotProduct& sizes) {
  const StreamedHead<T> h{sizes};
  const std::int64_t queries = sizes.queries * sizes.width;
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
      const auto keys = rows_of(head, key, sizes.key, sizes), grad = rows_of(head, grad_out, sizes.grad_out, sizes),
                 results = rows_of(head, out, sizes.out, sizes);
      h.row.scale({scaled, sizes.width}, rows_of(head, query, sizes.query, sizes), h.scale, sizes.queries, sizes.width);
      h.dots({weights, h.pitch}, {scaled, sizes.width}, keys, sizes.queries, h.keys, sizes.width);
      h.dots({grads, h.pitch}, grad, rows_of(head, value, sizes.value, sizes), sizes.queries, h.keys, sizes.values);
      T inner[most_queries];  // by dots like `grads`: where one key has all the weight they are the same
      for (std::int64_t i = 0; i < sizes.queries; ++i)
        h.dots({inner + i, 1}, grad.from(i), results.from(i), 1, 1, sizes.values);
      h.row.differentiate(weights, grads, h.scored(), log_sum + head * sizes.queries, inner);
      if (grad_value != nullptr)
        h.spread(rows_of(head, grad_value, sizes.grad_value, sizes), weights, grad, sizes.values, panel);
      if (grad_key != nullptr)
        h.spread(rows_of(head, grad_key, sizes.grad_key, sizes), grads, {scaled, sizes.width}, sizes.width, panel);
      if (grad_query == nullptr) continue;
      const Pitched<T> to_query = rows_of(head, grad_query, sizes.grad_query, sizes);
      h.mix(to_query, grads, keys, sizes.width, {0, h.keys}, panel);
      h.row.scale(to_query, {to_query.at, to_query.pitch}, h.scale, sizes.queries, sizes.width);
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
