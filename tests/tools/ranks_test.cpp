// tern train in several ranks: threads, and processes under mpirun.

#include <algorithm>

#include "metrics.hpp"
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

#ifdef TERN_TEST_MPIRUN
Outcome mpirun(int ranks, const std::vector<std::string>& arguments, const TemporaryFolder& folder) {
  std::vector<std::string> words{TERN_TEST_MPIRUN,      "--allow-run-as-root", "--oversubscribe", "-n",
                                 std::to_string(ranks), TERN_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  Process process(words, {.folder = folder.path()});
  return process.wait();
}
#endif

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
  CHECK_THAT(words({"--ranks", "3", "--shards", "2"}), ContainsSubstring("3 ranks want a part of each batch each"));
  CHECK_THAT(words({"--shards", "14"}), ContainsSubstring("a batch has 13 examples"));
  CHECK_THAT(words({"--parallel", "pigeons"}), ContainsSubstring("threads or mpi"));
}

#ifdef TERN_TEST_MPIRUN
TEST_CASE("ranks: processes give the bits of threads", "[tools][ranks]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(150));
  REQUIRE(tern(training("one", {"--epochs", "2", "--shards", "8"}), {.folder = folder.path()}).code == 0);
  for (const int ranks : {1, 2, 4}) {
    const std::string run = "p" + std::to_string(ranks);
    const Outcome done = mpirun(ranks, training(run, {"--epochs", "2", "--shards", "8", "--parallel", "mpi"}), folder);
    INFO(done.err);
    REQUIRE(done.code == 0);
    CHECK(count_of(done.err, "epoch 2/2") == 1);
    CHECK(count_of(done.out, "validation accuracy") == 1);
    CHECK(model_of(folder, run) == model_of(folder, "one"));
  }
  // From threads to processes.
  REQUIRE(tern(training("on", {"--epochs", "1", "--ranks", "3"}), {.folder = folder.path()}).code == 0);
  const Outcome on = mpirun(2, training("on", {"--resume", "--epochs", "2", "--parallel", "mpi"}), folder);
  INFO(on.err);
  REQUIRE(on.code == 0);
  CHECK(model_of(folder, "on") == model_of(folder, "one"));
  // One that fails ends all.
  write_bytes(folder / "bad.csv", "1,2,x\n1,2\n");
  const Outcome failed = mpirun(2, {"train", "--dataset", "bad.csv", "--parallel", "mpi"}, folder);
  CHECK(failed.code == 3);
  CHECK_FALSE(failed.timed_out);
}
#endif

}  // namespace tern::testing
