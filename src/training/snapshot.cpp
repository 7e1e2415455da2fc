// What the checkpoint of a training holds, and how a training resumes from it.

#include <algorithm>
#include <cmath>

#include "tern/tensor/create.hpp"
#include "tern/training/trainer.hpp"
#include "training/ranks.hpp"

namespace tern::training {

namespace {

constexpr const char* model_part = "model.";
constexpr const char* optimizer_part = "optimizer.";
constexpr const char* average_part = "average.";
constexpr const char* scaler_part = "scaler.";
constexpr const char* best_part = "best.";
constexpr const char* loader_key = "loader";
constexpr std::int64_t history_columns = 10;

void check_finite(const nn::State& state) {
  for (const auto& [name, tensor] : state) {
    if (tensor.dtype() != DType::float32) continue;
    for (const float value : tensor.contiguous().read<float>())
      expects<NumericError>(std::isfinite(value), "the weight ", name, " is ", value,
                            ": nothing was saved; try a smaller learning rate");
  }
}

/// What determines the examples of a batch.
std::string text_of(const data::DataLoader& loader) {
  const data::LoaderOptions& options = loader.options();
  return message(loader.dataset().size(), " examples in batches of ", options.batch_size, ", ",
                 options.shuffle ? message("in the order of seed ", options.seed) : "in their order",
                 options.drop_last ? ", without the last" : "");
}

}  // namespace

Tensor table_of(const std::vector<EpochResult>& history) {
  Tensor table({static_cast<std::int64_t>(history.size()), history_columns}, DType::float64);
  const auto values = table.write<double>();
  for (std::size_t i = 0; i < history.size(); ++i) {
    const EpochResult& epoch = history[i];
    const double row[]{static_cast<double>(epoch.epoch),
                       epoch.loss,
                       epoch.accuracy,
                       epoch.validation_loss.value_or(NAN),
                       epoch.validation_accuracy.value_or(NAN),
                       epoch.learning_rate,
                       epoch.seconds,
                       epoch.best ? 1.0 : 0.0,
                       epoch.stopping ? epoch.stopping->loss : NAN,
                       epoch.stopping ? epoch.stopping->error : NAN};
    std::copy(std::begin(row), std::end(row), values.begin() + static_cast<std::ptrdiff_t>(i) * history_columns);
  }
  return table;
}

std::vector<EpochResult> epochs_in(const Tensor& table) {
  expects<ShapeError>(table.rank() == 2 && table.size(1) == history_columns, "expected epochs of ", history_columns,
                      " figures, came ", table.shape());
  std::vector<EpochResult> history;
  const std::vector<double> values = table.values();
  for (std::size_t i = 0; i + history_columns <= values.size(); i += history_columns) {
    EpochResult epoch{.epoch = static_cast<std::int64_t>(values[i]),
                      .loss = values[i + 1],
                      .accuracy = values[i + 2],
                      .learning_rate = values[i + 5],
                      .seconds = values[i + 6],
                      .best = values[i + 7] != 0};
    // A loss may be NaN if there is an accuracy, which is always a number.
    if (!std::isnan(values[i + 4])) epoch.validation_accuracy = values[i + 4];
    if (!std::isnan(values[i + 3]) || epoch.validation_accuracy) epoch.validation_loss = values[i + 3];
    if (!std::isnan(values[i + 9])) epoch.stopping = {values[i + 8], values[i + 9]};
    history.push_back(epoch);
  }
  return history;
}

io::Checkpoint Trainer::snapshot() const {
  io::Checkpoint checkpoint;
  const nn::State state = held_->whole(weights());
  check_finite(state);
  checkpoint.put(model_part, state);
  checkpoint.put(optimizer_part, held_->whole(*optimizer_));
  if (average_) checkpoint.put(average_part, held_->whole(average_->state()));
  if (scaler_) checkpoint.put(scaler_part, scaler_->state());
  checkpoint.put(best_part, best_);
  checkpoint.tensors["totals"] = totals_;
  checkpoint.tensors["history"] = table_of(history_);
  checkpoint.tensors["since_best"] = scalar(since_best_);
  checkpoint.metadata[loader_key] = text_of(loader_);
  checkpoint.step = position_.step;
  checkpoint.epoch = position_.epoch;
  checkpoint.batch = position_.batch;
  checkpoint.seed = default_generator().seed();
  checkpoint.random_position = default_generator().position();
  return checkpoint;
}

void Trainer::restore(const io::Checkpoint& checkpoint, const std::string& file) {
  const auto need = [&](const char* name, const Shape& shape) {
    const auto found = checkpoint.tensors.find(name);
    expects<FileError>(found != checkpoint.tensors.end(), file, ": the checkpoint lacks '", name, "'");
    expects<FileError>(found->second.dtype() == (shape.empty() ? DType::int64 : DType::float64) &&
                           (shape.rank() == 2 ? found->second.rank() == 2 && found->second.size(1) == shape[1]
                                              : found->second.shape() == shape),
                       file, ": '", name, "' in the checkpoint has a different shape than expected");
    return found->second;
  };
  const Tensor totals = need("totals", {3}), since_best = need("since_best", {});
  const std::vector<EpochResult> history = epochs_in(need("history", {-1, history_columns}));
  const auto recorded = static_cast<std::int64_t>(history.size());
  expects<FileError>(checkpoint.epoch == recorded, file, ": the checkpoint lists ", recorded,
                     " epochs but was written after ", checkpoint.epoch);
  expects<FileError>(checkpoint.batch <= position_.batches, file, ": the checkpoint is at batch ", checkpoint.batch,
                     ", but an epoch has ", position_.batches, "; the data set has changed");
  if (const auto loader = checkpoint.metadata.find(loader_key); loader != checkpoint.metadata.end())
    expects<FileError>(loader->second == text_of(loader_), file, ": the checkpoint is of ", loader->second,
                       ", but the loader has ", text_of(loader_));
  try {
    net_->load_state(held_->own(checkpoint.part(model_part)));
    // The optimiser's rate is that of the schedule's current position; the schedule knows the initial rate.
    optimizer_->load_state(held_->own(*optimizer_, checkpoint.part(optimizer_part)));
    if (average_) average_->load_state(held_->own(checkpoint.part(average_part)));
    // A training in another precision has none.
    if (const nn::State scale = checkpoint.part(scaler_part); scaler_ && !scale.empty()) scaler_->load_state(scale);
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(message(file, ": the checkpoint does not fit the settings: ", error.what()));
  }
  history_ = history;
  since_best_ = since_best.item<std::int64_t>();
  best_ = checkpoint.part(best_part);
  totals_.copy_(totals);
  position_.epoch = checkpoint.epoch;
  position_.batch = checkpoint.batch;
  position_.step = checkpoint.step;
  if (schedule_) {
    const double saved = optimizer_->learning_rate();
    schedule_->set_position(options_.schedule_by_step ? checkpoint.step - options_.first_step : checkpoint.epoch);
    // The schedule writes the rates of all optim::Groups; some may have been set independently.
    if (optimizer_->learning_rate() == saved)
      optimizer_->load_state(held_->own(*optimizer_, checkpoint.part(optimizer_part)));
  }
  begun_ = false;
  manual_seed(checkpoint.seed);
  default_generator().set_position(checkpoint.random_position);
}

// The trained weights, which are not the net's while averages replace them.
nn::State Trainer::weights() const {
  if (!average_ || !average_->swapped()) return net_->state();
  average_->swap();
  nn::State state = net_->state();
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  average_->swap();
  return state;
}

std::string Trainer::save() const {
  expects(!options_.checkpoints.empty(), "Trainer: TrainerOptions::checkpoints names no folder");
  const io::Checkpoint whole = snapshot();
  // For a divided network all ranks call, and one writes.
  if (held_->divided() && !held_->writes()) return io::checkpoint_file(options_.checkpoints, whole.step);
  return io::save_checkpoint(options_.checkpoints, whole, options_.keep);
}

void Trainer::save_where_due() const {
  if (!options_.checkpoints.empty() && (held_->divided() || held_->writes())) save();
}

// A newer checkpoint would be resumed instead of those that this training will write.
void Trainer::check_folder() const {
  const std::vector<std::int64_t> steps = io::checkpoint_steps(options_.checkpoints);
  if (steps.empty() || steps.front() <= position_.step) return;
  const auto newest = io::resume_checkpoint(options_.checkpoints);
  expects<FileError>(newest->checkpoint.step <= position_.step, options_.checkpoints,
                     ": holds a checkpoint of another training after ", newest->checkpoint.step,
                     " steps, and this one is at ", position_.step,
                     "; resume() continues that one; otherwise choose another folder or move its checkpoints away");
}

bool Trainer::resume() {
  expects(!options_.checkpoints.empty(), "Trainer: TrainerOptions::checkpoints names no folder");
  const auto resumed = io::resume_checkpoint(options_.checkpoints);
  if (resumed) restore(resumed->checkpoint, resumed->file);
  return resumed.has_value();
}

}  // namespace tern::training
