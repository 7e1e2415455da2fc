// `tern test`: evaluates a model.

#include "data_sets.hpp"
#include "evaluation.hpp"
#include "fingerprint.hpp"
#include "importance.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "output.hpp"
#include "ranks.hpp"
#include "tern/io/sha256.hpp"
#include "tern/modes/device.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Test : public Command {
 public:
  Test() {
    verb_ = {
        .name = "test",
        .summary = "Evaluates a model: accuracy, precision, recall, F1, confusion, ROC AUC; R2, RMSE, MAE.",
        .synopsis = "--model FILE --dataset DATA [options]",
        .description =
            "Runs a trained model over labelled examples. A set with its own test part is tested on that part. A "
            "quotient with denominator 0 counts as 0: the precision of a class that was never predicted, the recall "
            "of a class without examples. The macro average is over the classes that have examples or were predicted. "
            "ROC AUC is for two classes, of which the second one in the table is positive. For a regression, RMSE and "
            "MAE are in the target's unit, and R2 is the fraction of its variance that is explained. For "
            "probabilities, ECE (expected calibration error) and the Brier score measure their quality. --importance "
            "shuffles the values of one column after another and reports by how much the accuracy or R2 falls; with "
            "CSV this is the table.",
        .examples = {"tern test --model iris --dataset iris.csv --held-out",
                     "tern test --model digits --dataset mnist --format json",
                     "tern test --model iris --dataset iris.csv --importance --format csv --out columns.csv"},
        .options = test_options(settings_, model_)};
    Option held_out = switch_option("held-out", "only what the training held out of this very set", held_out_);
    held_out.group = "Data";
    held_out.brief = true;
    verb_.options.insert(verb_.options.begin() + 2, std::move(held_out));
    Option importance = switch_option(
        "importance", "of a table's columns: how much worse the model is when one is shuffled", importance_);
    importance.brief = true;
    Option repeats = integer_option("repeats", "N", "shuffles of each column for --importance", repeats_, 1, 10000);
    Option seed = integer_option("seed", "N", "of these shuffles", seed_, 0, INT64_MAX);
    for (Option* option : {&importance, &repeats, &seed}) {
      option->group = "Importance of columns";
      verb_.options.push_back(std::move(*option));
    }
    for (Option& option : rank_options(settings_)) {
      if (option.name != "ranks" && option.name != "parallel" && option.name != "rank-limit") continue;
      if (option.name == "ranks") option.help = "threads that test together, each on its share of the examples";
      verb_.options.push_back(std::move(option));
    }
    add_output_options(verb_.options, output_);
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(!model_.empty(), "--model is missing: a model file or the folder of a run");
    expects<UsageError>(!settings_.dataset.empty(), "--dataset is missing: the examples to test on");
    keep_inputs(output_.file, {model_, settings_.dataset});
    if (settings_.parallel == "threads") return run_process(parallel::Group());
    return run_processes({.transport = settings_.parallel, .limit = limit()},
                         [&](const parallel::Group& processes) { return run_process(processes); });
  }

 private:
  std::chrono::seconds limit() const { return std::chrono::seconds(settings_.rank_limit); }

  // Each process reads the model and the examples; the first one reports the result.
  int run_process(const parallel::Group& processes) {
    const bool first = processes.rank() == 0, several = processes.size() > 1;
    if (several) {
      check_same_options(processes, verb_.options);
      share_settings(processes, verb_.options);
    }
    if (settings_.parallel != "threads") settings_.ranks = processes.size();
    expects<UsageError>(!importance_ || settings_.ranks == 1,
                        "--importance runs in one rank; leave out --ranks and mpirun");
    const Device device{settings_.mode, device_options(settings_)};
    const Model model = load_model(model_);
    // Missing files are fetched once.
    if (!first && settings_.download) processes.barrier();
    const Examples set = load_test_data(settings_, model.blueprint, held_out_ ? Part::held_out : Part::all, true);
    if (first && settings_.download) processes.barrier();
    expects<FileError>(set.size() > 0, set.name(), ": found no examples to test on");
    if (several) {
      check_same_data(processes, model.file, io::sha256_of_file(model.file));
      Fingerprint sum;
      if (set.memory.images.defined()) sum.add(set.memory);
      for (std::int64_t i = 0; set.source && i < set.size(); ++i)
        sum.add(static_cast<std::uint64_t>(set.source->label(i)));
      check_same_data(processes, settings_.dataset, sum.text());
    }
    Prediction prediction;
    const auto program = [&](const parallel::Group& group) {
      std::optional<Device> own_device;
      if (group.size() > 1) own_device.emplace(device_of_rank(device.mode(), group.rank()), device_options(settings_));
      // Each thread has its own net, whose weights stay on its device.
      const std::optional<Model> own = several || group.rank() == 0 ? std::nullopt : std::optional(load_model(model_));
      Prediction found = predict(own ? *own->net : *model.net, model.blueprint, set, group);
      if (several || group.rank() == 0) prediction = std::move(found);
    };
    if (several || settings_.ranks == 1)
      program(processes);
    else
      parallel::launch({.ranks = static_cast<int>(settings_.ranks), .limit = limit()}, program);
    if (!first) return success;
    const Evaluation evaluation = evaluate(prediction);
    if (!prediction.unreadable.empty()) say(unreadable_words(prediction.unreadable) + "; left out");
    std::optional<Importance> columns;
    if (importance_) columns = find_importance(model, set);
    write_output(output_, output_.format == "json"  ? json(evaluation, columns, model.blueprint)
                          : output_.format == "csv" ? csv(evaluation, columns, model.blueprint)
                                                    : table(evaluation, columns, model, set.name()));
    return success;
  }

  Importance find_importance(const Model& model, const Examples& set) const {
    expects<UsageError>(model.blueprint.table, "--importance is for a table's columns, but this model takes images");
    return importance(*model.net, model.blueprint, set, repeats_, static_cast<std::uint64_t>(seed_),
                      [] { return false; });
  }

  static std::string json(const Evaluation& evaluation, const std::optional<Importance>& columns,
                          const Blueprint& blueprint) {
    Json all = as_json(evaluation, blueprint);
    if (columns) all["importance"] = as_json(*columns);
    return json_text(all, 2) + "\n";
  }
  // One table: that of the columns if it was requested.
  static std::string csv(const Evaluation& evaluation, const std::optional<Importance>& columns,
                         const Blueprint& blueprint) {
    return columns ? as_csv(*columns, blueprint) : as_csv(evaluation, blueprint);
  }
  static std::string table(const Evaluation& evaluation, const std::optional<Importance>& columns, const Model& model,
                           const std::string& name) {
    return message(describe_net(model.blueprint), " of ", model.file, " on ", name, "\n\n") +
           as_table(evaluation, model.blueprint) + (columns ? as_table(*columns, model.blueprint) : "");
  }

  Settings settings_;
  std::string model_;
  bool held_out_ = false, importance_ = false;
  std::int64_t repeats_ = 5, seed_ = 1;
  Output output_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_test() { return std::make_unique<Test>(); }

}  // namespace tern::tool
