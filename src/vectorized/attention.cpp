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

bool takes_strides(const Context&) { return false; }

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

  struct Rows {
    const T* begin;
    std::int64_t pitch;
    bool columns = false;  ///< the matrix is the transpose
  };
  struct Panels {
    const T* begin;
    std::int64_t pitch;
  };
  struct Product {
    std::int64_t m, n, k;
  };
  /// c (+)= a b.
  void multiply(T* c, std::int64_t c_row, const Rows& a, const Panels& b, const Product& product,
                bool accumulate) const {
    gemm.multiply({.m = product.m,
                   .n = product.n,
                   .k = product.k,
                   .a = a.begin,
                   .a_row = a.columns ? 1 : a.pitch,
                   .a_column = a.columns ? a.pitch : 1,
                   .b = b.begin,
                   .b_row = gemm.panel_width,
                   .b_panel = b.pitch,
                   .c = c,
                   .c_row = c_row,
                   .accumulate = accumulate});
  }
  /// scores [m, count] of rows with the keys (values) from `first` on of those in panels of columns.
  void score(T* scores, const Rows& a, const T* panels_of_keys, std::int64_t first, std::int64_t m,
             std::int64_t count) const {
    multiply(scores, block, a, {panels_of_keys + first * a.pitch, a.pitch * gemm.panel_width}, {m, count, a.pitch},
             false);
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
    std::int64_t packed = -1;
    const std::int64_t all = sizes.heads * t.tiles;
    for (std::int64_t part = team.begin(all); part < team.end(all); ++part) {
      const std::int64_t head = part / t.tiles, first_query = part % t.tiles * t.rows;
      const std::int64_t rows = std::min(t.rows, sizes.queries - first_query);
      if (head != packed) {
        t.gemm.pack_transposed(own.keys, key + head * sizes.keys * sizes.width, sizes.width, sizes.width, sizes.keys);
        t.gemm.pack(own.values, value + head * sizes.keys * sizes.values, sizes.values, sizes.keys, sizes.values);
        packed = head;
      }
      const std::int64_t first_row = head * sizes.queries + first_query;
      t.row.scale(own.queries, query + first_row * sizes.width, t.scale, rows * sizes.width);
      T* const result = out + first_row * sizes.values;
      std::fill_n(own.running, rows, RunningSoftmax<T>{});
      t.for_blocks(first_query + rows - 1, 0, sizes.keys, [&](std::int64_t first, std::int64_t count) {
        t.score(own.scores, {own.queries, sizes.width}, own.keys, first, rows, count);
        t.row.weigh(own.scores, t.scored(first_query, rows, first, count), own.running, first == 0 ? nullptr : result,
                    sizes.values);
        t.multiply(result, sizes.values, {own.scores, t.block},
                   {own.values + first * t.gemm.panel_width, sizes.keys * t.gemm.panel_width},
                   {rows, sizes.values, count}, first > 0);
      });
      for (std::int64_t i = 0; i < rows; ++i) {
        const RunningSoftmax<T>& running = own.running[i];
        if (running.sum == 0)  // every score was -infinity
          std::fill_n(result + i * sizes.values, sizes.values, std::numeric_limits<T>::quiet_NaN());
        if (log_sum != nullptr) log_sum[first_row + i] = running.largest + std::log(running.sum);
      }
    }
  });
}

