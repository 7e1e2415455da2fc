#include "tern/training/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "tern/autograd/tape.hpp"
#include "tern/nn/module.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/clip.hpp"
#include "tern/parallel/shares.hpp"
#include "tern/tensor/create.hpp"
#include "training/ranks.hpp"
#include "training/turn.hpp"

namespace tern::training {

namespace op = operators;

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// totals[i] += value.
void add(Tensor& totals, std::int64_t i, const Tensor& value) {
  totals.slice(0, i, i + 1).copy_(totals.slice(0, i, i + 1) + value);
}

// Queued in the mode of the scope, like nn::Mean and nn::Accuracy, but in one tensor that a checkpoint can hold.
void add_to(Tensor& totals, const parallel::ShardLoss& shard, std::int64_t count) {
  const NoGrad no_grad;
  const auto rows = static_cast<double>(count);
  add(totals, 0, shard.loss.detach().reshape({1}).to(DType::float64) * rows);
  if (shard.sums.defined())
    add(totals, 1, shard.sums.reshape({1}).to(DType::float64));
  else
    totals.slice(0, 1, 2).fill_(NAN);
  totals.slice(0, 2, 3).copy_(totals.slice(0, 2, 3) + rows);
}

double share(const Tensor& totals, std::size_t i) {
  const std::vector<double> values = totals.values();
  return values[2] == 0 ? NAN : values[i] / values[2];
}

bool changes(const data::AugmentOptions& options) {
  return options.shift != 0 || options.mirror || options.rotation != 0 || options.brightness != 0 ||
         options.contrast != 0 || options.saturation != 0 || options.cutout != 0 || options.mix != 0;
}

std::vector<StoppingLoss> judged(const std::vector<EpochResult>& history) {
  std::vector<StoppingLoss> losses;
  for (const EpochResult& epoch : history)
    if (epoch.stopping) losses.push_back(*epoch.stopping);
  return losses;
}

double loop_seconds(const Callbacks& callbacks) {
  constexpr double glance = 0.05;
  return callbacks.step || callbacks.loop_seconds > 0 ? callbacks.loop_seconds : glance;
}

/// Runs `work` with the averages in place of the weights, if there are any; during validation they already are.
template <class Work>
auto with_averages(optim::WeightAverage* average, const Work& work) {
  if (average == nullptr || average->swapped()) return work();
  average->swap();
  try {
    auto result = work();
    average->swap();
    return result;
  } catch (...) {
    average->swap();
    throw;
  }
}

}  // namespace

bool worth_keeping(std::span<const StoppingLoss> epochs) {
  const double last = epochs.back().loss;
  if (!std::isfinite(last)) return false;
  return std::ranges::all_of(epochs, [&](const StoppingLoss& epoch) { return !(last > epoch.loss + epoch.error); });
}

const EpochResult& kept_of(const std::vector<EpochResult>& history) {
  expects(!history.empty(), "no epoch is done");
  const auto best = std::find_if(history.rbegin(), history.rend(), [](const EpochResult& epoch) { return epoch.best; });
  return best == history.rend() ? history.back() : *best;
}

