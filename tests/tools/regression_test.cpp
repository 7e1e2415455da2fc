// A target that is a number: found or set, learnt, tested, predicted, searched for and drawn.

#include <cmath>
#include <filesystem>
#include <sstream>

#include "browser.hpp"
#include "layout.hpp"
#include "metrics.hpp"
#include "process.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

namespace {

/// Prices around 20,000 that two of three columns decide, but for some noise.
std::string prices(int rows, const std::string& header = "size,age,noise,price\n") {
  Generator generator(8);
  const auto drawn = randn({rows, 4}, generator).to_vector<float>();
  std::ostringstream text;
  text << header;
  for (std::size_t i = 0; i < drawn.size(); i += 4)
    text << drawn[i] << "," << 40 + 10 * drawn[i + 1] << "," << drawn[i + 2] << ","
         << 20000 + 3000 * drawn[i] - 1500 * drawn[i + 1] + 300 * drawn[i + 3] << "\n";
  return text.str();
}

struct Priced {
  TemporaryFolder folder;
  Outcome trained;

  explicit Priced(const std::vector<std::string>& more = {}) {
    write_bytes(folder / "p.csv", prices(200));
    trained = train(more);
    INFO(trained.err);
    REQUIRE(trained.code == 0);
  }
  Outcome run(const std::vector<std::string>& arguments) const { return tern(arguments, {.folder = folder.path()}); }
  Outcome train(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"train", "--dataset", "p.csv", "--mode", "vectorized"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  Json test(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"test", "--model", "run", "--dataset", "p.csv", "--format", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out);
  }
};

}  // namespace

TEST_CASE("regression: a target of numbers is found, learnt and reported in its unit", "[tools][regression]") {
  const Priced priced;
  CHECK_THAT(priced.trained.err, ContainsSubstring("a regression of price"));
  CHECK_THAT(priced.trained.err, ContainsSubstring("--task classification"));
  CHECK_THAT(priced.trained.err, ContainsSubstring("  R2 0."));
  CHECK_THAT(priced.trained.err, ContainsSubstring("  RMSE "));
  CHECK_THAT(priced.trained.out, ContainsSubstring("validation R2: 0.9"));
  const std::vector<Json> events = events_of(priced.folder / "run");
  CHECK(events.front()["data"]["task"] == "regression");
  const Json end = events.back();
  CHECK(end["r2"] > 0.95);
  CHECK(end["rmse"] > 100);
  CHECK(end["rmse"] < 800);
  CHECK(end["mae"] < end["rmse"]);
  CHECK_FALSE(end.contains("accuracy"));

  // A test of the same rows finds the same, as the last line of a person's table does.
  const Json held_out = priced.test({"--held-out"});
  CHECK(held_out["examples"] == 40);
  CHECK(held_out["target"] == "price");
  for (const char* name : {"r2", "rmse", "mae", "loss"})
    CHECK(held_out[name].get<double>() == Approx(end[name].get<double>()));
  const Outcome shown = priced.run({"test", "--model", "run", "--dataset", "p.csv", "--held-out"});
  CHECK_THAT(shown.out, ContainsSubstring("R2    0.9"));
  CHECK_THAT(shown.out, ContainsSubstring("mse of the standardised price (mean "));
  CHECK_THAT(priced.run({"test", "--model", "run", "--dataset", "p.csv", "--format", "csv"}).out,
             ContainsSubstring("figure,value\nr2,0.9"));

  // What is predicted is a price, and its errors are those of the test.
  const Outcome predicted = priced.run({"predict", "--model", "run", "--dataset", "p.csv", "--format", "json"});
  REQUIRE(predicted.code == 0);
  const Json rows = Json::parse(predicted.out);
  REQUIRE(rows.size() == 200);
  std::istringstream lines(prices(200));
  std::string line;
  std::getline(lines, line);
  double squares = 0;
  for (const Json& row : rows) {
    std::getline(lines, line);
    const double error = row["prediction"].get<double>() - std::stod(line.substr(line.rfind(',') + 1));
    squares += error * error;
  }
  CHECK(std::sqrt(squares / 200) == Approx(priced.test()["rmse"].get<double>()).epsilon(1e-4));
  const Outcome table = priced.run({"predict", "--model", "run", "--dataset", "p.csv"});
  CHECK_THAT(table.out, ContainsSubstring(" example    price\n       1  "));
  CHECK(priced.run({"predict", "--model", "run", "--dataset", "p.csv", "--scores"}).code == 2);
  // A table without the target is as good.
  write_bytes(priced.folder / "q.csv", "noise,age,size\n0,40,0\n");
  const Outcome other = priced.run({"predict", "--model", "run", "--dataset", "q.csv", "--format", "csv"});
  INFO(other.err);
  REQUIRE_THAT(other.out, ContainsSubstring("example,prediction\n1,"));
  CHECK(std::stod(other.out.substr(other.out.find("\n1,") + 3)) == Approx(20000).margin(1500));
}

