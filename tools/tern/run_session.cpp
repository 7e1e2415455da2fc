#include "run_session.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <utility>

#include "errors.hpp"
#include "evaluation.hpp"
#include "importance.hpp"
#include "machine.hpp"
#include "model_file.hpp"
#include "nets.hpp"
#include "output.hpp"
#include "pictures.hpp"
#include "progress.hpp"
#include "tern/core/version.hpp"
#include "tern/io/file.hpp"
#include "tern/modes/device.hpp"
#include "tern/training/signal_guard.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

// Points of the loss curve per epoch, however many steps it has.
constexpr std::int64_t points_per_epoch = 20;
// The largest number of classes whose confusion counts are kept.
constexpr std::size_t most_confused = 100;
// The largest number of columns whose importance is computed, and how often each is shuffled.
constexpr std::size_t most_columns = 500;
constexpr std::int64_t column_shuffles = 5;
// Seconds between checkpoints unless a number of steps is set, and the largest fraction of time that they may take.
constexpr double save_interval = 2, save_share = 0.05;
// Events of steps and epochs in metrics.jsonl per doubling of their number. A curve of millions has no more visible
// points.
constexpr std::uint64_t steps_per_doubling = 512, epochs_per_doubling = 256;

// Whether the event with that number is kept: only the number decides, so that a resumed run keeps the same ones.
bool is_kept(std::int64_t number, std::uint64_t per_doubling) {
  const auto n = static_cast<std::uint64_t>(number);
  return n % std::bit_floor(std::max<std::uint64_t>(1, n / per_doubling)) == 0;
}

}  // namespace

bool decides_training(const std::string& name) {
  static const std::vector<std::string> names{
      "target",     "task",         "missing",       "categorical",   "ignore",    "header",        "limit",
      "split",      "validation",   "test-fraction", "folds",         "fold",      "layers",        "net",
      "activation", "dropout",      "cost",          "class-weights", "optimizer", "learning-rate", "momentum",
      "nesterov",   "weight-decay", "schedule",      "batch-size",    "shards",    "seed",          "early-stop",
      "stopping",   "refit",        "init",          "freeze",        "embedding", "flip",          "crop",
      "rotate",     "brightness",   "contrast",      "saturation",    "cutout",    "mixup"};
  return std::find(names.begin(), names.end(), name) != names.end();
}

namespace {

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// How much of metrics.jsonl was written before the checkpoint.
std::uint64_t bytes_of_metrics(const io::Checkpoint& checkpoint, const std::string& file) {
  const auto found = checkpoint.metadata.find("metrics");
  std::uint64_t bytes = 0;
  const char* const begin = found == checkpoint.metadata.end() ? "" : found->second.c_str();
  const char* const end = begin + std::strlen(begin);
  const auto [stop, error] = std::from_chars(begin, end, bytes);
  expects<FileError>(error == std::errc() && stop == end, file, ": the checkpoint does not say how far the metrics go");
  return bytes;
}

// JSON has no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json number(const std::optional<double>& value) { return value ? number(*value) : Json(); }

}  // namespace

RunSession::RunSession(Settings& settings, const Options& options, const OptionNames& chosen)
    : settings_(settings),
      options_(options),
      path_(RunFolder::path_of(settings)),
      began_(seconds_now()),
      last_save_(began_) {
  std::error_code missing;
  if (!settings.resume || !std::filesystem::is_directory(path_, missing)) return;
  lock_.emplace(path_);
  resumed_ = io::resume_checkpoint(RunFolder::checkpoints_in(path_));
  if (resumed_)
    take_settings(*resumed_, chosen);
  else
    begin_again(chosen);
}

void RunSession::take_settings(const io::Resumed& resumed, const OptionNames& chosen) {
  const auto found = resumed.checkpoint.metadata.find("settings");
  expects<FileError>(found != resumed.checkpoint.metadata.end(), resumed.file, ": not a checkpoint of tern train");
  const Json saved = parse_json(found->second, resumed.file);
  expects<FileError>(saved.is_object(), resumed.file, ": the settings are not a JSON object");
  expect_same(options_, chosen, decides_training, saved, path_);
  apply_saved(saved, resumed.file, chosen);
}

