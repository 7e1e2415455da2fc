// Trainings that are stopped, killed, or run out of disk, and go on as if nothing had happened.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "fingerprint.hpp"
#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "tern/io/checkpoint.hpp"
#include "tern/tensor/create.hpp"
#include "tern/training/signal_guard.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> training(const std::string& run, const std::vector<std::string>& more = {},
                                  const std::string& epochs = "12") {
  std::vector<std::string> arguments{"train",     "--dataset", "c.csv", "--epochs",     epochs, "--layers",
                                     "3,16,16,3", "--dropout", "0.2",   "--batch-size", "8",    "--optimizer",
                                     "adam",      "--run",     run,     "--quiet"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  // A mode whose start takes no time, whatever else this machine has.
  if (std::ranges::find(more, "--mode") == more.end()) arguments.insert(arguments.end(), {"--mode", "vectorized"});
  return arguments;
}

/// The metrics without what depends on the clock, and without the marks that a stop leaves.
std::vector<Json> timeless(const std::string& run) {
  std::vector<Json> events;
  for (Json event : events_of(run)) {
    if (event["event"] == "resume" || event["event"] == "interrupt") continue;
    for (const char* key : {"time", "seconds", "model"}) event.erase(key);
    if (event["event"] == "start") event["settings"].erase("checkpoint-every");
    events.push_back(std::move(event));
  }
  return events;
}

/// Waits until a file exists or the time is up.
bool appears(const std::string& file, Process& process) {
  for (int i = 0; i < 4000 && process.running(); ++i) {
    if (fs::exists(file)) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return fs::exists(file);
}

std::vector<std::string> with_program(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program_path);
  return arguments;
}

/// A long training that has at least one checkpoint.
std::unique_ptr<Process> begin_long(const TemporaryFolder& folder, const std::string& run) {
  auto process = std::make_unique<Process>(with_program(training(run, {"--checkpoint-every", "50"}, "1000000")),
                                           ProcessOptions{.folder = folder.path()});
  REQUIRE(appears(folder / (run + "/checkpoints/checkpoint-000000000050.safetensors"), *process));
  return process;
}

/// The newest whole file, by its name; empty: there is none.
std::string newest_in(const std::string& folder) {
  std::string newest;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (entry.path().extension() == ".safetensors") newest = std::max(newest, entry.path().filename().string());
  return newest;
}

/// Kills a training again and again at random moments, until it is done.
int kill_until_done(const TemporaryFolder& folder, const std::string& mode, int most, std::mt19937& random,
                    double longest) {
  int kills = 0;
  for (;; ++kills) {
    Process process(with_program(training("k", {"--mode", mode, "--checkpoint-every", "3", "--resume"})),
                    {.folder = folder.path()});
    if (kills < most) {
      const double wait = std::uniform_real_distribution<>(0, longest)(random);
      std::this_thread::sleep_for(std::chrono::duration<double>(wait));
      process.signal(SIGKILL);
    }
    const Outcome outcome = process.wait();
    if (outcome.code == 0) return kills;
    INFO(outcome.err);
    REQUIRE(outcome.code == 128 + SIGKILL);
  }
}

}  // namespace

TEST_CASE("fingerprint: the same on every machine", "[tools][resume]") {
  const auto examples = [](const Tensor& images, std::int64_t label) {
    return data::Dataset{.images = images, .labels = tensor<std::int64_t>({label}), .classes = 3};
  };
  // The words of eight bytes, the first the lowest, computed in Python.
  CHECK(tool::Fingerprint()
            .add("a table, 1")
            .add(examples(tensor<float>({1, -2, 0.5}, {1, 3}), 2))
            .add(examples(tensor<std::uint8_t>({7, 9}, {1, 2}), 1))
            .text() == "89ae279444d09b94");
}

TEST_CASE("resume: a training in parts is the training in one piece, bit for bit", "[tools][resume]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(110));
  for (const std::string mode : {"sequential", "vectorized"}) {
    INFO(mode);
    REQUIRE(tern(training("whole", {"--mode", mode}), {.folder = folder.path()}).code == 0);
    fs::remove_all(folder / "k");
    std::mt19937 random(7);
    const int kills = kill_until_done(folder, mode, 12, random, 0.03);
    INFO(kills << " kills");
    CHECK(read_bytes(folder / "k/model.safetensors") == read_bytes(folder / "whole/model.safetensors"));
    CHECK(timeless(folder / "k") == timeless(folder / "whole"));
  }
}

