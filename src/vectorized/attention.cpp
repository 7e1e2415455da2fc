// Attention of a tile of queries against a block of keys at a time: only a tile's scores are stored (Milakov and
// Gimelshein, 2018; Dao and others, 2022). Forward divides the work by tiles, backward by heads and keys.

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "kernels/choice.hpp"
#include "kernels/gradient.hpp"
#include "vectorized/attention_rows.hpp"
#include "vectorized/attention_streamed.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/chains.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

using kernels::ScaledDotProduct;

constexpr const char* decision = "attention";
constexpr std::int64_t key_block = 256;
/// Backward divides by heads; with fewer of them also by keys, in parts of at least this many.
constexpr std::int64_t least_heads = 8, least_keys = 64;

using Algorithm = kernels::Algorithm<ScaledDotProduct, kernels::NoArrays>;
constexpr Algorithm streamed{.name = "streamed", .fits = streams}, fused{.name = "fused"}, composed{.name = "composed"};
constexpr std::array algorithms{&streamed, &fused, &composed};

const char* chosen(const Context& context, const ScaledDotProduct& sizes) {
  return kernels::chosen_by_rule<ScaledDotProduct, kernels::NoArrays>(context, decision, algorithms, sizes)
      .algorithm->name;
}

bool fuses(const Context& context, const ScaledDotProduct& sizes) {
  const char* const name = chosen(context, sizes);
  if (std::string_view(name) != composed.name) return true;
  took_algorithm(context, decision, name);
  return false;
}

bool takes_strides(const Context&) { return true; }

/// The parts of one thread's scratch, each on its own cache lines.
template <class T>
class Parts {
 public:
  explicit Parts(T* begin) : at_(begin) {}
  T* take(std::int64_t count) {
    T* const part = at_ == nullptr ? nullptr : at_ + count_;
    count_ += round_up(count, 16);
    return part;
  }
  std::int64_t count() const { return count_; }

 private:
  T* at_;
  std::int64_t count_ = 0;
};

/// Sizes shared by both directions.
template <class T>
struct Tiles {
  const ScaledDotProduct& sizes;
  const GemmKernels<T>& gemm = gemm_kernels<T>();
  const AttentionRows<T>& row = attention_rows<T>();
  std::int64_t rows = std::min(sizes.queries, 8 * gemm.tile_rows);  ///< queries of a tile
  std::int64_t block = std::min(round_up(sizes.keys, gemm.panel_width), key_block);
  std::int64_t tiles = divide_up(sizes.queries, rows);
  T scale = static_cast<T>(sizes.scale);

  std::int64_t panels(std::int64_t k, std::int64_t n) const { return k * round_up(n, gemm.panel_width); }
  /// Calls visit(first, count) for each block of the keys from `begin` to `end` that the queries up to `last` see.
  template <class Visit>
  void for_blocks(std::int64_t last, std::int64_t begin, std::int64_t end, const Visit& visit) const {
    const std::int64_t seen = sizes.causal ? std::min(last + 1, end) : end;
    for (std::int64_t first = begin; first < seen; first += block) visit(first, std::min(block, end - first));
  }
  /// The scores of `rows` queries with `count` keys.
  ScoredRows scored(std::int64_t first_query, std::int64_t m, std::int64_t first_key, std::int64_t count) const {
    return {m, block, count, sizes.causal ? first_query + 1 - first_key : count, sizes.causal};
  }
  double nanoseconds() const {
    const double pairs = static_cast<double>(sizes.queries) * static_cast<double>(sizes.keys);
    return pairs * (1.5 + 0.04 * static_cast<double>(sizes.width + sizes.values)) * (sizes.causal ? 0.5 : 1);
  }

  struct Product {
    std::int64_t m, n, k;
    bool columns = false;  ///< a is given as its transpose
  };
  /// c (+)= a b; b: panels.
  void multiply(Pitched<T> c, Pitched<const T> a, Pitched<const T> b, const Product& product, bool accumulate) const {
    gemm.multiply({.m = product.m,
                   .n = product.n,
                   .k = product.k,
                   .a = a.at,
                   .a_row = product.columns ? 1 : a.pitch,
                   .a_column = product.columns ? a.pitch : 1,
                   .b = b.at,
                   .b_row = gemm.panel_width,
                   .b_panel = b.pitch,
                   .c = c.at,
                   .c_row = c.pitch,
                   .accumulate = accumulate});
  }
  /// scores [m, n] of rows of k elements with the keys (values) from `first` on of those in panels of columns. Whole
  /// vectors: a part of one is slow to store, and the panels have zeros there.
  void score(T* scores, Pitched<const T> a, const T* panels_of_keys, std::int64_t first, Product product) const {
    product.n = round_up(product.n, gemm.lanes);
    multiply({scores, block}, a, {panels_of_keys + first * product.k, product.k * gemm.panel_width}, product, false);
  }
};

