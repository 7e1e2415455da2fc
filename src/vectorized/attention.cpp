// Attention of a tile of queries against a block of keys at a time: only a tile's scores are stored (Milakov and
// Gimelshein, 2018; Dao and others, 2022). Forward divides the work by tiles, backward by heads.

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/choice.hpp"
#include "kernels/gradient.hpp"
#include "vectorized/attention_rows.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

using kernels::ScaledDotProduct;

constexpr const char* decision = "attention";
constexpr std::int64_t key_block = 256;
/// Backward divides by heads: with fewer of them, attention is composed of products, which divide by rows.
constexpr std::int64_t least_heads = 8;

using Algorithm = kernels::Algorithm<ScaledDotProduct, kernels::NoArrays>;
constexpr Algorithm fused_first{.name = "fused",
                                .fits = [](const ScaledDotProduct& sizes) { return sizes.heads >= least_heads; }};
constexpr Algorithm composed{.name = "composed"}, fused_last{.name = "fused"};
constexpr std::array algorithms{&fused_first, &composed, &fused_last};

bool fuses(const Context& context, const ScaledDotProduct& sizes) {
  return kernels::fuses<ScaledDotProduct>(context, decision, algorithms, sizes);
}

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
  /// The number of keys that a query sees from `first` on.
  std::int64_t seen(std::int64_t query, std::int64_t first, std::int64_t count) const {
    return sizes.causal ? std::clamp<std::int64_t>(query + 1 - first, 0, count) : count;
  }
  /// Calls visit(first, count) for each block of keys that the queries up to `last` see.
  template <class Visit>
  void for_blocks(std::int64_t last, const Visit& visit) const {
    const std::int64_t end = seen(last, 0, sizes.keys);
    for (std::int64_t first = 0; first < end; first += block) visit(first, std::min(block, sizes.keys - first));
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
  /// scores [m, count] of rows with the keys (values) from `first` on, which are in panels of columns.
  void score(T* scores, const Rows& a, const T* panels_of_keys, std::int64_t first, std::int64_t m,
             std::int64_t count) const {
    multiply(scores, block, a, {panels_of_keys + first * a.pitch, a.pitch * gemm.panel_width}, {m, count, a.pitch},
             false);
  }
};

