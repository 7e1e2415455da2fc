#include <algorithm>
#include <cmath>
#include <limits>

#include "loops.hpp"
#include "sequential.hpp"

namespace tern::sequential {
namespace {

using kernels::ScaledDotProduct;

/// One query, and the keys and values that it sees.
template <class T>
struct Row {
  const T *query, *key, *value;
  std::int64_t row, seen;  // row: among the queries of all heads
};

template <class T, class Visit>
void for_each_row(const T* query, const T* key, const T* value, const ScaledDotProduct& sizes, Visit visit) {
  for (std::int64_t head = 0; head < sizes.heads; ++head)
    for (std::int64_t i = 0; i < sizes.queries; ++i) {
      const std::int64_t row = head * sizes.queries + i;
      visit(Row<T>{query + row * sizes.width, key + head * sizes.keys * sizes.width,
                   value + head * sizes.keys * sizes.values, row,
                   sizes.causal ? std::min(i + 1, sizes.keys) : sizes.keys},
            head * sizes.keys);
    }
}

template <class T>
double product(const T* a, const T* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += double{load(a[i])} * load(b[i]);
  return sum;
}

/// The weights of the keys that a query sees; returns log(sum(exp(scores))).
template <class T>
double weigh(double* weights, const Row<T>& row, const ScaledDotProduct& sizes) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (std::int64_t j = 0; j < row.seen; ++j) {
    weights[j] = sizes.scale * product(row.query, row.key + j * sizes.width, sizes.width);
    largest = std::max(largest, weights[j]);
  }
  for (std::int64_t j = 0; j < row.seen; ++j) sum += weights[j] = std::exp(weights[j] - largest);
  for (std::int64_t j = 0; j < row.seen; ++j) weights[j] /= sum;
  return largest + std::log(sum);
}

bool fuses(const Context&, const ScaledDotProduct&) { return true; }

bool takes_strides(const Context&) { return false; }

template <class T>
void attention(Context& context, T* out, Scalar<T>* log_sum, const T* query, const T* key, const T* value,
               const ScaledDotProduct& sizes) {
  const Scratch scratch(context, static_cast<std::size_t>(sizes.keys) * sizeof(double));
  auto* const weights = scratch.as<double>();
  for_each_row(query, key, value, sizes, [&](const Row<T>& row, std::int64_t /*first_key*/) {
    const double log = weigh(weights, row, sizes);
    if (log_sum != nullptr) log_sum[row.row] = static_cast<Scalar<T>>(log);
    for (std::int64_t v = 0; v < sizes.values; ++v) {
      double sum = 0;
      for (std::int64_t j = 0; j < row.seen; ++j) sum += weights[j] * load(row.value[j * sizes.values + v]);
      out[row.row * sizes.values + v] = store<T>(sum);
    }
  });
}

/// The weights are recomputed; their gradients need neither `out` nor `log_sum`.
template <class T>
void attention_backward(Context& context, T* grad_query, T* grad_key, T* grad_value, const T* grad_out, const T* query,
                        const T* key, const T* value, const T* /*out*/, const Scalar<T>* /*log_sum*/,
                        const ScaledDotProduct& sizes) {
  const Scratch scratch(context, static_cast<std::size_t>(2 * sizes.keys) * sizeof(double));
  auto *const weights = scratch.as<double>(), *const grads = weights + sizes.keys;
  Sums<double> to_query(context, sizes.heads * sizes.queries * sizes.width);
  Sums<double> to_key(context, sizes.heads * sizes.keys * sizes.width);
  Sums<double> to_value(context, sizes.heads * sizes.keys * sizes.values);
  for_each_row(query, key, value, sizes, [&](const Row<T>& row, std::int64_t first_key) {
    weigh(weights, row, sizes);
    const T* const grad = grad_out + row.row * sizes.values;
    double inner = 0;
    for (std::int64_t j = 0; j < row.seen; ++j) {
      grads[j] = product(grad, row.value + j * sizes.values, sizes.values);
      inner += weights[j] * grads[j];
      for (std::int64_t v = 0; v < sizes.values; ++v)
        to_value[(first_key + j) * sizes.values + v] += weights[j] * load(grad[v]);
    }
    for (std::int64_t j = 0; j < row.seen; ++j) {
      const double of_score = sizes.scale * weights[j] * (grads[j] - inner);
      for (std::int64_t e = 0; e < sizes.width; ++e) {
        to_query[row.row * sizes.width + e] += of_score * load(row.key[j * sizes.width + e]);
        to_key[(first_key + j) * sizes.width + e] += of_score * load(row.query[e]);
      }
    }
  });
  if (grad_query != nullptr) to_query.round_to(grad_query);
  if (grad_key != nullptr) to_key.round_to(grad_key);
  if (grad_value != nullptr) to_value.round_to(grad_value);
}

}  // namespace

template <class T>
kernels::Attention<T> attention() {
  return {.fuses = fuses,
          .takes_strides = takes_strides,
          .attention = attention<T>,
          .attention_backward = attention_backward<T>};
}
template kernels::Attention<float> attention<float>();
template kernels::Attention<double> attention<double>();
template kernels::Attention<BFloat16> attention<BFloat16>();
template kernels::Attention<Float16> attention<Float16>();

}  // namespace tern::sequential