template <class T>
void attention(Context& context, T* out, T* log_sum, const T* query, const T* key, const T* value,
               const ScaledDotProduct& sizes) {
  if (chosen(context, sizes) == streamed.name) {
    took_algorithm(context, decision, streamed.name);
    return streamed_attention(context, out, log_sum, query, key, value, sizes);
  }
  took_algorithm(context, decision, "fused");
  const Tiles<T> t{sizes};
  struct Own {
    T *keys, *values, *queries, *scores;
    RunningSoftmax<T>* running;
  };
  const auto own_of = [&](T* begin, std::int64_t* count) {
    Parts<T> parts(begin);
    const Own own{.keys = parts.take(t.panels(sizes.width, sizes.keys)),
                  .values = parts.take(t.panels(sizes.keys, sizes.values)),
                  .queries = parts.take(t.rows * sizes.width),
                  .scores = parts.take(t.rows * t.block),
                  .running = reinterpret_cast<RunningSoftmax<T>*>(parts.take(2 * t.rows))};
    if (count != nullptr) *count = parts.count();
    return own;
  };
  std::int64_t each = 0;
  own_of(nullptr, &each);
  const int threads = useful_threads(context, static_cast<double>(sizes.heads) * t.nanoseconds());
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  parallel(threads, [&](const Team& team) {
    const Own own = own_of(scratch.as<T>() + each * team.index, nullptr);
    const T *packed_key = nullptr, *packed_value = nullptr;  // heads may share them
    const std::int64_t all = sizes.heads * t.tiles;
    for (std::int64_t part = team.begin(all); part < team.end(all); ++part) {
      const std::int64_t head = part / t.tiles, first_query = part % t.tiles * t.rows;
      const std::int64_t rows = std::min(t.rows, sizes.queries - first_query);
      const auto keys = rows_of(head, key, sizes.key, sizes), values = rows_of(head, value, sizes.value, sizes);
      if (keys.at != packed_key) t.gemm.pack_transposed(own.keys, keys.at, keys.pitch, sizes.width, sizes.keys);
      if (values.at != packed_value) t.gemm.pack(own.values, values.at, values.pitch, sizes.keys, sizes.values);
      packed_key = keys.at, packed_value = values.at;
      t.row.scale({own.queries, sizes.width}, rows_of(head, query, sizes.query, sizes).from(first_query), t.scale, rows,
                  sizes.width);
      const Pitched<T> result = rows_of(head, out, sizes.out, sizes).from(first_query);
      std::fill_n(own.running, rows, RunningSoftmax<T>{});
      t.for_blocks(first_query + rows - 1, 0, sizes.keys, [&](std::int64_t first, std::int64_t count) {
        t.score(own.scores, {own.queries, sizes.width}, own.keys, first, {rows, count, sizes.width});
        t.row.weigh(own.scores, t.scored(first_query, rows, first, count), own.running,
                    first == 0 ? Pitched<T>{} : result, sizes.values);
        t.multiply(result, {own.scores, t.block},
                   {own.values + first * t.gemm.panel_width, sizes.keys * t.gemm.panel_width},
                   {rows, sizes.values, count}, first > 0);
      });
      for (std::int64_t i = 0; i < rows; ++i) {
        const RunningSoftmax<T>& running = own.running[i];
        if (running.sum == 0)  // every score was -infinity
          std::fill_n(result.row(i), sizes.values, std::numeric_limits<T>::quiet_NaN());
        if (log_sum != nullptr)
          log_sum[head * sizes.queries + first_query + i] = running.largest + std::log(running.sum);
      }
    }
  });
}