// A training that was killed before its first checkpoint left its settings.
void RunSession::begin_again(const OptionNames& chosen) {
  std::error_code missing;
  const std::string config = RunFolder::config_in(path_), metrics = RunFolder::metrics_in(path_);
  if (!std::filesystem::exists(config, missing)) return;
  Json saved = read_json_file(config);
  expects<FileError>(saved.is_object(), config, ": the settings are not a JSON object");
  // The place of the model is stored only with the metrics: see write_config.
  if (std::filesystem::exists(metrics, missing))
    read_metrics(path_, [&](const Json& event) {
      if (event.value("event", Json()) != "start" || !event.contains("settings")) return;
      const Json& settings = event["settings"];
      if (settings.is_object() && settings.contains("model")) saved["model"] = settings["model"];
    });
  apply_saved(saved, config, chosen);
}

void RunSession::apply_saved(const Json& saved, const std::string& file, const OptionNames& chosen) {
  try {
    apply_config(options_, saved, file, chosen);
  } catch (const UsageError& error) {
    throw FileError(error.what());  // not from the command line
  }
}

void RunSession::start(Training& training, const TrainingData& data) {
  training_ = &training;
  data_ = &data;
  folder_ = std::make_unique<RunFolder>(path_);
  if (!lock_) lock_.emplace(path_);
  for (const std::string& file : {RunFolder::config_in(path_), RunFolder::model_in(path_)}) io::remove_leftovers(file);
  if (!resumed_) {
    if (settings_.resume && !settings_.quiet)
      say(message("--resume found no checkpoint in ", path_, ": the training starts over."));
    if (folder_->begin() && !settings_.quiet)
      say(message("The training that was in ", path_, " is now in ", path_, "/previous."));
    open_listeners();
    write_config();
    write_start();
    return;
  }
  for (const std::string& sentence : resumed_->skipped) say("tern: skipped a damaged checkpoint: " + sentence);
  const io::Checkpoint& checkpoint = resumed_->checkpoint;
  const Blueprint before = blueprint_in(checkpoint.metadata, "model", resumed_->file);
  const Blueprint& now = training.blueprint();
  const bool same = before.fingerprint.empty() || before.fingerprint == now.fingerprint;
  expects<FileError>(same && before.examples == now.examples && before.classes == now.classes &&
                         before.encoding == now.encoding && before.input == now.input &&
                         before.scaling.mean == now.scaling.mean && before.scaling.deviation == now.scaling.deviation,
                     now.source,
                     ": the data set is not the one that this training began with, or not in its order; start over in "
                     "another --run");
  training.restore(checkpoint, resumed_->file);
  folder_->resume(bytes_of_metrics(checkpoint, resumed_->file));
  open_listeners();
  write_config();
  folder_->write({{"event", "resume"},
                  {"time", time_of_day()},
                  {"step", training.position().step},
                  {"epoch", training.position().epoch},
                  {"ranks", training.group().size()},
                  {"transport", training.group().transport()}});
  if (!settings_.quiet)
    say(message("Continuing after step ", checkpoint.step, ", epoch ", checkpoint.epoch, ", from ", resumed_->file));
}

void RunSession::open_listeners() {
  if (settings_.tensorboard) {
    tensorboard_ = std::make_unique<TensorBoard>(path_ + "/tensorboard", training_->position().step);
    folder_->listen([this](const Json& event, const std::string&) { tensorboard_->write(event); });
  }
  if (!settings_.dashboard) return;
  dashboard_ = std::make_unique<Dashboard>(path_, settings_.port);
  if (resumed_) read_metrics(path_, [&](const Json& event) { dashboard_->push(json_text(event) + "\n"); });
  folder_->listen([this](const Json&, const std::string& line) { dashboard_->push(line); });
  say("Dashboard: " + dashboard_->address());
}

Json RunSession::settings_json() const {
  Json settings = to_config(options_);
  for (const char* name : {"run", "resume", "config", "quiet", "verbose", "dashboard", "port", "download", "ranks",
                           "parallel", "rank-limit", "restarts", "launcher", "augment-sheet"})
    settings.erase(name);
  return settings;
}

