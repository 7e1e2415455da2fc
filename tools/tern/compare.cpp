// `tern compare`: the settings and results of runs.

#include <algorithm>
#include <optional>
#include <set>

#include "errors.hpp"
#include "evaluation.hpp"
#include "output.hpp"
#include "run_folder.hpp"
#include "text.hpp"
#include "verbs.hpp"

namespace tern::tool {

namespace {

constexpr std::size_t widest_cell = 32;

/// A run, read from the events of its metrics. The file may come from anywhere: non-numbers are skipped.
struct Summary {
  std::string name, state = "not finished";
  Json settings = Json::object();
  std::string data = {};
  std::optional<double> training_loss = {}, loss = {}, accuracy = {}, r2 = {};
  std::int64_t epochs = 0;
  double seconds = 0;  // of its steps
};

std::optional<double> number_in(const Json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::string word_in(const Json& event, const char* name) {
  const auto found = event.find(name);
  return found != event.end() && found->is_string() ? found->get<std::string>() : std::string();
}

void take(Summary& run, const Json& event) {
  if (!event.is_object()) return;
  const std::string kind = word_in(event, "event");
  if (kind == "start") {
    if (event.contains("settings") && event["settings"].is_object()) run.settings = event["settings"];
    if (event.contains("data") && event["data"].is_object()) run.data = word_in(event["data"], "source");
  } else if (kind == "epoch") {
    run.epochs = static_cast<std::int64_t>(std::clamp(number_in(event, "epoch").value_or(0), 0.0, 1e15));
    run.seconds += number_in(event, "seconds").value_or(0);
    run.training_loss = number_in(event, "loss");
    run.loss = number_in(event, "validation_loss");
    run.accuracy = number_in(event, "validation_accuracy");
    run.r2 = number_in(event, "validation_r2");
  } else if (kind == "interrupt") {
    run.state = "interrupted";
  } else if (kind == "resume") {
    run.state = "not finished";
  } else if (kind == "end") {
    run.state = word_in(event, "reason");
    run.training_loss = number_in(event, "training_loss");
    run.loss = number_in(event, "loss");
    run.accuracy = number_in(event, "accuracy");
    run.r2 = number_in(event, "r2");
  }
}

std::string setting_of(const Summary& run, const std::string& name) {
  const auto found = run.settings.find(name);
  if (found == run.settings.end()) return "-";
  const auto text = [](const Json& value) {
    return value.is_string()         ? value.get<std::string>()
           : value.is_number_float() ? number_text(value.get<double>())
                                     : value.dump();
  };
  if (!found->is_array()) return text(*found);
  std::string all;
  for (const Json& value : *found) all += (all.empty() ? "" : ",") + text(value);
  return all;
}

/// The settings that differ between runs, in the order in which a run writes them.
std::vector<std::string> differing_settings(const std::vector<Summary>& runs) {
  std::vector<std::string> names;
  for (const Summary& run : runs)
    for (const auto& [name, value] : run.settings.items()) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      std::set<std::string> values;
      for (const Summary& other : runs) values.insert(setting_of(other, name));
      if (values.size() > 1) names.push_back(name);
    }
  return names;
}

/// Best first, if one figure ranks them: for the same data, and of one kind.
void rank(std::vector<Summary>& runs) {
  const auto all = [&](auto member) {
    return std::all_of(runs.begin(), runs.end(), [&](const Summary& run) { return (run.*member).has_value(); });
  };
  if (std::any_of(runs.begin(), runs.end(), [&](const Summary& run) { return run.data != runs[0].data; })) return;
  for (const auto figure : {&Summary::accuracy, &Summary::r2})
    if (all(figure))
      std::stable_sort(runs.begin(), runs.end(),
                       [&](const Summary& a, const Summary& b) { return *(a.*figure) > *(b.*figure); });
}

class Compare : public Command {
 public:
  Compare() {
    verb_ = {.name = "compare",
             .summary = "Compares the settings and results of runs.",
             .synopsis = "RUN... [OPTIONS]",
             .description =
                 "A line for each run: the settings that differ, and loss and accuracy (R2 of a regression) "
                 "on the validation or test part. Runs on the same data are listed best first. tern report with "
                 "the same folders draws their curves over each other.",
             .examples = {"tern compare runs/a runs/b", "tern compare tune/trial-* --format csv --out trials.csv"},
             .options = {},
             .positional = "RUN...",
             .positionals = &folders_};
    add_output_options(verb_.options, output_);
  }
  Verb& verb() override { return verb_; }