TEST_CASE("resume: early stop, its best weights and the refit survive", "[tools][resume]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(110));
  for (const std::string refit : {"no", "yes"}) {
    INFO("refit " << refit);
    const std::vector<std::string> options{"--early-stop", "3",          "--refit", refit,
                                           "--schedule",   "step:2:0.7", "--seed",  "4"};
    REQUIRE(tern(training("whole" + refit, options), {.folder = folder.path()}).code == 0);
    auto stopping = options;
    stopping.insert(stopping.end(), {"--checkpoint-every", "1", "--resume"});
    for (int i = 0; i < 10; ++i) {
      Process process(with_program(training("k" + refit, stopping)), {.folder = folder.path()});
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
      process.signal(SIGKILL);
      process.wait();
    }
    REQUIRE(tern(training("k" + refit, stopping), {.folder = folder.path()}).code == 0);
    CHECK(read_bytes(folder / ("k" + refit + "/model.safetensors")) ==
          read_bytes(folder / ("whole" + refit + "/model.safetensors")));
    CHECK(timeless(folder / ("k" + refit)) == timeless(folder / ("whole" + refit)));
  }
}

// The suite kills a few dozen times; TERN_TEST_KILLS=1000 asks for more.
TEST_CASE("resume: killed at any moment, the next run goes on from a valid file", "[tools][resume]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const char* wanted = std::getenv("TERN_TEST_KILLS");
  const int kills = wanted != nullptr ? std::atoi(wanted) : 40;
  std::mt19937 random(11);
  std::int64_t last = 0, resumed = 0;
  // Half of the kills fall before the first checkpoint is likely, half after the run has written one.
  const auto begin = std::chrono::steady_clock::now();
  begin_long(folder, "measured")->signal(SIGKILL);
  const std::chrono::duration<double> longest = std::chrono::steady_clock::now() - begin;
  for (int i = 0; i < kills; ++i) {
    Process process(with_program(training("k", {"--checkpoint-every", "1", "--resume"}, "1000000")),
                    {.folder = folder.path()});
    if (i % 2 == 1) {
      const std::string before = newest_in(folder / "k/checkpoints");
      while (process.running() && newest_in(folder / "k/checkpoints") == before)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::this_thread::sleep_for(std::chrono::duration<double>(
        std::uniform_real_distribution<>(0, longest.count() / (i % 2 == 1 ? 4 : 1))(random)));
    process.signal(SIGKILL);
    const Outcome outcome = process.wait();
    INFO("kill " << i << ": " << outcome.err);
    REQUIRE(outcome.code == 128 + SIGKILL);
    const auto newest = io::resume_checkpoint(folder / "k/checkpoints");
    if (!newest) continue;
    REQUIRE(newest->skipped.empty());  // no file was half written
    REQUIRE(newest->checkpoint.step >= last);
    resumed += newest->checkpoint.step > last;
    last = newest->checkpoint.step;
  }
  CHECK(resumed > kills / 4);
  std::printf("%d kills, %ld of them after progress; step %ld reached\n", kills, static_cast<long>(resumed),
              static_cast<long>(last));
}

TEST_CASE("resume: Ctrl-C and SIGTERM finish the step, save and say so", "[tools][resume]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}}) {
    const std::string run = "r" + std::to_string(signal);
    auto process = begin_long(folder, run);
    // Twice: timeout(1) signals the process and its group.
    process->signal(signal);
    process->signal(signal);
    const Outcome outcome = process->wait();
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.err, ContainsSubstring("tern train --resume --run " + run));
    const auto events = events_of(folder / run);
    CHECK(events.back()["event"] == "interrupt");
    const auto newest = io::resume_checkpoint(folder / (run + "/checkpoints"));
    REQUIRE(newest);
    CHECK(newest->checkpoint.step == events.back()["step"]);
    // The run folder is enough to go on, and tests as a model meanwhile.
    CHECK(tern({"test", "--model", run, "--dataset", "c.csv"}, {.folder = folder.path()}).code == 0);
    const auto epochs = std::to_string(newest->checkpoint.epoch + 1);
    const Outcome resumed = tern({"train", "--resume", "--run", run, "--epochs", epochs}, {.folder = folder.path()});
    INFO(resumed.err);
    CHECK(resumed.code == 0);
    CHECK_THAT(resumed.err, ContainsSubstring("Continuing after step"));
  }
}

TEST_CASE("resume: a later second signal ends the process at once", "[tools][resume]") {
  const pid_t child = ::fork();
  if (child == 0) {
    const training::SignalGuard guard;
    std::raise(SIGTERM);
    std::raise(SIGTERM);
    if (training::SignalGuard::received() != SIGTERM) ::_exit(1);
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));
    std::raise(SIGTERM);
    ::_exit(2);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGTERM);
}

