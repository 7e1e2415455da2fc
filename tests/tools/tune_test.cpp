// tern tune: searches, and the experiment of one after another against all at once.

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <set>
#include <sstream>
#include <thread>

#include "metrics.hpp"
#include "mpirun.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "support/memories.hpp"
#include "tune_plan.hpp"
#include "tune_runner.hpp"
#include "verbs.hpp"

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

/// Whether both searches came to the same table and the same models.
void check_same(const TemporaryFolder& folder, const std::string& a, const std::string& b, int trials) {
  CHECK(results_of(folder / a) == results_of(folder / b));
  for (int trial = 1; trial <= trials; ++trial) {
    const std::string file = "/trial-00" + std::to_string(trial) + "/model.safetensors";
    INFO(b << file);
    REQUIRE(fs::exists(folder / (a + file)) == fs::exists(folder / (b + file)));  // what was dropped has none
    if (fs::exists(folder / (a + file))) CHECK(read_bytes(folder / (a + file)) == read_bytes(folder / (b + file)));
  }
}

std::vector<std::string> search_of_six(const std::string& run, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"tune",       "--dataset", "c.csv",
                                 "--epochs",   "9",         "--halving",
                                 "3",          "--grid",    "learning-rate=0.001,0.01,0.02",
                                 "--grid",     "seed=1,2",  "--mode",
                                 "sequential", "--run",     run};
  words.insert(words.end(), more.begin(), more.end());
  return words;
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
  words.insert(words.begin(), program_path);
  for (int i = 0; i < 12; ++i) {
    Process process(words, {.folder = folder.path()});
    std::this_thread::sleep_for(std::chrono::milliseconds(30 + 3 * i));
    process.signal(i % 2 == 0 ? SIGKILL : SIGINT);
    const Outcome outcome = process.wait();
    INFO(outcome.err);
    REQUIRE((outcome.code == 0 || outcome.code == 130 || outcome.code == 128 + SIGKILL));
    words = {program_path, "tune", "--dataset", "c.csv", "--resume", "--run", "part", "--quiet"};
    if (!fs::exists(folder / "part/tune.json")) words = part, words.insert(words.begin(), program_path);
  }
  // On a slow machine every kill may have come before the search was written down: then it begins here.
  const Outcome last = tern({words.begin() + 1, words.end()}, {.folder = folder.path()});
  INFO(last.err);
  REQUIRE(last.code == 0);
  CHECK(results_of(folder / "part") == expected);
}

TEST_CASE("tune: trials that train at once have the models that they have alone", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(120));
  for (const std::string mode : {"sequential", "vectorized"}) {
    const std::vector<std::string> common{"--dataset", "c.csv", "--epochs", "3", "--mode", mode, "--quiet", "--run"};
    const auto with = [&](const std::string& verb, const std::string& run, const std::vector<std::string>& more) {
      std::vector<std::string> words{verb};
      for (const auto* part : {&common, &more}) words.insert(words.end(), part->begin(), part->end());
      words.insert(words.begin() + 1 + static_cast<std::ptrdiff_t>(common.size()), run);
      const Outcome outcome = tern(words, {.folder = folder.path()});
      INFO(outcome.err);
      REQUIRE(outcome.code == 0);
    };
    const std::string search = "search-" + mode;
    with("tune", search,
         {"--jobs", "8", "--grid", "learning-rate=0.001,0.01", "--grid", "weight-decay=0,0.1", "--grid", "seed=1,2"});
    int trial = 0;
    for (const char* rate : {"0.001", "0.01"})
      for (const char* decay : {"0", "0.1"})
        for (const char* seed : {"1", "2"}) {
          const std::string run = "alone-" + mode + std::to_string(++trial);
          with("train", run, {"--learning-rate", rate, "--weight-decay", decay, "--seed", seed});
          INFO("trial " << trial << " in " << mode);
          CHECK(read_bytes(folder / (run + "/model.safetensors")) ==
                read_bytes(folder / (search + "/trial-00" + std::to_string(trial) + "/model.safetensors")));
        }
  }
}

TEST_CASE("tune: any number of ranks comes to the same table and the same models", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(120));
  REQUIRE(tern(search_of_six("one", {"--jobs", "1"}), {.folder = folder.path()}).code == 0);
  const Outcome ranks = tern(search_of_six("ranks", {"--ranks", "3", "--jobs", "1"}), {.folder = folder.path()});
  INFO(ranks.err);
  REQUIRE(ranks.code == 0);
  CHECK_THAT(ranks.err, ContainsSubstring("6 trials, 1 at a time, in mode sequential on each of 3 ranks"));
  check_same(folder, "one", "ranks", 6);