Trainer::Trainer(nn::Module& net, optim::Optimizer& optimizer, const data::DataLoader& loader, Loss loss,
                 const TrainerOptions& options, parallel::Group group)
    : net_(&net),
      optimizer_(&optimizer),
      loader_(loader),
      loss_(std::move(loss)),
      options_(options),
      group_(std::move(group)),
      held_(std::make_shared<const Ranks>(net, optimizer, group_)),
      totals_(zeros({3}, DType::float64)),
      position_{.batches = loader.batches(), .step = options.first_step},
      step_(make_step()) {
  expects(loss_ != nullptr, "Trainer: the loss function is empty");
  expects(options.patience >= 0 && options.checkpoint_every >= 0 && options.clip_norm >= 0,
          "Trainer: patience, checkpoint_every and clip_norm are 0 or more");
  if (options.schedule) schedule_.emplace(optimizer, options.schedule);
  if (options.average != 0) average_ = std::make_unique<optim::WeightAverage>(net, options.average);
  if (changes(options.augment)) augment_.emplace(options.augment);
  const std::vector<Tensor> parameters = net.parameters();
  const auto is_ours = [&](const Tensor& tensor) {
    return std::ranges::any_of(parameters, [&](const Tensor& own) { return own.is(tensor); });
  };
  expects(optimizer.parameters().empty() || std::ranges::any_of(optimizer.parameters(), is_ours),
          "Trainer: the optimiser changes no parameter of the network; make it with net.parameters()");
  if (options.scaler || current_scope().activation_dtype() == DType::float16) {
    for (const Tensor& parameter : optimizer.parameters())
      expects<DTypeError>(size_of(parameter.dtype()) > 2,
                          "Trainer: a scaled loss needs float32 parameters, and one of ", parameter.shape(), " is ",
                          parameter.dtype(),
                          "; keep the network in float32 in a scope of Precision::f16 or bf16, or train bfloat16 "
                          "parameters without a scaler");
    masters_.emplace(optimizer.parameters());
    scaler_.emplace(options.scaler.value_or(optim::GradScalerOptions{}));
  }
}

// Resident examples stay where the mode can reach them, and each step gathers its own batch.
Step Trainer::make_step() {
  const bool augments = changes(options_.augment);
  if (loader_.options().resident) {
    if (augments) return Step([this](const Tensor& rows, const Tensor& drawn) { return step_on_rows(rows, drawn); });
    return Step([this](const Tensor& rows) { return step_on_rows(rows, {}); });
  }
  const auto step = [this](const Tensor& x, const Tensor& labels, const Tensor& drawn) {
    return train_on(x.size(0), [&](const data::Rows&) { return shard_loss(x, labels, drawn); });
  };
  if (augments) return Step(step);
  return Step([step](const Tensor& x, const Tensor& labels) { return step(x, labels, {}); });
}

Tensor Trainer::step_on_rows(const Tensor& rows, const Tensor& drawn) {
  return train_on(rows.numel(), [&](const data::Rows& shard) {
    const Tensor own = rows.slice(0, shard.begin, shard.end);
    return shard_loss(op::index_select(loader_.images(), 0, own), op::index_select(loader_.labels(), 0, own),
                      drawn.defined() ? drawn.slice(0, shard.begin, shard.end) : drawn);
  });
}

Tensor Trainer::step_on_batch(const data::Batch& batch, const Tensor& drawn) {
  const bool whole = group_.size() == 1 && options_.shards <= 1;
  if (whole && drawn.defined()) return step_(batch.images, batch.labels, drawn);
  if (whole) return step_(batch.images, batch.labels);
  // A recording would not know which rows of the whole batch these are.
  return train_on(batch.whole, [&](const data::Rows& rows) {
    const std::int64_t begin = rows.begin - batch.first, end = rows.end - batch.first;
    return shard_loss(batch.images.slice(0, begin, end), batch.labels.slice(0, begin, end),
                      drawn.defined() ? drawn.slice(0, begin, end) : drawn);
  });
}

parallel::ShardLoss Trainer::shard_loss(const Tensor& x, const Tensor& labels, const Tensor& drawn) const {
  if (!drawn.defined()) return loss_(x, labels);
  const Tensor changed = (*augment_)(x, drawn);
  if (options_.augment.mix == 0) return loss_(changed, labels);
  const data::Mixed mixed = augment_->mixed(changed, labels, loader_.dataset().classes, drawn);
  return loss_(mixed.images, mixed.labels);
}

