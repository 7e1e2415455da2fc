#include "golden/golden.hpp"

#include <cmath>
#include <functional>

#include "support/image_nets.hpp"

namespace tern::testing {
namespace {

/// The tensors whose names begin with `prefix`, without it.
nn::State part(const nn::State& all, const std::string& prefix) {
  nn::State found;
  for (const auto& [name, tensor] : all)
    if (name.starts_with(prefix)) found.emplace(name.substr(prefix.size()), tensor);
  return found;
}

struct Trained {
  std::shared_ptr<nn::Module> net;
  std::function<Tensor(const Tensor& images, const Tensor& labels)> loss;
};

Trained net_of(const std::string& name, const ImageNetOptions& options) {
  if (name == "unet") {
    const auto net = std::make_shared<models::UNet>(models::UNetOptions{
        .classes = options.classes, .width_divisor = options.width_divisor, .start = options.start});
    return {net, [net](const Tensor& images, const Tensor& labels) { return net->loss(images, labels); }};
  }
  const auto net = make(name, options);
  return {net, [net](const Tensor& images, const Tensor& labels) { return net->loss(images, labels); }};
}

void note(Difference& difference, const std::string& name, const std::vector<double>& ours,
          const std::vector<double>& golden) {
  expects<ShapeError>(ours.size() == golden.size(), "golden: ", name, " has ", ours.size(), " elements, expected ",
                      golden.size());
  double error = 0, scale = 0;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    // A NaN is as far as can be.
    error = std::isnan(ours[i]) ? INFINITY : std::max(error, std::abs(ours[i] - golden[i]));
    if (std::isinf(error)) break;
    scale = std::max(scale, std::abs(golden[i]));
  }
  const double relative = error == 0 ? 0 : error / scale;
  if (relative <= difference.largest && !difference.where.empty()) return;
  difference = {relative, name};
}

/// Of all tensors together.
class Norm {
 public:
  void add(const std::vector<double>& ours, const std::vector<double>& golden) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      error_ += (ours[i] - golden[i]) * (ours[i] - golden[i]);
      all_ += golden[i] * golden[i];
    }
  }
  double relative() const { return std::sqrt(error_ / all_); }

 private:
  double error_ = 0, all_ = 0;
};

std::vector<double> sum_of(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

std::vector<double> negative(std::vector<double> a) {
  for (double& value : a) value = -value;
  return a;
}

}  // namespace

Comparison compare_with_golden(const std::string& file) {
  const io::Safetensors golden = io::load_safetensors(file);
  const auto number = [&](const char* key) { return std::stod(golden.metadata.at(key)); };
  const auto whole = [&](const char* key) { return std::stoll(golden.metadata.at(key)); };
  const auto [net, loss_of] = net_of(golden.metadata.at("net"), {.classes = whole("classes"),
                                                                 .image_size = whole("image_size"),
                                                                 .width_divisor = whole("width_divisor"),
                                                                 .start = nn::Start::none});
  net->load_state(part(golden.tensors, "state."));
  const Tensor images = (golden.tensors.at("pixels").to(DType::float32) - 128.0) / 64.0;
  const Tensor& labels = golden.tensors.at("labels");

  Comparison comparison;
  comparison.net = net->describe();
  comparison.parameters = net->parameter_count();
  net->eval();
  {
    const NoGrad no_grad;
    note(comparison.logits, "logits", (*net)(images).values(), golden.tensors.at("logits").values());
  }
  net->train();
  optim::SGD sgd(net->parameters(), {.learning_rate = number("learning_rate"),
                                     .momentum = number("momentum"),
                                     .weight_decay = number("weight_decay")});
  const std::vector<double> losses = golden.tensors.at("losses").values();
  const nn::State gradients = part(golden.tensors, "gradient.");
  for (std::size_t step = 0; step < losses.size(); ++step) {
    const Tensor loss = loss_of(images, labels);
    sgd.zero_grad();
    loss.backward();
    if (step == 0) {
      expects(gradients.size() == net->parameters().size(), "golden: ", gradients.size(), " gradients in ", file);
      Norm norm;
      for (const auto& [name, parameter] : net->named_parameters()) {
        const auto ours = parameter.grad().values(), theirs = gradients.at(name).values();
        note(comparison.gradients, name, ours, theirs);
        norm.add(ours, theirs);
      }
      comparison.gradient_norm = norm.relative();
    }
    sgd.step();
    comparison.losses.push_back(loss.item());
    note(comparison.loss, message("step ", step + 1), {comparison.losses.back()}, {losses[step]});
  }
  // Ten small steps change the weights little, so that the change tells more than the weights. Files of deep networks
  // have the change itself.
  const nn::State before = part(golden.tensors, "state."), after = part(golden.tensors, "after."),
                  changes = part(golden.tensors, "change.");
  Norm norm;
  for (const auto& [name, tensor] : net->state()) {
    const auto start = before.at(name).values(), end = tensor.values();
    const auto change = changes.empty() ? sum_of(after.at(name).values(), negative(start)) : changes.at(name).values();
    const auto ours = sum_of(end, negative(start));
    note(comparison.weights, name, end, changes.empty() ? after.at(name).values() : sum_of(start, change));
    note(comparison.changes, name, ours, change);
    norm.add(ours, change);
  }
  comparison.change_norm = norm.relative();
  return comparison;
}

}  // namespace tern::testing
