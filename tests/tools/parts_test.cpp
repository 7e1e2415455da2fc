// Training, validation and test examples: what each of them decides.

#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

namespace {

struct Trainings {
  TemporaryFolder folder;
  Trainings() { write_bytes(folder / "c.csv", clusters(150, "x,y,z,kind\n")); }

  Outcome run(std::vector<std::string> arguments) const { return tern(arguments, {.folder = folder.path()}); }
  Outcome train(const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"train", "--dataset", "c.csv", "--run", name};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  std::string model(const std::string& name) const {
    const Outcome weights = run({"export", "--model", name, "--out", name + ".safetensors"});
    REQUIRE(weights.code == 0);
    return read_bytes(folder / (name + ".safetensors"));
  }
};

}  // namespace

TEST_CASE("parts: a test part is what --validation would hold out, and validation examples find the best epoch",
          "[tools][parts]") {
  const Trainings trainings;
  const std::vector<std::string> limits{"--epochs", "20", "--early-stop", "3", "--refit", "yes"};
  auto three = limits, two = limits;
  three.insert(three.end(), {"--test-fraction", "0.2", "--validation", "0.16"});
  two.insert(two.end(), {"--validation", "0.2", "--stopping", "0.2"});
  const Outcome outcome = trainings.train("three", three);
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  REQUIRE(trainings.train("two", two).code == 0);
  CHECK_THAT(outcome.err, ContainsSubstring("96 training, 24 validation and 30 test examples"));
  CHECK_THAT(outcome.out, ContainsSubstring("test accuracy: "));
  CHECK_THAT(outcome.out, ContainsSubstring("on all 120 training and validation examples"));
  // The same parts by other names: the weights are the same to the bit.
  CHECK(trainings.model("three") == trainings.model("two"));

  const auto events = events_of(trainings.folder / "three"), plain = events_of(trainings.folder / "two");
  const Json& data = events.front()["data"];
  CHECK(data["training_examples"] == 96);
  CHECK(data["validation_examples"] == 24);
  CHECK(data["test_examples"] == 30);
  CHECK(data["stopping_examples"] == 0);
  CHECK_FALSE(plain.front()["data"].contains("test_examples"));
  CHECK(events.back()["accuracy"] == plain.back()["accuracy"]);
  CHECK(events.back()["best_epoch"] == plain.back()["best_epoch"]);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i]["event"] == "evaluation") CHECK(events[i]["of"] == "test");
    if (events[i]["event"] == "evaluation") CHECK(events[i]["examples"] == 30);
    if (events[i]["event"] != "epoch") continue;
    CHECK(events[i]["stopping_loss"] == plain[i]["stopping_loss"]);
    CHECK(events[i]["validation_loss"] == events[i]["stopping_loss"]);
  }
  const Outcome tested =
      trainings.run({"test", "--model", "three", "--dataset", "c.csv", "--held-out", "--format", "json"});
  REQUIRE(tested.code == 0);
  CHECK(Json::parse(tested.out)["examples"] == 30);
  CHECK(Json::parse(tested.out)["accuracy"] == events.back()["accuracy"]);
}

TEST_CASE("parts: without early stopping the validation examples are not trained on either", "[tools][parts]") {
  const Trainings trainings;
  REQUIRE(trainings.train("a", {"--epochs", "3", "--test-fraction", "0.2", "--validation", "0.2", "--quiet"}).code ==
          0);
  const auto events = events_of(trainings.folder / "a");
  CHECK(events.front()["data"]["training_examples"] == 90);
  CHECK(events.front()["data"]["validation_examples"] == 30);
  CHECK(events[events.size() - 3]["validation_loss"].is_number());
  CHECK_FALSE(events.back().contains("best_epoch"));
  // It goes on with the same parts, and with no others.
  CHECK(trainings.run({"train", "--resume", "--run", "a", "--test-fraction", "0.3"}).code == 2);
  const Outcome more = trainings.run({"train", "--resume", "--run", "a", "--epochs", "4"});
  INFO(more.err);
  CHECK(more.code == 0);
  CHECK_THAT(more.out, ContainsSubstring("test accuracy"));
}

TEST_CASE("parts: a search ranks by validation and tells the test figure beside it", "[tools][parts]") {
  const Trainings trainings;
  const Outcome outcome = trainings.run({"tune", "--dataset", "c.csv", "--grid", "learning-rate=0.01,0.000001",
                                         "--epochs", "3", "--test-fraction", "0.2", "--run", "search", "--quiet"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("; of the test part "));
  const std::string table = read_bytes(trainings.folder / "search/results.csv");
  CHECK_THAT(table, ContainsSubstring(",problem,test_accuracy\n1,0.01,done,"));
  const auto best = events_of(trainings.folder / "search/trial-001");
  const std::string line = table.substr(table.find("\n1,") + 1);
  CHECK(line.substr(0, line.find('\n')).ends_with("," + std::to_string(best.back()["accuracy"].get<double>())));
}

TEST_CASE("parts: shares that leave nothing are errors with the way out", "[tools][parts]") {
  const Trainings trainings;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& words) {
    const Outcome outcome = trainings.train("r", more);
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(words));
  };
  refused({"--test-fraction", "0.8"}, "--test-fraction 0.8 and --validation 0.2 leave nothing to train on");
  refused({"--test-fraction", "1"}, "expected a share from 0 to below 1");
  refused({"--test-fraction", "0.2", "--validation", "0", "--early-stop", "2"},
          "--early-stop watches the validation examples, of which there are none");
  const Outcome digits = trainings.run({"train", "--dataset", "synthetic-digits", "--test-fraction", "0.2"});
  CHECK(digits.code == 2);
  CHECK_THAT(digits.err, ContainsSubstring("synthetic-digits has its own test part"));
  // Without validation examples all others are trained on.
  CHECK(trainings.train("t", {"--test-fraction", "0.2", "--validation", "0", "--quiet"}).code == 0);
  CHECK(events_of(trainings.folder / "t").front()["data"]["training_examples"] == 120);
}

}  // namespace tern::testing
