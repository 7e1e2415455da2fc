// The folder of a run: one training at a time, begun again from its settings, left clean, ended by every usual signal.

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "tern/io/checkpoint.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// A table, and trainings on it that take as long as requested.
struct Place {
  TemporaryFolder folder;
  Place() { write_bytes(folder / "c.csv", clusters(60)); }

  std::vector<std::string> train(const std::string& run, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{program_path, "train",   "--dataset", "c.csv",     "--run",
                                       run,          "--quiet", "--mode",    "vectorized"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  std::unique_ptr<Process> start(const std::vector<std::string>& arguments, const ProcessOptions& options = {}) const {
    ProcessOptions here = options;
    here.folder = folder.path();
    return std::make_unique<Process>(arguments, here);
  }
  Outcome run(std::vector<std::string> arguments) const {
    arguments.erase(arguments.begin());
    return tern(arguments, {.folder = folder.path()});
  }
  void wait_for(const std::string& file, Process& process) const {
    for (int i = 0; i < 10000 && process.running() && !fs::exists(folder / file); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    INFO(process.err_so_far());
    REQUIRE(fs::exists(folder / file));
  }
};

}  // namespace

TEST_CASE("folders: two trainings do not share one", "[tools][folders]") {
  const Place place;
  const auto endless = place.train("r", {"--epochs", "1000000", "--checkpoint-every", "20"});
  const auto first = place.start(endless);
  place.wait_for("r/checkpoints/checkpoint-000000000020.safetensors", *first);
  const auto begins = place.train("r", {"--epochs", "1"});
  for (const auto& second :
       {begins, place.train("r", {"--resume", "--epochs", "1"}), place.train("./r/", {"--epochs", "1"})}) {
    const Outcome refused = place.run(second);
    CHECK(refused.code == 3);
    CHECK_THAT(refused.err, ContainsSubstring("another training is running in this folder"));
  }
  CHECK(first->running());
  CHECK_FALSE(fs::exists(place.folder / "r/previous"));
  // The lock goes with the process, however it ends.
  first->signal(SIGKILL);
  first->wait();
  CHECK(place.run(begins).code == 0);
  CHECK(fs::exists(place.folder / "r/previous/checkpoints"));
}

TEST_CASE("folders: two searches do not share one", "[tools][folders]") {
  const Place place;
  const std::vector<std::string> search{program_path, "tune",     "--dataset", "c.csv", "--epochs", "1000000",
                                        "--grid",     "seed=1,2", "--run",     "t",     "--quiet"};
  const auto first = place.start(search);
  place.wait_for("t/tune.json", *first);
  const Outcome refused = place.run(search);
  CHECK(refused.code == 3);
  CHECK_THAT(refused.err, ContainsSubstring("t: another training is running"));
  first->signal(SIGINT);
  CHECK(first->wait().code == 130);
}

TEST_CASE("folders: one with several runs says which to name, and takes no other work", "[tools][folders]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const auto run = [&](const std::vector<std::string>& arguments) {
    return tern(arguments, {.folder = folder.path()});
  };
  REQUIRE(run({"tune", "--dataset", "c.csv", "--epochs", "1", "--grid", "seed=1,2", "--run", "search"}).code == 0);
  REQUIRE(run({"train", "--dataset", "c.csv", "--epochs", "1", "--folds", "2", "--run", "cross"}).code == 0);
  for (const auto& [name, inner] : {std::pair{"search", "search/trial-001"}, std::pair{"cross", "cross/fold-1"}}) {
    const Outcome tested = run({"test", "--model", name, "--dataset", "c.csv"});
    CHECK(tested.code == 3);
    CHECK_THAT(tested.err, ContainsSubstring(inner));
    CHECK(run({"test", "--model", inner, "--dataset", "c.csv"}).code == 0);
  }
  const Outcome reported = run({"report", "search"});
  CHECK(reported.code == 3);
  CHECK_THAT(reported.err, ContainsSubstring("search/trial-001"));
  const std::string results = read_bytes(folder / "cross/results.csv");
  const Outcome searched = run({"tune", "--dataset", "c.csv", "--epochs", "1", "--grid", "seed=1,2", "--run", "cross"});
  CHECK(searched.code == 2);
  CHECK_THAT(searched.err, ContainsSubstring("cross holds a training"));
  CHECK(read_bytes(folder / "cross/results.csv") == results);
  for (const std::vector<std::string>& folds : {std::vector<std::string>{}, {"--folds", "2"}}) {
    std::vector<std::string> train{"train", "--dataset", "c.csv", "--epochs", "1", "--run", "search"};
    train.insert(train.end(), folds.begin(), folds.end());
    const Outcome trained = run(train);
    CHECK(trained.code == 2);
    CHECK_THAT(trained.err, ContainsSubstring("search holds a search"));
  }
}

TEST_CASE("folders: a training that was killed before its first checkpoint begins again", "[tools][folders]") {
  const Place place;
  const auto options =
      std::vector<std::string>{"--epochs", "4", "--layers", "3,8,3", "--model", "m.safetensors", "--seed", "5"};
  REQUIRE(place.run(place.train("whole", options)).code == 0);
  const std::string expected = read_bytes(place.folder / "m.safetensors");
  fs::remove(place.folder / "m.safetensors");
  // What a kill leaves that comes early.
  fs::remove_all(place.folder / "whole/checkpoints");
  const Outcome again = tern({"train", "--resume", "--run", "whole"}, {.folder = place.folder.path()});
  INFO(again.err);
  REQUIRE(again.code == 0);
  CHECK(read_bytes(place.folder / "m.safetensors") == expected);
  // An option that is given wins: nothing was trained that it could contradict.
  fs::remove_all(place.folder / "whole/checkpoints");
  CHECK(tern({"train", "--resume", "--run", "whole", "--seed", "6"}, {.folder = place.folder.path()}).code == 0);
  CHECK(read_bytes(place.folder / "m.safetensors") != expected);
  CHECK(tern({"train", "--resume", "--run", "nowhere"}, {.folder = place.folder.path()}).code == 2);
}

TEST_CASE("folders: a configuration file counts as given when a training is taken up", "[tools][folders]") {
  const Place place;
  REQUIRE(place.run(place.train("r", {"--epochs", "2", "--seed", "5"})).code == 0);
  write_bytes(place.folder / "other.json", "{\"seed\": 6, \"epochs\": 4}");
  const Outcome other =
      tern({"train", "--resume", "--run", "r", "--config", "other.json"}, {.folder = place.folder.path()});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, ContainsSubstring("--seed is 6 here and 5 in the training"));
  write_bytes(place.folder / "longer.json", "{\"epochs\": 4}");
  REQUIRE(tern({"train", "--resume", "--run", "r", "--config", "longer.json"}, {.folder = place.folder.path()}).code ==
          0);
  CHECK(events_of(place.folder / "r").back()["epochs"] == 4);
}

