// tern train in several ranks: threads, and processes under mpirun.

#include "ranks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "metrics.hpp"
#include "mpirun.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;

namespace {

std::vector<std::string> training(const std::string& run, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"train",      "--dataset",    "c.csv", "--layers",   "3,16,16,3", "--dropout",
                                     "0.2",        "--optimizer",  "adam",  "--run",      run,         "--mode",
                                     "vectorized", "--batch-size", "13",    "--schedule", "constant"};
  if (std::ranges::find(more, "--resume") != more.end()) arguments = {"train", "--run", run};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

std::string model_of(const TemporaryFolder& folder, const std::string& run) {
  return read_bytes(folder / (run + "/model.safetensors"));
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("ranks: the same model file for any number of threads", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  for (const std::string ranks : {"1", "2", "3", "4"}) {
    const Outcome done =
        tern(training("r" + ranks, {"--epochs", "3", "--shards", "8", "--ranks", ranks}), {.folder = folder.path()});
    INFO(done.err);
    REQUIRE(done.code == 0);
    CHECK(count_of(done.err, "ranks (threads)") == (ranks == "1" ? 0 : 1));
    CHECK(count_of(done.err, "epoch 3/3") == 1);
    CHECK(model_of(folder, "r" + ranks) == model_of(folder, "r1"));
  }
  // Without shards of its own a training of several ranks takes eight.
  REQUIRE(tern(training("usual", {"--epochs", "3", "--ranks", "2"}), {.folder = folder.path()}).code == 0);
  CHECK(model_of(folder, "usual") == model_of(folder, "r1"));
  // One shard is another sum, so the comparison can fail.
  REQUIRE(tern(training("one", {"--epochs", "3"}), {.folder = folder.path()}).code == 0);
  CHECK(model_of(folder, "one") != model_of(folder, "r1"));
  REQUIRE(tern(training("quick", {"--epochs", "3", "--ranks", "2", "--shards", "0"}), {.folder = folder.path()}).code ==
          0);
}

TEST_CASE("ranks: a test says the same for any number of them", "[tools][ranks]") {
  const TemporaryFolder folder;
  // Several batches of 1,000 rows, the last one not full.
  write_bytes(folder / "c.csv", clusters(4210));
  REQUIRE(tern(training("run", {"--epochs", "1", "--quiet"}), {.folder = folder.path()}).code == 0);
  const auto test = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"test", "--model", "run", "--dataset", "c.csv", "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const Outcome one = tern(test({}), {.folder = folder.path()});
  REQUIRE(one.code == 0);
  for (const char* ranks : {"2", "3", "7"}) {
    const Outcome several = tern(test({"--ranks", ranks}), {.folder = folder.path()});
    INFO(ranks << " ranks: " << several.err);
    CHECK(several.code == 0);
    CHECK(several.out == one.out);
  }
#ifdef TERN_TEST_MPIRUN
  for (const int ranks : {2, 3}) {
    const Outcome several = mpirun(ranks, test({"--parallel", "mpi"}), folder.path());
    INFO(several.err);
    CHECK(several.code == 0);
    CHECK(several.out == one.out);
  }
#endif
  const Outcome columns = tern(test({"--ranks", "2", "--importance"}), {.folder = folder.path()});
  CHECK(columns.code == 2);
  CHECK_THAT(columns.err, ContainsSubstring("--importance runs in one rank"));
  // The figures at the end of a training are all ranks' work, too.
  const auto end_of = [&](const std::string& run) {
    auto last = events_of(folder / run).back();
    for (const char* other : {"time", "seconds", "model"}) last.erase(other);
    return last;
  };
  for (const char* ranks : {"1", "2", "3"})
    REQUIRE(tern(training(ranks, {"--epochs", "1", "--shards", "4", "--quiet", "--ranks", ranks}),
                 {.folder = folder.path()})
                .code == 0);
  CHECK(end_of("2") == end_of("1"));
  CHECK(end_of("3") == end_of("1"));
}

TEST_CASE("ranks: a training goes on with another number of them", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    const Outcome done = tern(training(name, more), {.folder = folder.path()});
    INFO(done.err);
    REQUIRE(done.code == 0);
  };
  run("whole", {"--epochs", "6", "--shards", "8"});
  run("parts", {"--epochs", "2", "--ranks", "2"});
  run("parts", {"--resume", "--epochs", "4", "--ranks", "4"});
  run("parts", {"--resume", "--epochs", "6"});
  CHECK(model_of(folder, "parts") == model_of(folder, "whole"));
  // What the shards are is a part of what the training is.
  const Outcome other = tern(training("parts", {"--resume", "--shards", "4"}), {.folder = folder.path()});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, ContainsSubstring("--shards"));
}

