// What a checkpoint of a training holds, and how a training takes it up again.

#include <algorithm>
#include <cmath>

#include "errors.hpp"
#include "tern/autograd/tape.hpp"
#include "training.hpp"

namespace tern::tool {

namespace {

constexpr const char* model_part = "model.";
constexpr const char* optimizer_part = "optimizer.";
constexpr const char* best_part = "best.";
constexpr std::int64_t history_columns = 10;

Tensor history_tensor(const std::vector<EpochResult>& history) {
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

std::vector<EpochResult> history_from(const Tensor& table) {
  std::vector<EpochResult> history;
  const std::vector<double> values = table.values();
  for (std::size_t i = 0; i + history_columns <= values.size(); i += history_columns) {
    EpochResult epoch{.epoch = static_cast<std::int64_t>(values[i]),
                      .loss = values[i + 1],
                      .accuracy = values[i + 2],
                      .learning_rate = values[i + 5],
                      .seconds = values[i + 6],
                      .best = values[i + 7] != 0};
    // A loss may be NaN; the accuracy of a validation is always a number.
    if (!std::isnan(values[i + 4])) {
      epoch.validation_loss = values[i + 3];
      epoch.validation_accuracy = values[i + 4];
    }
    if (!std::isnan(values[i + 9])) epoch.stopping = {values[i + 8], values[i + 9]};
    history.push_back(epoch);
  }
  return history;
}

void check_finite(const nn::State& state) {
  for (const auto& [name, tensor] : state)
    for (const float value : tensor.contiguous().read<float>())
      expects<NumericError>(std::isfinite(value), "the weight ", name, " is ", value,
                            ": nothing was saved; try a smaller --learning-rate");
}

}  // namespace

io::Checkpoint Training::snapshot() const {
  io::Checkpoint checkpoint;
  const nn::State state = net_->state();
  check_finite(state);
  checkpoint.put(model_part, state);
  checkpoint.put(optimizer_part, optimizer_->state());
  checkpoint.put(best_part, best_);
  checkpoint.tensors["totals"] = totals_;
  checkpoint.tensors["history"] = history_tensor(history_);
  checkpoint.tensors["since_best"] = scalar(since_best_);
  checkpoint.tensors["refit"] = scalar(refit_epochs_);
  checkpoint.metadata["model"] = to_json(blueprint_).dump();
  checkpoint.step = position_.step;
  checkpoint.epoch = position_.epoch;
  checkpoint.batch = position_.batch;
  checkpoint.seed = default_generator().seed();
  checkpoint.random_position = default_generator().position();
  return checkpoint;
}

void Training::restore(const io::Checkpoint& checkpoint, const std::string& file) {
  const auto need = [&](const char* name, const Shape& shape) {
    const auto found = checkpoint.tensors.find(name);
    expects<FileError>(found != checkpoint.tensors.end(), file, ": the checkpoint lacks '", name, "'");
    expects<FileError>(found->second.dtype() == (shape.empty() ? DType::int64 : DType::float64) &&
                           (shape.rank() == 2 ? found->second.rank() == 2 && found->second.size(1) == shape[1]
                                              : found->second.shape() == shape),
                       file, ": '", name, "' in the checkpoint has another shape than expected");
    return found->second;
  };
  const Tensor totals = need("totals", {3}), history = need("history", {-1, history_columns}),
               since_best = need("since_best", {}), refit = need("refit", {});
  history_ = history_from(history);
  since_best_ = since_best.item<std::int64_t>();
  expects<FileError>(
      refit.item<std::int64_t>() >= 0 && refit.item<std::int64_t>() <= static_cast<std::int64_t>(history_.size()), file,
      ": the checkpoint repeats ", refit.item<std::int64_t>(), " of ", history_.size(), " epochs");
  if (refit.item<std::int64_t>() > 0) {
    expects<UsageError>(search_is_over(), file,
                        ": this training has found its number of epochs and trains anew on all ",
                        "examples; more --epochs need another --run, or --refit no from the start");
    begin_refit(refit.item<std::int64_t>());
  }
  expects<FileError>(checkpoint.batch <= position_.batches, file, ": the checkpoint stands in batch ", checkpoint.batch,
                     ", but an epoch has ", position_.batches, "; the data set has changed");
  try {
    net_->load_state(checkpoint.part(model_part));
    // The optimiser's rate is that of the schedule's present position; the schedule knows its start.
    optimizer_->load_state(checkpoint.part(optimizer_part));
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    throw FileError(message(file, ": the checkpoint does not fit the settings: ", error.what()));
  }
  best_ = checkpoint.part(best_part);
  totals_.copy_(totals);
  position_.epoch = checkpoint.epoch;
  position_.batch = checkpoint.batch;
  position_.step = checkpoint.step;
  const std::int64_t told = refit_epochs_ > 0 ? refit_epochs_ : static_cast<std::int64_t>(history_.size());
  expects<FileError>(refit_epochs_ > 0 ? checkpoint.epoch <= told : checkpoint.epoch == told, file,
                     ": the checkpoint tells of ", told, " epochs and stands after ", checkpoint.epoch);
  schedule_->set_position(checkpoint.epoch);
  manual_seed(checkpoint.seed);
  default_generator().set_position(checkpoint.random_position);
}

}  // namespace tern::tool
