// `tern train`: from options to a trained model, with everything that can interrupt it in between.

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "errors.hpp"
#include "evaluation.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "output.hpp"
#include "progress.hpp"
#include "run_session.hpp"
#include "signals.hpp"
#include "tern/device/device.hpp"
#include "tern/io/file.hpp"
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
            "model "
            "file. A run keeps its measurements, settings and checkpoints in a folder. Ctrl-C ends after the present "
            "step with everything saved; --resume goes on there, bit for bit as if never stopped.",
        .examples = {"tern train --dataset iris.csv --run iris",
                     "tern train --dataset mnist --net lenet --epochs 5 --run digits",
                     "tern train --resume --run digits"},
        .options = training_options(settings_)};
    Option config = text_option("config", "FILE", "take options from a JSON file; those given here win", config_);
    config.group = "Results";
    config.kind = Value::file;
    verb_.options.push_back(std::move(config));
  }
  Verb& verb() override { return verb_; }

  int run(const Given& given) override {
    if (!config_.empty()) apply_config(verb_.options, read_json_file(config_), config_, given);
    RunSession session(settings_, verb_.options, given);
    keep_inputs(settings_.model, {settings_.dataset, config_});
    check_model_place(settings_.model);
    const Device device{settings_.mode, {.threads = settings_.threads, .precision = precision_of(settings_.precision)}};
    const TrainingData data = load_training_data(settings_);
    complete(settings_, data);
    Training training(settings_, data);
    if (!settings_.quiet) introduce(data, training, device);
    session.start(training, data);
    const SignalGuard signals;
    return train(session, training, data);
  }

 private:
  void introduce(const TrainingData& data, Training& training, const Device& device) {
    std::fprintf(stderr, "%s, %s parameters, in mode %s (%s)\n", describe_net(training.blueprint()).c_str(),
                 grouped(training.net().parameter_count()).c_str(), device.name().c_str(),
                 device.description().c_str());
    std::fprintf(stderr, "%s training and %s validation examples of %zu classes: %s\n",
                 grouped(data.train.size()).c_str(), grouped(data.validation.size()).c_str(),
                 data.blueprint.classes.size(), data.blueprint.source.c_str());
    if (data.train.synthetic())
      std::fputs("These digits are drawn by a generator: the accuracy says nothing about MNIST.\n", stderr);
  }

  int train(RunSession& session, Training& training, const TrainingData& data) {
    Progress progress(settings_, training, *settings_.epochs);
    Training::Hooks hooks;
    hooks.step = [&](const Position& position, const Tensor& loss) {
      session.stepped(position, loss);
      progress.step(position, loss);
    };
    hooks.epoch = [&](const EpochResult& result) {
      session.epoch_done(result);
      progress.epoch(result, result.epoch == *settings_.epochs);
    };
    hooks.stop = [] { return SignalGuard::received() != 0; };
    const double began = seconds_now();
    const Ended ended = training.run(*settings_.epochs, hooks);
    progress.clear();
    if (ended == Ended::interrupted) {
      const std::string file = session.interrupt();
      std::fprintf(stderr, "Interrupted after step %ld; saved in %s. To go on: tern train --resume --run %s\n",
                   static_cast<long>(training.position().step), file.c_str(), session.path().c_str());
      return 128 + SignalGuard::received();
    }
    const std::string model = session.finish(ended);
    if (settings_.quiet) {
      print(result_line(training) + "\n");
      return success;
    }
    print(result_line(training) +
          message(" after ", training.history().size(), " epochs in ", duration(seconds_now() - began), "\n") +
          "model in " + model + "\nnext: tern report " + session.path() + ", tern test --model " + model +
          " --dataset " + settings_.dataset + (data.own_test_part || data.validation.size() == 0 ? "" : " --held-out") +
          "\n");
    return success;
  }

  static std::string result_line(const Training& training) {
    const EpochResult* result = &training.history().back();
    if (training.keeps_best())
      for (const EpochResult& epoch : training.history())
        if (epoch.best) result = &epoch;
    if (!result->validation_accuracy) return "training accuracy: " + fixed(100 * result->accuracy, 2) + " %";
    return "validation accuracy: " + fixed(100 * *result->validation_accuracy, 2) + " %, loss " +
           fixed(*result->validation_loss, 4);
  }

  Settings settings_;
  std::string config_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_train() { return std::make_unique<Train>(); }

}  // namespace tern::tool