void RunSession::write_config() const {
  Json settings = settings_json();
  settings.erase("model");  // other trainings may use the file, too, and must not overwrite this one's model
  write_file(RunFolder::config_in(path_), json_text(settings, 2) + "\n");
}

void RunSession::write_start() {
  const Blueprint& blueprint = training_->blueprint();
  const Scope& scope = current_scope();
  const std::int64_t aside = data_->three_way() ? training_->validation_examples() : 0;
  Json start{{"event", "start"},
             {"time", time_of_day()},
             {"version", version()},
             {"net", describe_net(blueprint)},
             {"parameters", training_->net().parameter_count()},
             {"settings", settings_json()},
             {"data",
              {{"source", blueprint.source},
               {"synthetic", data_->train.synthetic()},
               {"training_examples", data_->train.size() - aside},
               {"stopping_examples", training_->stopping_examples()},
               {"validation_examples", training_->validation_examples()},
               {"validation_is_test_part", data_->own_test_part},
               {"task", blueprint.regression ? "regression" : "classification"},
               {"target", blueprint.table ? Json(blueprint.target_name()) : Json()},
               {"classes", blueprint.classes}}},
             {"machine",
              {{"mode", scope.mode->name},
               {"device", scope.mode->description},
               {"processor", processor()},
               {"threads", scope.context.threads},
               {"ranks", training_->group().size()},
               {"transport", training_->group().size() > 1 ? training_->group().transport() : "none"},
               {"precision", settings_.precision}}},
             {"epochs", *settings_.epochs},
             {"steps_per_epoch", training_->position().batches}};
  if (!blueprint.class_weights.empty()) start["data"]["class_weights"] = weights_text(blueprint);
  if (data_->three_way()) start["data"]["test_examples"] = data_->held_out.size();
  folder_->write(start);
}

void RunSession::stepped(const Position& position, const Tensor& loss) {
  const std::int64_t every = std::max<std::int64_t>(1, position.batches / points_per_epoch);
  if (position.batch % every == 0 && is_kept(position.step / every, steps_per_doubling) && !training_->refitting()) {
    const double value = loss.item();
    expects<NumericError>(std::isfinite(value), "the loss is ", std::isnan(value) ? "NaN" : "infinite", " in step ",
                          position.step, "; try a smaller --learning-rate than ", *settings_.learning_rate);
    folder_->write({{"event", "step"}, {"step", position.step}, {"loss", value}});
  }
  if (settings_.checkpoint_every > 0 && position.step % settings_.checkpoint_every == 0) save();
}

void RunSession::epoch_done(const EpochResult& result) {
  const bool regression = training_->blueprint().regression;
  Json event{{"event", "epoch"},
             {"epoch", result.epoch},
             {"step", training_->position().step},
             {"loss", number(result.loss)},
             {regression ? "r2" : "accuracy", number(result.accuracy)},
             {"validation_loss", number(result.validation_loss)},
             {regression ? "validation_r2" : "validation_accuracy", number(result.validation_accuracy)},
             {"learning_rate", result.learning_rate},
             {"seconds", result.seconds}};
  if (regression && result.validation_loss) event["validation_rmse"] = number(result.validation_rmse);
  if (result.stopping) {
    event["stopping_loss"] = number(result.stopping->loss);
    event["best"] = result.best;
  }
  if (result.ranks) {
    event["communication"] = result.ranks->communication;
    event["communication_hidden"] = result.ranks->hidden;
    event["slowest_rank"] = result.ranks->slowest;
    event["slowest_lag"] = result.ranks->lag;
  }
  last_epoch_.reset();
  if (is_kept(result.epoch, epochs_per_doubling))
    folder_->write(event);
  else
    last_epoch_ = std::move(event);
  save_when_due();
}

void RunSession::refitting(const Position& position) {
  if (position.epoch == 0)
    folder_->write({{"event", "refit"},
                    {"epochs", training_->refit_epochs()},
                    {"step", position.step},
                    {"examples", data_->train.size()}});
  save_when_due();
}