  int run(const OptionNames&) override {
    expects<UsageError>(folders_.size() >= 2, "tern compare needs the folders of two or more runs");
    keep_inputs(output_.file, folders_);
    std::vector<Summary> runs;
    for (const std::string& folder : folders_) {
      Summary run{.name = folder};
      std::size_t events = 0;
      read_metrics(folder, [&](const Json& event) {
        take(run, event);
        ++events;
      });
      expects<FileError>(events > 0, RunFolder::metrics_in(folder), ": found no events");
      runs.push_back(std::move(run));
    }
    rank(runs);
    const std::vector<std::string> names = differing_settings(runs);
    write_output(output_, output_.format == "json"  ? as_json(runs, names)
                          : output_.format == "csv" ? as_csv(runs, names)
                                                    : as_table(runs, names));
    return success;
  }

 private:
  static std::string as_json(const std::vector<Summary>& runs, const std::vector<std::string>& names) {
    Json all = Json::array();
    for (const Summary& run : runs) {
      Json entry{{"run", run.name}, {"settings", Json::object()}, {"state", run.state}, {"epochs_done", run.epochs}};
      for (const std::string& name : names)
        entry["settings"][name] = run.settings.contains(name) ? run.settings[name] : Json();
      const auto add = [&](const char* name, const std::optional<double>& value) {
        entry[name] = value ? Json(*value) : Json();
      };
      add("training_loss", run.training_loss);
      add("loss", run.loss);
      add(run.r2 ? "r2" : "accuracy", run.r2 ? run.r2 : run.accuracy);
      entry["seconds"] = run.seconds;
      all.push_back(std::move(entry));
    }
    return json_text(all, 2) + "\n";
  }

  static std::string as_csv(const std::vector<Summary>& runs, const std::vector<std::string>& names) {
    std::string text = "run";
    for (const std::string& name : names) text += "," + csv_field(name);
    text += ",state,epochs_done,training_loss,loss,accuracy,r2,seconds\n";
    const auto figure = [](const std::optional<double>& value) { return value ? number_text(*value) : std::string(); };
    for (const Summary& run : runs) {
      text += csv_field(run.name);
      for (const std::string& name : names) text += "," + csv_field(setting_of(run, name));
      text += "," + csv_field(run.state) +
              message(",", run.epochs, ",", figure(run.training_loss), ",", figure(run.loss), ",", figure(run.accuracy),
                      ",", figure(run.r2), ",", fixed(run.seconds, 2), "\n");
    }
    return text;
  }

  static std::string as_table(const std::vector<Summary>& runs, const std::vector<std::string>& names) {
    const auto any = [&](auto member) {
      return std::any_of(runs.begin(), runs.end(), [&](const Summary& run) { return (run.*member).has_value(); });
    };
    const auto figure = [](const std::optional<double>& value, const char* unit = "") {
      return !value ? std::string("-") : *unit != 0 ? fixed(100 * *value, 2) + unit : number_text(*value);
    };
    std::vector<std::vector<std::string>> rows(runs.size() + 1);
    rows[0].emplace_back("run");
    rows[0].insert(rows[0].end(), names.begin(), names.end());
    rows[0].insert(rows[0].end(), {"done", "training loss", "loss"});
    if (any(&Summary::accuracy)) rows[0].emplace_back("accuracy");
    if (any(&Summary::r2)) rows[0].emplace_back("R2");
    rows[0].insert(rows[0].end(), {"time", "state"});
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Summary& run = runs[i];
      std::vector<std::string>& row = rows[i + 1];
      row.push_back(run.name);
      for (const std::string& name : names) row.push_back(shortened(setting_of(run, name), widest_cell));
      row.insert(row.end(), {counted(run.epochs, "epoch"), figure(run.training_loss), figure(run.loss)});
      if (any(&Summary::accuracy)) row.push_back(figure(run.accuracy, " %"));
      if (any(&Summary::r2)) row.push_back(figure(run.r2));
      row.insert(row.end(), {duration(run.seconds), run.state});
    }
    std::string text;
    for (const auto& row : rows) {
      std::string line;
      for (std::size_t column = 0; column < row.size(); ++column) {
        std::size_t width = 0;
        for (const auto& other : rows) width = std::max(width, width_of(other[column]));
        line += column + 1 == row.size() ? row[column] : padded(row[column], width + 2);
      }
      text += line + "\n";
    }
    if (names.empty()) text += "All settings are the same.\n";
    return text;
  }

  std::vector<std::string> folders_;
  Output output_;
  Verb verb_;
};

}  // namespace

std::unique_ptr<Command> make_compare() { return std::make_unique<Compare>(); }

}  // namespace tern::tool
