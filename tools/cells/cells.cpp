#include "cells.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <numeric>

#include "tern/models/models.hpp"
#include "tern/optim/optim.hpp"

namespace tern::benchmarks {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::shared_ptr<nn::Module> make_small_net(const std::string& name) {
  if (name == "mlp-small") return std::make_shared<models::Mlp>(models::mlp_small(1));
  if (name == "mlp-medium") return std::make_shared<models::Mlp>(models::mlp_medium(1));
  if (name == "mlp-big") return std::make_shared<models::Mlp>(models::mlp_big(1));
  if (name == "lenet") return std::make_shared<models::LeNet>(1);
  std::string known;
  for (const std::string& net : nets()) known += " " + net;
  throw Error(message("net \"", name, "\" is unknown; there are", known));
}

template <class Classifier>
Net classifier(std::int64_t batch) {
  const auto net = std::make_shared<Classifier>();
  const std::int64_t side = net->image_size();
  return {net,
          [net](const Tensor& x, const Tensor& labels) { return net->loss(x, labels); },
          {batch, 3, side, side},
          net->classes()};
}

std::int64_t transfer_count() {
  std::int64_t count = 0;
  for (const Transfer& transfer : transfers()) count += transfer.count;
  return count;
}

}  // namespace

Net make_net(const std::string& name, std::int64_t batch) {
  if (name == "alexnet") return classifier<models::AlexNet>(batch);
  if (name == "googlenet") return classifier<models::GoogLeNet>(batch);
  if (name == "resnet18") return classifier<models::ResNet18>(batch);
  const auto net = make_small_net(name);
  return {net, [net](const Tensor& x, const Tensor& labels) { return operators::cross_entropy((*net)(x), labels); },
          name == "lenet" ? Shape{batch, 1, 28, 28} : Shape{batch, 784}};
}

const std::vector<std::string>& nets() {
  static const std::vector<std::string> names{"mlp-small", "mlp-medium", "mlp-big", "lenet",
                                              "alexnet",   "googlenet",  "resnet18"};
  return names;
}

Timing timing_of(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double quantile) {
    return samples[static_cast<std::size_t>(quantile * static_cast<double>(samples.size() - 1))];
  };
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {.median = at(0.5), .low = at(0.1), .high = at(0.9), .mean = sum / static_cast<double>(samples.size())};
}

Device Workload::scope() const {
  return Device(cell_.mode, {.threads = threads_, .precision = cell_.precision, .deterministic = cell_.deterministic});
}

// Calls the step as often as the cell's loops are long.
template <class... Inputs>
std::function<void()> calls(const std::shared_ptr<Step>& step, std::int64_t loop, const Inputs&... inputs) {
  if (loop == 1) return [=] { (*step)(inputs...); };
  const auto each = [loop](const Tensor& input) {
    Shape shape{loop};
    for (const std::int64_t size : input.shape()) shape.push_back(size);
    return input.unsqueeze(0).expand(shape);
  };
  return [step, ... rows = each(inputs)] { step->each(rows...); };
}

Workload::Workload(const Cell& cell, int threads) : cell_(cell), threads_(threads) {
  const Device device = scope();
  device.mode().memory->reset_peak();
  Generator generator(7);
  const Net net = make_net(cell.net, cell.batch);
  const Tensor images = randn(net.input, generator);
  const Tensor labels = randint(0, net.classes, {cell.batch}, generator);
  if (cell.phase == "train") {
    const auto sgd = std::make_shared<optim::SGD>(
        net.module->parameters(), optim::SgdOptions{.learning_rate = 1e-3, .momentum = 0.9, .weight_decay = 5e-4});
    const auto step = std::make_shared<Step>([net, sgd](const Tensor& x, const Tensor& y) {
      Tensor loss = net.loss(x, y);
      sgd->zero_grad();
      loss.backward();
      sgd->step();
      return loss;
    });
    run_ = calls(step, cell.loop, images, labels);
    step_ = step;
  } else if (cell.phase == "infer") {
    net.module->eval();
    const auto step = std::make_shared<Step>([module = net.module](const Tensor& x) {
      const NoGrad no_grad;
      return (*module)(x);
    });
    run_ = calls(step, cell.loop, images);
    step_ = step;
  } else {
    throw Error(message("phase \"", cell.phase, "\" is unknown; there are train and infer"));
  }
}

void Workload::run() {
  const Device device = scope();
  run_();
}

Timing Workload::measure(double seconds, int least) {
  Device device = scope();
  if (!warm_) {
    // Three short runs. Where a Step is recorded all are needed: the first creates the momenta, the third records.
    const bool records = device.mode().capture != nullptr;
    const auto begin = Clock::now();
    while (cell_.mode == "auto" && step_->chosen() == nullptr) run_();
    for (int i = 0; i < 3 && (records || seconds_since(begin) < 0.2); ++i) {
      run_();
      device.synchronize();
    }
    warm_ = true;
  }
  auto start = Clock::now();
  run_();
  device.synchronize();
  const double once = std::max(seconds_since(start), 1e-7);
  // A sample is long enough that the clock and the wait at its end do not matter.
  const auto inner = static_cast<std::int64_t>(std::clamp(0.01 / once, 1.0, 20000.0));
  const std::int64_t transfers_before = transfer_count();
  std::vector<double> samples;
  const auto begin = Clock::now();
  while (static_cast<int>(samples.size()) < least || seconds_since(begin) < seconds) {
    start = Clock::now();
    for (std::int64_t i = 0; i < inner; ++i) run_();
    device.synchronize();
    samples.push_back(seconds_since(start) * 1e6 / static_cast<double>(inner * cell_.loop));
    if (seconds_since(begin) > 4 * seconds && samples.size() >= 2) break;
  }
  Timing timing = timing_of(samples);
  timing.runs = cell_.loop * inner * static_cast<std::int64_t>(samples.size());
  timing.transfers = transfer_count() - transfers_before;
  timing.peak = device.mode().memory->statistics().peak;
  return timing;
}

}  // namespace tern::benchmarks
