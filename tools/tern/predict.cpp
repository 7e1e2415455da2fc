// `tern predict`: a model's predictions for examples without known classes.

#include "data_sets.hpp"
#include "evaluation.hpp"
#include "model_file.hpp"
#include "names.hpp"
#include "output.hpp"
#include "picture_files.hpp"
#include "predict_sheet.hpp"
#include "tern/modes/device.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

class Predict : public Command {
 public:
  Predict() {
    verb_ = {
        .name = "predict",
        .summary = "Predicts the class of each example, with its probability, or a number.",
        .synopsis = "--model FILE (--dataset DATA | PICTURE...) [options]",
        .description =
            "Runs a trained model over examples. A CSV file may include the target. PICTURE is an image file or a "
            "folder with images at any depth; if a folder around one has the name of a class, that is compared with "
            "the prediction. A regression predicts in the target's unit. The score of a class is its probability "
            "(softmax) if the model was trained on cross-entropy, the sigmoid of the output for binary cross-entropy, "
            "and the output itself for other costs.",
        .examples = {"tern predict --model iris --dataset flowers.csv --format csv --out classes.csv",
                     "tern predict --model digits --dataset mnist --limit 10",
                     "tern predict --model photographs cat.jpg dog.png",
                     "tern predict --model photographs holidays --sheet holidays.html"},
        .options = test_options(settings_, model_),
        .positional = "PICTURE...",
        .positionals = &paths_};
    Option all = switch_option("scores", "the scores of all classes, not only the best", scores_);
    all.group = "Results";
    all.brief = true;
    verb_.options.push_back(std::move(all));
    Option sheet = text_option("sheet", "FILE.html", "a page of the pictures with their classes", sheet_);
    sheet.group = "Results";
    sheet.kind = Value::file;
    sheet.brief = true;
    verb_.options.push_back(std::move(sheet));
    add_output_options(verb_.options, output_);
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(!model_.empty(), "--model is missing: a model file or the folder of a run");
    expects<UsageError>(settings_.dataset.empty() != paths_.empty(),
                        paths_.empty() ? "--dataset is missing: the examples to predict; or name pictures"
                                       : "--dataset and pictures are both set; use one of them");
    for (const std::string& written : {output_.file, sheet_}) {
      keep_inputs(written, {model_, settings_.dataset});
      keep_inputs(written, paths_);
    }
    const Device device{settings_.mode, device_options(settings_)};
    const Model model = load_model(model_);
    const Blueprint& blueprint = model.blueprint;
    expects<UsageError>(!scores_ || !blueprint.regression,
                        "--scores are for classes, but this model predicts a number");
    expects<UsageError>(!blueprint.table || sheet_.empty(), "--sheet is for pictures, but the model takes a table");
    expects<UsageError>(!blueprint.table || paths_.empty(), paths_.empty() ? "" : paths_[0],
                        " is an image, but the model was trained on a table; --dataset names one");
    const Examples set = paths_.empty() ? load_test_data(settings_, blueprint, Part::all, false) : find(blueprint);
    const Prediction prediction = tool::predict(*model.net, blueprint, set);
    if (paths_.empty()) {
      if (const std::string unreadable = set.unreadable(); !unreadable.empty()) say(unreadable + "; left out");
      names_ = {.expected = prediction.actual, .by = "label"};
    } else {
      keep_readable(prediction);
    }
    if (!sheet_.empty()) write_predict_sheet(sheet_, model.file, set, prediction, names_, blueprint);
    if (blueprint.regression)
      write_output(output_, numbers(prediction, blueprint.target_name()));
    else
      write_output(output_, output_.format == "json"  ? json(prediction, blueprint.classes)
                            : output_.format == "csv" ? csv(prediction, blueprint.classes)
                                                      : table(prediction, blueprint.classes));
    if (in_folders() && !settings_.quiet) say(agreement(prediction));
    return success;
  }

 private:
  Examples find(const Blueprint& blueprint) {
    std::vector<PictureFile> files = find_pictures(paths_, blueprint.classes);
    if (settings_.limit > 0 && static_cast<std::size_t>(settings_.limit) < files.size())
      files.resize(static_cast<std::size_t>(settings_.limit));
    names_.by = "folder";
    for (const PictureFile& file : files) {
      names_.files.push_back(file.name);
      names_.expected.push_back(file.named);
    }
    return pictures(files, blueprint, settings_.corrupt == "skip");
  }

