// `tern predict`: what a model says of examples without known classes.

#include "data_sets.hpp"
#include "evaluation.hpp"
#include "image_folders.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "output.hpp"
#include "tern/modes/device.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Predict : public Command {
 public:
  Predict() {
    verb_ = {.name = "predict",
             .summary = "Says which class each example belongs to and how sure the model is, or which number.",
             .synopsis = "--model FILE (--dataset DATA | IMAGE...) [options]",
             .description =
                 "Runs a trained model over examples. A CSV file may have the target or not. A regression predicts in "
                 "the target's unit. Of classes the score is the "
                 "probability of the class (softmax) where the model was trained on cross-entropy, the sigmoid of the "
                 "output "
                 "for binary cross-entropy, and the output itself for the other costs.",
             .examples = {"tern predict --model iris --dataset flowers.csv --format csv --out classes.csv",
                          "tern predict --model digits --dataset mnist --limit 10",
                          "tern predict --model photographs cat.jpg dog.png"},
             .options = test_options(settings_, model_),
             .positional = "IMAGE...",
             .positionals = &images_};
    Option all = switch_option("scores", "the scores of all classes, not only of the best", scores_);
    all.group = "Results";
    all.brief = true;
    verb_.options.push_back(std::move(all));
    add_output_options(verb_.options, output_);
  }
  Verb& verb() override { return verb_; }

  int run(const Given&) override {
    expects<UsageError>(!model_.empty(), "--model is missing: a model file or the folder of a run");
    expects<UsageError>(settings_.dataset.empty() != images_.empty(),
                        images_.empty() ? "--dataset is missing: the examples to predict; or name image files"
                                        : "--dataset and image files are both given; one of them says what to predict");
    keep_inputs(output_.file, {model_, settings_.dataset});
    keep_inputs(output_.file, images_);
    const Device device{settings_.mode, device_options(settings_)};
    const Model model = load_model(model_);
    Examples set;
    if (images_.empty())
      set = load_test_data(settings_, model.blueprint, Part::all, false);
    else
      set.memory.images = load_image_files(images_, model.blueprint);
    const Prediction prediction = tool::predict(*model.net, model.blueprint, set);
    const std::string unreadable = set.unreadable();
    if (!unreadable.empty()) say(unreadable + "; left out");
    const std::vector<std::string>& classes = model.blueprint.classes;
    expects<UsageError>(!scores_ || !model.blueprint.regression,
                        "--scores are of classes, but this model predicts a number");
    if (model.blueprint.regression)
      write_output(output_, numbers(prediction, model.blueprint.target_name()));
    else
      write_output(output_, output_.format == "json"  ? json(prediction, classes)
                            : output_.format == "csv" ? csv(prediction, classes)
                                                      : table(prediction, classes));
    return success;
  }

 private:
  /// The number of an example, or its file.
  std::string label(const Prediction& prediction, std::size_t row) const {
    return images_.empty() ? std::to_string(prediction.rows[row] + 1) : images_[row];
  }
  const std::string& name(const Prediction& prediction, std::size_t row,
                          const std::vector<std::string>& classes) const {
    return classes[static_cast<std::size_t>(prediction.predicted[row])];
  }
  static double score(const Prediction& prediction, std::size_t row, std::size_t column) {
    return static_cast<double>(prediction.scores[row * static_cast<std::size_t>(prediction.classes) + column]);
  }

  std::string table(const Prediction& prediction, const std::vector<std::string>& classes) const {
    std::size_t width = 6;
    for (const std::string& name : classes) width = std::max(width, std::min<std::size_t>(width_of(name), 30));
    std::size_t first = 8;
    for (const std::string& file : images_) first = std::max(first, width_of(file));
    std::string text = left_padded("example", first) + "  " + padded("class", width) + "   score";
    if (scores_)
      for (const std::string& name : classes) text += "  " + left_padded(shortened(name, 12), 12);
    text += "\n";
    for (std::size_t i = 0; i < prediction.predicted.size(); ++i) {
      text += left_padded(label(prediction, i), first) + "  " +
              padded(shortened(name(prediction, i, classes), width), width) +
              left_padded(fixed(static_cast<double>(prediction.score_of(i)), 4), 8);
      for (std::size_t c = 0; scores_ && c < classes.size(); ++c)
        text += "  " + left_padded(fixed(score(prediction, i, c), 4), 12);
      text += "\n";
    }
    return text;
  }

  std::string csv(const Prediction& prediction, const std::vector<std::string>& classes) const {
    std::string text = "example,class,score";
    for (std::size_t c = 0; scores_ && c < classes.size(); ++c) text += "," + csv_field("score of " + classes[c]);
    text += "\n";
    for (std::size_t i = 0; i < prediction.predicted.size(); ++i) {
      text += csv_field(label(prediction, i)) + "," + csv_field(name(prediction, i, classes)) + "," +
              fixed(static_cast<double>(prediction.score_of(i)), 6);
      for (std::size_t c = 0; scores_ && c < classes.size(); ++c) text += "," + fixed(score(prediction, i, c), 6);
      text += "\n";
    }
    return text;
  }

  // Of a regression.
  std::string numbers(const Prediction& prediction, const std::string& target) const {
    if (output_.format == "json") {
      Json rows = Json::array();
      for (std::size_t i = 0; i < prediction.values.size(); ++i)
        rows.push_back({{"example", prediction.rows[i] + 1}, {"prediction", prediction.values[i]}});
      return rows.dump(1) + "\n";
    }
    const bool csv = output_.format == "csv";
    std::size_t width = width_of(target);
    for (const double value : prediction.values) width = std::max(width, number_text(value).size());
    std::string text = csv ? "example,prediction\n" : " example  " + left_padded(target, width) + "\n";
    for (std::size_t i = 0; i < prediction.values.size(); ++i) {
      const std::string value = number_text(prediction.values[i]);
      text += csv ? message(label(prediction, i), ",", value, "\n")
                  : left_padded(label(prediction, i), 8) + "  " + left_padded(value, width) + "\n";
    }
    return text;
  }

  std::string json(const Prediction& prediction, const std::vector<std::string>& classes) const {
    Json rows = Json::array();
    for (std::size_t i = 0; i < prediction.predicted.size(); ++i) {
      Json row{{"example", images_.empty() ? Json(prediction.rows[i] + 1) : Json(images_[i])},
               {"class", name(prediction, i, classes)},
               {"score", prediction.score_of(i)}};
      for (std::size_t c = 0; scores_ && c < classes.size(); ++c) row["scores"][classes[c]] = score(prediction, i, c);
      rows.push_back(std::move(row));
    }
    return rows.dump(1) + "\n";
  }

  Settings settings_;
  std::string model_;
  std::vector<std::string> images_;
  bool scores_ = false;
  Output output_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_predict() { return std::make_unique<Predict>(); }

}  // namespace tern::tool
