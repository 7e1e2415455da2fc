#include <optional>

#include "onnx/table.hpp"

namespace tern::onnx {

namespace {

/// x [N, C, ...] holds logarithms, the labels are [N, ...].
Tensor negative_log_likelihood(const Call& call, const Tensor& x, const Tensor& given, const Tensor& weight) {
  const Tensor labels = given.dtype() == DType::int64 ? given : op::cast(given, DType::int64);
  const std::string how = call.text("reduction", "mean");
  std::optional<std::int64_t> ignored;
  if (call.has_attribute("ignore_index")) ignored = call.integer("ignore_index");
  bool fits = x.rank() >= 2 && labels.rank() == x.rank() - 1;
  for (int d = 0; fits && d < labels.rank(); ++d) fits = labels.shape()[d] == x.shape()[d < 1 ? d : d + 1];
  if (!fits)
    call.refuse(message("has scores ", x.shape(), " and labels ", labels.shape()),
                "labels have the sizes of scores without dimension 1");
  if (weight.defined() && weight.shape() != Shape{x.size(1)})
    call.refuse(message("has weights ", weight.shape(), " for ", x.size(1), " classes"), "repair the file");
  Tensor left_out, own = labels;
  if (ignored) {
    left_out = op::equal(labels, static_cast<double>(*ignored));
    own = op::masked_fill(labels, left_out, 0);
  }
  Shape column = labels.shape(), whole;
  for (int d = 0; d < x.rank(); ++d) whole.push_back(d == 1 ? 1 : column[d < 1 ? d : d - 1]);
  Tensor loss = op::neg(op::reshape(op::gather(x, 1, op::reshape(own, whole)), labels.shape()));
  Tensor factor;
  if (weight.defined()) factor = op::reshape(op::index_select(weight, 0, op::reshape(own, {-1})), labels.shape());
  if (ignored) {
    const Tensor one = full({}, 1, x.dtype()), none = full({}, 0, x.dtype());
    factor = op::where(left_out, none, factor.defined() ? factor : one);
    loss = op::where(left_out, none, loss);
  }
  if (factor.defined()) loss = op::mul(loss, factor);
  if (how == "none") return loss;
  if (how == "sum") return op::sum(loss);
  if (how != "mean") call.refuse(message("has reduction '", how, "'"), "none, sum or mean");
  return factor.defined() ? op::div(op::sum(loss), op::sum(factor)) : op::mean(loss);
}

}  // namespace

void append_losses(Table& table) {
  table["NegativeLogLikelihoodLoss"] = [](const Call& call) {
    return Results{negative_log_likelihood(call, call.input(0), call.input(1), call.optional(2))};
  };
  table["SoftmaxCrossEntropyLoss"] = [](const Call& call) {
    const Tensor logarithms = op::log_softmax(call.input(0), 1);
    return Results{negative_log_likelihood(call, logarithms, call.input(1), call.optional(2)), logarithms};
  };
}

}  // namespace tern::onnx
