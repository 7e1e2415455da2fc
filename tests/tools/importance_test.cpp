// How sure a model is beside how right it is, and which columns it goes by.

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "browser.hpp"
#include "layout.hpp"
#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

namespace {

// The class, or the number, comes from the word alone; the other columns are noise.
std::string words(int rows, bool numbers) {
  Generator generator(3);
  const auto noise = randn({rows, 2}, generator).to_vector<float>();
  const char* const names[]{"red", "green", "blue"};
  std::string text = "x,colour,y,target\n";
  for (int i = 0; i < rows; ++i) {
    const auto row = static_cast<std::size_t>(2 * i);
    const double exact = 10.5 * (i % 3) + 0.25 * static_cast<double>(noise[row]);
    text += std::to_string(noise[row]) + "," + names[i % 3] + "," + std::to_string(noise[row + 1]) + "," +
            (numbers      ? std::to_string(exact)
             : i % 3 == 1 ? "yes"
                          : "no") +
            "\n";
  }
  return text;
}

struct Model {
  TemporaryFolder folder;
  explicit Model(const std::string& table) {
    write_bytes(folder / "c.csv", table);
    const Outcome outcome = run({"train", "--dataset", "c.csv", "--epochs", "25", "--quiet"});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
  }
  Outcome run(const std::vector<std::string>& arguments) const { return tern(arguments, {.folder = folder.path()}); }
  Json test(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"test", "--model", "run", "--dataset", "c.csv", "--format", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    return Json::parse(outcome.out);
  }
};

}  // namespace

TEST_CASE("importance: the column that decides, with all its categories", "[tools][importance]") {
  const Model model(words(150, false));
  const Json found = model.test({"--importance", "--repeats", "8"})["importance"];
  CHECK(found["examples"] == 150);
  CHECK(found["repeats"] == 8);
  CHECK(found["whole"].get<double>() > 0.99);
  REQUIRE(found["columns"].size() == 3);
  // Of words dealt out anew 1/3 * 1/3 + 2/3 * 2/3 = 5/9 still fit. Were the three inputs dealt out one by one, the net
  // would meet rows of no colour and of two.
  const Json& first = found["columns"][0];
  CHECK(first["column"] == "colour");
  CHECK(first["mean"].get<double>() == Approx(4.0 / 9).margin(0.06));
  CHECK(first["deviation"].get<double>() > 0);
  CHECK(first["deviation"].get<double>() < 0.1);
  CHECK(first["loss"].get<double>() > 0.5);
  for (int i : {1, 2}) CHECK(std::abs(found["columns"][i]["mean"].get<double>()) < 0.05);

  // The numbers come from the seed, the column and the repeat alone.
  CHECK(model.test({"--importance", "--repeats", "8"})["importance"] == found);
  CHECK(model.test({"--importance", "--repeats", "8", "--seed", "2"})["importance"] != found);
  CHECK(model.test({"--importance", "--repeats", "8", "--threads", "1"})["importance"]["columns"][0]["mean"] ==
        first["mean"]);
  CHECK_FALSE(model.test({}).contains("importance"));

  const Outcome csv = model.run(
      {"test", "--model", "run", "--dataset", "c.csv", "--importance", "--format", "csv", "--out", "columns.csv"});
  CHECK(csv.code == 0);
  const std::string table = read_bytes(model.folder / "columns.csv");
  CHECK(table.starts_with("column,accuracy_fall,deviation,loss_rise\ncolour,0."));
  CHECK(std::count(table.begin(), table.end(), '\n') == 4);
  const Outcome text = model.run({"test", "--model", "run", "--dataset", "c.csv", "--importance"});
  CHECK_THAT(text.out, ContainsSubstring("Importance of columns: by how much the accuracy falls from 1.0000"));
}

