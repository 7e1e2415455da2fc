#include "tern/operators/attention.hpp"

#include <cmath>
#include <limits>

#include "operators/composed.hpp"
#include "tern/operators/activation.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// softmax(scores) of rows that may be all -infinity: those are 0, and their gradient too.
Tensor weights_of(const Tensor& scores) {
  const Tensor masked = equal(max(scores.detach(), {-1}, true), -infinity);
  return replace(softmax(replace(scores, masked, 0)), masked, 0);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  constexpr const char* op = "scaled_dot_product_attention";
  check_dtypes(op, query, key);
  check_dtypes(op, query, value);
  check_floating(op, "the query", query);
  const bool ranks = query.rank() >= 2 && key.rank() >= 2 && value.rank() >= 2;
  expects<ShapeError>(ranks && query.size(-1) == key.size(-1) && key.size(-2) == value.size(-2), op, ": query ",
                      query.shape(), ", key ", key.shape(), " and value ", value.shape(),
                      ", expected [..., L, E], [..., S, E] and [..., S, V]");
  const Tensor& mask = options.mask;
  expects(!options.is_causal || !mask.defined(), op, ": a mask and is_causal; put both into the mask");
  const std::int64_t queries = query.size(-2), keys = key.size(-2);
  expects<ShapeError>(keys > 0, op, ": no keys to choose from (key ", key.shape(), ")");
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(-1))));
  const DType wide = scalar_of(query.dtype());
  Tensor scores = matmul(mul(query.to(wide), scale), key.to(wide), {.transpose_b = true});
  if (mask.defined()) {
    const bool fits = mask.rank() <= scores.rank() && broadcast(op, mask.shape(), scores.shape()) == scores.shape();
    expects<ShapeError>(fits, op, ": a mask of ", mask.shape(), " does not broadcast to ", scores.shape());
  }
  if (options.is_causal) {
    scores = where(on_or_below(queries, keys, 0), scores, number_like(scores, -infinity));
  } else if (mask.defined() && mask.dtype() == DType::boolean) {
    scores = where(mask, scores, number_like(scores, -infinity));
  } else if (mask.defined()) {
    check_dtypes(op, query, mask);
    scores = add(scores, mask.to(wide));
  }
  const Tensor weights = mask.defined() ? weights_of(scores) : softmax(scores);
  return matmul(weights, value.to(wide)).to(query.dtype());
}

}  // namespace tern::operators
