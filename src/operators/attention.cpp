#include "tern/operators/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "operators/attention_parts.hpp"
#include "operators/traced.hpp"
#include "tern/operators/activation.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/reduction.hpp"

namespace tern::operators {

namespace {

constexpr const char* attention_name = "scaled_dot_product_attention";
std::int64_t pairs_of(const kernels::ScaledDotProduct& sizes) {
  if (!sizes.causal) return sizes.heads * sizes.queries * sizes.keys;
  const std::int64_t growing = std::min(sizes.queries, sizes.keys);
  return sizes.heads * (growing * (growing + 1) / 2 + (sizes.queries - growing) * sizes.keys);
}

/// Whether the mode has kernels of that dtype for these sizes.
bool fuses(const kernels::ScaledDotProduct& sizes, DType dtype) {
  bool result = false;
  where_it_runs(attention_name, [&] {
    with_type(attention_name, dtype, [&]<class T>() {
      if (dtype_of<T> != dtype) return;  // the mode would convert
      const Call<T> call;
      result = call.table().attention.fuses(call.context(), sizes);
    });
  });
  return result;
}

/// What the mode's kernels of that dtype read: tensors with all leading dimensions, and their strides.
class Heads {
 public:
  Heads(const Shape& lead, DType dtype) : lead_(lead) {
    bool takes = false;
    where_it_runs(attention_name, [&] {
      with_type(attention_name, dtype, [&]<class T>() {
        const Call<T> call;
        takes = call.table().attention.takes_strides(call.context());
      });
    });
    strided_ = takes && lead.rank() <= 3;
  }
  std::int64_t middle() const { return size(2); }
  std::int64_t inner() const { return size(1); }

  Tensor whole(const Tensor& x) const {
    Shape shape = lead_;
    shape.push_back(x.size(-2));
    shape.push_back(x.size(-1));
    const Tensor all = x.detach().expand(shape);
    return strided_ && (all.size(-1) == 1 || all.strides()[all.rank() - 1] == 1) ? all : all.contiguous();
  }
  /// A new tensor of `shape`; its heads lie in its rows where those of `like` do.
  Tensor made(const Shape& shape, const Tensor& like) const {
    const int rank = like.rank();
    const bool in_rows = strided_ && rank > 2 && like.size(-3) > 1 && like.size(-2) > 1 &&
                         like.strides()[rank - 3] > 0 && like.strides()[rank - 3] < like.strides()[rank - 2];
    if (!in_rows) return Tensor(shape, like.dtype());
    Shape strides = contiguous_strides(shape);
    strides[rank - 3] = shape[rank - 1];
    strides[rank - 2] = shape[rank - 3] * shape[rank - 1];
    return {std::make_shared<Storage>(byte_count(shape, size_of(like.dtype()))), like.dtype(), shape, strides, 0};
  }
  /// Of what whole() or made() returned.
  kernels::HeadStrides strides(const Tensor& x) const {
    if (x.is_contiguous()) {
      const std::int64_t head = x.size(-2) * x.size(-1);
      return {head * inner() * middle(), head * inner(), head, x.size(-1)};
    }
    const auto stride = [&](int from_end) { return from_end > x.rank() ? 0 : x.strides()[x.rank() - from_end]; };
    return {stride(5), stride(4), stride(3), stride(2)};
  }

 private:
  std::int64_t size(int from_end) const { return from_end > lead_.rank() ? 1 : lead_[lead_.rank() - from_end]; }