TEST_CASE("resume: begins where there is nothing, and refuses other settings and other data", "[tools][resume]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const auto resume = [&](std::vector<std::string> more) {
    more.insert(more.begin(), "--resume");
    return tern(training("r", more), {.folder = folder.path()});
  };
  CHECK(resume({}).code == 0);
  const Outcome again = resume({});  // finished already
  CHECK(again.code == 0);
  const Outcome other = tern({"train", "--resume", "--run", "r", "--batch-size", "9"}, {.folder = folder.path()});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, ContainsSubstring("--batch-size is 9 here and 8 in the training"));
  CHECK(resume({"--epochs", "14", "--mode", "sequential", "--threads", "1"}).code == 2);  // --epochs is given twice
  CHECK(tern({"train", "--resume", "--run", "r", "--epochs", "14"}, {.folder = folder.path()}).code == 0);
  write_bytes(folder / "c.csv", clusters(63));
  const Outcome changed = tern({"train", "--resume", "--run", "r", "--epochs", "16"}, {.folder = folder.path()});
  CHECK(changed.code == 3);
  CHECK_THAT(changed.err, ContainsSubstring("not the one that this training began with"));
}

TEST_CASE("resume: a damaged checkpoint is passed over for the one before", "[tools][resume]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  begin_long(folder, "r")->signal(SIGTERM);
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(folder / "r/checkpoints")) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  REQUIRE(!files.empty());
  const auto before = fs::last_write_time(folder / "r/metrics.jsonl");
  Process process(with_program({"train", "--resume", "--run", "r", "--epochs", "1000000"}), {.folder = folder.path()});
  // Once it writes metrics again it is training, and a stop makes another checkpoint.
  for (int i = 0; i < 8000 && fs::last_write_time(folder / "r/metrics.jsonl") == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  process.signal(SIGINT);
  REQUIRE(process.wait().code == 130);
  files.clear();
  for (const auto& entry : fs::directory_iterator(folder / "r/checkpoints")) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() >= 2);
  std::string bytes = read_bytes(files.back());
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_bytes(files.back(), bytes);
  const auto newest = io::resume_checkpoint(folder / "r/checkpoints");
  REQUIRE(newest);
  const Outcome resumed =
      tern({"train", "--resume", "--run", "r", "--epochs", std::to_string(newest->checkpoint.epoch + 1)},
           {.folder = folder.path()});
  INFO(resumed.err);
  CHECK(resumed.code == 0);
  CHECK_THAT(resumed.err, ContainsSubstring("skipped a damaged checkpoint"));
  // When none is left, it says so and touches nothing.
  for (const auto& entry : fs::directory_iterator(folder / "r/checkpoints"))
    write_bytes(entry.path().string(), "broken");
  const Outcome none = tern({"train", "--resume", "--run", "r"}, {.folder = folder.path()});
  CHECK(none.code == 3);
  CHECK_THAT(none.err, ContainsSubstring("none of the checkpoints there is valid"));
}

TEST_CASE("resume: a full disk and a read-only folder cost no checkpoint", "[tools][resume]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  {
    const SmallDisk disk(folder / "small", 200);
    if (disk.mounted()) {
      const std::vector<std::string> arguments =
          training("small/r", {"--checkpoint-every", "1", "--keep", "100000"}, "100000");
      const Outcome full = tern(arguments, {.folder = folder.path()});
      INFO(full.err);
      CHECK(full.code == 3);
      CHECK_THAT(full.err, ContainsSubstring("small/r/"));
      CHECK_THAT(full.err, ContainsSubstring("No space left on device"));
      const auto newest = io::resume_checkpoint(folder / "small/r/checkpoints");
      REQUIRE(newest);
      CHECK(newest->skipped.empty());
      CHECK(newest->checkpoint.step > 1);
    } else {
      WARN("skipped the full disk: no right to mount one");
    }
  }
  fs::create_directory(folder / "locked");
  fs::permissions(folder / "locked", fs::perms(0555));
  const Outcome locked = tern(training("locked/r"), {.folder = folder.path(), .nobody = true});
  if (locked.code == 127 && locked.err.empty()) {  // below a folder of root alone
    WARN("skipped the read-only folder: no other user may run " << program_path);
    return;
  }
  CHECK(locked.code == 3);
  CHECK_THAT(locked.err, ContainsSubstring("locked/r"));
  CHECK_THAT(locked.err, ContainsSubstring("Permission denied"));
}

}  // namespace tern::testing
