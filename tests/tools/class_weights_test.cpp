// Classes that count differently in the cost.

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "metrics.hpp"
#include "process.hpp"
#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

namespace {

// A common class and a rare one that lies at its edge.
std::string lopsided(int rows) {
  Generator generator(11);
  const auto noise = randn({rows, 2}, generator).to_vector<float>();
  std::string text = "x,y,kind\n";
  for (int i = 0; i < rows; ++i) {
    const bool rare = i % 10 == 0;
    for (int j = 0; j < 2; ++j)
      text += std::to_string(noise[static_cast<std::size_t>(2 * i + j)] + (rare ? 1.2f : 0.0f)) + ",";
    text += rare ? "rare\n" : "common\n";
  }
  return text;
}

struct Weighted {
  TemporaryFolder folder;
  Weighted() { write_bytes(folder / "c.csv", lopsided(400)); }
  Outcome run(const std::vector<std::string>& arguments) const { return tern(arguments, {.folder = folder.path()}); }
  Outcome train(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"train", "--dataset", "c.csv", "--run", name, "--schedule", "constant"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    INFO(outcome.err);
    CHECK(outcome.code == 0);
    return outcome;
  }
  Json test(const std::string& name) const {
    const Outcome outcome = run({"test", "--model", name, "--dataset", "c.csv", "--held-out", "--format", "json"});
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out);
  }
  std::string model(const std::string& name) const { return read_bytes(folder / (name + "/model.safetensors")); }
};

}  // namespace

TEST_CASE("class weights: a rare class is found more often, and the loss is the weighted one",
          "[tools][class_weights]") {
  const Weighted data;
  data.train("plain", {"--epochs", "20"});
  const Outcome balanced = data.train("balanced", {"--epochs", "20", "--class-weights", "balanced"});
  // 288 and 32 of the 320 training examples: 320 / (2 * 288) and 320 / (2 * 32).
  CHECK_THAT(balanced.err, ContainsSubstring("An example counts by its class: common 0.555556, rare 5."));
  CHECK(events_of(data.folder / "balanced").front()["data"]["class_weights"] == "common 0.555556, rare 5");
  CHECK_FALSE(events_of(data.folder / "plain").front()["data"].contains("class_weights"));
  const Json plain = data.test("plain"), weighted = data.test("balanced");
  CHECK(weighted["classes"]["rare"]["recall"].get<double>() > plain["classes"]["rare"]["recall"].get<double>() + 0.2);
  CHECK(weighted["classes"]["common"]["recall"] < plain["classes"]["common"]["recall"]);

  // The loss of all examples again, from what is predicted of each.
  const Outcome predicted =
      data.run({"predict", "--model", "balanced", "--dataset", "c.csv", "--scores", "--format", "csv"});
  const Outcome whole = data.run({"test", "--model", "balanced", "--dataset", "c.csv", "--format", "json"});
  std::istringstream lines(predicted.out);
  std::string line;
  std::getline(lines, line);
  double sum = 0;
  int row = 0;
  for (; std::getline(lines, line); ++row) {
    double common = 0, rare = 0;
    REQUIRE(std::sscanf(line.c_str(), "%*d,%*[a-z],%*f,%lf,%lf", &common, &rare) == 2);
    sum += row % 10 == 0 ? -5 * std::log(rare) : -std::log(common) / 1.8;
  }
  CHECK(row == 400);
  CHECK(Json::parse(whole.out)["loss"].get<double>() == Approx(sum / row).epsilon(1e-3));
}

TEST_CASE("class weights: their ratios count, and a training that goes on keeps them", "[tools][class_weights]") {
  const Weighted data;
  data.train("one", {"--epochs", "4", "--class-weights", "1,4"});
  data.train("two", {"--epochs", "4", "--class-weights", "2,8"});
  CHECK(data.model("one") == data.model("two"));
  data.train("halves", {"--epochs", "2", "--class-weights", "1,4"});
  CHECK(data.run({"train", "--resume", "--run", "halves", "--epochs", "4"}).code == 0);
  CHECK(data.model("halves") == data.model("one"));
  const Outcome other = data.run({"train", "--resume", "--run", "one", "--class-weights", "balanced"});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, ContainsSubstring("--class-weights is balanced here and 1,4 in the training"));
  // The parts of a batch count alike for any number of ranks.
  data.train("ranks", {"--epochs", "4", "--class-weights", "1,4", "--ranks", "2"});
  data.train("shards", {"--epochs", "4", "--class-weights", "1,4", "--shards", "8"});
  CHECK(data.model("ranks") == data.model("shards"));
}

TEST_CASE("class weights: what they are not for is said", "[tools][class_weights]") {
  const Weighted data;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    std::vector<std::string> arguments{"train", "--dataset", "c.csv"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = data.run(arguments);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(words));
  };
  refused({"--class-weights", "1,2,3"}, "--class-weights has 3 numbers, but there are 2 classes: common, rare");
  refused({"--class-weights", "1,0"}, "found 0 in '1,0', expected balanced, or a number above 0");
  refused({"--class-weights", "heavy"}, "--class-weights: found 'heavy', expected a number");
  refused({"--class-weights", "balanced", "--cost", "mse"},
          "--class-weights are for --cost cross-entropy, not for mse");
  refused({"--class-weights", "balanced", "--target", "x"}, "--class-weights: the target is a number, not classes");
}

}  // namespace tern::testing