  Shape lead_;
  bool strided_ = false;
};

// Runs these kernels, with no scores in memory. `lead`: the leading dimensions of the result.
Tensor fused(const Tensor& query, const Tensor& key, const Tensor& value, const Shape& lead,
             kernels::ScaledDotProduct sizes) {
  const Heads heads(lead, query.dtype());
  const Tensor whole_query = heads.whole(query), whole_key = heads.whole(key), whole_value = heads.whole(value);
  sizes.middle = heads.middle(), sizes.inner = heads.inner();
  sizes.query = heads.strides(whole_query), sizes.key = heads.strides(whole_key);
  sizes.value = heads.strides(whole_value);
  Shape shape = lead;
  shape.push_back(sizes.queries);
  shape.push_back(sizes.values);
  const bool records = recording(query, key, value);
  Tensor out = heads.made(shape, whole_query);
  sizes.out = heads.strides(out);
  Tensor log_sum = records ? Tensor({sizes.heads, sizes.queries}, scalar_of(query.dtype())) : Tensor{};
  visit(attention_name, query.dtype(), [&]<class T>() {
    const Call<T> call;
    call.flops(2 * pairs_of(sizes) * (sizes.width + sizes.values));
    call.table().attention.attention(call.context(), call.out(out), call.scalars_out(log_sum), call.in(whole_query),
                                     call.in(whole_key), call.in(whole_value), sizes);
  });
  if (records)
    record(attention_name, out, {query, key, value},
           [query = Saved(whole_query), key = Saved(whole_key), value = Saved(whole_value), out = Saved(out),
            log_sum = Saved(log_sum), query_needs = needs(query), key_needs = needs(key), value_needs = needs(value),
            query_shape = query.shape(), key_shape = key.shape(), value_shape = value.shape(), sizes,
            heads](const Tensor& grad) {
             const auto gradient_if = [&heads](bool needed, const Saved& of) {
               return needed ? heads.made(of.get().shape(), of.get()) : Tensor{};
             };
             const auto strides_if = [&heads](const Tensor& of) {
               return of.defined() ? heads.strides(of) : kernels::HeadStrides{};
             };
             Tensor grad_query = gradient_if(query_needs, query), grad_key = gradient_if(key_needs, key),
                    grad_value = gradient_if(value_needs, value);
             const Tensor grad_out = heads.whole(grad);
             kernels::ScaledDotProduct own = sizes;
             own.grad_out = heads.strides(grad_out);
             own.grad_query = strides_if(grad_query), own.grad_key = strides_if(grad_key);
             own.grad_value = strides_if(grad_value);
             visit(attention_name, grad.dtype(), [&]<class T>() {
               const Call<T> call;
               call.flops(4 * pairs_of(sizes) * (sizes.width + sizes.values));
               call.table().attention.attention_backward(call.context(), call.out(grad_query), call.out(grad_key),
                                                         call.out(grad_value), call.in(grad_out), call.in(query.get()),
                                                         call.in(key.get()), call.in(value.get()), call.in(out.get()),
                                                         call.scalars_in(log_sum.get()), own);
             });
             const auto summed = [](const Tensor& gradient, const Shape& to) {
               return gradient.defined() ? sum_to(gradient, to) : gradient;
             };
             return Gradients{summed(grad_query, query_shape), summed(grad_key, key_shape),
                              summed(grad_value, value_shape)};
           });
  return out;
}

/// How many of the last leading dimensions belong to the queries alone: their keys and values are the same.
std::int64_t shared_dimensions(const Tensor& query, const Tensor& key, const Tensor& value) {
  const auto one = [](const Tensor& x, std::int64_t from_end) {
    return x.rank() < from_end + 2 || x.size(-2 - from_end) == 1;
  };
  std::int64_t shared = 0, times = 1;
  for (; shared + 2 < query.rank() && one(key, shared + 1) && one(value, shared + 1); ++shared)
    times *= query.size(-3 - shared);
  return times == 1 ? 0 : shared;
}

/// Attention without causality whose last `shared` leading dimensions are the queries' alone: more queries of the same
/// keys, which are not copied.
Tensor joined(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options,
              std::int64_t shared) {
  const Shape& of = query.shape();
  const auto rows = of.begin() + (of.rank() - 2 - shared);
  Shape together(of.begin(), rows), whole(of.begin(), of.end() - 1);
  together.push_back(element_count(Shape(rows, of.end() - 1)));
  together.push_back(query.size(-1));
  whole.push_back(value.size(-1));
  const auto without = [&](const Tensor& x) {
    Shape shape(x.shape().begin(), x.shape().end() - 2 - std::min<std::int64_t>(shared, x.rank() - 2));
    shape.push_back(x.size(-2));
    shape.push_back(x.size(-1));
    return x.reshape(shape);
  };
  return scaled_dot_product_attention(query.reshape(together), without(key), without(value), options).reshape(whole);
}

}  // namespace

Tensor attention_weights(const Tensor& scores) {
  const Tensor masked = equal(max(scores.detach(), {-1}, true), -infinity);
  return replace(softmax(replace(scores, masked, 0)), masked, 0);
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options) {
  if (traces())
    return traced("scaled_dot_product_attention", query, key, value, options.mask, without_tensors(options));
  constexpr const char* op = attention_name;
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
  if (!mask.defined()) {
    const auto leading = [](const Tensor& x) { return Shape(x.shape().begin(), x.shape().end() - 2); };
    const Shape lead = broadcast(op, broadcast(op, leading(query), leading(key)), leading(value));
    if (const std::int64_t shared = shared_dimensions(query, key, value); shared > 0 && !options.is_causal)
      return joined(query, key, value, options, shared);
    const kernels::ScaledDotProduct sizes{element_count(lead), queries, keys, query.size(-1), value.size(-1), scale,
                                          options.is_causal};
    const bool some = sizes.heads > 0 && queries > 0 && sizes.width > 0 && sizes.values > 0;
    if (some && query.dtype() != wide && fuses(sizes, query.dtype())) return fused(query, key, value, lead, sizes);
    if (some && fuses(sizes, wide))
      return fused(query.to(wide), key.to(wide), value.to(wide), lead, sizes).to(query.dtype());
  }
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
  const Tensor weights = mask.defined() ? attention_weights(scores) : softmax(scores);
  return matmul(weights, value.to(wide)).to(query.dtype());
}

}  // namespace tern::operators
