#include "tern/io/checkpoint.hpp"

#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <set>
#include <thread>

#include "../../src/io/checkpoint_sum.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/tensor/create.hpp"

namespace tern::io {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

// Every element tells the step, so that a mixture of two checkpoints would show.
Checkpoint checkpoint_of(std::int64_t step, std::int64_t elements = 1000) {
  Checkpoint checkpoint;
  checkpoint.put("model.", {{"weight", full({elements}, static_cast<double>(step))},
                            {"bias", full({3}, static_cast<double>(step))}});
  checkpoint.put("optimizer.", {{"momentum", full({elements}, static_cast<double>(-step))}});
  checkpoint.metadata["note"] = "anything";
  checkpoint.step = step;
  checkpoint.epoch = 2;
  checkpoint.batch = 17;
  checkpoint.seed = ~0ull;
  checkpoint.random_position = 1ull << 63;
  return checkpoint;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& found : std::filesystem::directory_iterator(folder))
    names.push_back(found.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

TEST_CASE("checkpoint: its sum is of the file's bytes, whatever the machine's order", "[io]") {
  // hashlib.sha256(b"a\0float32[2]\0" + struct.pack("<2f", 1, 2) + b"k\0v\0") in Python.
  CHECK(checkpoint_sum({{"a", tensor({1.f, 2.f})}}, {{"k", "v"}}) ==
        "45b4e117701c76451dd216494eb4765bacda4ab91e1b885cbc6464758f8bad0b");
}

TEST_CASE("checkpoint: the whole state comes back", "[io]") {
  const TemporaryFolder folder;
  const Checkpoint saved = checkpoint_of(42);
  const std::string file = save_checkpoint(folder / "new/run", saved);
  CHECK(file == folder / "new/run/checkpoint-000000000042.safetensors");
  const Checkpoint loaded = load_checkpoint(file);
  CHECK(loaded.step == 42);
  CHECK(loaded.epoch == 2);
  CHECK(loaded.batch == 17);
  CHECK(loaded.seed == ~0ull);
  CHECK(loaded.random_position == 1ull << 63);
  CHECK(loaded.metadata == saved.metadata);
  CHECK(loaded.tensors.size() == 3);
  const auto model = loaded.part("model.");
  REQUIRE(model.size() == 2);
  CHECK(model.at("weight").to_vector<float>() == std::vector<float>(1000, 42));
  CHECK(loaded.part("optimizer.").at("momentum").to_vector<float>() == std::vector<float>(1000, -42));
  CHECK(loaded.part("none.").empty());
}

TEST_CASE("checkpoint: the newest ones are kept, other files are left alone", "[io]") {
  const TemporaryFolder folder;
  write_bytes(folder / "checkpoint-notes.txt", "mine");
  write_bytes(folder / "checkpoint-x.safetensors", "mine");
  write_bytes(folder / "checkpoint--1.safetensors", "mine");
  write_bytes(folder / "checkpoint-000000000001.safetensors.tmp.999.0", "left by a killed process");
  for (const std::int64_t step : {1, 2, 3, 4}) save_checkpoint(folder.path(), checkpoint_of(step), 2);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"checkpoint--1.safetensors",
                                                            "checkpoint-000000000003.safetensors",
                                                            "checkpoint-000000000004.safetensors",
                                                            "checkpoint-notes.txt", "checkpoint-x.safetensors"});
  CHECK_THROWS_AS(save_checkpoint(folder.path(), checkpoint_of(5), 0), FileError);
}

// Going back to an older step and on from there must not cost the way back.
TEST_CASE("checkpoint: newer steps neither go nor count among those that are kept", "[io]") {
  const TemporaryFolder folder;
  for (const std::int64_t step : {10, 20, 30}) save_checkpoint(folder.path(), checkpoint_of(step), 9);
  for (const std::int64_t step : {5, 6, 7}) save_checkpoint(folder.path(), checkpoint_of(step), 2);
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(folder.path())) steps.push_back(std::stoll(name.substr(11)));
  CHECK(steps == std::vector<std::int64_t>{6, 7, 10, 20, 30});
}

TEST_CASE("checkpoint: names, dtypes, shapes and metadata are part of the sum", "[io]") {
  using Tensors = std::map<std::string, Tensor>;
  const Tensor values = arange(0, 6, 1, DType::float32);
  const Tensors tensors{{"a", values.reshape({2, 3})}};
  const std::map<std::string, std::string> notes{{"k", "v"}};
  const std::string sum = checkpoint_sum(tensors, notes);
  CHECK(checkpoint_sum(tensors, {{"k", "v"}, {checkpoint_sum_key, "itself"}}) == sum);
  std::set<std::string> sums{sum};
  for (const Tensors& other :
       {Tensors{{"b", values.reshape({2, 3})}}, Tensors{{"a", values.reshape({3, 2})}}, Tensors{{"a", values}},
        Tensors{{"a", zeros({2, 3})}}, Tensors{{"a", zeros({2, 3}, DType::int32)}},
        Tensors{{"a", values.slice(0, 0, 3)}, {"b", values.slice(0, 3, 6)}}})
    sums.insert(checkpoint_sum(other, notes));
  sums.insert(checkpoint_sum(tensors, {}));
  sums.insert(checkpoint_sum(tensors, {{"k", "w"}}));
  sums.insert(checkpoint_sum(tensors, {{"kv", ""}}));
  CHECK(sums.size() == 10);
}