// One step on a batch of all ranks.
Tensor Trainer::train_on(std::int64_t examples, const ShardLossOf& loss_of) {
  optimizer_->zero_grad();
  const auto clip = [this] {
    if (options_.clip_norm > 0) optim::clip_grad_norm(optimizer_->parameters(), options_.clip_norm);
  };
  const auto scaled = [&](const data::Rows& rows) {
    const parallel::ShardLoss shard = loss_of(rows);
    return parallel::ShardLoss{scaler_->scale(shard.loss), shard.sums};
  };
  parallel::ShardLoss whole = ranks_->backward(examples, scaler_ ? ShardLossOf(scaled) : loss_of);
  if (scaler_) {
    whole.loss = scaler_->unscale(whole.loss);
    scaler_->step(*masters_, *optimizer_, clip);
  } else {
    clip();
    optimizer_->step();
  }
  if (average_) average_->update();
  add_to(totals_, whole, examples);
  return whole.loss;
}

bool Trainer::stops(const Callbacks& callbacks) const { return held_->any(callbacks.stop && callbacks.stop()); }

// Finds errors and differences between ranks before the first step.
void Trainer::begin() {
  if (begun_) return;
  const std::int64_t size = loader_.options().batch_size, last = loader_.examples() % size;
  expects<ShapeError>(position_.batches > 0, "Trainer: the loader has no batch: ", loader_.dataset().size(),
                      " examples in batches of ", size, loader_.options().drop_last ? ", without the last" : "");
  if (!options_.checkpoints.empty() && held_->writes()) check_folder();
  if (held_->several()) {
    take_fingerprints();
    held_->check_same("Trainer", described());
  }
  if (!ranks_) ranks_.emplace(group_, *net_, parallel::DataParallelOptions{.shards = options_.shards});
  if (last < loader_.examples()) ranks_->check(size);
  if (last > 0) ranks_->check(last);
  begun_ = true;
}

void Trainer::stepped(const Tensor& loss, const Callbacks& callbacks) {
  ++position_.step;
  if (schedule_ && options_.schedule_by_step) schedule_->step();
  if (callbacks.step) callbacks.step(position_, loss);
  const bool due = options_.checkpoint_every > 0 && position_.step % options_.checkpoint_every == 0;
  if (due) save_where_due();
}

bool Trainer::train_epoch(const Callbacks& callbacks) {
  begin();
  if (position_.batch == position_.batches) return true;
  const std::int64_t size = loader_.options().batch_size;
  const bool resident = loader_.options().resident;
  const Tensor order = resident || augment_ ? loader_.order(position_.epoch) : Tensor();
  const Tensor drawn = augment_ ? augment_->draw(position_.epoch, order) : Tensor();
  if (!resident) {
    for (const data::Batch& batch : loader_.epoch(position_.epoch, position_.batch)) {
      if (stops(callbacks)) return false;
      const std::int64_t begin = batch.position * size + batch.first;
      const bool complete = batch.whole == std::min(size, loader_.examples() - batch.position * size);
      expects<ShapeError>(!augment_ || complete, loader_.dataset().source,
                          ": examples that the source leaves out cannot be augmented; wrap it in data::Replacing");
      const Tensor loss = step_on_batch(batch, augment_ ? drawn.slice(0, begin, begin + batch.size) : drawn);
      position_.batch = batch.position + 1;
      stepped(loss, callbacks);
    }
    return true;
  }
  while (position_.batch < position_.batches) {
    if (stops(callbacks)) return false;
    const std::int64_t steps = steps_at_once(callbacks), begin = position_.batch * size;
    const std::int64_t end = std::min(begin + steps * size, loader_.examples());
    std::vector<Tensor> inputs{order.slice(0, begin, end)};
    if (augment_) inputs.push_back(drawn.slice(0, begin, end));
    const Tensor losses = steps > 1 ? loop(inputs, steps, callbacks) : step_.run(inputs).unsqueeze(0);
    for (std::int64_t i = 0; i < steps; ++i) {
      ++position_.batch;
      stepped(losses[i], callbacks);
    }
  }
  return true;
}

