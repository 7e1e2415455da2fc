#include "tune_table.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <iomanip>

#include "evaluation.hpp"
#include "page.hpp"
#include "progress.hpp"
#include "run_folder.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

constexpr double interval = 0.2;
constexpr std::size_t most_rows = 20, other_columns = 50;

std::string figure(const std::optional<double>& value, double factor, int digits) {
  return value ? fixed(factor * *value, digits) : "-";
}

// A diverged loss takes no more room than others.
std::string loss_text(double loss) {
  PlainStream text;
  text << std::setprecision(std::abs(loss) < 1000 ? 4 : 1) << (std::abs(loss) < 1000 ? std::fixed : std::scientific)
       << loss;
  return text.str();
}

// "accuracy 98.76 %", or "R2 0.4321": its name and the figure.
const char* quality_name(const TunePlan& plan) { return plan.regression ? "R2" : "accuracy"; }
std::string quality(const TunePlan& plan, const std::optional<double>& value) {
  return plan.regression ? figure(value, 1, 4) : figure(value, 100, 2) + " %";
}

std::vector<std::string> option_names(const TunePlan& plan) {
  std::vector<std::string> names;
  for (const Trial& trial : plan.trials)
    for (const auto& [name, value] : trial.values)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

std::string value_of(const Trial& trial, const std::string& name) {
  for (const auto& [option, value] : trial.values)
    if (option == name) return value;
  return {};
}

bool settled(TrialState state) {
  return state == TrialState::done || state == TrialState::failed || state == TrialState::dropped;
}

}  // namespace

std::string trial_folder(std::size_t trial) {
  const std::string number = std::to_string(trial + 1);
  return "trial-" + std::string(number.size() < 3 ? 3 - number.size() : 0, '0') + number;
}

TuneTable::TuneTable(const TunePlan& plan, bool quiet)
    : plan_(plan),
      quiet_(quiet),
      terminal_(redraws(STDERR_FILENO)),
      colour_(coloured(STDERR_FILENO)),
      began_(seconds_now()),
      reported_(plan.trials.size(), TrialState::waiting) {}

void TuneTable::update(const TuneRunner& runner) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  if (!terminal_) return tell(runner.status());
  const double now = seconds_now();
  if (now < next_) return;
  next_ = now + interval;
  draw(runner, false);
}

void TuneTable::finish(const TuneRunner& runner) {
  if (quiet_) return;
  const std::lock_guard lock(mutex_);
  if (!terminal_) return tell(runner.status());
  draw(runner, true);
  lines_ = 0;
}

void TuneTable::tell(const std::vector<TrialStatus>& status) {
  for (std::size_t i = 0; i < status.size(); ++i) {
    if (status[i].state == reported_[i] || !settled(status[i].state)) continue;
    reported_[i] = status[i].state;
    std::string line = message(trial_folder(i), " ", name_of(status[i].state), ": ", describe(plan_.trials[i]));
    if (status[i].state == TrialState::failed)
      line += "; " + status[i].problem;
    else
      line += message("; ", quality_name(plan_), " ", quality(plan_, status[i].accuracy), ", loss ",
                      loss_text(status[i].validation_loss.value_or(status[i].loss)), ", ",
                      counted(status[i].epoch, "epoch"));
    say(line);
  }
}