TEST_CASE("checkpoint: resuming takes the newest that is whole", "[io]") {
  const TemporaryFolder folder;
  CHECK(!resume_checkpoint(folder / "missing"));
  CHECK(!resume_checkpoint(folder.path()));
  for (const std::int64_t step : {1, 2, 3}) save_checkpoint(folder.path(), checkpoint_of(step));
  const std::string newest = folder / "checkpoint-000000000003.safetensors",
                    second = folder / "checkpoint-000000000002.safetensors";

  auto resumed = resume_checkpoint(folder.path());
  REQUIRE(resumed);
  CHECK(resumed->checkpoint.step == 3);
  CHECK(resumed->skipped.empty());

  std::string bytes = read_bytes(newest);
  write_bytes(newest, bytes.substr(0, bytes.size() - 1));
  bytes = read_bytes(second);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);  // one bit of one element
  write_bytes(second, bytes);
  resumed = resume_checkpoint(folder.path());
  REQUIRE(resumed);
  CHECK(resumed->checkpoint.step == 1);
  REQUIRE(resumed->skipped.size() == 2);
  CHECK_THAT(resumed->skipped[0], ContainsSubstring(newest) && ContainsSubstring("cut short"));
  CHECK_THAT(resumed->skipped[1], ContainsSubstring(second) && ContainsSubstring("damaged"));

  write_bytes(folder / "checkpoint-000000000001.safetensors", "");
  CHECK_THAT(said<FileError>([&] { resume_checkpoint(folder.path()); }),
             ContainsSubstring("none of the checkpoints there is valid"));
}

TEST_CASE("checkpoint: a changed bit anywhere is found", "[io]") {
  const TemporaryFolder folder;
  Checkpoint checkpoint;
  checkpoint.tensors["w"] = arange(0, 6, 1, DType::float32).reshape({2, 3});
  checkpoint.step = 7;
  const std::string file = save_checkpoint(folder.path(), checkpoint);
  const std::string good = read_bytes(file);
  const std::size_t text_end = good.find_last_of('}') + 1;
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (i >= text_end && good[i] == ' ') continue;  // padding may be any white space
    std::string changed = good;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    write_bytes(file, changed);
    INFO("byte " << i << " of " << good.size());
    REQUIRE_THROWS_AS(load_checkpoint(file), FileError);
  }
}

TEST_CASE("checkpoint: other files are not checkpoints", "[io]") {
  const TemporaryFolder folder;
  const std::string file = folder / "f";
  save_safetensors(file, {});
  CHECK_THAT(said<FileError>([&] { load_checkpoint(file); }), ContainsSubstring("'tern.format' is missing"));
  save_safetensors(file, {}, {{"tern.format", "tern.checkpoint.9"}});
  CHECK_THAT(said<FileError>([&] { load_checkpoint(file); }), ContainsSubstring("newer version"));
  save_safetensors(file, {}, {{"tern.format", "tern.checkpoint.1"}});
  CHECK_THAT(said<FileError>([&] { load_checkpoint(file); }), ContainsSubstring("SHA-256"));
  Checkpoint reserved;
  reserved.metadata["tern.mine"] = "";
  CHECK_THAT(said<FileError>([&] { save_checkpoint(folder / "run", reserved); }), ContainsSubstring("reserved"));
}

TEST_CASE("checkpoint: a full disk and a read-only folder keep the older checkpoints", "[io]") {
  const TemporaryFolder folder;
  const std::string run = folder / "run";
  save_checkpoint(run, checkpoint_of(1), 1);
  {
    const FileSizeLimit full(4000);
    CHECK_THAT(said<FileError>([&] { save_checkpoint(run, checkpoint_of(2), 1); }),
               ContainsSubstring("writing failed"));
  }
  CHECK(names_in(run).size() == 1);
  chmod(run.c_str(), 0555);
  {
    const Unprivileged nobody;
    CHECK_THAT(said<FileError>([&] { save_checkpoint(run, checkpoint_of(2), 1); }),
               ContainsSubstring("Permission denied"));
  }
  chmod(run.c_str(), 0755);
  CHECK(resume_checkpoint(run)->checkpoint.step == 1);
}

TEST_CASE("checkpoint: a process killed while it saves leaves a whole checkpoint", "[io]") {
  const TemporaryFolder folder;
  std::int64_t reached = 0;
  save_checkpoint(folder.path(), checkpoint_of(0, 50'000));
  for (int kill_number = 0; kill_number < 20; ++kill_number) {
    std::array<int, 2> started{};  // the child tells when it has saved once
    REQUIRE(pipe(started.data()) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      try {
        for (std::int64_t step = resume_checkpoint(folder.path())->checkpoint.step + 1;; ++step)
          if (save_checkpoint(folder.path(), checkpoint_of(step, 50'000)).empty() || write(started[1], "x", 1) != 1)
            _exit(2);
      } catch (...) {
        _exit(1);
      }
    }
    close(started[1]);
    char byte = 0;
    REQUIRE(read(started[0], &byte, 1) == 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(kill_number % 7));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    close(started[0]);
    REQUIRE(WIFSIGNALED(status));
    const auto resumed = resume_checkpoint(folder.path());
    REQUIRE(resumed);
    CHECK(resumed->skipped.empty());
    CHECK(resumed->checkpoint.step > reached);
    reached = resumed->checkpoint.step;
    CHECK(resumed->checkpoint.tensors.at("model.weight").to_vector<float>() ==
          std::vector<float>(50'000, static_cast<float>(reached)));
  }
}

}  // namespace tern::io