/// Adds the gradients of queries that parts of the keys came to, in their order, and scales them: rows of all heads.
template <class T>
void add_parts(const Tiles<T>& t, T* grad_query, const T* further, std::int64_t parts, std::int64_t begin,
               std::int64_t end) {
  const ScaledDotProduct& sizes = t.sizes;
  const std::int64_t width = sizes.width, count = sizes.heads * sizes.queries * width;
  for (std::int64_t row = begin; row < end; ++row) {
    const Pitched<T> to = rows_of(row / sizes.queries, grad_query, sizes.grad_query, sizes);
    T* const own = to.row(row % sizes.queries);
    for (std::int64_t part = 1; part < parts; ++part)
      add_chain(own, 0, further + (part - 1) * count + row * width, 0, 1, width);
    t.row.scale({own, width}, {own, width}, t.scale, 1, width);
  }
}

template <class T>
void clear(const Pitched<T>& matrix, std::int64_t rows, std::int64_t n) {
  for (std::int64_t i = 0; i < rows; ++i) std::fill_n(matrix.row(i), n, T(0));
}

/// The gradient of keys or values, to which every tile of queries adds: in `near` if its rows lie apart, because each
/// would then be in another page.
template <class T>
struct KeySums {
  Pitched<T> to;
  std::int64_t rows, n;
  Pitched<T> sums;

  KeySums(const Pitched<T>& all, T* near, Range of_rows, std::int64_t columns)
      : to(all.from(of_rows.first)), rows(of_rows.count()), n(columns), sums(to.pitch == n ? to : Pitched<T>{near, n}) {
    if (wanted()) clear(sums, rows, n);
  }
  bool wanted() const { return to.at != nullptr; }
  void store() const {
    if (wanted() && sums.at != to.at)
      for (std::int64_t i = 0; i < rows; ++i) std::copy_n(sums.row(i), n, to.row(i));
  }
};

/// One thread's scratch.
template <class T>
struct BackwardParts {
  T *transposed_keys, *keys, *transposed_values;  // panels of a head
  T *queries, *query_panels, *grad_panels;        // of a tile
  T *weights, *grads, *inner;
  T *key_sums, *value_sums;
  std::int64_t count;  ///< elements

  BackwardParts(const Tiles<T>& t, std::int64_t part_keys, T* begin) {
    Parts<T> parts(begin);
    const ScaledDotProduct& sizes = t.sizes;
    transposed_keys = parts.take(t.panels(sizes.width, part_keys));
    keys = parts.take(t.panels(part_keys, sizes.width));
    transposed_values = parts.take(t.panels(sizes.values, part_keys));
    queries = parts.take(t.rows * sizes.width);
    query_panels = parts.take(t.panels(t.rows, sizes.width));
    grad_panels = parts.take(t.panels(t.rows, sizes.values));
    weights = parts.take(t.rows * t.block);
    grads = parts.take(t.rows * t.block);
    inner = parts.take(t.rows);
    key_sums = parts.take(part_keys * sizes.width);
    value_sums = parts.take(part_keys * sizes.values);
    count = parts.count();
  }
};