TEST_CASE("ranks: early stopping and the refit are decided together", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(90));
  for (const std::string ranks : {"1", "3"}) {
    const Outcome done = tern(training("r" + ranks, {"--epochs", "8", "--early-stop", "2", "--refit", "yes", "--shards",
                                                     "6", "--ranks", ranks}),
                              {.folder = folder.path()});
    INFO(done.err);
    REQUIRE(done.code == 0);
    CHECK_THAT(done.out, ContainsSubstring("the best epoch was"));
  }
  CHECK(model_of(folder, "r3") == model_of(folder, "r1"));
}

TEST_CASE("ranks: the batches of the validation are shared out, and the figures are those of one rank",
          "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv",
              clusters(6000));  // some 2,000 rows to stop by and 2,400 to validate: three batches each
  std::string alone;
  for (const std::string ranks : {"1", "2", "3", "4"}) {
    const Outcome done = tern(training("r" + ranks, {"--epochs", "2", "--early-stop", "2", "--validation", "0.4",
                                                     "--stopping", "0.6", "--shards", "6", "--ranks", ranks}),
                              {.folder = folder.path()});
    INFO(done.err);
    REQUIRE(done.code == 0);
    std::string found;
    for (const nlohmann::json& event : events_of(folder / ("r" + ranks)))
      if (event.at("event") == "epoch")
        for (const char* name : {"validation_loss", "validation_accuracy", "stopping_loss", "best"})
          found += event.at(name).dump() + ' ';
    if (ranks == "1") alone = found;
    CHECK(found == alone);
  }
  CHECK(count_of(alone, " ") == 8);
}

TEST_CASE("ranks: images, from which nothing is left out", "[tools][ranks]") {
  const TemporaryFolder folder;
  for (const std::string ranks : {"1", "2"}) {
    const Outcome done = tern({"train", "--dataset", "synthetic-digits", "--limit", "120", "--net", "lenet", "--epochs",
                               "1", "--shards", "4", "--ranks", ranks, "--run", "r" + ranks, "--mode", "vectorized"},
                              {.folder = folder.path()});
    INFO(done.err);
    REQUIRE(done.code == 0);
  }
  CHECK(model_of(folder, "r2") == model_of(folder, "r1"));
}

TEST_CASE("ranks: what does not go together is said", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const auto words = [&](const std::vector<std::string>& more) {
    const Outcome done = tern(training("r", more), {.folder = folder.path()});
    CHECK(done.code == 2);
    return done.err;
  };
  CHECK_THAT(words({"--ranks", "3", "--shards", "2"}), ContainsSubstring("3 ranks need at least one shard each"));
  CHECK_THAT(words({"--shards", "14"}), ContainsSubstring("a batch has 13 examples"));
  CHECK_THAT(words({"--parallel", "pigeons"}), ContainsSubstring("threads or mpi"));
}

