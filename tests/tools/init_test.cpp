// tern train --init and --freeze: fine-tuning the weights of another training.

#include <filesystem>

#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "tern/io/npy.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

/// `clusters` without the flies: rows of two classes.
std::string without_flies(int rows) {
  std::istringstream all(clusters(rows));
  std::string text;
  for (std::string line; std::getline(all, line);)
    if (!line.ends_with("fly")) text += line + "\n";
  return text;
}

std::vector<double> weights(const std::string& file, const std::string& name) {
  return io::load_safetensors(file).tensors.at(name).values();
}

}  // namespace

TEST_CASE("init: a net goes on with other classes, and frozen layers stay", "[tools][init]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  write_bytes(folder / "three.csv", clusters(150));
  write_bytes(folder / "two.csv", without_flies(120));
  REQUIRE(tern({"train", "--dataset", "three.csv", "--layers", "3,7,3", "--activation", "tanh", "--epochs", "8",
                "--run", "base", "--quiet"},
               here)
              .code == 0);
  const Outcome tuned = tern(
      {"train", "--dataset", "two.csv", "--init", "base", "--freeze", "0.*", "--epochs", "3", "--run", "tuned"}, here);
  INFO(tuned.err);
  REQUIRE(tuned.code == 0);
  CHECK_THAT(tuned.err, ContainsSubstring("mlp 3-7-2, tanh"));  // the net of the weights
  CHECK_THAT(tuned.err, ContainsSubstring("Weights of base: 2 of 4 tensors were taken"));
  CHECK_THAT(tuned.err, ContainsSubstring("different: 2.weight is [2,7] here and [3,7] there"));
  CHECK_THAT(tuned.err, ContainsSubstring("Frozen: 2 tensors of 4, 16 parameters are trained"));
  const std::string base = folder / "base/model.safetensors", model = folder / "tuned/model.safetensors";
  CHECK(weights(model, "0.weight") == weights(base, "0.weight"));
  CHECK(weights(model, "0.bias") == weights(base, "0.bias"));

  // In two parts, the same bits; what was begun with is fixed.
  const std::vector<std::string> once{"train",    "--dataset", "two.csv", "--init", "base",
                                      "--freeze", "0.*",       "--run",   "parts"};
  auto part = once;
  part.insert(part.end(), {"--epochs", "1", "--schedule", "constant", "--quiet"});
  REQUIRE(tern(part, here).code == 0);
  REQUIRE(tern({"train", "--resume", "--run", "parts", "--epochs", "3", "--quiet"}, here).code == 0);
  auto whole = once;
  whole.insert(whole.end(), {"--epochs", "3", "--schedule", "constant", "--quiet"});
  whole[8] = "whole";
  REQUIRE(tern(whole, here).code == 0);
  CHECK(weights(folder / "parts/model.safetensors", "2.weight") ==
        weights(folder / "whole/model.safetensors", "2.weight"));
  const Outcome changed = tern({"train", "--resume", "--run", "parts", "--freeze", "2.*", "--epochs", "4"}, here);
  CHECK(changed.code == 2);
  CHECK_THAT(changed.err, ContainsSubstring("--freeze"));
}

TEST_CASE("init: as many classes of other names are other classes", "[tools][init]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  const std::string rows = clusters(90);
  std::string renamed = rows;
  for (std::size_t at = 0; (at = renamed.find("fly", at)) != std::string::npos;) renamed.replace(at, 3, "wasp");
  write_bytes(folder / "fly.csv", rows);
  write_bytes(folder / "wasp.csv", renamed);
  REQUIRE(tern({"train", "--dataset", "fly.csv", "--epochs", "3", "--run", "base", "--quiet"}, here).code == 0);
  const auto tuned = [&](const std::string& data) {
    const Outcome outcome =
        tern({"train", "--dataset", data, "--init", "base", "--epochs", "1", "--run", "tuned"}, here);
    CHECK(outcome.code == 0);
    return outcome.err;
  };
  CHECK_THAT(tuned("fly.csv"),
             ContainsSubstring("Weights of base: 4 of 4 tensors were taken\n") && !ContainsSubstring("other classes"));
  CHECK_THAT(tuned("wasp.csv"), ContainsSubstring("Weights of base: 2 of 4 tensors were taken\n") &&
                                    ContainsSubstring("had other classes: the last layer is new"));
}

