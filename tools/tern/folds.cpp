#include "folds.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <vector>

#include "errors.hpp"
#include "evaluation.hpp"
#include "folder_lock.hpp"
#include "output.hpp"
#include "run_folder.hpp"
#include "run_session.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

namespace fs = std::filesystem;

struct Fold {
  std::string run = {};
  std::int64_t training = 0, held_out = 0, epochs = 0;
  double seconds = 0;
  std::vector<double> figures = {};  // in the order of their names
};

std::vector<std::string> figure_names(bool regression) {
  return regression ? std::vector<std::string>{"r2", "rmse", "mae", "loss"}
                    : std::vector<std::string>{"accuracy", "loss"};
}

double number_in(const Json& event, const std::string& name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_number() ? found->get<double>() : std::nan("");
}

Fold read_fold(const std::string& run, const std::vector<std::string>& names) {
  Fold fold{.run = run};
  read_metrics(run, [&](const Json& event) {
    const std::string kind = event.value("event", "");
    if (kind == "start" && event.contains("data")) {
      fold.training = event["data"].value("training_examples", std::int64_t{0});
      fold.held_out = event["data"].value("validation_examples", std::int64_t{0});
    } else if (kind == "end") {
      fold.figures.clear();
      for (const std::string& name : names) fold.figures.push_back(number_in(event, name));
      fold.epochs = event.value("best_epoch", event.value("epochs", std::int64_t{0}));
      fold.seconds = number_in(event, "seconds");
    }
  });
  expects<FileError>(!fold.figures.empty(), RunFolder::metrics_in(run), ": found no end of the training");
  return fold;
}

bool is_regression(const std::string& run) {
  bool regression = false;
  read_metrics(run, [&](const Json& event) {
    if (event.value("event", "") == "start" && event.contains("data"))
      regression = event["data"].value("task", "") == "regression";
  });
  return regression;
}

// Over the folds; the deviation is that of a sample.
struct Spread {
  double mean = 0, deviation = 0;
};
Spread spread_of(const std::vector<Fold>& folds, std::size_t figure) {
  Spread found;
  const auto count = static_cast<double>(folds.size());
  for (const Fold& fold : folds) found.mean += fold.figures[figure] / count;
  for (const Fold& fold : folds) found.deviation += std::pow(fold.figures[figure] - found.mean, 2) / (count - 1);
  found.deviation = std::sqrt(found.deviation);
  return found;
}

std::string as_table(const std::vector<Fold>& folds, const std::vector<std::string>& names) {
  std::string text = "fold       examples   epochs";
  for (const std::string& name : names)
    text += left_padded(name == "r2" ? "R2" : name == "rmse" ? "RMSE" : name == "mae" ? "MAE" : name, 12);
  const auto row = [&](const std::string& head, const auto& value) {
    text += "\n" + head;
    for (std::size_t i = 0; i < names.size(); ++i)
      text += left_padded(names[i] == "rmse" || names[i] == "mae" ? number_text(value(i)) : fixed(value(i), 4), 12);
  };
  for (std::size_t f = 0; f < folds.size(); ++f)
    row(padded(std::to_string(f + 1), 9) + left_padded(std::to_string(folds[f].held_out), 10) +
            left_padded(std::to_string(folds[f].epochs), 9),
        [&](std::size_t i) { return folds[f].figures[i]; });
  row(padded("mean", 28), [&](std::size_t i) { return spread_of(folds, i).mean; });
  row(padded("deviation", 28), [&](std::size_t i) { return spread_of(folds, i).deviation; });
  return text + "\n";
}

std::string as_csv(const std::vector<Fold>& folds, const std::vector<std::string>& names) {
  std::string text = "fold";
  for (const std::string& name : names) text += "," + name;
  text += ",examples,epochs,seconds,run\n";
  for (std::size_t f = 0; f < folds.size(); ++f) {
    text += std::to_string(f + 1);
    for (const double figure : folds[f].figures) text += "," + number_text(figure);
    text += message(",", folds[f].held_out, ",", folds[f].epochs, ",", fixed(folds[f].seconds, 2), ",",
                    csv_field(folds[f].run), "\n");
  }
  for (const bool mean : {true, false}) {
    text += mean ? "mean" : "deviation";
    for (std::size_t i = 0; i < names.size(); ++i)
      text += "," + number_text(mean ? spread_of(folds, i).mean : spread_of(folds, i).deviation);
    text += ",,,,\n";
  }
  return text;
}