TEST_CASE("ranks: a training starts again when it is killed", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    return tern(training(name, more), {.folder = folder.path()});
  };
  REQUIRE(run("whole", {"--epochs", "6"}).code == 0);
  // The first attempt dies at once, the second one in the middle of its work, the third is let alone.
  write_bytes(folder / "launcher",
              "#!/bin/sh\necho \"$@\" >> attempts\ncase $(wc -l < attempts) in\n1) kill -9 $$ ;;\n"
              "2) \"$@\" & training=$!\n   while [ ! -e again/previous/model.safetensors ] || [ ! -e again/checkpoints "
              "]; do sleep 0.01; done\n"
              "   sleep 0.05; kill -9 $training; kill -9 $$ ;;\nesac\nexec \"$@\"\n");
  std::filesystem::permissions(folder / "launcher", std::filesystem::perms::owner_all);
  // What an earlier training left is not what the second attempt goes on with.
  REQUIRE(run("again", {"--epochs", "6", "--seed", "9"}).code == 0);
  const Outcome done =
      run("again", {"--epochs", "6", "--checkpoint-every", "2", "--restarts", "2", "--launcher", "./launcher"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.err, ContainsSubstring("killed by signal 9); it starts again, 2 of 2"));
  CHECK(model_of(folder, "again") == model_of(folder, "whole"));
  const std::string attempts = read_bytes(folder / "attempts");
  CHECK(count_of(attempts, "--resume") == 1);
  CHECK(count_of(attempts, "--restarts 0") == 3);
  CHECK(std::filesystem::exists(folder / "again/previous/model.safetensors"));
}

TEST_CASE("ranks: what started a training, and does not end with it, is ended", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  const auto run = [&](const std::string& name, const std::vector<std::string>& more) {
    return tern(training(name, more), {.seconds = 60, .folder = folder.path()});
  };
  REQUIRE(run("whole", {"--epochs", "200"}).code == 0);
  // As mpirun that waits for a machine behind a broken cable.
  write_bytes(folder / "launcher",
              "#!/bin/sh\necho attempt >> attempts\n[ $(wc -l < attempts) = 1 ] || exec \"$@\"\n\"$@\" & training=$!\n"
              "while [ ! -e again/metrics.jsonl ]; do sleep 0.01; done\n"
              "kill -STOP $training; sleep 1; kill -9 $training; exec sleep 3600\n");
  std::filesystem::permissions(folder / "launcher", std::filesystem::perms::owner_all);
  const Outcome done =
      run("again", {"--epochs", "200", "--rank-limit", "1", "--restarts", "1", "--launcher", "./launcher"});
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.err, ContainsSubstring("their launcher ran on for more than --rank-limit); it starts again"));
  CHECK(model_of(folder, "again") == model_of(folder, "whole"));
}

TEST_CASE("ranks: words to start with are of no use without --restarts", "[tools][ranks]") {
  for (const char* verb : {"train", "tune"}) {
    const Outcome outcome = tern({verb, "--dataset", "synthetic-digits", "--launcher", "mpirun -n 2"});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring("--restarts is missing"));
  }
}

TEST_CASE("ranks: what starts again, and what does not", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  const auto launched = [&](const std::string& script, const std::vector<std::string>& more) {
    write_bytes(folder / "launcher", "#!/bin/sh\necho attempt >> attempts\n" + script + "\n");
    std::filesystem::permissions(folder / "launcher", std::filesystem::perms::owner_all);
    std::filesystem::remove(folder / "attempts");
    std::vector<std::string> words = training("r", {"--restarts", "2", "--launcher", "./launcher"});
    words.insert(words.end(), more.begin(), more.end());
    const Outcome done = tern(words, {.folder = folder.path()});
    return std::pair(done.code, count_of(read_bytes(folder / "attempts"), "attempt"));
  };
  CHECK(launched("kill -9 $$", {}) == std::pair(137, 3));
  CHECK(launched("exit 5", {}) == std::pair(5, 3));
  CHECK(launched("exit 1", {}) == std::pair(1, 3));  // mpirun's own
  CHECK(launched("exit 2", {}) == std::pair(2, 1));
  CHECK(launched("exit 3", {}) == std::pair(3, 1));
  CHECK(launched("exit 4", {}) == std::pair(4, 1));
  CHECK(launched("exec \"$@\"", {"--validation", "0.99"}).second == 1);
  // A signal to the one who starts again ends both.
  std::filesystem::remove(folder / "attempts");
  write_bytes(folder / "launcher", "#!/bin/sh\necho attempt >> attempts\nexec sleep 60\n");
  std::vector<std::string> words = training("r", {"--restarts", "2", "--launcher", "./launcher"});
  words.insert(words.begin(), program_path);
  Process process(words, {.seconds = 20, .folder = folder.path()});
  // Until the line is there: the file is made before it.
  const auto attempted = [&] {
    return std::filesystem::exists(folder / "attempts") && !read_bytes(folder / "attempts").empty();
  };
  while (process.running() && !attempted()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  process.signal(SIGTERM);
  CHECK(process.wait().code == 128 + SIGTERM);
  CHECK(count_of(read_bytes(folder / "attempts"), "attempt") == 1);

  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& environment) {
    const Outcome done = tern(training("r", more), {.folder = folder.path(), .environment = environment});
    CHECK(done.code == 2);
    return done.err;
  };
  CHECK_THAT(refused({"--restarts", "2", "--parallel", "mpi"}, {}), ContainsSubstring("how many processes"));
  CHECK_THAT(refused({"--restarts", "2", "--ranks", "2"}, {"OMPI_COMM_WORLD_SIZE=2"}),
             ContainsSubstring("--restarts starts mpirun itself"));
}