  // Keeps the names of the pictures that were predicted.
  void keep_readable(const Prediction& prediction) {
    const SheetNames all = std::exchange(names_, {.by = "folder"});
    std::vector<bool> read(all.files.size());
    for (const std::int64_t row : prediction.rows) {
      const auto i = static_cast<std::size_t>(row);
      names_.files.push_back(all.files[i]);
      names_.expected.push_back(all.expected[i]);
      read[i] = true;
    }
    std::vector<std::string> unreadable;
    for (std::size_t i = 0; i < read.size(); ++i)
      if (!read[i]) unreadable.push_back(all.files[i]);
    if (!unreadable.empty()) say(unreadable_words(unreadable) + "; left out");
    expects<FileError>(unreadable.size() < read.size(), "none of the pictures could be read");
  }

  /// Whether a class is known from the name of a folder.
  bool in_folders() const {
    return !paths_.empty() && std::any_of(names_.expected.begin(), names_.expected.end(),
                                          [](std::int64_t expected) { return expected >= 0; });
  }
  bool differs(const Prediction& prediction, std::size_t row) const {
    return names_.expected[row] >= 0 && names_.expected[row] != prediction.predicted[row];
  }
  std::string folder(std::size_t row, const std::vector<std::string>& classes) const {
    return names_.expected[row] < 0 ? std::string() : classes[static_cast<std::size_t>(names_.expected[row])];
  }
  std::string agreement(const Prediction& prediction) const {
    std::int64_t known = 0, other = 0;
    for (std::size_t i = 0; i < prediction.predicted.size(); ++i) {
      known += names_.expected[i] >= 0;
      other += differs(prediction, i);
    }
    return message(known - other, " of ", counted(known, "picture"), " in folders named after a class ",
                   known - other == 1 ? "is" : "are", " taken for that class");
  }

  /// The number of an example, or its file.
  std::string label(const Prediction& prediction, std::size_t row) const {
    return paths_.empty() ? std::to_string(prediction.rows[row] + 1) : names_.files[row];
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
    for (const std::string& file : names_.files) first = std::max(first, width_of(file));
    std::string text = left_padded("example", first) + "  " + padded("class", width) + "   score";
    if (in_folders()) text += "  " + padded("folder", scores_ ? width + 8 : 6);
    if (scores_)
      for (const std::string& name : classes) text += "  " + left_padded(shortened(name, 12), 12);
    text += "\n";
    for (std::size_t i = 0; i < prediction.predicted.size(); ++i) {
      text += left_padded(label(prediction, i), first) + "  " +
              padded(shortened(name(prediction, i, classes), width), width) +
              left_padded(fixed(static_cast<double>(prediction.score_of(i)), 4), 8);
      if (in_folders())
        text += "  " + padded(shortened(folder(i, classes), width), width) +
                (differs(prediction, i) ? " differs" : std::string(scores_ ? 8 : 0, ' '));
      for (std::size_t c = 0; scores_ && c < classes.size(); ++c)
        text += "  " + left_padded(fixed(score(prediction, i, c), 4), 12);
      text += "\n";
    }
    return text;
  }

  std::string csv(const Prediction& prediction, const std::vector<std::string>& classes) const {
    std::string text = in_folders() ? "example,class,score,folder" : "example,class,score";
    for (std::size_t c = 0; scores_ && c < classes.size(); ++c) text += "," + csv_field("score of " + classes[c]);
    text += "\n";
    for (std::size_t i = 0; i < prediction.predicted.size(); ++i) {
      text += csv_field(label(prediction, i)) + "," + csv_field(name(prediction, i, classes)) + "," +
              fixed(static_cast<double>(prediction.score_of(i)), 6);
      if (in_folders()) text += "," + csv_field(folder(i, classes));
      for (std::size_t c = 0; scores_ && c < classes.size(); ++c) text += "," + fixed(score(prediction, i, c), 6);
      text += "\n";
    }
    return text;
  }

  // For a regression.
  std::string numbers(const Prediction& prediction, const std::string& target) const {
    if (output_.format == "json") {
      Json rows = Json::array();
      for (std::size_t i = 0; i < prediction.values.size(); ++i)
        rows.push_back({{"example", prediction.rows[i] + 1}, {"prediction", prediction.values[i]}});
      return json_text(rows, 1) + "\n";
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
      Json row{{"example", paths_.empty() ? Json(prediction.rows[i] + 1) : Json(names_.files[i])},
               {"class", name(prediction, i, classes)},
               {"score", prediction.score_of(i)}};
      if (in_folders()) row["folder"] = names_.expected[i] < 0 ? Json() : Json(folder(i, classes));
      for (std::size_t c = 0; scores_ && c < classes.size(); ++c) row["scores"][classes[c]] = score(prediction, i, c);
      rows.push_back(std::move(row));
    }
    return json_text(rows, 1) + "\n";
  }

  Settings settings_;
  std::string model_;
  std::vector<std::string> paths_;
  std::string sheet_;
  SheetNames names_;
  bool scores_ = false;
  Output output_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_predict() { return std::make_unique<Predict>(); }

}  // namespace tern::tool
