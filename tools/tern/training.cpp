#include "training.hpp"

#include <chrono>
#include <cmath>
#include <limits>

#include "errors.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/operators/operators.hpp"

namespace tern::tool {

namespace op = operators;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::unique_ptr<optim::Optimizer> make_optimizer(const Settings& settings, const std::vector<Tensor>& parameters) {
  const double rate = *settings.learning_rate, decay = *settings.weight_decay;
  if (*settings.optimizer == "sgd")
    return std::make_unique<optim::SGD>(parameters, optim::SgdOptions{.learning_rate = rate,
                                                                      .momentum = *settings.momentum,
                                                                      .weight_decay = decay,
                                                                      .nesterov = settings.nesterov});
  if (*settings.optimizer == "adam")
    return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.learning_rate = rate, .weight_decay = decay});
  return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.learning_rate = rate, .weight_decay = decay});
}

data::DataLoader make_loader(const Settings& settings, const TrainingData& data) {
  data::LoaderOptions options{.batch_size = *settings.batch_size, .seed = settings.seed};
  if (data.train.source) {
    options.workers = settings.threads;
    return data::DataLoader(data.train.source, options);
  }
  options.resident = true;
  if (!data.blueprint.table) {
    options.mean = data.blueprint.scaling.mean[0];
    options.deviation = data.blueprint.scaling.deviation[0];
  }
  return data::DataLoader(data.train.memory, options);
}

Blueprint with_net(const Settings& settings, const TrainingData& data) {
  Blueprint blueprint = data.blueprint;
  choose_net(blueprint, settings);
  return blueprint;
}

/// The number of rows of logits that are right, float64 [1].
Tensor count_right(const Tensor& logits, const Tensor& labels) {
  const Tensor right = op::equal(op::argmax(logits).to(DType::float64), labels.to(DType::float64));
  return op::sum(right.to(DType::float64), {0}, true);
}

/// totals[i] += value.
void add(Tensor& totals, std::int64_t i, const Tensor& value) {
  totals.slice(0, i, i + 1).copy_(totals.slice(0, i, i + 1) + value);
}

// Queued in the mode of the scope, like nn::Mean and nn::Accuracy, but in one tensor that a checkpoint can hold.
void add_to(Tensor& totals, const Tensor& loss, const Tensor& logits, const Tensor& labels) {
  const NoGrad no_grad;
  const auto rows = static_cast<double>(labels.numel());
  add(totals, 0, loss.detach().reshape({1}).to(DType::float64) * rows);
  if (logits.defined()) add(totals, 1, count_right(logits, labels));
  totals.slice(0, 2, 3).copy_(totals.slice(0, 2, 3) + rows);
}

}  // namespace

void complete(Settings& s, const TrainingData& data) {
  const bool table = data.blueprint.table;
  if (!s.optimizer) s.optimizer = table ? "adamw" : "sgd";
  const bool sgd = *s.optimizer == "sgd";
  expects<UsageError>(sgd || !s.momentum, "--momentum is of --optimizer sgd, not of ", *s.optimizer);
  expects<UsageError>(sgd || !s.nesterov, "--nesterov is of --optimizer sgd, not of ", *s.optimizer);
  if (sgd && !s.momentum) s.momentum = 0.9;
  expects<UsageError>(!s.nesterov || *s.momentum > 0, "--nesterov needs a --momentum above 0");
  const bool photographs = data.train.source != nullptr;
  if (!s.learning_rate) s.learning_rate = sgd ? (photographs ? 0.01 : 0.02) : table ? 5e-3 : 1e-3;
  if (!s.weight_decay) s.weight_decay = sgd ? 5e-4 : table ? 0.1 : 0;
  if (!s.epochs) s.epochs = table ? 100 : photographs ? 30 : 5;
  if (!s.batch_size) s.batch_size = table ? 16 : photographs ? 32 : 64;
  if (!s.schedule) s.schedule = "cosine";
  (void)parse_schedule(*s.schedule, *s.epochs);
  expects<UsageError>(s.early_stop == 0 || data.validation.size() > 0,
                      "--early-stop needs examples that are held out; give a --validation above 0");
}

Training::Training(const Settings& settings, const TrainingData& data)
    : settings_(settings),
      data_(data),
      blueprint_(with_net(settings, data)),
      net_(build_net(blueprint_, settings.seed)),
      optimizer_(make_optimizer(settings, net_->parameters())),
      schedule_(std::make_unique<optim::Scheduler>(*optimizer_, parse_schedule(*settings.schedule, *settings.epochs))),
      loader_(make_loader(settings, data)),
      validation_(data.validation),
      totals_(zeros({3}, DType::float64)),
      step_(make_step()) {
  expects<FileError>(data.train.size() > 0, data.blueprint.source, ": found no examples to train on");
  position_.batches = loader_.batches();
  if (validation_.memory.images.defined()) validation_.memory.images = scaled(validation_.memory.images, blueprint_);
  // Dropout draws from here.
  manual_seed(settings.seed);
  default_generator().skip(std::uint64_t{1} << 32);  // beyond what the weights drew
}