Json as_json(const std::vector<Fold>& folds, const std::vector<std::string>& names) {
  const auto number = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  Json result{{"folds", Json::array()}, {"mean", Json::object()}, {"deviation", Json::object()}};
  for (std::size_t f = 0; f < folds.size(); ++f) {
    Json fold{{"fold", f + 1}, {"examples", folds[f].held_out}, {"epochs", folds[f].epochs}, {"run", folds[f].run}};
    for (std::size_t i = 0; i < names.size(); ++i) fold[names[i]] = number(folds[f].figures[i]);
    result["folds"].push_back(std::move(fold));
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Spread found = spread_of(folds, i);
    result["mean"][names[i]] = number(found.mean);
    result["deviation"][names[i]] = number(found.deviation);
  }
  return result;
}

std::string run_of(const std::string& folder, std::int64_t fold) { return message(folder, "/fold-", fold); }

// With the settings that the folds were begun with, if they are resumed.
void take_settings(const Options& options, const OptionNames& chosen, const std::string& folder) {
  const std::string config = RunFolder::config_in(folder);
  const Json saved = read_json_file(config);
  expects<FileError>(saved.is_object(), config, ": the settings are not a JSON object");
  expect_same(options, chosen, decides_training, saved, folder);
  apply_config(options, saved, config, chosen);
}

void check(const Settings& settings) {
  expects<UsageError>(settings.parallel == "threads" && settings.restarts == 0,
                      "--folds trains in one process; --fold N trains one of them in several, or with --restarts");
  expects<UsageError>(settings.model.empty(), "--model is one file, but --folds trains ", settings.folds,
                      " models; each is in the folder of its fold");
}

}  // namespace

bool holds_folds(const std::string& folder) {
  std::error_code missing;
  const std::string config = RunFolder::config_in(folder);
  if (!fs::exists(config, missing)) return false;
  const Json saved = read_json_file(config);
  if (!saved.is_object()) return false;
  const auto number = [&](const char* name) {
    return saved.contains(name) && saved[name].is_number_integer() ? saved[name].get<std::int64_t>() : 0;
  };
  return number("folds") > 0 && number("fold") == 0;
}

int train_folds(Settings& settings, const Options& options, const OptionNames& chosen,
                const std::function<int()>& train) {
  const std::string folder = RunFolder::path_of(settings);
  check(settings);
  RunFolder place(folder);
  const FolderLock lock(folder);
  const bool resume = settings.resume && holds_folds(folder);
  if (resume)
    take_settings(options, chosen, folder);
  else if (place.begin() && !settings.quiet)
    say(message("The training that was in ", folder, " is now in ", folder, "/previous."));
  settings.fold = 0;
  if (!resume) {
    Json config = to_config(options);
    for (const char* name : {"run", "resume", "quiet", "verbose", "dashboard", "port", "config"}) config.erase(name);
    write_file(RunFolder::config_in(folder), json_text(config, 2) + "\n");
  }
  const Settings whole = settings;
  for (std::int64_t fold = 1; fold <= whole.folds; ++fold) {
    settings = whole;
    settings.fold = fold;
    settings.run = run_of(folder, fold);
    std::error_code missing;
    settings.resume = resume && fs::exists(settings.run, missing);
    if (!settings.quiet) say(message("Fold ", fold, " of ", whole.folds));
    if (const int code = train(); code != success) {
      say(message("Fold ", fold, " of ", whole.folds, " did not finish. To continue: tern train --resume --run ",
                  shell_word(folder)));
      return code;
    }
  }
  const std::vector<std::string> names = figure_names(is_regression(run_of(folder, 1)));
  std::vector<Fold> folds;
  for (std::int64_t fold = 1; fold <= whole.folds; ++fold) folds.push_back(read_fold(run_of(folder, fold), names));
  const Json results = as_json(folds, names);
  write_file(folder + "/results.csv", as_csv(folds, names));
  write_file(folder + "/results.json", json_text(results, 2) + "\n");
  place.resume(0);  // one event, that of these results
  Json event{{"event", "folds"}};
  event.update(results);
  place.write(event);
  print(as_table(folds, names) + "results in " + folder + "/results.csv\nnext: tern report " + shell_word(folder) +
        "\n");
  return success;
}

}  // namespace tern::tool