void RunSession::save_when_due() {
  const double due = std::max(save_interval, save_seconds_ / save_share);
  if (settings_.checkpoint_every == 0 && seconds_now() - last_save_ > due) save();
}

std::string RunSession::save() {
  const double began = seconds_now();
  io::Checkpoint checkpoint = training_->snapshot();
  checkpoint.metadata["settings"] = json_text(settings_json());
  checkpoint.metadata["metrics"] = std::to_string(folder_->bytes());
  std::string file = io::save_checkpoint(RunFolder::checkpoints_in(path_), checkpoint, settings_.keep);
  last_save_ = seconds_now();
  save_seconds_ = last_save_ - began;
  return file;
}

std::string RunSession::interrupt() {
  std::string file = save();
  folder_->write({{"event", "interrupt"}, {"time", time_of_day()}, {"step", training_->position().step}});
  return file;
}

Prediction evaluate_together(Training& training, const TrainingData& data) {
  for (const auto& [name, tensor] : training.net().state())
    if (training.group().size() > 1) training.group().broadcast(tensor);
  return predict(training.net(), training.blueprint(), data.held_out, training.group());
}

RunResult RunSession::finish(Ended ended) {
  if (last_epoch_) folder_->write(*std::exchange(last_epoch_, std::nullopt));
  save();
  Training& training = *training_;
  training.net().load_state(training.result());
  const std::string model = settings_.model.empty() ? RunFolder::model_in(path_) : settings_.model;
  RunResult finished{model, {}};
  if (const auto* graph = dynamic_cast<const graph::Graph*>(&training.net()))
    save_model(model, training.blueprint(), *graph);
  else
    save_model(model, training.blueprint(), training.net().state());
  Json end{{"event", "end"},
           {"time", time_of_day()},
           {"seconds", seconds_now() - began_},
           {"reason", ended == Ended::stopped_early ? "stopped early" : "finished"},
           {"epochs", training.history().size()},
           {"step", training.position().step},
           {"model", model}};
  if (training.kept().best) end["best_epoch"] = training.kept().epoch;
  const bool regression = training.blueprint().regression;
  end[regression ? "training_r2" : "training_accuracy"] = number(training.kept().accuracy);
  end["training_loss"] = number(training.kept().loss);
  end[regression ? "r2" : "accuracy"] = nullptr;
  std::vector<std::string> unreadable;  // of those held out
  if (data_->held_out.size() > 0) {
    const Prediction prediction = evaluate_together(training, *data_);
    const Evaluation evaluation = evaluate(prediction);
    unreadable = prediction.unreadable;
    Json event{{"event", "evaluation"}, {"of", data_->own_test_part || data_->three_way() ? "test" : "validation"}};
    event.update(as_json(evaluation, training.blueprint()));
    if (training.blueprint().classes.size() > most_confused) event.erase("confusion");
    if (regression) event["pairs"] = pairs_of(prediction);
    event["pictures"] = example_predictions(*data_, training.blueprint(), prediction);
    if (training.blueprint().table && training.blueprint().encoding.columns.size() <= most_columns)
      event["importance"] = as_json(importance(
          training.net(), training.blueprint(), some_of(data_->held_out, training.blueprint(), column_shuffles),
          column_shuffles, settings_.seed, [] { return training::SignalGuard::received() != 0; }));
    folder_->write(event);
    if (regression)
      for (const char* name : {"r2", "rmse", "mae"}) end[name] = event[name];
    else
      end["accuracy"] = evaluation.figures.accuracy;
    end["loss"] = number(evaluation.loss);
    finished.evaluation = evaluation;
  }
  if (data_->train.folder) {
    end["unreadable"] = data_->train.unreadable_count() + static_cast<std::int64_t>(unreadable.size());
    const std::string trained = data_->train.unreadable(), validated = unreadable_words(unreadable);
    if (!trained.empty()) say(trained + "; replaced by others of their class");
    if (!validated.empty()) say(validated + "; left out");
  }
  folder_->write(end);
  return finished;
}

}  // namespace tern::tool