// Only full batches, and no step of the loop is waited for.
std::int64_t Trainer::steps_at_once(const Callbacks& callbacks) const {
  const Capture* const capture = current_scope().mode->capture;
  const bool loops = capture != nullptr && capture->loop != nullptr && !held_->several();
  if (!loops || loop_seconds(callbacks) <= 0) return 1;
  std::int64_t most = std::min(loop_steps_, loader_.examples() / loader_.options().batch_size - position_.batch);
  for (const std::int64_t every : {options_.checkpoint_every, callbacks.loop_until})
    if (every > 0) most = std::min(most, every - position_.step % every);
  return std::max<std::int64_t>(most, 1);
}

Tensor Trainer::loop(std::vector<Tensor> inputs, std::int64_t steps, const Callbacks& callbacks) {
  for (Tensor& input : inputs) {
    Shape shape{steps, input.size(0) / steps};
    for (int i = 1; i < input.rank(); ++i) shape.push_back(input.size(i));
    input = input.reshape(shape);
  }
  const bool scheduled = schedule_ && options_.schedule_by_step;
  const double began = now();
  Tensor losses =
      step_.run_each(inputs, scheduled ? schedule_->changes(steps) : std::vector<Step::Change>{}).contiguous();
  losses.storage().read_host();
  const double wanted = static_cast<double>(steps) * loop_seconds(callbacks) / std::max(now() - began, 1e-9);
  constexpr std::int64_t longest = std::int64_t{1} << 20;
  const std::int64_t fitting = wanted < static_cast<double>(longest) ? static_cast<std::int64_t>(wanted) : longest;
  // At most twice as long as the last one: the first steps of a training are slow.
  loop_steps_ = std::clamp<std::int64_t>(fitting, 2, std::max(loop_steps_, 2 * steps));
  return losses;
}

bool Trainer::over() const {
  if (position_.epoch >= options_.epochs || (options_.patience > 0 && since_best_ >= options_.patience)) return true;
  return options_.patience > 0 && turned(judged(history_), options_.patience);
}

Ended Trainer::run(std::int64_t epochs, const Callbacks& callbacks) {
  const Ended ended = run_epochs(epochs, callbacks);
  if (callbacks.end) callbacks.end(ended);
  return ended;
}

Ended Trainer::run_epochs(std::int64_t epochs, const Callbacks& callbacks) {
  while (position_.epoch < epochs) {
    if (over()) return position_.epoch < options_.epochs ? Ended::stopped_early : Ended::finished;
    const double began = now();
    if (!train_epoch(callbacks)) return Ended::interrupted;
    EpochResult result{.epoch = position_.epoch + 1,
                       .loss = running_loss(),
                       .accuracy = running_accuracy(),
                       .learning_rate = optimizer_->learning_rate()};
    result.seconds = now() - began;
    expects<NumericError>(std::isfinite(result.loss), "the loss is ", std::isnan(result.loss) ? "NaN" : "infinite",
                          " in epoch ", result.epoch, "; try a smaller learning rate than ", result.learning_rate);
    if (!validate(result, callbacks)) return Ended::interrupted;
    finish_epoch(result);
    if (options_.checkpoint_every == 0) save_where_due();
    if (callbacks.epoch) callbacks.epoch(history_.back());
  }
  return Ended::finished;
}

bool Trainer::validate(EpochResult& result, const Callbacks& callbacks) {
  const bool whole = with_averages(average_.get(), [&] {
    if (callbacks.validate) return callbacks.validate(result);
    return !options_.validation || score(result, callbacks);
  });
  if (!whole) return false;
  if (!callbacks.validate && result.validation_loss && options_.patience > 0)
    result.stopping = {*result.validation_loss, 0};
  if (!result.stopping) return true;
  std::vector<StoppingLoss> epochs = judged(history_);
  epochs.push_back(*result.stopping);
  result.best = worth_keeping(epochs);
  return true;
}