template <class T>
void attention_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out, const T* query,
                        const T* key, const T* value, const T* out, const T* log_sum, const ScaledDotProduct& sizes) {
  if (chosen(context, sizes) == streamed.name) {
    took_algorithm(context, decision, streamed.name);
    return streamed_attention_backward(context, grad_query, grad_key, grad_value, grad_out, query, key, value, out,
                                       log_sum, sizes);
  }
  took_algorithm(context, decision, "fused");
  Tiles<T> t{sizes};
  const std::int64_t wanted =
      std::min(divide_up(least_heads, sizes.heads), std::max<std::int64_t>(sizes.keys / least_keys, 1));
  const std::int64_t part_keys = round_up(divide_up(sizes.keys, wanted), t.gemm.panel_width);
  const std::int64_t parts = divide_up(sizes.keys, part_keys);
  t.block = std::min(t.block, part_keys);
  const std::int64_t each = BackwardParts<T>(t, part_keys, nullptr).count;
  const std::int64_t all_queries = sizes.heads * sizes.queries * sizes.width;
  const int threads = useful_threads(context, static_cast<double>(sizes.heads) * 2.5 * t.nanoseconds());
  const std::int64_t further = grad_query == nullptr ? 0 : (parts - 1) * all_queries;
  const Scratch scratch(context, static_cast<std::size_t>(each * threads + further) * sizeof(T));
  T* const partial = scratch.as<T>() + each * threads;
  const std::int64_t panel = t.gemm.panel_width, rows_of_all = sizes.heads * sizes.queries;
  parallel_phases(threads, grad_query == nullptr || parts == 1 ? 1 : 2, [&](const Team& team, int phase) {
    if (phase == 1) return add_parts(t, grad_query, partial, parts, team.begin(rows_of_all), team.end(rows_of_all));
    const BackwardParts<T> own(t, part_keys, scratch.as<T>() + each * team.index);
    for (std::int64_t item = team.begin(sizes.heads * parts); item < team.end(sizes.heads * parts); ++item) {
      const std::int64_t head = item / parts, begin = item % parts * part_keys;
      const std::int64_t end = std::min(begin + part_keys, sizes.keys), keys = end - begin;
      const auto own_keys = rows_of(head, key, sizes.key, sizes).from(begin),
                 own_values = rows_of(head, value, sizes.value, sizes).from(begin);
      t.gemm.pack_transposed(own.transposed_keys, own_keys.at, own_keys.pitch, sizes.width, keys);
      t.gemm.pack(own.keys, own_keys.at, own_keys.pitch, keys, sizes.width);
      t.gemm.pack_transposed(own.transposed_values, own_values.at, own_values.pitch, sizes.values, keys);
      const KeySums<T> of_keys(rows_of(head, grad_key, sizes.grad_key, sizes), own.key_sums, {begin, end}, sizes.width),
          of_values(rows_of(head, grad_value, sizes.grad_value, sizes), own.value_sums, {begin, end}, sizes.values);
      const auto to_queries =
          begin == 0 || grad_query == nullptr
              ? rows_of(head, grad_query, sizes.grad_query, sizes)
              : Pitched<T>{partial + (item % parts - 1) * all_queries + head * sizes.queries * sizes.width,
                           sizes.width};
      for (std::int64_t first_query = 0; first_query < sizes.queries; first_query += t.rows) {
        const std::int64_t rows = std::min(t.rows, sizes.queries - first_query);
        const Pitched<T> to_query = to_queries.from(first_query);
        if (sizes.causal && first_query + rows <= begin) {  // they see none of these keys
          if (grad_query != nullptr) clear(to_query, rows, sizes.width);
          continue;
        }
        const auto grad = rows_of(head, grad_out, sizes.grad_out, sizes).from(first_query);
        t.row.scale({own.queries, sizes.width}, rows_of(head, query, sizes.query, sizes).from(first_query), t.scale,
                    rows, sizes.width);
        t.gemm.pack(own.query_panels, own.queries, sizes.width, rows, sizes.width);
        t.gemm.pack(own.grad_panels, grad.at, grad.pitch, rows, sizes.values);
        t.row.inner(own.inner, grad, rows_of(head, out, sizes.out, sizes).from(first_query), rows, sizes.values);
        t.for_blocks(first_query + rows - 1, begin, end, [&](std::int64_t first, std::int64_t count) {
          const std::int64_t at = first - begin;
          t.score(own.weights, {own.queries, sizes.width}, own.transposed_keys, at, {rows, count, sizes.width});
          t.score(own.grads, grad, own.transposed_values, at, {rows, count, sizes.values});
          t.row.differentiate(own.weights, own.grads, t.scored(first_query, rows, first, count),
                              log_sum + head * sizes.queries + first_query, own.inner);
          if (of_values.wanted())
            t.multiply(of_values.sums.from(at), {own.weights, t.block}, {own.grad_panels, rows * panel},
                       {count, sizes.values, rows, true}, true);
          if (of_keys.wanted())
            t.multiply(of_keys.sums.from(at), {own.grads, t.block}, {own.query_panels, rows * panel},
                       {count, sizes.width, rows, true}, true);
          if (grad_query != nullptr)
            t.multiply(to_query, {own.grads, t.block}, {own.keys + at * panel, keys * panel},
                       {rows, sizes.width, count}, at > 0);
        });
        if (grad_query != nullptr && parts == 1)
          t.row.scale(to_query, {to_query.at, to_query.pitch}, t.scale, rows, sizes.width);
      }
      of_keys.store();
      of_values.store();
    }
  });
}

}  // namespace

template <class T>
kernels::Attention<T> attention() {
  return {.fuses = fuses,
          .takes_strides = takes_strides,
          .attention = attention<T>,
          .attention_backward = kernels::gradient<attention_backward<T>>()};
}
template kernels::Attention<float> attention<float>();
template kernels::Attention<double> attention<double>();

}  // namespace tern::vectorized