TEST_CASE("regression: costs, and what they are refused for", "[tools][regression]") {
  for (const char* cost : {"mae", "huber"}) {
    const Priced priced({"--cost", cost, "--epochs", "40", "--quiet"});
    INFO(cost);
    CHECK(priced.test()["r2"] > 0.9);
  }
  const Priced priced({"--epochs", "2", "--quiet"});
  const auto refused = [&](const std::vector<std::string>& more, int code, const std::string& words) {
    const Outcome outcome = priced.train(more);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.err, ContainsSubstring(words));
  };
  refused({"--run", "r", "--cost", "hinge"}, 2, "--cost hinge is for classes, but the target is a number");
  refused({"--run", "r", "--task", "classification"}, 3, "--task regression takes it as a number");
  refused({"--run", "r", "--layers", "3,8,2"}, 2, "--layers ends with 2, but p.csv has one number to predict");
  refused({"--run", "r", "--task", "number"}, 2, "--task: found 'number', expected auto, classification or regression");
  refused({"--resume", "--task", "classification"}, 2, "--task");
  write_bytes(priced.folder / "same.csv", "1,2.5\n2,2.5\n3,2.5\n");
  CHECK_THAT(priced.run({"train", "--dataset", "same.csv", "--run", "r"}).err,
             ContainsSubstring("same.csv: found the number 2.5 in every row of column 2"));
  write_bytes(priced.folder / "word.csv", "1,2.5\n2,many\n3,2.5\n");
  CHECK_THAT(priced.run({"train", "--dataset", "word.csv", "--run", "r", "--task", "regression"}).err,
             ContainsSubstring("word.csv:2:3: found 'many' in column 2, expected a number"));
}

TEST_CASE("regression: whole numbers are classes or a quantity, as set", "[tools][regression]") {
  const TemporaryFolder folder;
  std::string few;
  for (int i = 0; i < 60; ++i) few += std::to_string(i % 7) + "," + std::to_string(1 + i % 3) + "\n";
  write_bytes(folder / "few.csv", few);
  const auto task = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train", "--dataset", "few.csv", "--epochs", "1", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(tern(arguments, {.folder = folder.path()}).code == 0);
    return events_of(folder / "run").front()["data"]["task"].get<std::string>();
  };
  CHECK(task({}) == "classification");
  CHECK(task({"--task", "regression"}) == "regression");
}