// Without gradients, in evaluation mode. The ranks' results are summed in rank order, so that all have the same. False:
// interrupted.
bool Trainer::score(EpochResult& result, const Callbacks& callbacks) {
  const NoGrad no_grad;
  const bool training = net_->training(), together = ranks_->divides();
  const std::int64_t rows_of_all = together ? group_.size() : options_.validation->batches();
  const Tensor figures = zeros({parallel::share_of(group_, rows_of_all).size(), 3}, DType::float64);
  net_->eval();
  const bool stopped = together ? score_together(figures[0], callbacks) : score_share(figures, callbacks);
  net_->train(training);
  const std::vector<double> all = parallel::gather_shares(group_, figures, rows_of_all).values();
  if (held_->any(stopped)) return false;
  double loss = 0, right = 0, rows = 0;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    loss += all[i];
    right += all[i + 1];
    rows += all[i + 2];
  }
  result.validation_loss = rows == 0 ? NAN : loss / rows;
  if (const double accuracy = right / rows; !std::isnan(accuracy)) result.validation_accuracy = accuracy;
  return true;
}

// Each rank evaluates a range of the batches, with one row of figures per batch, so that any number of ranks gets the
// same result. True: interrupted.
bool Trainer::score_share(const Tensor& figures, const Callbacks& callbacks) const {
  const data::DataLoader& loader = *options_.validation;
  const data::Rows own = parallel::share_of(group_, loader.batches());
  const auto stop_requested = [&] { return held_->any_of_model(callbacks.stop && callbacks.stop()); };
  if (own.size() == 0) return stop_requested();
  for (const data::Batch& batch : loader.epoch(0, own.begin)) {
    if (batch.position >= own.end) break;
    Tensor row = figures[batch.position - own.begin];
    add_to(row, loss_(batch.images, batch.labels), batch.size);
    if (stop_requested()) return true;
  }
  return false;
}

// If the net's layers exchange the rows of all ranks, each rank evaluates its rows of each batch, as in training. The
// remainder of a batch that is not a multiple of the ranks is evaluated by all, and the first one counts it.
bool Trainer::score_together(Tensor figures, const Callbacks& callbacks) const {
  for (const data::Batch& batch : options_.validation->epoch(0)) {
    const std::int64_t each = batch.size / group_.size(), divided = each * group_.size();
    const auto look = [&](std::int64_t begin, std::int64_t end, bool counts) {
      if (begin == end) return;
      const parallel::ShardLoss found = loss_(batch.images.slice(0, begin, end), batch.labels.slice(0, begin, end));
      if (counts) add_to(figures, found, end - begin);
    };
    look(each * group_.rank(), each * (group_.rank() + 1), true);
    look(divided, batch.size, group_.rank() == 0);
    if (held_->any(callbacks.stop && callbacks.stop())) return true;
  }
  return false;
}

// The complete weights as validated, shared unless they are averages.
nn::State Trainer::present() const {
  return with_averages(average_.get(), [&] {
    nn::State state = net_->state();
    if (average_)
      for (auto& [name, tensor] : state) tensor = tensor.clone();
    return held_->whole(std::move(state));
  });
}

void Trainer::finish_epoch(const EpochResult& result) {
  if (result.stopping) since_best_ = result.best ? 0 : since_best_ + 1;
  if (result.best) {
    best_.clear();
    for (const auto& [name, tensor] : present()) best_.emplace(name, tensor.clone());
  }
  history_.push_back(result);
  ++position_.epoch;
  position_.batch = 0;
  totals_.fill_(0);
  if (schedule_ && !options_.schedule_by_step) schedule_->step();
}

double Trainer::running_loss() const { return share(totals_, 0); }

double Trainer::running_accuracy() const { return share(totals_, 1); }

nn::State Trainer::result() const { return best_.empty() ? present() : best_; }

}  // namespace tern::training