// Examples in memory stay where the mode can reach them, and each step gathers its own.
Step Training::make_step() {
  if (data_.train.source) return Step([this](const Tensor& x, const Tensor& labels) { return train_on(x, labels); });
  return Step([this](const Tensor& rows) {
    return train_on(op::gather(loader_.images(), rows), op::gather(loader_.labels(), rows));
  });
}

Tensor Training::train_on(const Tensor& x, const Tensor& labels) {
  Tensor loss, logits;
  if (has_own_loss(blueprint_)) {
    loss = own_loss(*net_, x, labels);
  } else {
    logits = (*net_)(x);
    loss = cost_of(settings_.cost, logits, labels);
  }
  optimizer_->zero_grad();
  loss.backward();
  optimizer_->step();
  add_to(totals_, loss, logits, labels);
  return loss;
}

void Training::stepped(const Tensor& loss, const Hooks& hooks) {
  ++position_.step;
  hooks.step(position_, loss);
}

bool Training::train_epoch(const Hooks& hooks) {
  if (data_.train.source) {
    if (position_.batch == position_.batches) return true;
    for (const data::Batch& batch : loader_.epoch(position_.epoch, position_.batch)) {
      if (hooks.stop()) return false;
      const Tensor loss = step_(batch.images, batch.labels);
      position_.batch = batch.position + 1;
      stepped(loss, hooks);
    }
    return true;
  }
  const Tensor order = loader_.order(position_.epoch);
  while (position_.batch < position_.batches) {
    if (hooks.stop()) return false;
    const std::int64_t begin = position_.batch * *settings_.batch_size;
    const std::int64_t end = std::min(begin + *settings_.batch_size, loader_.examples());
    const Tensor loss = step_(order.slice(0, begin, end));
    ++position_.batch;
    stepped(loss, hooks);
  }
  return true;
}

Ended Training::run(std::int64_t epochs, const Hooks& hooks) {
  while (position_.epoch < epochs) {
    if (settings_.early_stop > 0 && since_best_ >= settings_.early_stop) return Ended::stopped_early;
    const double began = now();
    if (!train_epoch(hooks)) return Ended::interrupted;
    EpochResult result{.epoch = position_.epoch + 1,
                       .loss = running_loss(),
                       .accuracy = running_accuracy(),
                       .learning_rate = optimizer_->learning_rate()};
    result.seconds = now() - began;
    expects<NumericError>(std::isfinite(result.loss), "the loss is ", std::isnan(result.loss) ? "NaN" : "infinite",
                          " in epoch ", result.epoch, "; try a smaller --learning-rate than ",
                          *settings_.learning_rate);
    if (!validate(result, hooks)) return Ended::interrupted;
    finish_epoch(result);
    hooks.epoch(history_.back());
  }
  return Ended::finished;
}

bool Training::validate(EpochResult& result, const Hooks& hooks) {
  if (validation_.size() == 0) return true;
  const auto found = score(*net_, blueprint_, validation_, hooks.stop);
  if (!found) return false;
  result.validation_loss = found->loss;
  result.validation_accuracy = found->accuracy;
  // A loss that is not a number is never the best, and any number is better.
  result.best = std::isfinite(found->loss);
  for (const EpochResult& old : history_) result.best &= !(*old.validation_loss <= found->loss);
  return true;
}

void Training::finish_epoch(const EpochResult& result) {
  since_best_ = result.best ? 0 : since_best_ + 1;
  if (settings_.early_stop > 0 && result.best) {
    best_.clear();
    for (const auto& [name, tensor] : net_->state()) best_.emplace(name, tensor.clone());
  }
  history_.push_back(result);
  ++position_.epoch;
  position_.batch = 0;
  totals_.fill_(0);
  schedule_->step();
}

double Training::running_loss() const {
  const auto totals = totals_.values();
  return totals[2] == 0 ? std::numeric_limits<double>::quiet_NaN() : totals[0] / totals[2];
}

double Training::running_accuracy() const {
  const auto totals = totals_.values();
  return totals[2] == 0 || has_own_loss(blueprint_) ? std::numeric_limits<double>::quiet_NaN() : totals[1] / totals[2];
}

nn::State Training::result() const { return best_.empty() ? net_->state() : best_; }

std::int64_t evaluation_batch(const Blueprint& blueprint) {
  // Some 16 MB of inputs; their hidden values take a multiple.
  return std::clamp<std::int64_t>((std::int64_t{1} << 22) / blueprint.features(), 1, 1000);
}

std::optional<Score> score(nn::Module& net, const Blueprint& blueprint, const Examples& examples,
                           const std::function<bool()>& stop) {
  const NoGrad no_grad;
  const bool training = net.training();
  net.eval();
  Tensor totals = zeros({3}, DType::float64);
  const auto use = [&](const Tensor& x, const Tensor& labels) {
    const Tensor logits = net(x);
    add_to(totals, cost_of(blueprint.cost, logits, labels), logits, labels);
    return !stop();
  };
  const bool whole = for_each_batch(examples, blueprint, evaluation_batch(blueprint), use);
  net.train(training);
  if (!whole) return std::nullopt;
  const auto values = totals.values();
  return Score{values[0] / values[2], values[1] / values[2]};
}

}  // namespace tern::tool