TEST_CASE("importance: of a regression R2 falls", "[tools][importance]") {
  const Model model(words(150, true));
  const Json found = model.test({"--importance", "--held-out"});
  CHECK(found["importance"]["examples"] == 30);
  CHECK(found["importance"]["whole"].get<double>() == Approx(found["r2"].get<double>()).epsilon(1e-4));
  CHECK(found["importance"]["columns"][0]["column"] == "colour");
  CHECK(found["importance"]["columns"][0]["mean"].get<double>() > 0.8);
  const Outcome wrong = model.run({"test", "--model", "run", "--dataset", "c.csv", "--importance", "--repeats", "0"});
  CHECK(wrong.code == 2);
}

TEST_CASE("importance: pictures have no columns", "[tools][importance]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  REQUIRE(tern({"train", "--dataset", "synthetic-digits", "--limit", "60", "--epochs", "1", "--quiet"}, here).code ==
          0);
  const Outcome outcome =
      tern({"test", "--model", "run", "--dataset", "synthetic-digits", "--limit", "20", "--importance"}, here);
  CHECK(outcome.code == 2);
  CHECK_THAT(outcome.err, ContainsSubstring("--importance is for a table's columns, but this model takes images"));
}

TEST_CASE("calibration: a test says how sure the model is, as its predictions do", "[tools][importance]") {
  const Model model(clusters(150, "x,y,z,kind\n"));
  const Json found = model.test({})["calibration"];
  REQUIRE(found["bins"].size() == 10);
  const Outcome predicted =
      model.run({"predict", "--model", "run", "--dataset", "c.csv", "--format", "csv", "--scores"});
  std::istringstream lines(predicted.out);
  std::string line;
  std::getline(lines, line);
  double brier = 0, sure = 0;
  int row = 0;
  for (; std::getline(lines, line); ++row) {
    double most = 0, p[3]{};
    REQUIRE(std::sscanf(line.c_str(), "%*d,%*[a-z],%lf,%lf,%lf,%lf", &most, &p[0], &p[1], &p[2]) == 4);
    sure += most;
    for (int c = 0; c < 3; ++c) brier += std::pow(p[c] - (c == row % 3 ? 1 : 0), 2);
  }
  CHECK(row == 150);
  CHECK(found["brier"].get<double>() == Approx(brier / row).epsilon(1e-3));
  double of_bins = 0, count = 0, error = 0;
  for (const Json& bin : found["bins"]) {
    const double examples = bin["examples"];
    of_bins += bin["confidence"].get<double>() * examples;
    error += std::abs(bin["confidence"].get<double>() - bin["accuracy"].get<double>()) * examples;
    count += examples;
  }
  CHECK(count == 150);
  CHECK(of_bins == Approx(sure).epsilon(1e-3));
  CHECK(found["expected_error"].get<double>() == Approx(error / 150));
  const Outcome text = model.run({"test", "--model", "run", "--dataset", "c.csv"});
  CHECK_THAT(text.out, ContainsSubstring("90 to 100 %"));
  CHECK_THAT(text.out, ContainsSubstring("\nBrier     0."));
  // Outputs that are no probabilities have none.
  REQUIRE(model.run({"train", "--dataset", "c.csv", "--cost", "mse", "--epochs", "2", "--quiet", "--run", "m"}).code ==
          0);
  const Outcome other = model.run({"test", "--model", "m", "--dataset", "c.csv", "--format", "json"});
  CHECK(Json::parse(other.out)["calibration"].is_null());
}

TEST_CASE("report: how sure it is and which columns matter", "[tools][report][importance]") {
  const Model model(words(150, false));
  REQUIRE(model.run({"report", "run"}).code == 0);
  if (!Browser::available()) return;
  Browser browser("file://" + (model.folder / "run/report.html"));
  CHECK(browser.wait_for("document.body && document.body.innerText.includes('Which columns matter')"));
  CHECK(browser.evaluate("document.body.innerText.includes('How sure it is')") == true);
  CHECK(browser.evaluate("document.querySelectorAll('#reliability svg .mark').length") != 0);
  CHECK(browser.evaluate(
            "[...document.querySelectorAll('td:has(> .bar)')].map((td) => td.parentNode.cells[0].textContent)")[0] ==
        "colour");
  CHECK(faults_of(browser).empty());
}

}  // namespace tern::testing
