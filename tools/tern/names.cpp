#include "names.hpp"

#include "errors.hpp"
#include "nets.hpp"
#include "options.hpp"
#include "tern/nn/metrics.hpp"
#include "tern/operators/operators.hpp"

namespace tern::tool {

namespace op = operators;

std::vector<std::string> dataset_names() { return {"mnist", "fashion-mnist", "synthetic-digits"}; }
std::vector<std::string> net_names() {
  std::vector<std::string> names;
  for (const Net& net : nets()) names.push_back(net.name);
  return names;
}
std::vector<std::string> activation_names() {
  return {"sigmoid", "tanh", "relu", "leaky-relu", "softplus", "gelu", "linear"};
}
std::vector<std::string> optimizer_names() { return {"sgd", "adam", "adamw"}; }
std::vector<std::string> cost_names() {
  return {"cross-entropy", "binary-cross-entropy", "mse", "mae", "huber", "hinge"};
}
std::vector<std::string> regression_cost_names() { return {"mse", "mae", "huber"}; }
std::vector<std::string> precision_names() { return {"strict", "tf32", "bf16", "f16"}; }

std::vector<std::string> missing_names() { return {"refuse", "mean", "median", "drop", "indicator"}; }

optim::Schedule parse_schedule(const std::string& text, std::int64_t epochs) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(':', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto factor = [&](std::size_t i, double fallback) {
    const double value = parts.size() > i ? parse_number("schedule", parts[i]) : fallback;
    expects<UsageError>(value > 0 && value <= 1, "--schedule: found the factor ", value, " in '", text,
                        "', expected one above 0 and at most 1");
    return value;
  };
  const std::string& name = parts[0];
  if (name == "constant" && parts.size() == 1) return [](std::int64_t) { return 1.0; };
  if (name == "cosine" && parts.size() <= 2) {
    const std::int64_t warmup = parts.size() > 1 ? parse_integer("schedule", parts[1], 0, 1000000) : 0;
    expects<UsageError>(warmup < epochs, "--schedule: found a warm-up of ", warmup, " epochs in '", text,
                        "', expected fewer than the ", epochs, " of --epochs");
    return optim::CosineLr{.total = epochs, .warmup = warmup};
  }
  if (name == "step" && parts.size() >= 2 && parts.size() <= 3)
    return optim::StepLr{.step_size = parse_integer("schedule", parts[1], 1, 1000000), .gamma = factor(2, 0.1)};
  if (name == "exponential" && parts.size() == 2) return optim::ExponentialLr{.gamma = factor(1, 0)};
  throw UsageError("--schedule: found '" + text +
                   "', expected constant, cosine[:WARMUP], step:EPOCHS[:FACTOR] or exponential:FACTOR");
}

std::vector<double> parse_class_weights(const std::string& text) {
  std::vector<double> weights;
  if (text == "balanced") return weights;
  for (const std::string& part : split_list(text)) {
    weights.push_back(parse_number("class-weights", part));
    expects<UsageError>(weights.back() > 0 && weights.back() <= 1e6, "--class-weights: found ", part, " in '", text,
                        "', expected balanced, or a number above 0, at most 1000000, for each class");
  }
  expects<UsageError>(!weights.empty(), "--class-weights: expected balanced, or a number for each class");
  return weights;
}

Cost::Cost(std::string name, const std::vector<double>& class_weights) : name_(std::move(name)) {
  if (!class_weights.empty())
    weights_ = tensor(std::vector<float>(class_weights.begin(), class_weights.end()),
                      {static_cast<std::int64_t>(class_weights.size())});
}

Tensor Cost::operator()(const Tensor& logits, const Tensor& labels) const {
  // Divided by the number of examples, not their weights, so that an example counts equally in every batch and shard.
  if (weights_.defined())
    return op::cross_entropy(logits, labels, {.reduce = Reduce::sum, .weight = weights_}) /
           static_cast<double>(labels.size(0));
  const std::string& cost = name_;
  if (cost == "cross-entropy") return op::cross_entropy(logits, labels);
  const bool classes = labels.dtype() == DType::int64;
  const Tensor target = classes ? op::one_hot(labels, logits.size(1), logits.dtype()) : labels;
  if (cost == "binary-cross-entropy") return op::binary_cross_entropy_with_logits(logits, target);
  if (cost == "mse") return op::mse(logits, target);
  if (cost == "mae") return op::mae(logits, target);
  if (cost == "huber") return op::huber(logits, target);
  return op::hinge(logits, target * 2 - 1);
}

Tensor count_right(const Tensor& outputs, const Tensor& labels) {
  if (labels.dtype() != DType::int64 && labels.size(1) == 1) {
    const Tensor error = (outputs - labels).to(DType::float64);
    return op::sum((1 - error * error).reshape({labels.numel()}), {0}, true);
  }
  return nn::count_right(outputs, labels);
}

Tensor scores_of(const std::string& cost, const Tensor& logits) {
  if (cost == "cross-entropy") return op::softmax(logits);
  if (cost == "binary-cross-entropy") return op::sigmoid(logits);
  return logits;
}

}  // namespace tern::tool