TEST_CASE("folders: a search that is taken up hears the options that are typed", "[tools][folders]") {
  const Place place;
  const std::vector<std::string> search{"tune",       "--dataset", "c.csv", "--epochs", "2", "--grid",
                                        "seed=1,2,3", "--run",     "t",     "--jobs",   "3"};
  REQUIRE(tern(search, {.folder = place.folder.path()}).code == 0);
  const auto resume = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"tune", "--resume", "--run", "t"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tern(arguments, {.folder = place.folder.path()});
  };
  const Outcome one = resume({"--jobs", "1"});
  CHECK(one.code == 0);
  CHECK_THAT(one.err, ContainsSubstring("3 trials, 1 at a time"));
  CHECK_THAT(resume({}).err, ContainsSubstring("3 trials, 3 at a time"));
  for (const auto& [option, value, before] :
       {std::tuple("--batch-size", "7", "not given"), {"--halving", "2", "0"}, {"--epochs", "9", "2"}}) {
    const Outcome other = resume({option, value});
    CHECK(other.code == 2);
    CHECK_THAT(other.err, ContainsSubstring(message(option, " is ", value, " here and ", before, " in the training")));
  }
  write_bytes(place.folder / "other.json", "{\"dropout\": 0.5}");
  CHECK(resume({"--config", "other.json"}).code == 2);
}

TEST_CASE("folders: a hang-up and a quit save as an interrupt does", "[tools][folders]") {
  const Place place;
  for (const int signal : {SIGHUP, SIGQUIT}) {
    const std::string run = "r" + std::to_string(signal);
    const auto process = place.start(place.train(run, {"--epochs", "1000000", "--checkpoint-every", "20"}));
    place.wait_for(run + "/checkpoints/checkpoint-000000000020.safetensors", *process);
    process->signal(signal);
    CHECK(process->wait().code == 128 + signal);
    const auto events = events_of(place.folder / run);
    CHECK(events.back()["event"] == "interrupt");
    CHECK(io::resume_checkpoint(place.folder / (run + "/checkpoints"))->checkpoint.step == events.back()["step"]);
  }
}

TEST_CASE("folders: under nohup a hang-up changes nothing", "[tools][folders]") {
  const Place place;
  auto arguments = place.train("r", {"--epochs", "1000000", "--checkpoint-every", "20"});
  arguments.insert(arguments.begin(), {"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh"});
  const auto process = place.start(arguments);
  place.wait_for("r/checkpoints/checkpoint-000000000020.safetensors", *process);
  process->signal(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  CHECK(process->running());
  process->signal(SIGTERM);
  CHECK(process->wait().code == 143);
}

TEST_CASE("folders: a limit on the size of files is an error with advice, and leaves nothing", "[tools][folders]") {
  const Place place;
  for (const char* blocks : {"1", "4", "8", "12", "40"}) {
    INFO(blocks);
    auto arguments = place.train("r", {"--epochs", "100", "--checkpoint-every", "1"});
    arguments.insert(arguments.begin(), {"/bin/sh", "-c", std::string("ulimit -f ") + blocks + "; exec \"$@\"", "sh"});
    const Outcome outcome = place.start(arguments)->wait();
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring("File too large"));
    CHECK_THAT(outcome.err, ContainsSubstring("ulimit -f"));
    for (const auto& entry : fs::recursive_directory_iterator(place.folder / "r"))
      CHECK(entry.path().string().find(".tmp.") == std::string::npos);
  }
}

TEST_CASE("folders: what a killed training left is removed by the next", "[tools][folders]") {
  const Place place;
  fs::create_directory(place.folder / "r");
  for (const char* name : {"r/config.json.tmp.1", "r/model.safetensors.tmp.2", "r/mine.tmp.3"})
    write_bytes(place.folder / name, "x");
  REQUIRE(place.run(place.train("r", {"--epochs", "1"})).code == 0);
  CHECK_FALSE(fs::exists(place.folder / "r/config.json.tmp.1"));
  CHECK_FALSE(fs::exists(place.folder / "r/model.safetensors.tmp.2"));
  CHECK(fs::exists(place.folder / "r/mine.tmp.3"));
}

}  // namespace tern::testing
