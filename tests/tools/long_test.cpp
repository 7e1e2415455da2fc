// Long trainings: what is kept of their course, and pages of it.

#include <chrono>

#include "browser.hpp"
#include "metrics.hpp"
#include "page.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

namespace {

/// The metrics of a training of ten million steps, as they were before they were thinned when they are written.
tool::PageRun long_run(const std::string& name, int steps, int epochs) {
  tool::PageRun run{name, {}};
  run.lines.push_back(
      R"({"event":"start","net":"mlp 3-4-3","epochs":100000,"steps_per_epoch":100,"data":{"source":"c.csv"}})");
  for (int i = 1; i <= steps; ++i)
    run.lines.push_back(message(R"({"event":"step","step":)", i * 50, R"(,"loss":)", 1.0 / i, "}"));
  for (int i = 1; i <= epochs; ++i)
    run.lines.push_back(message(R"({"event":"epoch","epoch":)", i, R"(,"step":)", i * 100, R"(,"loss":)", 1.0 / i,
                                R"(,"accuracy":0.5,"validation_loss":)", 2.0 / i,
                                R"(,"validation_accuracy":0.4,"learning_rate":0.01,"seconds":0.5})"));
  return run;
}

}  // namespace

TEST_CASE("long: the page of ten million steps is small and is drawn", "[tools][long]") {
  const std::string page = tool::page({long_run("run", 200000, 100000)});
  CHECK(page.size() < (std::size_t{2} << 20));
  CHECK_THAT(page, ContainsSubstring("\"step\":10000000,") && ContainsSubstring("\"epoch\":100000,"));
  CHECK_THAT(page, ContainsSubstring("\"count\":300001"));
  // Of short ones everything stays.
  const std::string shorter = tool::page({long_run("run", 300, 200)});
  for (int i = 1; i <= 200; ++i) CHECK_THAT(shorter, ContainsSubstring(message("\"epoch\":", i, ",")));
  for (int i = 1; i <= 300; ++i) CHECK_THAT(shorter, ContainsSubstring(message("\"step\":", i * 50, ",")));
  if (!Browser::available()) return;
  const TemporaryFolder folder;
  write_bytes(folder / "page.html", page);
  Browser browser("file://" + folder / "page.html");
  CHECK(browser.wait_for("document.querySelectorAll('polyline').length >= 4"));
  CHECK(browser.evaluate("document.body.textContent.includes('100000')") == true);
  CHECK(browser.evaluate("document.body.textContent.includes('100000 of 100000')") ==
        true);  // not those that are shown
  CHECK(browser.complaints().empty());
}

TEST_CASE("long: charts of a million points do not fill the stack", "[tools][long]") {
  if (!Browser::available()) return;
  const TemporaryFolder folder;
  write_bytes(folder / "page.html", tool::page({long_run("run", 30, 20)}));
  Browser browser("file://" + folder / "page.html");
  REQUIRE(browser.wait_for("typeof chart === 'function'"));
  CHECK(
      browser.evaluate("(() => { const points = Array.from({ length: 300000 }, (_, i) => [i, 1 / (i + 1)]); return "
                       "chart({ title: 't', x: { label: 'x' }, y: { label: 'y' }, series: [{ label: 'a', style: 's0', "
                       "points }] }) !== null; })()") == true);
  CHECK(browser.complaints().empty());
}

TEST_CASE("long: marks of the page in the data are data", "[tools][long]") {
  for (const char* mark : {"/*LIVE*/", "/*RUNS*/"})
    for (const char* live : {"", "events"}) {
      tool::PageRun run = long_run(std::string("a") + mark + "b", 1, 1);
      run.lines[0] = R"({"event":"start","data":{"classes":[")" + std::string(mark) + R"(;"]}})";
      const std::string page = tool::page({run}, live);
      CHECK_THAT(page, ContainsSubstring(std::string("\"name\":\"a") + mark + "b\""));
      CHECK_THAT(page, ContainsSubstring(std::string("\"classes\":[\"") + mark + ";\"]"));
      CHECK((page.find("\"events\";") != std::string::npos) == (*live != '\0'));
    }
}

TEST_CASE("long: of many epochs and steps a part is written, always with the last", "[tools][long]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  write_bytes(folder / "c.csv", clusters(30));
  const std::vector<std::string> common{"train", "--dataset", "c.csv", "--layers",   "3,3",      "--validation",
                                        "0",     "--epochs",  "3001",  "--schedule", "constant", "--early-stop",
                                        "0",     "--quiet",   "--run"};
  auto words = common;
  words.push_back("whole");
  REQUIRE(tern(words, here).code == 0);
  std::vector<int> epochs, steps;
  for (const Json& event : events_of(folder / "whole")) {
    if (event["event"] == "epoch") epochs.push_back(event["epoch"]);
    if (event["event"] == "step") steps.push_back(event["step"]);
  }
  CHECK(epochs.size() > 600);
  CHECK(epochs.size() < 1400);
  for (int i = 1; i <= 500; ++i) CHECK(epochs[static_cast<std::size_t>(i - 1)] == i);
  CHECK(epochs.back() == 3001);
  CHECK(std::is_sorted(epochs.begin(), epochs.end()));
  CHECK(steps.size() > 1500);
  CHECK(steps.size() < 4000);
}

}  // namespace tern::testing
