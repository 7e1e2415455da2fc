// Attention and what language models put around it.

#include <cmath>
#include <limits>
#include <optional>

#include "onnx/table.hpp"

namespace tern::onnx {

Tensor repeated_heads(const Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  const std::int64_t n = x.size(0), heads = x.size(1), l = x.size(2), width = x.size(3);
  const Tensor all = op::expand(op::reshape(x, {n, heads, 1, l, width}), {n, heads, times, l, width});
  return op::reshape(all, {n, heads * times, l, width});
}

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor as(const Tensor& x, DType dtype) { return x.dtype() == dtype ? x : op::cast(x, dtype); }

/// [N, L, heads width] as [N, heads, L, width].
Tensor by_heads(const Call& call, const Tensor& x, std::int64_t heads) {
  if (x.rank() == 4) return x;
  if (x.rank() != 3 || heads < 1 || x.size(2) % heads != 0)
    call.refuse(message("has an input ", x.shape(), " for ", heads, " heads"), "repair the file");
  return op::permute(op::reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}), {0, 2, 1, 3});
}
/// And back.
Tensor joined_heads(const Tensor& x) {
  return op::reshape(op::permute(x, {0, 2, 1, 3}), {x.size(0), x.size(2), x.size(1) * x.size(3)});
}
/// 0 where `allowed`, else -infinity.
Tensor as_bias(const Tensor& allowed, DType dtype) {
  return op::where(allowed, full({}, 0, dtype), full({}, -infinity, dtype));
}

struct Sides {
  bool causal = false;
  std::int64_t left = -1, right = -1;
};

/// What is added to the scores [..., q, k]; undefined where nothing is.
Tensor bias_of(const Call& call, std::int64_t q, std::int64_t k, const Sides& sides, DType dtype) {
  Tensor bias;
  const auto adds = [&](const Tensor& more) { bias = bias.defined() ? op::add(bias, more) : more; };
  if (call.has(3)) {
    Tensor mask = call.input(3);
    const bool logical = mask.dtype() == DType::boolean;
    if (const std::int64_t lacks = k - mask.size(-1); lacks > 0)
      mask = op::pad(mask, {{mask.rank() - 1, 0, lacks}}, logical ? Number(0) : Number(-infinity));
    adds(logical ? as_bias(mask, dtype) : as(mask, dtype));
  }
  const Tensor columns = op::reshape(arange(0, k), {1, k});
  if (sides.causal || sides.left >= 0 || sides.right >= 0) {
    // The position of a query: in front of it are the keys of a cache.
    Tensor rows = op::reshape(arange(0, q), {q, 1});
    if (call.has(4))
      rows = op::add(rows, static_cast<double>(call.input(4).size(2)));
    else if (call.has(6))
      rows =
          op::add(op::reshape(op::sub(as(call.input(6), DType::int64), static_cast<double>(q)), {-1, 1, 1, 1}), rows);
    if (sides.causal) adds(as_bias(op::less_equal(columns, rows), dtype));
    if (sides.left >= 0) adds(as_bias(op::less_equal(op::sub(rows, columns), static_cast<double>(sides.left)), dtype));
    if (sides.right >= 0)
      adds(as_bias(op::less_equal(op::sub(columns, rows), static_cast<double>(sides.right)), dtype));
  }
  if (call.has(6)) adds(as_bias(op::less(columns, op::reshape(as(call.input(6), DType::int64), {-1, 1, 1, 1})), dtype));
  return bias;
}