#ifdef TERN_TEST_MPIRUN
  const Outcome processes = mpirun(3, search_of_six("mpi", {"--parallel", "mpi", "--jobs", "1"}), folder.path());
  INFO(processes.err);
  REQUIRE(processes.code == 0);
  check_same(folder, "one", "mpi", 6);
  CHECK(processes.out.find("best: ") == processes.out.rfind("best: "));  // one rank speaks
  // One that dies gives its trial back: mpirun leaves the others alone, or they are started again.
  for (const bool recovery : {true, false}) {
    const std::string run = recovery ? "recovered" : "resumed";
    const std::vector<std::string> slow{"--parallel", "mpi", "--jobs", "1", "--checkpoint-every", "1"};
    const std::vector<std::string> options =
        recovery ? std::vector<std::string>{"--enable-recovery"} : std::vector<std::string>{};
    Process process(mpirun_words(3, search_of_six(run, slow), options), {.folder = folder.path()});
    while (process.running() && !fs::exists(folder / (run + "/trial-003/checkpoints")))
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (const pid_t victim = process_with(folder.path(), "OMPI_COMM_WORLD_RANK=2"); victim > 0) kill(victim, SIGKILL);
    const Outcome done = process.wait();
    INFO(done.err);
    CHECK_FALSE(done.timed_out);
    if (recovery) CHECK(done.code == 0);
    if (!recovery && done.code != 0)
      REQUIRE(mpirun(2, {"tune", "--resume", "--run", run, "--parallel", "mpi", "--mode", "sequential"}, folder.path())
                  .code == 0);
    check_same(folder, "one", run, 6);
  }
  CHECK(mpirun(2, search_of_six("c", {"--parallel", "mpi", "--compare-serial"}), folder.path()).code == 2);
#endif
}

TEST_CASE("tune: a search starts again when it is killed", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(120));
  REQUIRE(tern(search_of_six("one", {"--jobs", "1"}), {.folder = folder.path()}).code == 0);
  // What an earlier search left is not what is gone on with.
  REQUIRE(tern(search_of_six("again", {"--seed", "9"}), {.folder = folder.path()}).code == 0);
  write_bytes(folder / "launcher",
              "#!/bin/sh\necho \"$@\" >> attempts\n[ $(wc -l < attempts) -le 2 ] || exec \"$@\"\n"
              "[ $(wc -l < attempts) = 2 ] || kill -9 $$\n\"$@\" & search=$!\n"
              "while [ ! -e again/previous/tune.json ] || [ ! -e again/trial-003/checkpoints ]; do sleep 0.01; done\n"
              "kill -9 $search; kill -9 $$\n");
  fs::permissions(folder / "launcher", fs::perms::owner_all);
  const Outcome done = tern(
      search_of_six("again", {"--jobs", "1", "--checkpoint-every", "1", "--restarts", "2", "--launcher", "./launcher"}),
      {.folder = folder.path()});
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.err, ContainsSubstring("the search ended (killed by signal 9); it starts again, 2 of 2"));
  check_same(folder, "one", "again", 6);
  // Two attempts that begin with the options of the search, and one that takes them from the folder.
  const std::vector<std::string> attempts = lines_of(folder / "attempts");
  REQUIRE(attempts.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK((attempts[i].find("--grid") != std::string::npos) == (i < 2));
    CHECK((attempts[i].find("--resume") != std::string::npos) == (i == 2));
  }
}

TEST_CASE("tune: every device of the mode takes trials, and one that fails gives its own back", "[tools][tune]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const auto search = [&](const std::string& mode, const std::string& run) {
    const auto command = make_tune();
    return command->run(parse_arguments(
        command->verb(), {"--dataset", folder / "c.csv", "--epochs", "2", "--grid", "seed=1,2,3,4,5,6,7", "--mode",
                          mode, "--jobs", "1", "--run", folder / run, "--quiet"}));
  };
  REQUIRE(search("sequential", "plain") == 0);
  REQUIRE(search(fake_cards_mode().name, "cards") == 0);  // the last of which cannot be used
  const auto plain = results_of(folder / "plain");
  CHECK(results_of(folder / "cards") == plain);
  std::set<std::string> devices;
  for (int trial = 1; trial <= 7; ++trial)
    for (const auto& event : events_of(folder / ("cards/trial-00" + std::to_string(trial))))
      if (event["event"] == "start") devices.insert(event["machine"]["mode"]);
  CHECK(devices.size() > 1);
  CHECK_FALSE(devices.contains("cards:6"));
  CHECK_THROWS_AS(search("cards:6", "none"), DeviceUnavailable);
}

}  // namespace tern::testing
