// tern tune: searches, and the experiment of one after another against all at once.

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "tune_plan.hpp"
#include "tune_runner.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using namespace tool;
namespace fs = std::filesystem;

namespace {

std::vector<Dimension> grid(const std::vector<std::string>& texts, const std::vector<std::string>& ranges = {}) {
  Settings settings;
  const Options options = training_options(settings);
  std::vector<Dimension> dimensions;
  for (const std::string& text : texts) add_grid(dimensions, text, options);
  for (const std::string& text : ranges) add_range(dimensions, text, options);
  return dimensions;
}

std::string problem_of(const std::vector<std::string>& texts, const std::vector<std::string>& ranges = {}) {
  return said<Error>([&] { every_combination(grid(texts, ranges)); });
}

std::vector<std::string> lines_of(const std::string& file) {
  std::istringstream stream(read_bytes(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// results.csv without the seconds, which no two runs share.
std::vector<std::string> results_of(const std::string& run) {
  std::vector<std::string> lines = lines_of(run + "/results.csv");
  for (std::string& line : lines) {
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
    line.clear();
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (i + 3 != fields.size() && i + 2 != fields.size() && i + 1 != fields.size()) line += fields[i] + ",";
  }
  return lines;
}

}  // namespace

TEST_CASE("tune: a grid is every combination", "[tools][tune]") {
  const auto trials = every_combination(grid({"learning-rate=0.1,0.01", "layers=4,8,3|4,16,3", "seed=1,2"}));
  CHECK(trials.size() == 8);
  CHECK(describe(trials[0]) == "learning-rate 0.1, layers 4,8,3, seed 1");
  CHECK(describe(trials[7]) == "learning-rate 0.01, layers 4,16,3, seed 2");
  CHECK(every_combination(grid({"layers=4,8,3", "layers=4,9,3"})).size() == 2);
  CHECK(every_combination(grid({"batch_number=4,8"}))[1].values[0].first == "batch-size");
  CHECK(trials_from(to_json(trials), "f") == trials);
}

TEST_CASE("tune: random trials lie in their ranges, differ, and repeat with the seed", "[tools][tune]") {
  const auto dimensions = grid({"optimizer=sgd,adam"},
                               {"learning-rate=0.0001:0.1", "batch-size=4:64", "dropout=0:0.5", "weight-decay=0:1"});
  const auto trials = drawn_combinations(dimensions, 200, 5);
  REQUIRE(trials.size() == 200);
  CHECK(drawn_combinations(dimensions, 200, 5) == trials);
  CHECK(drawn_combinations(dimensions, 200, 6) != trials);
  int small = 0;
  std::set<std::string> fractions;
  for (const Trial& trial : trials) {
    const double rate = std::stod(trial.values[1].second), decay = std::stod(trial.values[4].second);
    CHECK(rate >= 0.0001);
    CHECK(rate <= 0.1);
    small += rate < 0.00316;  // the middle of a logarithmic range
    CHECK(trial.values[2].second.find('.') == std::string::npos);
    CHECK(std::stoi(trial.values[2].second) >= 4);
    CHECK(std::stoi(trial.values[2].second) <= 64);
    CHECK(decay <= 1);
    fractions.insert(trial.values[4].second);
  }
  CHECK(small > 70);
  CHECK(small < 130);
  CHECK(fractions.size() > 100);  // of a number that takes fractions
  CHECK(drawn_combinations(grid({"seed=1,2,3"}), 100, 1).size() == 3);
}

TEST_CASE("tune: what makes no sense is refused with its name", "[tools][tune]") {
  CHECK_THAT(problem_of({"learning-rate"}), ContainsSubstring("expected NAME=VALUES"));
  CHECK_THAT(problem_of({"lerning-rate=1"}),
             ContainsSubstring("there is no option lerning-rate; did you mean learning-rate?"));
  CHECK_THAT(problem_of({"learning-rate=0.1,x"}), ContainsSubstring("--grid: --learning-rate: found 'x'"));
  CHECK_THAT(problem_of({"learning-rate=0.1,0.1"}), ContainsSubstring("has 0.1 twice"));
  CHECK_THAT(problem_of({"run=a,b"}), ContainsSubstring("run is the same for all trials"));
  CHECK_THAT(problem_of({}, {"dropout=0:0.5"}), ContainsSubstring("--range dropout needs --random N"));
  CHECK_THAT(problem_of({}, {"dropout=0.5:0"}), ContainsSubstring("expected LOW below HIGH"));
  CHECK_THAT(problem_of({}, {"dropout=0:0.5:log"}), ContainsSubstring("expected a logarithmic range above 0"));
  CHECK_THAT(problem_of({}, {"dropout=0"}), ContainsSubstring("expected NAME=LOW:HIGH"));
  CHECK_THAT(problem_of({"dropout=0"}, {"dropout=0:0.5"}), ContainsSubstring("more than once"));
}

TEST_CASE("tune: figures that are not numbers rank last and break no order", "[tools][tune]") {
  std::vector<TrialStatus> trials;
  const auto add = [&](TrialState state, double accuracy, double loss) {
    trials.push_back({.state = state, .epoch = 1, .loss = loss, .accuracy = accuracy});
  };
  add(TrialState::done, NAN, 0.1);
  add(TrialState::done, 0.5, NAN);
  add(TrialState::failed, 0.9, 0.1);
  add(TrialState::done, 0.5, 0.7);
  add(TrialState::done, NAN, NAN);
  add(TrialState::done, 0.8, 0.9);
  add(TrialState::dropped, 0.9, 0.1);
  CHECK(ranked(trials) == std::vector<std::size_t>{5, 3, 1, 0, 4, 6, 2});
}

TEST_CASE("tune: the best comes first, in the table, in the CSV and in the page", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(120));
  const Outcome found =
      tern({"tune", "--dataset", "c.csv", "--epochs", "6", "--grid", "learning-rate=0.000001,0.01,100000", "--grid",
            "activation=relu,linear", "--optimizer", "sgd", "--run", "t"},
           {.folder = folder.path(), .environment = {"TERM=xterm"}, .terminal = true});
  INFO(found.err);
  REQUIRE(found.code == 0);
  CHECK_THAT(found.out, ContainsSubstring("best: learning-rate 0.01, activation "));
  CHECK_THAT(found.err, ContainsSubstring("6 of 6 trials finished"));
  CHECK_THAT(found.err, ContainsSubstring("failed"));
  const auto lines = lines_of(folder / "t/results.csv");
  REQUIRE(lines.size() == 7);
  CHECK(lines[0] ==
        "trial,learning-rate,activation,state,accuracy,validation_loss,training_loss,epochs,seconds,run,problem");
  CHECK_THAT(lines[1], ContainsSubstring(",0.01,"));
  CHECK_THAT(lines[6], ContainsSubstring("100000"));
  CHECK_THAT(lines[6], ContainsSubstring("the loss is"));
  CHECK(fs::exists(folder / "t/report.html"));
  CHECK(tern({"test", "--model", "t/trial-003", "--dataset", "c.csv"}, {.folder = folder.path()}).code == 0);
  // Trials that cannot work are found before any is trained.
  const Outcome wrong =
      tern({"tune", "--dataset", "c.csv", "--grid", "layers=3,8,3|4,8,3", "--run", "w"}, {.folder = folder.path()});
  CHECK(wrong.code == 2);
  CHECK_THAT(wrong.err, ContainsSubstring("trial 2 (layers 4,8,3): --layers begins with 4"));
  CHECK_FALSE(fs::exists(folder / "w"));
}

TEST_CASE("tune: trials at once are the trials one by one, bit for bit", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(120));
  const Outcome compared = tern(
      {"tune", "--compare-serial", "--dataset", "c.csv", "--epochs", "5", "--dropout", "0.2", "--grid", "seed=1,2,3,4"},
      {.folder = folder.path()});
  INFO(compared.err);
  REQUIRE(compared.code == 0);
  CHECK_THAT(compared.out, ContainsSubstring("4 trainings in mode "));
  CHECK_THAT(compared.out, ContainsSubstring("4 of 4 models are the same in both, bit for bit"));
}

TEST_CASE("tune: without a grid the networks of the study are compared", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const std::vector<std::string> compare{"tune", "--compare-serial", "--dataset", "c.csv", "--epochs",
                                         "1",    "--limit",          "20"};
  const Outcome compared = tern(compare, {.folder = folder.path()});
  INFO(compared.err);
  REQUIRE(compared.code == 0);
  CHECK_THAT(compared.out, ContainsSubstring("3 trainings in mode "));
  CHECK_THAT(compared.out, ContainsSubstring("3 of 3 models are the same in both, bit for bit"));
  for (const char* net : {"mlp-small", "mlp-medium", "mlp-big"}) CHECK_THAT(compared.err, ContainsSubstring(net));
  auto other = compare;
  other.insert(other.end(), {"--layers", "3,4,3"});
  CHECK(tern(other, {.folder = folder.path()}).code == 2);
}

TEST_CASE("tune: halving, stopped and killed, comes to the same end", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(120));
  const std::vector<std::string> search{
      "tune",      "--dataset", "c.csv",   "--epochs", "27", "--random", "9", "--range", "learning-rate=0.0001:0.1",
      "--halving", "3",         "--quiet", "--run"};
  auto whole = search;
  whole.push_back("whole");
  REQUIRE(tern(whole, {.folder = folder.path()}).code == 0);
  const auto expected = results_of(folder / "whole");
  int finished = 0;
  for (const std::string& line : expected) finished += line.find(",done,") != std::string::npos;
  CHECK(finished == 1);
  auto part = search;
  part.insert(part.end(), {"part", "--checkpoint-every", "5"});
  std::vector<std::string> words = part;
  words.insert(words.begin(), TERN_PROGRAM);
  for (int i = 0; i < 12; ++i) {
    Process process(words, {.folder = folder.path()});
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 3 * i));
    process.signal(i % 2 == 0 ? SIGKILL : SIGINT);
    const Outcome outcome = process.wait();
    INFO(outcome.err);
    REQUIRE((outcome.code == 0 || outcome.code == 130 || outcome.code == 128 + SIGKILL));
    words = {TERN_PROGRAM, "tune", "--dataset", "c.csv", "--resume", "--run", "part", "--quiet"};
    if (!fs::exists(folder / "part/tune.json")) words = part, words.insert(words.begin(), TERN_PROGRAM);
  }
  // On a slow machine every kill may have come before the search was written down: then it begins here.
  const Outcome last = tern({words.begin() + 1, words.end()}, {.folder = folder.path()});
  INFO(last.err);
  REQUIRE(last.code == 0);
  CHECK(results_of(folder / "part") == expected);
}

}  // namespace tern::testing