TEST_CASE("ranks: the metrics say what the ranks' talk took, and which was slowest", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  const Outcome done = tern(training("r", {"--epochs", "2", "--ranks", "2"}), {.folder = folder.path()});
  INFO(done.err);
  REQUIRE(done.code == 0);
  CHECK_THAT(done.err, ContainsSubstring("communication "));
  CHECK_THAT(done.err, ContainsSubstring("slowest rank "));
  int epochs = 0;
  for (const auto& event : events_of(folder / "r")) {
    if (event["event"] == "start") {
      CHECK(event["machine"]["ranks"] == 2);
      CHECK(event["machine"]["transport"] == "threads");
    }
    if (event["event"] != "epoch") continue;
    ++epochs;
    CHECK(event["communication"] > 0.0);
    CHECK(event["communication"] < 1.0);
    CHECK(event["communication_hidden"] == 0.0);  // the host waits in every call
    CHECK(event["slowest_rank"] < 2);
    CHECK(event["slowest_lag"] >= 0.0);
  }
  CHECK(epochs == 2);
  REQUIRE(tern(training("r", {"--resume", "--epochs", "3"}), {.folder = folder.path()}).code == 0);
  for (const auto& event : events_of(folder / "r"))
    if (event["event"] == "epoch") CHECK(event.contains("communication") == (event["epoch"] != 3));
}

#ifdef TERN_TEST_MPIRUN
TEST_CASE("ranks: processes give the bits of threads", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  REQUIRE(tern(training("one", {"--epochs", "2", "--shards", "8"}), {.folder = folder.path()}).code == 0);
  for (const int ranks : {1, 2, 4}) {
    const std::string run = "p" + std::to_string(ranks);
    const Outcome done =
        mpirun(ranks, training(run, {"--epochs", "2", "--shards", "8", "--parallel", "mpi"}), folder.path());
    INFO(done.err);
    REQUIRE(done.code == 0);
    CHECK(count_of(done.err, "epoch 2/2") == 1);
    CHECK(count_of(done.out, "validation accuracy") == 1);
    CHECK(model_of(folder, run) == model_of(folder, "one"));
  }
  // From threads to processes.
  REQUIRE(tern(training("on", {"--epochs", "1", "--ranks", "3"}), {.folder = folder.path()}).code == 0);
  const Outcome on = mpirun(2, training("on", {"--resume", "--epochs", "2", "--parallel", "mpi"}), folder.path());
  INFO(on.err);
  REQUIRE(on.code == 0);
  CHECK(model_of(folder, "on") == model_of(folder, "one"));
  // One that fails ends all.
  write_bytes(folder / "bad.csv", "1,2,x\n1,2\n");
  const Outcome failed = mpirun(2, {"train", "--dataset", "bad.csv", "--parallel", "mpi"}, folder.path());
  CHECK(failed.code == 3);
  CHECK_FALSE(failed.timed_out);
}

namespace {

/// Two processes, each with options of its own and in a folder of its own.
Outcome two(const std::vector<std::string>& first, const std::vector<std::string>& second, const std::string& folder,
            const std::string& other) {
  std::vector<std::string> words = mpirun_words(1, first, {"-wdir", folder});
  words.push_back(":");
  const std::vector<std::string> more = mpirun_words(1, second, {"-wdir", other});
  words.insert(words.end(), more.begin() + 3, more.end());  // without mpirun and what is of all
  return Process(words, {.folder = folder}).wait();
}

}  // namespace