Results attention(const Call& call) {
  const bool packed = call.input(0).rank() == 3;
  const std::int64_t own_heads = call.integer("q_num_heads", 0), key_heads = call.integer("kv_num_heads", 0);
  const Tensor query = by_heads(call, call.input(0), own_heads);
  Tensor key = by_heads(call, call.input(1), key_heads), value = by_heads(call, call.input(2), key_heads);
  if (call.has(4)) key = op::cat({call.input(4), key}, 2);
  if (call.has(5)) value = op::cat({call.input(5), value}, 2);
  const Tensor present_key = key, present_value = value;
  const Sides sides{call.integer("is_causal", 0) != 0, call.integer("left_window_size", -1),
                    call.integer("right_window_size", -1)};
  const std::int64_t q = query.size(2), k = key.size(2);
  const double scale = call.number("scale", 1 / std::sqrt(static_cast<double>(query.size(3))));
  const double cap = call.number("softcap", 0);
  const std::int64_t mode = call.integer("qk_matmul_output_mode", 0);
  const std::int64_t precision = call.integer("softmax_precision", 0);
  if (key.size(1) < 1 || query.size(1) % key.size(1) != 0)
    call.refuse(message("has ", query.size(1), " heads of queries and ", key.size(1), " of keys"), "repair the file");
  const std::int64_t times = query.size(1) / key.size(1);
  key = repeated_heads(key, times);
  value = repeated_heads(value, times);
  const auto finished = [&](const Tensor& y) { return packed ? joined_heads(y) : y; };

  const bool plain = sides.left < 0 && sides.right < 0 && cap == 0 && !call.wants(3) && !call.has(3) && !call.has(6) &&
                     !(sides.causal && call.has(4));
  if (plain && query.dtype() == DType::float32) {
    const Tensor y = op::scaled_dot_product_attention(query, key, value, {.is_causal = sides.causal, .scale = scale});
    return {finished(y), present_key, present_value};
  }
  const DType dtype = query.dtype();
  const double half = std::sqrt(scale);
  Tensor scores = op::matmul(op::mul(query, half), op::mul(key, half), {.transpose_b = true});
  Tensor shown = scores;
  if (cap > 0) {
    scores = op::mul(op::tanh(op::div(scores, cap)), cap);
    if (mode == 1) shown = scores;
  }
  const Tensor bias = bias_of(call, q, k, sides, dtype);
  if (bias.defined()) scores = op::add(scores, bias);
  if (mode == 2) shown = scores;
  const DType inside = precision == 11 ? DType::float64 : precision == 1 ? DType::float32 : dtype;
  Tensor weights = as(op::softmax(as(scores, inside), -1), dtype);
  // A query without keys has weights of 0, not NaN.
  if (bias.defined()) weights = op::where(op::equal(op::max(bias, {-1}, true), -infinity), 0.0, weights);
  if (mode == 3) shown = weights;
  return {finished(op::matmul(weights, value)), present_key, present_value, shown};
}

Results rotary_embedding(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t heads = call.integer("num_heads", 0), part = call.integer("rotary_embedding_dim", 0);
  const bool interleaved = call.integer("interleaved", 0) != 0;
  const Tensor own = op::permute(by_heads(call, x, heads), {0, 2, 1, 3});  // [N, L, heads, width]
  const std::int64_t n = own.size(0), l = own.size(1), h = own.size(2), width = own.size(3);
  const std::int64_t turned = part == 0 ? width : part, half = turned / 2;
  if (turned > width || turned < 2)
    call.refuse(message("turns ", turned, " of ", width, " numbers"), "repair the file");
  const auto angles = [&](int input) {
    Tensor table = call.input(input);
    if (call.has(3)) {
      const Tensor places = op::reshape(as(call.input(3), DType::int64), {-1});
      table = op::reshape(op::index_select(table, 0, places), {n, l, half});
    }
    return op::reshape(op::slice(table, -1, 0, half), {n, l, 1, half});
  };
  const Tensor cosine = angles(1), sine = angles(2);
  const Tensor a = interleaved ? op::slice(own, 3, 0, turned, 2) : op::slice(own, 3, 0, half);
  const Tensor b = interleaved ? op::slice(own, 3, 1, turned, 2) : op::slice(own, 3, half, turned);
  const Tensor real = op::sub(op::mul(cosine, a), op::mul(sine, b));
  const Tensor imaginary = op::add(op::mul(sine, a), op::mul(cosine, b));
  Tensor result =
      interleaved ? op::reshape(op::stack({real, imaginary}, -1), {n, l, h, turned}) : op::cat({real, imaginary}, -1);
  if (turned < width) result = op::cat({result, op::slice(own, 3, turned)}, -1);
  if (x.rank() == 3) return {op::reshape(result, x.shape())};
  return {op::permute(result, {0, 2, 1, 3})};
}

