#include "tern/operators/rotary.hpp"

#include <cmath>

#include "operators/attention_parts.hpp"
#include "operators/traced.hpp"
#include "tern/operators/activation.hpp"
#include "tern/operators/attention.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

Tensor rotary_embedding(const Tensor& x, const Tensor& cosines, const Tensor& sines, bool interleaved) {
  if (traces()) return traced("rotary_embedding", x, cosines, sines, interleaved);
  constexpr const char* op = "rotary_embedding";
  check_dtypes(op, x, cosines);
  check_dtypes(op, x, sines);
  check_floating(op, "the input", x);
  const bool fits =
      x.rank() >= 2 && cosines.rank() >= 1 && cosines.shape() == sines.shape() && 2 * cosines.size(-1) <= x.size(-1);
  expects<ShapeError>(fits, op, ": cosines ", cosines.shape(), " and sines ", sines.shape(), " for an input of ",
                      x.shape(), ", expected [..., L, R / 2] for [..., L, E] with R <= E");
  const std::int64_t half = cosines.size(-1), rotated = 2 * half;
  const auto wide = [dtype = scalar_of(x.dtype())](const Tensor& of) { return of.to(dtype); };
  const Tensor from = wide(x), cos = wide(cosines), sin = wide(sines);
  const Tensor a = interleaved ? slice(from, -1, 0, rotated, 2) : slice(from, -1, 0, half);
  const Tensor b = interleaved ? slice(from, -1, 1, rotated, 2) : slice(from, -1, half, rotated);
  Shape shape = a.shape();
  expects<ShapeError>(broadcast(op, shape, cos.shape()) == shape, op, ": cosines ", cosines.shape(),
                      " do not broadcast to ", shape);
  const Tensor real = sub(mul(cos, a), mul(sin, b)), imaginary = add(mul(sin, a), mul(cos, b));
  shape = x.shape();
  shape[x.rank() - 1] = rotated;
  const Tensor turned = interleaved ? stack({real, imaginary}, -1).reshape(shape) : cat({real, imaginary}, -1);
  return cat({turned, slice(from, -1, rotated)}, -1).to(x.dtype());
}

Tensor grouped_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                         const GroupedAttentionOptions& options) {
  if (traces()) return traced("grouped_attention", query, key, value, options.mask, without_tensors(options));
  constexpr const char* op = "grouped_attention";
  check_dtypes(op, query, key);
  check_dtypes(op, query, value);
  check_floating(op, "the query", query);
  const bool ranks = query.rank() == 4 && key.rank() == 4 && value.rank() == 4;
  const bool fits = ranks && query.size(0) == key.size(0) && query.size(0) == value.size(0) &&
                    key.size(1) == value.size(1) && key.size(1) > 0 && query.size(1) % key.size(1) == 0 &&
                    query.size(3) == key.size(3) && key.size(2) == value.size(2);
  expects<ShapeError>(fits, op, ": query ", query.shape(), ", key ", key.shape(), " and value ", value.shape(),
                      ", expected [N, H, L, E], [N, K, S, E] and [N, K, S, V] with K dividing H");
  expects<ShapeError>(options.past >= 0, op, ": past ", options.past, ", expected at least 0");
  const std::int64_t n = query.size(0), heads = query.size(1), queries = query.size(2), groups = key.size(1),
                     keys = key.size(2), each = heads / groups;
  const Tensor together = query.reshape({n, groups, each, queries, query.size(3)});
  const Shape shape{n, heads, queries, value.size(3)};
  const bool plain = !options.mask.defined() && options.softcap <= 0;
  if (plain && (!options.is_causal || options.past == 0))
    return scaled_dot_product_attention(together, key.unsqueeze(2), value.unsqueeze(2),
                                        {.is_causal = options.is_causal, .scale = options.scale})
        .reshape(shape);
  expects<ShapeError>(keys > 0, op, ": no keys to choose from (key ", key.shape(), ")");
  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(query.size(3))));
  const DType wide = scalar_of(query.dtype());
  Tensor scores = matmul(mul(together.to(wide), scale), key.unsqueeze(2).to(wide), {.transpose_b = true});
  if (options.softcap > 0) scores = mul(tanh(div(scores, options.softcap)), options.softcap);
  scores = scores.reshape({n, heads, queries, keys});
  if (Tensor mask = options.mask; mask.defined()) {
    const bool chooses = mask.dtype() == DType::boolean;
    if (!chooses) check_dtypes(op, query, mask);
    if (mask.rank() > 0 && mask.size(-1) < keys && mask.size(-1) > 1)
      mask = chooses ? pad(mask, {{-1, 0, keys - mask.size(-1)}}, 0)
                     : pad(mask, {{-1, 0, keys - mask.size(-1)}}, -infinity);
    expects<ShapeError>(broadcast(op, mask.shape(), scores.shape()) == scores.shape(), op, ": a mask of ",
                        options.mask.shape(), " does not broadcast to ", scores.shape());
    scores = chooses ? where(mask, scores, number_like(scores, -infinity)) : add(scores, mask.to(wide));
  }
  if (options.is_causal) {
    const std::int64_t diagonal = std::min(options.past, keys);
    scores = where(on_or_below(queries, keys, diagonal), scores, number_like(scores, -infinity));
  }
  const Tensor weights = attention_weights(scores).reshape({n, groups, each, queries, keys});
  return matmul(weights, value.unsqueeze(2).to(wide)).reshape(shape).to(query.dtype());
}

}  // namespace tern::operators
