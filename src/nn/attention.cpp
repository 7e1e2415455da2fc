#include "tern/nn/attention.hpp"

#include "nn/layer.hpp"
#include "tern/operators/shape.hpp"

namespace tern::nn {
namespace {

Tensor start_projections(std::int64_t width, std::int64_t heads, DType dtype, Generator& generator) {
  expects<ShapeError>(heads > 0 && width > 0 && width % heads == 0, "MultiheadAttention: ", heads,
                      " heads do not divide a width of ", width);
  expects<DTypeError>(is_floating(dtype), "MultiheadAttention: weights must be floating, not ", dtype);
  return init::xavier_uniform_(Tensor({3 * width, width}, dtype), generator);
}

Linear start_output(std::int64_t width, const MultiheadAttentionOptions& options, Generator& generator) {
  Linear out(width, width, {.bias = options.bias, .dtype = options.dtype}, generator);
  if (options.bias) init::constant_(out.bias(), 0);
  return out;
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t width, std::int64_t heads, const MultiheadAttentionOptions& options,
                                       Generator& generator)
    : width_(width),
      heads_(heads),
      is_causal_(options.is_causal),
      in_proj_weight_(parameter("in_proj_weight", start_projections(width, heads, options.dtype, generator))),
      in_proj_bias_(parameter("in_proj_bias", options.bias ? zeros({3 * width}, options.dtype) : Tensor())),
      out_proj_(module("out_proj", start_output(width, options, generator))) {}

void MultiheadAttention::check(const char* which, const Tensor& x) const {
  expects<ShapeError>(x.rank() >= 2 && x.size(-1) == width_, "MultiheadAttention: the ", which, " is ", x.shape(),
                      ", expected [..., L, ", width_, "]");
}

// x times the rows of in_proj_weight that make queries (0), keys (1) or values (2).
Tensor MultiheadAttention::part_of(const Tensor& x, std::int64_t part) const {
  const auto rows = [&](const Tensor& all) {
    return all.defined() ? all.slice(0, part * width_, (part + 1) * width_) : Tensor();
  };
  return operators::linear(x, rows(in_proj_weight_), rows(in_proj_bias_));
}

Tensor MultiheadAttention::joined(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const {
  // [..., L, width] as [..., heads, L, width / heads].
  const auto heads = [&](const Tensor& x) {
    Shape shape = x.shape();
    shape[x.rank() - 1] = heads_;
    shape.push_back(width_ / heads_);
    return x.reshape(shape).transpose(-2, -3);
  };
  const Tensor each = operators::scaled_dot_product_attention(heads(query), heads(key), heads(value), options);
  return out_proj_(each.transpose(-2, -3).reshape(query.shape()));
}

Tensor MultiheadAttention::forward(const Tensor& x) const {
  check("input", x);
  const std::vector<Tensor> parts =
      operators::split(operators::linear(x, in_proj_weight_, in_proj_bias_), {width_, width_, width_}, -1);
  return joined(parts[0], parts[1], parts[2], {.is_causal = is_causal_});
}

Tensor MultiheadAttention::attend(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const {
  check("query", query);
  check("key", key);
  check("value", value);
  return joined(part_of(query, 0), part_of(key, 1), part_of(value, 2), options);
}

std::string MultiheadAttention::describe() const {
  return message("MultiheadAttention(", width_, ", ", heads_, is_causal_ ? ", causal)" : ")");
}

}  // namespace tern::nn