/// Adds the gradients of queries that parts of the keys came to, in their order, and scales them.
template <class T>
void add_parts(const Tiles<T>& t, T* grad_query, const T* further, std::int64_t parts, std::int64_t begin,
               std::int64_t end) {
  const std::int64_t count = t.sizes.heads * t.sizes.queries * t.sizes.width;
  for (std::int64_t part = 1; part < parts; ++part)
    add_chain(grad_query + begin, 0, further + (part - 1) * count + begin, 0, 1, end - begin);
  t.row.scale(grad_query + begin, grad_query + begin, t.scale, end - begin);
}

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
  struct Own {
    T *transposed_keys, *keys, *transposed_values;  // panels of a head
    T *queries, *query_panels, *grad_panels;        // of a tile
    T *weights, *grads, *inner;
  };
  const auto own_of = [&](T* begin, std::int64_t* count) {
    Parts<T> parts_of(begin);
    const Own own{.transposed_keys = parts_of.take(t.panels(sizes.width, part_keys)),
                  .keys = parts_of.take(t.panels(part_keys, sizes.width)),
                  .transposed_values = parts_of.take(t.panels(sizes.values, part_keys)),
                  .queries = parts_of.take(t.rows * sizes.width),
                  .query_panels = parts_of.take(t.panels(t.rows, sizes.width)),
                  .grad_panels = parts_of.take(t.panels(t.rows, sizes.values)),
                  .weights = parts_of.take(t.rows * t.block),
                  .grads = parts_of.take(t.rows * t.block),
                  .inner = parts_of.take(t.rows)};
    if (count != nullptr) *count = parts_of.count();
    return own;
  };
  std::int64_t each = 0;
  own_of(nullptr, &each);
  const std::int64_t all_queries = sizes.heads * sizes.queries * sizes.width;
  const int threads = useful_threads(context, static_cast<double>(sizes.heads) * 2.5 * t.nanoseconds());
  const std::int64_t further = grad_query == nullptr ? 0 : (parts - 1) * all_queries;
  const Scratch scratch(context, static_cast<std::size_t>(each * threads + further) * sizeof(T));
  T* const partial = scratch.as<T>() + each * threads;
  const std::int64_t panel = t.gemm.panel_width;
  parallel_phases(threads, grad_query == nullptr ? 1 : 2, [&](const Team& team, int phase) {
    if (phase == 1)
      return add_parts(t, grad_query, partial, parts, team.begin(all_queries, 16), team.end(all_queries, 16));
    const Own own = own_of(scratch.as<T>() + each * team.index, nullptr);
    for (std::int64_t item = team.begin(sizes.heads * parts); item < team.end(sizes.heads * parts); ++item) {
      const std::int64_t head = item / parts, begin = item % parts * part_keys;
      const std::int64_t end = std::min(begin + part_keys, sizes.keys), keys = end - begin;
      const std::int64_t first_key = head * sizes.keys + begin;
      t.gemm.pack_transposed(own.transposed_keys, key + first_key * sizes.width, sizes.width, sizes.width, keys);
      t.gemm.pack(own.keys, key + first_key * sizes.width, sizes.width, keys, sizes.width);
      t.gemm.pack_transposed(own.transposed_values, value + first_key * sizes.values, sizes.values, sizes.values, keys);
      T* const to_key = grad_key == nullptr ? nullptr : grad_key + first_key * sizes.width;
      T* const to_value = grad_value == nullptr ? nullptr : grad_value + first_key * sizes.values;
      if (to_key != nullptr) std::fill_n(to_key, keys * sizes.width, T(0));
      if (to_value != nullptr) std::fill_n(to_value, keys * sizes.values, T(0));
      T* const to_queries = begin == 0 ? grad_query : partial + (item % parts - 1) * all_queries;
      for (std::int64_t first_query = 0; first_query < sizes.queries; first_query += t.rows) {
        const std::int64_t rows = std::min(t.rows, sizes.queries - first_query);
        const std::int64_t first_row = head * sizes.queries + first_query;
        T* const to_query = grad_query == nullptr ? nullptr : to_queries + first_row * sizes.width;
        if (sizes.causal && first_query + rows <= begin) {  // they see none of these keys
          if (to_query != nullptr) std::fill_n(to_query, rows * sizes.width, T(0));
          continue;
        }
        const T* const grad = grad_out + first_row * sizes.values;
        t.row.scale(own.queries, query + first_row * sizes.width, t.scale, rows * sizes.width);
        t.gemm.pack(own.query_panels, own.queries, sizes.width, rows, sizes.width);
        t.gemm.pack(own.grad_panels, grad, sizes.values, rows, sizes.values);
        t.row.inner(own.inner, grad, out + first_row * sizes.values, rows, sizes.values);
        t.for_blocks(first_query + rows - 1, begin, end, [&](std::int64_t first, std::int64_t count) {
          const std::int64_t at = first - begin;
          t.score(own.weights, {own.queries, sizes.width}, own.transposed_keys, at, rows, count);
          t.score(own.grads, {grad, sizes.values}, own.transposed_values, at, rows, count);
          t.row.differentiate(own.weights, own.grads, t.scored(first_query, rows, first, count), log_sum + first_row,
                              own.inner);
          if (to_value != nullptr)
            t.multiply(to_value + at * sizes.values, sizes.values, {own.weights, t.block, true},
                       {own.grad_panels, rows * panel}, {count, sizes.values, rows}, true);
          if (to_key != nullptr)
            t.multiply(to_key + at * sizes.width, sizes.width, {own.grads, t.block, true},
                       {own.query_panels, rows * panel}, {count, sizes.width, rows}, true);
          if (to_query != nullptr)
            t.multiply(to_query, sizes.width, {own.grads, t.block}, {own.keys + at * panel, keys * panel},
                       {rows, sizes.width, count}, at > 0);
        });
      }
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