TEST_CASE("regression: stopped, taken up and searched for like any training", "[tools][regression]") {
  // Twelve epochs at once, and as six and six, give one model.
  const Priced whole({"--epochs", "12", "--early-stop", "5", "--quiet", "--schedule", "constant"});
  const Priced halves({"--epochs", "6", "--early-stop", "5", "--quiet", "--refit", "no", "--schedule", "constant"});
  const Priced straight({"--epochs", "12", "--early-stop", "5", "--quiet", "--refit", "no", "--schedule", "constant"});
  const Outcome resumed = halves.run({"train", "--resume", "--epochs", "12", "--quiet"});
  INFO(resumed.err);
  REQUIRE(resumed.code == 0);
  CHECK(read_bytes(halves.folder / "run/model.safetensors") == read_bytes(straight.folder / "run/model.safetensors"));
  CHECK(whole.test()["r2"] > 0.5);

  const Outcome searched =
      whole.run({"tune", "--dataset", "p.csv", "--epochs", "4", "--grid", "learning-rate=0.00001,0.01", "--run", "t"});
  INFO(searched.err);
  REQUIRE(searched.code == 0);
  CHECK_THAT(searched.out, ContainsSubstring("best: learning-rate 0.01; R2 0."));
  const std::string table = read_bytes(whole.folder / "t/results.csv");
  CHECK_THAT(table, ContainsSubstring("trial,learning-rate,state,r2,validation_loss"));
  CHECK_THAT(table, ContainsSubstring("\n2,0.01,done,0."));
  const Outcome mixed = whole.run({"tune", "--dataset", "p.csv", "--grid", "target=1,age", "--grid", "task=regression",
                                   "--epochs", "1", "--run", "t2"});
  CHECK(mixed.code == 0);
}

TEST_CASE("regression: the model's file says what its numbers mean", "[tools][regression]") {
  const Priced priced({"--epochs", "3", "--quiet"});
  REQUIRE(priced.run({"export", "--model", "run", "--format", "npy", "--out", "w"}).code == 0);
  const Json model = Json::parse(read_bytes(priced.folder / "w/model.json"));
  CHECK(model["task"] == "regression");
  CHECK(model["layers"].back() == 1);
  CHECK(model["target_mean"].get<double>() == Approx(20000).margin(1000));
  CHECK(model["target_deviation"].get<double>() == Approx(3300).margin(500));

  const std::string file = priced.folder / "run/model.safetensors";
  const io::Safetensors content = io::load_safetensors(file);
  const auto with = [&](const std::function<void(Json&)>& edit) {
    Json description = Json::parse(content.metadata.at("tern.model"));
    edit(description);
    io::save_safetensors(priced.folder / "other.safetensors", content.tensors, {{"tern.model", description.dump()}});
    return priced.run({"predict", "--model", "other.safetensors", "--dataset", "p.csv"});
  };
  CHECK(with([](Json&) {}).code == 0);
  const auto refused = [&](const std::function<void(Json&)>& edit) {
    const Outcome outcome = with(edit);
    INFO(outcome.err);
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring("other.safetensors"));
  };
  refused([](Json& json) { json["target_deviation"] = 0; });
  refused([](Json& json) { json.erase("target_mean"); });
  refused([](Json& json) { json["task"] = "clustering"; });
  refused([](Json& json) { json["task"] = "classification"; });
  refused([](Json& json) { json["classes"] = {"a", "b"}; });
  refused([](Json& json) { json["cost"] = "cross-entropy"; });
  refused([](Json& json) { json["layers"].back() = 2; });
}

TEST_CASE("regression: the report draws predictions and residuals", "[tools][regression]") {
  const Priced priced({"--epochs", "5", "--quiet"});
  REQUIRE(priced.run({"report", "run"}).code == 0);
  if (!Browser::available()) {
    WARN("skipped in a browser: there is no Chromium here");
    return;
  }
  Browser browser("file://" + (priced.folder / "run/report.html"));
  REQUIRE(browser.wait_for("document.querySelectorAll('#loss polyline').length > 1"));
  for (const char* chart : {"predicted", "residuals"})
    CHECK(browser.evaluate("document.querySelectorAll('#" + std::string(chart) + " svg > g circle').length") == 40);
  CHECK(browser.evaluate("document.querySelector('#accuracy h3').innerText") == "R2");
  CHECK(browser.evaluate("document.querySelectorAll('.example').length") == 24);
  CHECK(browser.evaluate("document.body.innerText.includes('null') || document.body.innerText.includes('undefined') || "
                         "document.body.innerText.includes('NaN')") == false);
  CHECK(faults_of(browser) == "");
  browser.resize(380);
  CHECK(faults_of(browser) == "");
  CHECK(browser.complaints() == "");
}

}  // namespace tern::testing