TEST_CASE("init: weights of elsewhere, and a refit from them", "[tools][init]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  write_bytes(folder / "c.csv", clusters(90));
  io::save_npz(folder / "w.npz", {{"0.weight", full({4, 3}, 0.25)}, {"0.bias", zeros({4})}});
  const Outcome trained = tern({"train", "--dataset", "c.csv", "--layers", "3,4,3", "--init", "w.npz", "--freeze",
                                "0.weight", "--early-stop", "2", "--epochs", "4", "--refit", "yes"},
                               here);
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.err, ContainsSubstring("missing: 2.bias"));
  CHECK(weights(folder / "run/model.safetensors", "0.weight") == std::vector<double>(12, 0.25));
  CHECK(weights(folder / "run/model.safetensors", "0.bias") != std::vector<double>(4, 0));
}

TEST_CASE("init: what cannot be begun with is said", "[tools][init]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  write_bytes(folder / "c.csv", clusters(60));
  const std::vector<std::string> train{"train", "--dataset", "c.csv", "--layers", "3,4,3", "--epochs", "1"};
  const auto fails = [&](int code, const std::vector<std::string>& more, const std::string& sentence) {
    auto words = train;
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = tern(words, here);
    INFO(outcome.err);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.err, ContainsSubstring(sentence));
    CHECK_FALSE(fs::exists(folder / "run/model.safetensors"));
  };
  fails(3, {"--init", "none.safetensors"}, "none.safetensors");
  io::save_safetensors(folder / "other.safetensors", {{"features.0.weight", ones({2, 2})}});
  fails(3, {"--init", "other.safetensors"}, "other.safetensors: nothing in there fits Mlp: it has features.0.weight");
  fails(2, {"--freeze", "conv1.*"}, "--freeze: no parameter of Mlp is called 'conv1.*'; there are 0.bias");
  fails(2, {"--freeze", "*"}, "--freeze leaves no parameter to train");
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "1", "--run", "own", "--quiet"}, here).code == 0);
  const Outcome itself = tern({"train", "--dataset", "c.csv", "--init", "own", "--run", "own"}, here);
  CHECK(itself.code == 2);
  CHECK_THAT(itself.err, ContainsSubstring("is read here and would be overwritten"));
}

TEST_CASE("init: columns are matched by their names", "[tools][init]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  std::string xy = "p,q,c,k\n", yx = "c,q,k,p\n", more = "q,r,p,c,k\n";
  Generator generator(3);
  const auto values = randn({200, 2}, generator).to_vector<float>();
  for (std::size_t i = 0; i < 200; ++i) {
    const std::string p = std::to_string(values[2 * i]), q = std::to_string(values[2 * i + 1]),
                      c = i % 2 == 0 ? "red" : "blue", k = values[2 * i] > values[2 * i + 1] ? "yes" : "no";
    xy += p + "," + q + "," + c + "," + k + "\n";
    yx += c + "," + q + "," + k + "," + p + "\n";
    more += q + ",0." + std::to_string(i) + "," + p + "," + c + "," + k + "\n";
  }
  write_bytes(folder / "xy.csv", xy);
  write_bytes(folder / "yx.csv", yx);
  write_bytes(folder / "more.csv", more);
  for (const std::string embedding : {"off", "1"}) {
    INFO(embedding);
    const Outcome base = tern(
        {"train", "--dataset", "xy.csv", "--embedding", embedding, "--epochs", "40", "--run", "xy", "--quiet"}, here);
    REQUIRE(base.code == 0);
    // The rate is so small that nothing is learnt anew.
    const auto again = [&](const std::string& table) {
      return tern({"train", "--dataset", table, "--target", "k", "--embedding", embedding, "--init", "xy",
                   "--learning-rate", "1e-9", "--epochs", "1", "--run", "yx"},
                  here);
    };
    const Outcome exchanged = again("yx.csv");
    INFO(base.out + exchanged.out + exchanged.err);
    REQUIRE(exchanged.code == 0);
    const auto accuracy = [](const std::string& text) {
      const std::string mark = "validation accuracy: ";
      return std::stod(text.substr(text.find(mark) + mark.size()));
    };
    CHECK(accuracy(base.out) > 80);
    CHECK(accuracy(exchanged.out) > accuracy(base.out) - 5);
    CHECK_THAT(exchanged.err, !ContainsSubstring("inputs are new"));
    const Outcome wider = again("more.csv");
    CHECK_THAT(wider.err, ContainsSubstring("do not know all values of these columns, whose inputs are new: r\n"));
    CHECK(accuracy(wider.out) > 60);
  }
}

}  // namespace tern::testing
