// `tern test`: how right a model is.

#include "data_sets.hpp"
#include "evaluation.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "nets.hpp"
#include "output.hpp"
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
        .summary = "Says how right a model is: accuracy, precision, recall, F1, confusion, ROC AUC; R2, RMSE, MAE.",
        .synopsis = "--model FILE --dataset DATA [options]",
        .description =
            "Runs a trained model over labelled examples. A set that comes with a test part gives that part. A "
            "quotient "
            "without a denominator counts as 0: the precision of a class that was never predicted, the recall of a "
            "class without examples. The macro average is over the classes that have examples or were predicted. "
            "ROC AUC is for two classes, the second one in the table being the positive one. Of a regression RMSE and "
            "MAE are in the target's unit, and R2 is the share of its variance that is explained.",
        .examples = {"tern test --model iris --dataset iris.csv --held-out",
                     "tern test --model digits --dataset mnist --format json"},
        .options = test_options(settings_, model_)};
    Option held_out = switch_option("held-out", "only what the training held out of this very set", held_out_);
    held_out.group = "Data";
    held_out.brief = true;
    verb_.options.insert(verb_.options.begin() + 2, std::move(held_out));
    add_output_options(verb_.options, output_);
  }
  Verb& verb() override { return verb_; }

  int run(const Given&) override {
    expects<UsageError>(!model_.empty(), "--model is missing: a model file or the folder of a run");
    expects<UsageError>(!settings_.dataset.empty(), "--dataset is missing: the examples to test on");
    keep_inputs(output_.file, {model_, settings_.dataset});
    const Device device{settings_.mode, device_options(settings_)};
    const Model model = load_model(model_);
    const Examples set = load_test_data(settings_, model.blueprint, held_out_ ? Part::held_out : Part::all, true);
    expects<FileError>(set.size() > 0, set.name(), ": found no examples to test on");
    const Evaluation evaluation = evaluate(predict(*model.net, model.blueprint, set));
    const std::string unreadable = set.unreadable();
    if (!unreadable.empty()) say(unreadable + "; left out");
    if (output_.format == "json")
      write_output(output_, as_json(evaluation, model.blueprint).dump(2) + "\n");
    else if (output_.format == "csv")
      write_output(output_, as_csv(evaluation, model.blueprint));
    else
      write_output(output_, message(describe_net(model.blueprint), " of ", model.file, " on ", set.name(), "\n\n") +
                                as_table(evaluation, model.blueprint));
    return success;
  }

 private:
  Settings settings_;
  std::string model_;
  bool held_out_ = false;
  Output output_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_test() { return std::make_unique<Test>(); }

}  // namespace tern::tool
