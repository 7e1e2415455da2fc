// Cross-validation: what is trained, what comes of it, and what is taken up again.

#include <cmath>
#include <filesystem>

#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

namespace {

struct Folds {
  TemporaryFolder folder;
  Folds() {
    write_bytes(folder / "c.csv", clusters(60, "x,y,z,kind\n"));
    std::string line = "x,y\n";
    for (int i = 0; i < 40; ++i) line += std::to_string(i * 0.25) + "," + std::to_string(3 + i * 0.5) + "\n";
    write_bytes(folder / "line.csv", line);
  }
  Outcome run(const std::vector<std::string>& arguments) const { return tern(arguments, {.folder = folder.path()}); }
  Outcome train(const std::string& table, const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"train", "--dataset", table, "--run", name, "--epochs", "6", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  std::string read(const std::string& name) const { return read_bytes(folder / name); }
};

double mean_of(const Json& folds, const std::string& figure) {
  double sum = 0;
  for (const Json& fold : folds) sum += fold[figure].get<double>();
  return sum / static_cast<double>(folds.size());
}

}  // namespace

TEST_CASE("folds: each is held out of a training of its own; mean and deviation are of all", "[tools][folds]") {
  const Folds folds;
  const Outcome outcome = folds.train("c.csv", "cv", {"--folds", "3"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("mean") && ContainsSubstring("deviation"));
  const Json results = Json::parse(folds.read("cv/results.json"));
  REQUIRE(results["folds"].size() == 3);
  double squares = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Json& fold = results["folds"][i];
    CHECK(fold["examples"] == 20);
    const std::string run = "cv/fold-" + std::to_string(i + 1);
    // What is held out is what `tern test` finds held out.
    const Outcome tested = folds.run({"test", "--model", run, "--dataset", "c.csv", "--held-out", "--format", "json"});
    REQUIRE(tested.code == 0);
    CHECK(Json::parse(tested.out)["examples"] == 20);
    CHECK(Json::parse(tested.out)["accuracy"] == fold["accuracy"]);
    squares += std::pow(fold["loss"].get<double>() - results["mean"]["loss"].get<double>(), 2);
  }
  CHECK(std::abs(results["mean"]["accuracy"].get<double>() - mean_of(results["folds"], "accuracy")) < 1e-9);
  CHECK(std::abs(results["deviation"]["loss"].get<double>() - std::sqrt(squares / 2)) < 1e-9);
  CHECK_THAT(folds.read("cv/results.csv"),
             ContainsSubstring("fold,accuracy,loss,examples") && ContainsSubstring("\nmean,"));
  // One of them alone is the same training.
  REQUIRE(folds.train("c.csv", "one", {"--folds", "3", "--fold", "2"}).code == 0);
  CHECK(folds.read("one/model.safetensors") == folds.read("cv/fold-2/model.safetensors"));
  // The report is of all folds.
  REQUIRE(folds.run({"report", "cv"}).code == 0);
  CHECK_THAT(folds.read("cv/report.html"), ContainsSubstring("\"folds\""));
}

TEST_CASE("folds: what was interrupted goes on to the same end", "[tools][folds]") {
  const Folds folds;
  REQUIRE(folds.train("c.csv", "cv", {"--folds", "3"}).code == 0);
  const std::string results = folds.read("cv/results.json"), model = folds.read("cv/fold-3/model.safetensors");
  for (const char* gone : {"cv/fold-3", "cv/results.json", "cv/results.csv"})
    std::filesystem::remove_all(folds.folder / gone);
  const Outcome more = folds.run({"train", "--resume", "--run", "cv", "--quiet"});
  INFO(more.err);
  REQUIRE(more.code == 0);
  CHECK(folds.read("cv/results.json") == results);
  CHECK(folds.read("cv/fold-3/model.safetensors") == model);
  // Not as another training.
  CHECK(folds.run({"train", "--resume", "--run", "cv", "--learning-rate", "0.5", "--quiet"}).code == 2);
}

TEST_CASE("folds: of numbers, R2 and the errors", "[tools][folds]") {
  const Folds folds;
  const Outcome outcome = folds.train("line.csv", "cv", {"--folds", "4", "--task", "regression"});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  CHECK_THAT(outcome.out, ContainsSubstring("R2") && ContainsSubstring("RMSE"));
  const Json results = Json::parse(folds.read("cv/results.json"));
  CHECK(results["folds"].size() == 4);
  CHECK(std::abs(results["mean"]["rmse"].get<double>() - mean_of(results["folds"], "rmse")) < 1e-9);
}

TEST_CASE("folds: what cannot be cut is an error with the way out", "[tools][folds]") {
  const Folds folds;
  const auto refused = [&](const std::vector<std::string>& more, int code, const std::string& words) {
    const Outcome outcome = folds.train("c.csv", "r", more);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.err, ContainsSubstring(words));
  };
  refused({"--folds", "1"}, 2, "it takes 2 or more");
  refused({"--folds", "61"}, 3, "60 examples for 61 folds");
  refused({"--folds", "3", "--fold", "4"}, 2, "--fold 4 is not one of --folds 3");
  refused({"--fold", "2"}, 2, "--folds is missing");
  refused({"--folds", "3", "--validation", "0.2"}, 2, "in place of --validation");
  refused({"--folds", "3", "--model", "m.safetensors"}, 2, "--model is one file");
  refused({"--folds", "3", "--restarts", "1"}, 2, "one process");
  const Outcome digits = folds.run({"train", "--dataset", "synthetic-digits", "--folds", "3"});
  CHECK(digits.code == 2);
  CHECK_THAT(digits.err, ContainsSubstring("has its own test part"));
}

}  // namespace tern::testing
