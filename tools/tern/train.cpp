// `tern train`: from options to a trained model, with everything that may interrupt it in between.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <optional>

#include "augment_sheet.hpp"
#include "errors.hpp"
#include "evaluation.hpp"
#include "folds.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "ranks.hpp"
#include "restarts.hpp"
#include "run_session.hpp"
#include "tern/io/file.hpp"
#include "tern/io/sha256.hpp"
#include "tern/modes/device.hpp"
#include "tern/training/signal_guard.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Train : public Command {
 public:
  Train() {
    verb_ = {
        .name = "train",
        .summary = "Trains a network and writes the model, checkpoints and measurements into a folder.",
        .synopsis = "--dataset DATA [--layers SIZES | --net NAME] [options]",
        .description =
            "Reads the examples, holds some of them out for validation, trains a network on the others and writes the "
            "model file. A run keeps its measurements, settings and checkpoints in a folder. Ctrl-C stops after the "
            "current step and saves everything; --resume continues there with the same bits.",
        .examples = {"tern train --dataset iris.csv --run iris",
                     "tern train --dataset mnist --net lenet --epochs 5 --run digits",
                     "tern train --resume --run digits"},
        .options = training_options(settings_)};
    Option config = text_option("config", "FILE", "read options from a JSON file; the command line wins", config_);
    config.group = "Results";
    config.kind = Value::file;
    verb_.options.push_back(std::move(config));
    for (Option& option : rank_options(settings_)) verb_.options.push_back(std::move(option));
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames& typed) override {
    OptionNames chosen = typed;
    if (!config_.empty()) chosen.merge(apply_config(verb_.options, read_json_file(config_), config_, typed));
    if (settings_.resume && settings_.folds == 0 && holds_folds(RunFolder::path_of(settings_)))
      settings_.folds = 2;  // as many as exist
    if (settings_.folds == 1) throw UsageError("--folds 1 holds nothing out; it takes 2 or more");
    if (settings_.folds > 0 && settings_.fold == 0 && settings_.augment_sheet.empty()) {
      in_folds_ = true;
      return train_folds(settings_, verb_.options, chosen, [&] { return run_process(chosen, parallel::Group()); });
    }
    expects<UsageError>(settings_.launcher.empty() || settings_.restarts > 0,
                        "--launcher says what --restarts N starts again; --restarts is missing");
    if (settings_.restarts > 0) return run_with_restarts(restarts(), verb_.name, verb_.words, chosen);
    if (settings_.parallel == "threads") return run_process(chosen, parallel::Group());
    return run_processes({.transport = settings_.parallel, .limit = limit()},
                         [&](const parallel::Group& processes) { return run_process(chosen, processes); });
  }

 private:
  Restarts restarts() const {
    const std::string folder = RunFolder::path_of(settings_);
    return {.work = "training",
            .times = settings_.restarts,
            .launcher = settings_.launcher,
            .parallel = settings_.parallel,
            .ranks = settings_.ranks,
            .rank_limit = settings_.rank_limit,
            .folder = folder,
            .begun = RunFolder::metrics_in(folder),
            .first_ends = true};
  }
  std::chrono::seconds limit() const { return std::chrono::seconds(settings_.rank_limit); }

  // The first process owns the run, and sends the others the settings of a resumed training.
  int run_process(const OptionNames& chosen, const parallel::Group& processes) {
    const bool first = processes.rank() == 0, several = processes.size() > 1;
    if (several) check_same_options(processes, verb_.options);
    std::optional<RunSession> session;
    if (first) {
      session.emplace(settings_, verb_.options, chosen);
      keep_inputs(settings_.model, {settings_.dataset, config_, settings_.init});
      if (!settings_.resume) keep_inputs(session->path(), {settings_.init});  // it would be moved away
      check_model_place(settings_.model);
      check_texts();
    }
    if (several) share_settings(processes, verb_.options);
    const Device device{settings_.mode, device_options(settings_)};
    // Missing files are fetched once.
    if (!first && settings_.download) processes.barrier();
    std::optional<Blueprint> before;  // of the network with the initial weights
    if (!settings_.init.empty()) {
      const Weights weights = load_weights(settings_.init);
      if (several) check_same_data(processes, settings_.init, io::sha256_of_file(weights.file));
      before = weights.blueprint;
    }
    if (before) take_net(settings_, *before);
    const TrainingData data = load_training_data(settings_);
    if (several) check_same_data(processes, settings_.dataset, fingerprint_of(data));
    const std::string activation = settings_.activation;
    if (before) take_layers(settings_, *before, data.blueprint);
    if (chosen.contains("activation")) settings_.activation = activation;
    if (first && settings_.download) processes.barrier();
    if (settings_.parallel != "threads") settings_.ranks = processes.size();
    complete(settings_, data);
    int code = failed;
    const auto program = [&](const parallel::Group& group) {
      // The ranks' own waits give better messages, and come first; a GPU's waits for another one have no limit.
      std::optional<Deadline> step;
      if (several && settings_.rank_limit > 0)
        step.emplace(limit() + std::max(std::chrono::seconds(1), limit() / 4),
                     message("the ranks did not finish a step within ", settings_.rank_limit, " s (--rank-limit)"));
      Training::Hooks hooks;
      hooks.stop = [&] {
        if (step) step->renew();
        return training::SignalGuard::received() != 0;
      };
      // Several ranks do not each search for the fastest mode, but take the available one.
      std::optional<Device> own_device;
      if (group.size() > 1) own_device.emplace(device_of_rank(device.mode(), group.rank()), device_options(settings_));
      const bool leads = group.rank() == 0;
      if (!settings_.augment_sheet.empty()) {
        if (leads) write_augment_sheet(settings_, data);
        if (leads) print("sheet in " + settings_.augment_sheet + "\n");
        code = success;
        return;
      }
      Training training(settings_, data, group);
      if (leads && !settings_.quiet) introduce(data, training, device, group);
      if (leads) session->start(training, data);
      if (group.size() > 1 && agreed(group, leads && session->resumed())) {
        io::Checkpoint checkpoint = leads ? training.snapshot() : io::Checkpoint();
        share_checkpoint(group, checkpoint);
        if (!leads) training.restore(checkpoint, "rank 0");
      }
      std::optional<training::SignalGuard> signals;
      if (leads || several) signals.emplace();  // one per process
      int own = failed;
      if (leads)
        own = train(*session, training, data, hooks);
      else if (training.run(*settings_.epochs, hooks) != Ended::interrupted && data.held_out.size() > 0)
        (void)evaluate_together(training, data);
      own = agreed(group, own);
      if (leads || several) code = own;
    };
    if (several || settings_.ranks == 1)
      program(processes);
    else
      parallel::launch({.ranks = static_cast<int>(settings_.ranks), .limit = limit()}, program);
    if (first && !settings_.quiet && settings_.mode == "auto") say(device.explain());
    return code;
  }

  // Settings, metrics and models are JSON, which is UTF-8.
  void check_texts() const {
    const Json settings = to_config(verb_.options);
    for (const auto& [name, value] : settings.items())
      expects<UsageError>(parse_json(json_text(value), name) == value, "--", name, ": found ", json_text(value),
                          ", which is not UTF-8 and cannot be kept in the settings; rename it");
  }

  // A mode's description counts the threads of the machine, where it has some.
  std::string bound_on_threads(const Device& device) const {
    const bool counts = device.description().find_first_of("0123456789") == 0;
    return settings_.threads > 0 && counts ? message("at most ", settings_.threads, " of ") : "";
  }

  void introduce(const TrainingData& data, Training& training, const Device& device, const parallel::Group& group) {
    const Blueprint& blueprint = training.blueprint();
    say(message(describe_net(blueprint), ", ", grouped(training.net().parameter_count()), " parameters, in mode ",
                device.name(), " (", bound_on_threads(device), device.description(), ")"));
    const std::int64_t aside = data.three_way() ? training.validation_examples() : 0;
    say(message(grouped(data.train.size() - aside), " training", data.three_way() ? ", " : " and ",
                data.three_way() ? message(grouped(aside), " validation and ") : "", grouped(data.held_out.size()), " ",
                data.held_out_name(), " examples of ", task_of(blueprint), ": ", blueprint.source));
    for (const std::string& note : data.notes) say(note);
    if (!blueprint.class_weights.empty()) say("An example counts by its class: " + weights_text(blueprint) + ".");
    if (training.begun_with()) say(message("Weights of ", settings_.init, ": ", training.begun_with()->text()));
    if (!training.new_columns().empty()) {
      std::string names;
      for (const std::string& name : training.new_columns()) names += (names.empty() ? "" : ", ") + name;
      say("These weights do not know all values of these columns, whose inputs are new: " + names);
    }
    if (training.other_classes()) say("These weights had other classes: the last layer is new.");
    if (!training.frozen().empty())
      say(message("Frozen: ", counted(static_cast<std::int64_t>(training.frozen().size()), "tensor"), " of ",
                  training.net().named_parameters().size(), ", ", grouped(trained_count(training)),
                  " parameters are trained"));
    if (group.size() > 1)
      say(message(group.size(), " ranks (", group.transport(), "), each batch of ", *settings_.batch_size, " in ",
                  *settings_.shards == 0 ? group.size() : *settings_.shards, " shards",
                  *settings_.shards == 0 ? "" : ": the same bits for any number of ranks"));
    if (const std::int64_t stopping = training.stopping_examples(); stopping > 0)
      say(message(grouped(stopping), " of the training examples are set aside to find the best epoch",
                  settings_.refit == "yes" ? "; then it trains again on all of them, for as many epochs." : "."));
    else if (*settings_.early_stop > 0)
      say(message("The validation examples find the best epoch",
                  settings_.refit == "yes" ? "; then it trains again on them too, for as many epochs." : "."));
    if (data.train.synthetic()) say("These digits are synthetic: the accuracy says nothing about MNIST.");
    if (data.train.source && blueprint.net == "mlp" && settings_.net.empty() && settings_.layers.empty())
      say("Without --net photographs get an mlp, which knows nothing of images; --net resnet18 is made for them.");
    if (looks_like_a_quantity(blueprint))
      say(message("The ", blueprint.classes.size(),
                  " classes are all numbers, each a class of its own; --task regression learns a quantity."));
  }

  int train(RunSession& session, Training& training, const TrainingData& data, Training::Hooks hooks) {
    Progress progress(settings_, training, *settings_.epochs);
    hooks.step = [&](const Position& position, const Tensor& loss) {
      session.stepped(position, loss);
      progress.step(position, loss);
    };
    hooks.epoch = [&](const EpochResult& result) {
      session.epoch_done(result);
      progress.epoch(result, training.ended());
    };
    hooks.refit = [&](const Position& position) { session.refitting(position); };
    const double began = seconds_now();
    const Ended ended = training.run(*settings_.epochs, hooks);
    progress.clear();
    if (ended == Ended::interrupted) {
      const std::string file = session.interrupt();
      say(message("Interrupted after step ", training.position().step, "; saved in ", file,
                  in_folds_ ? "" : ". To continue: tern train --resume --run " + shell_word(session.path())));
      return 128 + training::SignalGuard::received();
    }
    const RunResult finished = session.finish(ended);
    const std::string& model = finished.model;
    if (in_folds_) {
      if (!settings_.quiet) say(result_line(training, data, finished));
      return success;
    }
    if (settings_.quiet) {
      print(result_line(training, data, finished) + "\n");
      return success;
    }
    print(result_line(training, data, finished) +
          message(" after ", counted(static_cast<std::int64_t>(training.history().size()), "epoch"), " in ",
                  duration(seconds_now() - began), "\n") +
          best_line(training, data) + "model in " + model + "\nnext: tern report " + shell_word(session.path()) +
          "\n      " + test_command(model, data) + "\n");
    return success;
  }

  static std::int64_t trained_count(Training& training) {
    std::int64_t count = 0;
    for (const Tensor& tensor : nn::trained_parameters(training.net())) count += tensor.numel();
    return count;
  }

  std::string task_of(const Blueprint& blueprint) const {
    if (!blueprint.regression) return message(blueprint.classes.size(), " classes");
    return message(
        "a regression of ", blueprint.target_name(),
        settings_.task == "auto" ? ", whose values are numbers (--task classification makes them classes)" : "");
  }

  // With everything that determines these examples.
  std::string test_command(const std::string& model, const TrainingData& data) const {
    std::string text = "tern test --model " + shell_word(model) + " --dataset " + shell_word(settings_.dataset);
    if (!settings_.data.empty()) text += " --data " + shell_word(settings_.data);
    if (settings_.header != "auto") text += " --header " + settings_.header;
    if (settings_.limit > 0) text += message(" --limit ", settings_.limit);
    if (settings_.corrupt != "error") text += " --corrupt " + settings_.corrupt;
    return text + (data.own_test_part || data.held_out.size() == 0 ? "" : " --held-out");
  }

  // This many numbers are more likely measurements than classes.
  static bool looks_like_a_quantity(const Blueprint& blueprint) {
    constexpr std::size_t most = 20;
    if (!blueprint.table || blueprint.classes.size() <= most) return false;
    return std::all_of(blueprint.classes.begin(), blueprint.classes.end(), [](const std::string& name) {
      return name.find_first_not_of("+-.0123456789") == std::string::npos;
    });
  }

  static std::string result_line(const Training& training, const TrainingData& data, const RunResult& finished) {
    const training::EpochResult& kept = training.kept();
    const std::string name = data.held_out_name();
    if (!finished.evaluation && std::isnan(kept.accuracy)) return "training loss: " + fixed(kept.loss, 4);
    if (const auto found = finished.evaluation ? finished.evaluation->regression : std::nullopt)
      return message(name, " R2: ", fixed(found->r2, 4), ", RMSE ", number_text(found->rmse), ", MAE ",
                     number_text(found->mae), ", loss ", fixed(finished.evaluation->loss, 4));
    if (training.blueprint().regression) return "training R2: " + fixed(kept.accuracy, 4);
    if (!finished.evaluation) return "training accuracy: " + fixed(100 * kept.accuracy, 2) + " %";
    return name + " accuracy: " + fixed(100 * finished.evaluation->figures.accuracy, 2) + " %, loss " +
           fixed(finished.evaluation->loss, 4);
  }

  static std::string best_line(const Training& training, const TrainingData& data) {
    if (!training.kept().best) return {};
    const auto& epochs = training.history();
    const auto lowest = std::ranges::min_element(epochs, {}, [](const training::EpochResult& epoch) {
      return epoch.stopping ? epoch.stopping->loss : INFINITY;
    });
    const std::string best = message("the best epoch was ", training.kept().epoch);
    const std::string lower =
        lowest->epoch == training.kept().epoch
            ? ""
            : message("within the error it is as good as epoch ", lowest->epoch, ", whose loss was the lowest\n");
    if (training.refit_epochs() == 0) return best + "; its weights are kept\n" + lower;
    return best +
           message("; trained again for as many on all ", grouped(data.train.size()),
                   data.three_way() ? " training and validation examples\n" : " training examples\n") +
           lower;
  }

  Settings settings_;
  std::string config_;
  bool in_folds_ = false;  // one training of several
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_train() { return std::make_unique<Train>(); }

}  // namespace tern::tool