/// One step after the other, written into the graph.
Results linear_attention(const Call& call) {
  call.ignore({"chunk_size"});
  const std::int64_t own_heads = call.integer("q_num_heads"), key_heads = call.integer("kv_num_heads");
  const std::string rule = call.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") call.refuse(message("has update_rule '", rule, "'"), "repair the file");
  const DType dtype = call.input(0).dtype();
  const DType wide = dtype == DType::float64 ? dtype : DType::float32;
  const auto heads_of = [&](int input, std::int64_t heads) {
    return by_heads(call, as(call.input(input), wide), heads);  // [N, heads, L, width]
  };
  const Tensor query = heads_of(0, own_heads), key = heads_of(1, key_heads), value = heads_of(2, key_heads);
  const std::int64_t n = query.size(0), l = query.size(2), width = query.size(3), out = value.size(3);
  if (key_heads < 1 || own_heads % key_heads != 0) call.refuse("has heads that do not fit", "repair the file");
  if (l > 4096) call.refuse(message("has ", l, " steps"), "at most 4096 are written into a graph");
  double scale = call.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(width));
  Tensor state = call.has(3) ? as(call.input(3), wide) : op::expand(full({}, 0, wide), {n, key_heads, width, out});
  Tensor decay, rate;
  if (gated) decay = op::exp(by_heads(call, as(call.input(4), wide), key_heads));  // [N, heads, L, width or 1]
  if (delta) {
    const Tensor given = as(call.input(5), wide);
    rate = op::permute(op::reshape(given, {n, l, given.size(2), 1}), {0, 2, 1, 3});  // [N, heads or 1, L, 1]
  }
  std::vector<Tensor> steps;
  for (std::int64_t t = 0; t < l; ++t) {
    const auto at = [&](const Tensor& x) { return op::slice(x, 2, t, t + 1); };  // [N, heads, 1, width]
    const Tensor k = op::transpose(at(key), 2, 3);                               // [N, heads, width, 1]
    if (gated) state = op::mul(state, op::transpose(at(decay), 2, 3));
    Tensor v = at(value);
    if (delta) v = op::mul(op::sub(v, op::matmul(at(key), state)), at(rate));
    state = op::add(state, op::mul(k, v));
    const Tensor shared = repeated_heads(state, own_heads / key_heads);
    steps.push_back(op::mul(op::matmul(at(query), shared), scale));  // [N, heads, 1, out]
  }
  if (steps.empty()) call.refuse("has no steps", "repair the file");
  const Tensor y = joined_heads(steps.size() == 1 ? steps[0] : op::cat(steps, 2));
  return {as(y, dtype), as(state, call.has(3) ? call.input(3).dtype() : dtype)};
}

Results causal_conv(const Call& call) {
  const Tensor &x = call.input(0), &weight = call.input(1), bias = call.optional(2);
  if (x.rank() != 3 || weight.rank() != 3) call.refuse(message("has an input ", x.shape()), "repair the file");
  const std::int64_t before = weight.size(2) - 1, channels = x.size(1);
  const Tensor whole = call.has(3) ? op::cat({call.input(3), x}, 2) : op::pad(x, {{2, before, 0}}, 0);
  const std::string activation = call.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    call.refuse(message("has activation '", activation, "'"), "none, silu or swish");
  Tensor y = op::conv1d(whole, weight, bias, {.groups = channels});
  if (activation != "none") y = as(op::silu(as(y, DType::float32)), y.dtype());
  const std::int64_t size = whole.size(2);
  return {y, op::slice(whole, 2, size - before, size)};
}

/// Writes the update into the cache, from a position of each example on.
Results tensor_scatter(const Call& call) {
  const Tensor &cache = call.input(0), &update = call.input(1);
  const int axis = axis_of(call, call.integer("axis", -2), cache.rank());
  const std::string mode = call.text("mode", "linear");
  const std::int64_t most = cache.size(axis);
  if (axis == 0) call.refuse("writes along the batch", "repair the file");
  Shape along = Shape::filled(cache.rank(), 1), per_example = along;
  along[axis] = -1;
  per_example[0] = -1;
  Tensor places = op::reshape(arange(0, update.size(axis)), along);
  if (call.has(2)) places = op::add(places, op::reshape(as(call.input(2), DType::int64), per_example));
  if (mode == "circular") places = op::remainder(places, static_cast<double>(most));
  return {op::scatter(cache, axis, op::expand(places, update.shape()), update)};
}

Results swiglu(const Call& call) {
  const Tensor& gate = call.input(0);
  const double alpha = call.number("alpha", 1);
  return {op::mul(alpha == 1 ? op::silu(gate) : op::mul(gate, op::sigmoid(op::mul(gate, alpha))), call.input(1))};
}

}  // namespace

void append_attention(Table& table) {
  table["Attention"] = attention;
  table["RotaryEmbedding"] = rotary_embedding;
  table["LinearAttention"] = linear_attention;
  table["CausalConvWithState"] = causal_conv;
  table["TensorScatter"] = tensor_scatter;
  table["SwiGLU"] = swiglu;
}

}  // namespace tern::onnx
