// What the program says: hints that work when copied, nothing that a terminal obeys, help that names the values.

#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>

#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "text.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using namespace tool;
namespace fs = std::filesystem;

namespace {

/// The commands behind "next: ", run by a shell as they stand.
int run_hints(const std::string& said, const TemporaryFolder& folder) {
  const std::size_t at = said.find("next: ");
  REQUIRE(at != std::string::npos);
  std::string script = "set -e; cd '" + folder.path() + "'; tern() { '" + std::string(program_path) + "' \"$@\"; }\n" +
                       said.substr(at + 6);
  write_bytes(folder / "hints.sh", script);
  const int status =
      std::system(("sh '" + (folder / "hints.sh") + "' > '" + (folder / "hints.log") + "' 2>&1").c_str());
  INFO(script << read_bytes(folder / "hints.log"));
  CHECK(WEXITSTATUS(status) == 0);
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("words: text for terminals and shells", "[tools][words]") {
  CHECK(visible("a\x1b[31mb\x07\x7f\r") == "a?[31mb???");
  CHECK(visible("tab\tand\nline, café, 中") == "tab\tand\nline, café, 中");
  CHECK(visible("\xc2\x9b"
                "31m\xc2\xa0") == "?31m\xc2\xa0");
  CHECK(shell_word("run/a-b_1.csv") == "run/a-b_1.csv");
  CHECK(shell_word("") == "''");
  CHECK(shell_word("my run") == "'my run'");
  CHECK(shell_word("it's $HOME") == "'it'\\''s $HOME'");
  CHECK(counted(1, "epoch") == "1 epoch");
  CHECK(counted(2000, "epoch") == "2,000 epochs");
}

TEST_CASE("words: what the program hints at works when it is copied", "[tools][words]") {
  const TemporaryFolder folder;
  write_bytes(folder / "my 'odd' $table.csv", clusters(60, "x,y,z,kind\n"));
  const Outcome trained =
      tern({"train", "--dataset", "my 'odd' $table.csv", "--run", "a run; of mine", "--epochs", "1", "--limit", "50"},
           {.folder = folder.path()});
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.out, ContainsSubstring(" after 1 epoch in "));
  run_hints(trained.out, folder);
  // A set that a folder has to be named for.
  REQUIRE(tern({"train", "--dataset", "synthetic-digits", "--limit", "60", "--epochs", "1", "--run", "d", "--net",
                "mlp-small"},
               {.folder = folder.path()})
              .code == 0);
  write_bytes(folder / "numbers.csv", clusters(60, "0,1,2,3\n"));
  const Outcome named = tern({"train", "--dataset", "numbers.csv", "--header", "yes", "--run", "n", "--epochs", "2"},
                             {.folder = folder.path()});
  REQUIRE(named.code == 0);
  CHECK_THAT(named.out, ContainsSubstring(" --header yes"));
  run_hints(named.out, folder);
}

TEST_CASE("words: names that hold escapes do not reach the terminal", "[tools][words]") {
  const TemporaryFolder folder;
  std::string text = clusters(60);
  for (std::size_t at = text.find("ant"); at != std::string::npos; at = text.find("ant", at + 1))
    text.replace(at, 3, "\x1b[31mred\x07");
  const std::string name = "c\x1b]0;title\x07.csv";
  write_bytes(folder / name, text);
  const auto clean = [](const std::string& said) {
    return said.find('\x1b') == std::string::npos && said.find('\x07') == std::string::npos;
  };
  const Outcome trained = tern({"train", "--dataset", name, "--epochs", "2"}, {.folder = folder.path()});
  REQUIRE(trained.code == 0);
  CHECK(clean(trained.err));
  const Outcome table = tern({"test", "--model", "run", "--dataset", name}, {.folder = folder.path()});
  REQUIRE(table.code == 0);
  CHECK(clean(table.out));
  CHECK_THAT(table.out, ContainsSubstring("?[31mred?"));
  // For programs every byte stays.
  CHECK_THAT(tern({"test", "--model", "run", "--dataset", name, "--format", "csv"}, {.folder = folder.path()}).out,
             ContainsSubstring("\x1b[31mred\x07"));
  const Outcome missing = tern({"test", "--model", "run", "--dataset", "no\x1b[31m.csv"}, {.folder = folder.path()});
  CHECK(missing.code == 3);
  CHECK(clean(missing.err));
}

TEST_CASE("words: help names the values and the defaults", "[tools][words]") {
  const std::string help = tern({"train", "--help-all"}).out;
  for (const char* word :
       {"googlenet", "resnet18", "mlp-big", "leaky-relu", "softplus", "binary-cross-entropy", "hinge",
        "(cross-entropy)", "(relu)", "(auto)", "(strict)", "(error)", "checkpoints to keep (3)", "(1)"})
    CHECK_THAT(help, ContainsSubstring(word));
  CHECK(help.find("(0.0)") == std::string::npos);
  const std::string page = tern({"man"}).out;
  for (const char* word : {"binary\\-cross\\-entropy", "(relu)"}) CHECK_THAT(page, ContainsSubstring(word));
}

TEST_CASE("words: files of other kinds are called by their name", "[tools][words]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "1", "--quiet"}, {.folder = folder.path()}).code == 0);
  write_bytes(folder / "w.pth", std::string("PK\x03\x04", 4) + std::string(100, 'x'));
  const Outcome pickle = tern({"test", "--model", "w.pth", "--dataset", "c.csv"}, {.folder = folder.path()});
  CHECK(pickle.code == 3);
  CHECK_THAT(pickle.err,
             ContainsSubstring("w.pth: a pickle of PyTorch") && ContainsSubstring("safetensors.torch.save_file"));
  write_bytes(folder / "text", "hello, this is no model\n");
  const Outcome text = tern({"test", "--model", "text", "--dataset", "c.csv"}, {.folder = folder.path()});
  CHECK(text.code == 3);
  CHECK(text.err.find("hostile") == std::string::npos);
  CHECK(text.err.find("SafetensorsOptions") == std::string::npos);
  for (const char* name : {"v.npz", "v.pth"}) {
    const Outcome exported = tern({"export", "--model", "run", "--out", name}, {.folder = folder.path()});
    CHECK(exported.code == 2);
    CHECK_THAT(exported.err, ContainsSubstring("--format npy"));
    CHECK_FALSE(fs::exists(folder / name));
  }
  const Outcome digits = tern({"train", "--dataset", "mnist", "--data", "nowhere"}, {.folder = folder.path()});
  CHECK(digits.code == 3);
  CHECK_THAT(digits.err, ContainsSubstring("--download"));
}

TEST_CASE("words: a quantity and a loss that is none are reported", "[tools][words]") {
  const TemporaryFolder folder;
  std::string prices;
  for (int i = 0; i < 100; ++i)
    prices += std::to_string(i) + "," + std::to_string(i * i % 97) + "," + std::to_string(10 + i % 35) + "\n";
  write_bytes(folder / "prices.csv", prices);
  CHECK_THAT(
      tern({"train", "--dataset", "prices.csv", "--epochs", "1", "--task", "classification"}, {.folder = folder.path()})
          .err,
      ContainsSubstring("The 35 classes are all numbers, each a class of its own; --task regression"));
  write_bytes(folder / "c.csv", clusters(60));
  const Outcome diverged = tern(
      {"train", "--dataset", "c.csv", "--cost", "mse", "--optimizer", "sgd", "--learning-rate", "100000", "--run", "x"},
      {.folder = folder.path()});
  CHECK(diverged.code == 1);
  CHECK_THAT(diverged.err, ContainsSubstring("the loss is NaN") || ContainsSubstring("the loss is infinite"));
}

}  // namespace tern::testing