TEST_CASE("ranks: other options in one of them are an error before the first step", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  const std::vector<std::string> common{"train", "--dataset", "c.csv",   "--epochs",   "1",
                                        "--run", "r",         "--quiet", "--parallel", "mpi"};
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--learning-rate", "0.5"},
                                               {"--dropout", "0.4"},
                                               {"--optimizer", "sgd"},
                                               {"--weight-decay", "0.9"},
                                               {"--class-weights", "balanced"},
                                               {"--schedule", "constant"},
                                               {"--seed", "7"}}) {
    std::vector<std::string> other = common;
    other.insert(other.end(), more.begin(), more.end());
    const Outcome outcome = two(common, other, folder.path(), folder.path());
    INFO(outcome.err);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(more[0] + " is ") && ContainsSubstring(" in rank 1 and "));
    CHECK_FALSE(std::filesystem::exists(folder / "r"));
  }
  std::vector<std::string> loud = common;
  loud.erase(loud.begin() + 7);
  CHECK(two(common, loud, folder.path(), folder.path()).code == 0);
}

TEST_CASE("ranks: other rows under the same name are an error before the first step", "[tools][ranks]") {
  const TemporaryFolder folder, other;
  const std::string text = clusters(150);
  std::string changed = text;
  changed[changed.find('.') + 1] = changed[changed.find('.') + 1] == '1' ? '2' : '1';
  write_bytes(folder / "c.csv", text);
  write_bytes(other / "c.csv", changed);
  const std::vector<std::string> words{"train", "--dataset", "c.csv",   "--epochs",   "1",
                                       "--run", "r",         "--quiet", "--parallel", "mpi"};
  const Outcome outcome = two(words, words, folder.path(), other.path());
  INFO(outcome.err);
  CHECK(outcome.code == 3);
  CHECK_THAT(outcome.err, ContainsSubstring("c.csv: rank 1 has read other data than rank 0"));
  CHECK_FALSE(std::filesystem::exists(folder / "r/model.safetensors"));
  write_bytes(other / "c.csv", text);
  CHECK(two(words, words, folder.path(), other.path()).code == 0);
  // A test likewise.
  std::filesystem::copy(folder / "r", other / "r", std::filesystem::copy_options::recursive);
  write_bytes(other / "c.csv", changed);
  const std::vector<std::string> test{"test", "--model", "r", "--dataset", "c.csv", "--parallel", "mpi"};
  const Outcome tested = two(test, test, folder.path(), other.path());
  CHECK(tested.code == 3);
  CHECK_THAT(tested.err, ContainsSubstring("rank 1 has read other data"));
}

TEST_CASE("ranks: one that stops is named by rank and machine, and ends all", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  Process process(mpirun_words(3, training("r", {"--epochs", "100000", "--parallel", "mpi", "--rank-limit", "1"})),
                  {.seconds = 40, .folder = folder.path()});
  while (process.running() && process.err_so_far().find("epoch ") == std::string::npos)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const pid_t victim = process_with(folder.path(), "OMPI_COMM_WORLD_RANK=1");
  REQUIRE(victim > 0);
  kill(victim, SIGSTOP);
  const Outcome done = process.wait();
  INFO(done.err);
  CHECK_FALSE(done.timed_out);
  CHECK(done.code == 5);
  CHECK(((done.err.find("rank 1 (") != std::string::npos && done.err.find("did not arrive") != std::string::npos) ||
         done.err.find("the ranks did not finish within") != std::string::npos));
  CHECK(process_with(folder.path(), "OMPI_COMM_WORLD_RANK=1") == 0);
}
#endif

TEST_CASE("ranks: who waits longer than the limit for a sign of life ends as one that lost a rank", "[tools][ranks]") {
  const auto began = std::chrono::steady_clock::now();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    (void)::close(STDERR_FILENO);
    tool::Deadline deadline(std::chrono::seconds(1), "nobody hears this");
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      deadline.renew();
    }
    std::this_thread::sleep_for(std::chrono::seconds(60));
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 5);
  CHECK(took.count() > 2.7);  // three signs of life, and the limit
  CHECK(took.count() < 30);
}

}  // namespace tern::testing