template <class T>
void attention(Context& context, T* out, T* log_sum, const T* query, const T* key, const T* value,
               const ScaledDotProduct& sizes) {
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
      std::fill_n(result, rows * sizes.values, T(0));
      std::fill_n(own.running, rows, RunningSoftmax<T>{});
      t.for_blocks(first_query + rows - 1, [&](std::int64_t first, std::int64_t count) {
        t.score(own.scores, {own.queries, sizes.width}, own.keys, first, rows, count);
        for (std::int64_t i = 0; i < rows; ++i) {
          T* const row = own.scores + i * t.block;
          const std::int64_t seen = t.seen(first_query + i, first, count);
          if (seen > 0) t.row.weigh(row, seen, own.running[i], result + i * sizes.values, sizes.values);
          std::fill(row + seen, row + count, T(0));
        }
        t.multiply(result, sizes.values, {own.scores, t.block},
                   {own.values + first * t.gemm.panel_width, sizes.keys * t.gemm.panel_width},
                   {rows, sizes.values, count}, true);
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

template <class T>
void attention_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out, const T* query,
                        const T* key, const T* value, const T* out, const T* log_sum, const ScaledDotProduct& sizes) {
  took_algorithm(context, decision, "fused");
  const Tiles<T> t{sizes};
  struct Own {
    T *transposed_keys, *keys, *transposed_values;  // panels of a head
    T *queries, *query_panels, *grad_panels;        // of a tile
    T *weights, *grads, *inner;
  };
  const auto own_of = [&](T* begin, std::int64_t* count) {
    Parts<T> parts(begin);
    const Own own{.transposed_keys = parts.take(t.panels(sizes.width, sizes.keys)),
                  .keys = parts.take(t.panels(sizes.keys, sizes.width)),
                  .transposed_values = parts.take(t.panels(sizes.values, sizes.keys)),
                  .queries = parts.take(t.rows * sizes.width),
                  .query_panels = parts.take(t.panels(t.rows, sizes.width)),
                  .grad_panels = parts.take(t.panels(t.rows, sizes.values)),
                  .weights = parts.take(t.rows * t.block),
                  .grads = parts.take(t.rows * t.block),
                  .inner = parts.take(t.rows)};
    if (count != nullptr) *count = parts.count();
    return own;
  };
  std::int64_t each = 0;
  own_of(nullptr, &each);
  const int threads = useful_threads(context, static_cast<double>(sizes.heads) * 2.5 * t.nanoseconds());
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  const std::int64_t panel = t.gemm.panel_width;
  parallel(threads, [&](const Team& team) {
    const Own own = own_of(scratch.as<T>() + each * team.index, nullptr);
    for (std::int64_t head = team.begin(sizes.heads); head < team.end(sizes.heads); ++head) {
      const T* const own_key = key + head * sizes.keys * sizes.width;
      t.gemm.pack_transposed(own.transposed_keys, own_key, sizes.width, sizes.width, sizes.keys);
      t.gemm.pack(own.keys, own_key, sizes.width, sizes.keys, sizes.width);
      t.gemm.pack_transposed(own.transposed_values, value + head * sizes.keys * sizes.values, sizes.values,
                             sizes.values, sizes.keys);
      T* const to_key = grad_key == nullptr ? nullptr : grad_key + head * sizes.keys * sizes.width;
      T* const to_value = grad_value == nullptr ? nullptr : grad_value + head * sizes.keys * sizes.values;
      if (to_key != nullptr) std::fill_n(to_key, sizes.keys * sizes.width, T(0));
      if (to_value != nullptr) std::fill_n(to_value, sizes.keys * sizes.values, T(0));
      for (std::int64_t first_query = 0; first_query < sizes.queries; first_query += t.rows) {
        const std::int64_t rows = std::min(t.rows, sizes.queries - first_query);
        const std::int64_t first_row = head * sizes.queries + first_query;
        const T* const grad = grad_out + first_row * sizes.values;
        T* const to_query = grad_query == nullptr ? nullptr : grad_query + first_row * sizes.width;
        t.row.scale(own.queries, query + first_row * sizes.width, t.scale, rows * sizes.width);
        t.gemm.pack(own.query_panels, own.queries, sizes.width, rows, sizes.width);
        t.gemm.pack(own.grad_panels, grad, sizes.values, rows, sizes.values);
        for (std::int64_t i = 0; i < rows; ++i)
          own.inner[i] = t.row.inner(grad + i * sizes.values, out + (first_row + i) * sizes.values, sizes.values);
        t.for_blocks(first_query + rows - 1, [&](std::int64_t first, std::int64_t count) {
          t.score(own.weights, {own.queries, sizes.width}, own.transposed_keys, first, rows, count);
          t.score(own.grads, {grad, sizes.values}, own.transposed_values, first, rows, count);
          for (std::int64_t i = 0; i < rows; ++i) {
            T *const weights = own.weights + i * t.block, *const grads = own.grads + i * t.block;
            const std::int64_t seen = t.seen(first_query + i, first, count);
            t.row.weigh_again(weights, seen, log_sum[first_row + i]);
            t.row.differentiate(grads, weights, seen, own.inner[i]);
            std::fill(weights + seen, weights + count, T(0));
            std::fill(grads + seen, grads + count, T(0));
          }
          if (to_value != nullptr)
            t.multiply(to_value + first * sizes.values, sizes.values, {own.weights, t.block, true},
                       {own.grad_panels, rows * panel}, {count, sizes.values, rows}, true);
          if (to_key != nullptr)
            t.multiply(to_key + first * sizes.width, sizes.width, {own.grads, t.block, true},
                       {own.query_panels, rows * panel}, {count, sizes.width, rows}, true);
          if (to_query != nullptr)
            t.multiply(to_query, sizes.width, {own.grads, t.block}, {own.keys + first * panel, sizes.keys * panel},
                       {rows, sizes.width, count}, first > 0);
        });
        if (to_query != nullptr) t.row.scale(to_query, to_query, t.scale, rows * sizes.width);
      }
    }
  });
}

}  // namespace

template <class T>
kernels::Attention<T> attention() {
  return {.fuses = fuses, .attention = attention<T>, .attention_backward = kernels::gradient<attention_backward<T>>()};
}
template kernels::Attention<float> attention<float>();
template kernels::Attention<double> attention<double>();

}  // namespace tern::vectorized