void TuneTable::draw(const TuneRunner& runner, bool all) {
  const std::vector<TrialStatus> status = runner.status();
  const std::size_t columns = terminal_width() - 1;
  const std::vector<std::string> names = option_names(plan_);
  // One column per option, all of one width if they do not fit.
  std::vector<std::size_t> widths;
  const std::size_t share =
      columns > other_columns ? (columns - other_columns) / std::max<std::size_t>(names.size(), 1) : 0;
  for (const std::string& name : names) {
    std::size_t width = width_of(name);
    for (const Trial& trial : plan_.trials) width = std::max(width, width_of(value_of(trial, name)));
    widths.push_back(std::clamp<std::size_t>(width, 3, std::max<std::size_t>(share, 5) - 2));
  }
  const auto row = [&](const std::string& number, const auto& value, const std::string& rest) {
    std::string text = left_padded(number, 5);
    for (std::size_t i = 0; i < names.size(); ++i)
      text += "  " + padded(shortened(visible(value(names[i])), widths[i]), widths[i]);
    return shortened(text + rest, columns);
  };

  std::string text;
  // Moves up and overwrites the previous table.
  if (lines_ > 0) text += message("\033[", lines_, "A\r\033[J");
  text += row(
              "trial", [](const std::string& name) { return name; },
              "  state       epoch     loss" + left_padded(quality_name(plan_), 10) + "   time") +
          "\n";
  const std::vector<std::size_t> ranking = runner.ranking();
  std::vector<std::size_t> order = ranking;
  // Running ones first, then the best.
  std::stable_partition(order.begin(), order.end(),
                        [&](std::size_t i) { return status[i].state == TrialState::running; });
  std::size_t rows = 0, finished = 0;
  for (const std::size_t i : order) {
    const TrialStatus& trial = status[i];
    finished += settled(trial.state);
    if (!all && rows == most_rows) continue;
    ++rows;
    const bool ran = trial.epoch > 0;
    const std::string rest =
        "  " + padded(name_of(trial.state), 8) + left_padded(message(trial.epoch, "/", *plan_.settings[i].epochs), 9) +
        left_padded(ran ? loss_text(trial.validation_loss.value_or(trial.loss)) : "-", 9) +
        left_padded(ran ? quality(plan_, trial.accuracy) : "-", 10) + left_padded(duration(trial.seconds), 7);
    const bool best = colour_ && i == ranking.front() && ran;
    text += (best ? "\033[32m" : "") +
            row(
                std::to_string(i + 1), [&](const std::string& name) { return value_of(plan_.trials[i], name); }, rest) +
            (best ? "\033[0m" : "") + "\n";
  }
  lines_ = 2 + rows;
  if (rows < order.size()) {
    text += message("       and ", order.size() - rows, " more\n");
    ++lines_;
  }
  text += shortened(message(finished, " of ", order.size(), " trials finished, ", duration(seconds_now() - began_),
                            " so far, ", plan_.jobs * plan_.devices.size(), " at a time", plan_.shared ? " here" : ""),
                    columns) +
          "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

std::string tune_csv(const TunePlan& plan, const TuneRunner& runner, const std::string& folder) {
  const std::vector<std::string> names = option_names(plan);
  std::string text = "trial";
  for (const std::string& name : names) text += "," + name;
  const std::vector<TrialStatus> status = runner.status();
  const std::string figure = plan.regression ? "r2" : "accuracy";
  const bool tested = std::any_of(plan.settings.begin(), plan.settings.end(),
                                  [](const Settings& settings) { return settings.test_fraction > 0; });
  text += message(",state,", figure) + ",validation_loss,training_loss,epochs,seconds,run,problem" +
          (tested ? message(",test_", figure) : std::string()) + "\n";
  for (const std::size_t i : runner.ranking()) {
    text += std::to_string(i + 1);
    for (const std::string& name : names) text += "," + csv_field(value_of(plan.trials[i], name));
    const TrialStatus& trial = status[i];
    const bool ran = trial.epoch > 0;
    text += std::string(",") + name_of(trial.state) + "," + (ran && trial.accuracy ? fixed(*trial.accuracy, 6) : "") +
            "," + (ran && trial.validation_loss ? fixed(*trial.validation_loss, 6) : "") + "," +
            (ran ? fixed(trial.loss, 6) : "") + "," + std::to_string(trial.epoch) + "," + fixed(trial.seconds, 2) +
            "," + csv_field(folder + "/" + trial_folder(i)) + "," + csv_field(trial.problem);
    if (tested) text += trial.test ? "," + fixed(*trial.test, 6) : ",";
    text += "\n";
  }
  return text;
}

std::string tune_report(const TunePlan& plan, const TuneRunner& runner) {
  std::vector<PageRun> runs;
  for (const std::size_t i : runner.ranking()) {
    if (runner.status()[i].epoch == 0) continue;
    PageRun run{trial_folder(i) + ": " + describe(plan.trials[i]), {}};
    read_metrics(plan.settings[i].run, [&](Json event) {
      if (event.value("event", Json()) == "step") return;
      event.erase("pictures");
      if (!runs.empty()) event.erase("confusion");
      run.lines.push_back(json_text(event));
    });
    runs.push_back(std::move(run));
  }
  return runs.empty() ? std::string() : page(runs);
}

std::string tune_best(const TunePlan& plan, const TuneRunner& runner) {
  const std::size_t best = runner.ranking().front();
  const TrialStatus status = runner.status()[best];
  if (status.state != TrialState::done) return "no trial finished; the error of the first: " + status.problem;
  return message("best: ", describe(plan.trials[best]), "; ", quality_name(plan), " ", quality(plan, status.accuracy),
                 ", loss ", fixed(status.validation_loss.value_or(status.loss), 4),
                 status.test ? message("; of the test part ", quality(plan, status.test)) : "", ", in ",
                 plan.settings[best].run);
}

}  // namespace tern::tool
