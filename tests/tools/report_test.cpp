// What people look at: the report, the live page, the event files, the progress.

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <thread>

#include "browser.hpp"
#include "layout.hpp"
#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"
#include "tensorboard.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// Points of the drawn curves of a chart.
std::string points_of(const std::string& chart) {
  return "[...document.querySelectorAll('#" + chart +
         " polyline')].reduce((n, line) => n + Number(line.dataset.points), 0)";
}

std::uint32_t number_at(const std::string& bytes, std::size_t position) {
  std::uint32_t value = 0;
  for (int i = 3; i >= 0; --i)
    value = value << 8 | static_cast<unsigned char>(bytes.at(position + static_cast<std::size_t>(i)));
  return value;
}

}  // namespace

TEST_CASE("report: one file holds the curves, the confusion and the examples", "[tools][report]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(90, "x,y,z,<b>kind</b>\n"));
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "7", "--run", "a"}, {.folder = folder.path()}).code == 0);
  REQUIRE(
      tern({"train", "--dataset", "c.csv", "--epochs", "5", "--run", "b", "--cost", "mse"}, {.folder = folder.path()})
          .code == 0);
  const Outcome one = tern({"report", "a"}, {.folder = folder.path()});
  CHECK(one.code == 0);
  CHECK(one.out == "a/report.html\n");
  CHECK(tern({"report", "a", "b", "--out", "both.html"}, {.folder = folder.path()}).code == 0);
  const std::string text = read_bytes(folder / "a/report.html");
  CHECK_THAT(text, ContainsSubstring("\"event\":\"end\""));
  CHECK(text.find("src=") == std::string::npos);  // nothing is fetched from elsewhere
  CHECK(text.find("http://") == text.find("http://www.w3.org/2000/svg"));
  if (!Browser::available()) {
    WARN("skipped in a browser: there is no Chromium here");
    return;
  }
  {
    Browser browser("file://" + (folder / "a/report.html"));
    CHECK(browser.wait_for("document.querySelectorAll('#loss polyline').length === 3"));
    CHECK(browser.evaluate(points_of("accuracy")) == 14);
    CHECK(browser.evaluate("document.querySelectorAll('table.confusion tbody tr').length") == 3);
    CHECK(browser.evaluate("document.querySelectorAll('.example').length") == 18);
    CHECK(
        browser.evaluate("document.body.innerText.includes('null') || document.body.innerText.includes('undefined') || "
                         "document.body.innerText.includes('NaN')") == false);
    browser.evaluate("document.querySelector('#loss button').click()");
    CHECK(browser.evaluate("document.querySelectorAll('#loss polyline').length") == 3);
    CHECK(faults_of(browser) == "");
    CHECK(browser.complaints() == "");
  }
  Browser browser("file://" + (folder / "both.html"));
  CHECK(browser.wait_for("document.querySelectorAll('#loss polyline').length === 4"));
  CHECK(browser.evaluate("document.body.innerText.includes('Settings that differ')") == true);
  CHECK(faults_of(browser) == "");
  CHECK(browser.complaints() == "");
}

TEST_CASE("report: a loss that runs away has an axis to be read by, also under the pointer", "[tools][report]") {
  if (!Browser::available()) {
    WARN("skipped: there is no Chromium here");
    return;
  }
  const TemporaryFolder folder;
  fs::create_directory(folder / "r");
  std::string lines =
      R"({"event":"start","net":"mlp","steps_per_epoch":1,"epochs":60,"data":{"classes":["a","b","c"]}})";
  lines += "\n";
  for (int epoch = 1; epoch <= 60; ++epoch) {
    const double loss = std::exp(epoch / 1.5);  // up to 2e17
    lines += Json{{"event", "step"}, {"step", epoch}, {"loss", loss}}.dump() + "\n";
    lines +=
        Json{{"event", "epoch"}, {"epoch", epoch}, {"loss", loss}, {"accuracy", 0.5}, {"learning_rate", 0.1}}.dump() +
        "\n";
  }
  // Without a confusion matrix, as in the comparison of a search.
  lines += R"({"event":"evaluation","examples":3,"classes":{"a":{},"b":{},"c":{}},"macro":{},"weighted":{}})";
  write_bytes(folder / "r/metrics.jsonl", lines + "\n");
  REQUIRE(tern({"report", "r"}, {.folder = folder.path()}).code == 0);
  Browser browser("file://" + (folder / "r/report.html"));
  REQUIRE(browser.wait_for("document.querySelector('#loss polyline') !== null"));
  CHECK(browser.evaluate("document.querySelector('#loss .label').textContent") == "loss, logarithmic");
  CHECK(browser.evaluate("document.querySelectorAll('#loss text').length > 8") == true);
  CHECK(browser.evaluate("document.body.innerText.includes('100 classes')") == false);
  CHECK(faults_of(browser) == "");
  const Json said = browser.evaluate(hovering("#loss"));
  INFO(said);
  CHECK(said.size() == 4);  // and no complaint among them
  CHECK(said.front() == "at epoch 1:");
  CHECK(said.back() == "at epoch 60:");
  CHECK(browser.complaints() == "");
}

TEST_CASE("report: a run that is unfinished, and what is no run", "[tools][report]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "r");
  write_bytes(folder / "r/metrics.jsonl",
              "{\"event\":\"start\",\"net\":\"</script><script>alert(1)</script>\"}\n{\"event\":\"st");
  CHECK(tern({"report", "r"}, {.folder = folder.path()}).code == 0);
  CHECK(read_bytes(folder / "r/report.html").find("</script><script>alert") == std::string::npos);
  write_bytes(folder / "r/metrics.jsonl", "{\"event\":\"start\"}\n{broken\n");
  const Outcome broken = tern({"report", "r"}, {.folder = folder.path()});
  CHECK(broken.code == 3);
  CHECK_THAT(broken.err, ContainsSubstring("r/metrics.jsonl:2"));
  // A file that no training wrote: many bytes that take no room on the disk, and one endless line.
  fs::resize_file(folder / "r/metrics.jsonl", std::uintmax_t{4} << 30);
  const Outcome sparse = tern({"report", "r"}, {.folder = folder.path()});
  CHECK(sparse.code == 3);
  CHECK_THAT(sparse.err, ContainsSubstring("r/metrics.jsonl: found 4294967296 bytes"));
  fs::rename(folder / "r/metrics.jsonl", folder / "r/old.jsonl");
  write_bytes(folder / "r/metrics.jsonl", "{\"event\":\"start\"}\n");
  // What a process takes at rest counts what the tests held when they started it.
  const std::int64_t rest = tern({"report", "r"}, {.folder = folder.path()}).peak_bytes;
  fs::resize_file(folder / "r/metrics.jsonl", std::uintmax_t{200} << 20);
  const Outcome endless = tern({"report", "r"}, {.folder = folder.path()});
  CHECK(endless.code == 3);
  CHECK_THAT(endless.err, ContainsSubstring("r/metrics.jsonl:2"));
  CHECK(endless.peak_bytes <= rest + (std::int64_t{100} << 20));
  CHECK(tern({"report", "nowhere"}, {.folder = folder.path()}).code == 3);
  CHECK(tern({"report"}, {.folder = folder.path()}).code == 2);
}

TEST_CASE("dashboard: the curves are there and grow while the training runs", "[tools][report]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(300));
  Process process({program_path, "train", "--dataset", "c.csv", "--epochs", "1000000", "--layers", "3,200,200,3",
                   "--batch-size", "4", "--dashboard"},
                  {.folder = folder.path()});
  std::string address;
  for (int i = 0; i < 2000 && process.running() && address.empty(); ++i) {
    const std::string said = process.err_so_far();
    if (const auto at = said.find("Dashboard: "); at != std::string::npos && said.find('\n', at) != std::string::npos)
      address = said.substr(at + 11, said.find('\n', at) - at - 11);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  INFO(process.err_so_far());
  REQUIRE(address.starts_with("http://127.0.0.1:"));
  CHECK(address.size() > 50);  // with a token of 128 bits
  if (!Browser::available()) {
    WARN("skipped in a browser: there is no Chromium here");
    return;
  }
  {
    // Without the token there is nothing to find.
    Browser stranger(address.substr(0, address.rfind('/', address.size() - 2) + 1));
    CHECK(stranger.wait_for("document.readyState === 'complete'"));
    CHECK(stranger.evaluate("document.body.innerText.includes('mlp')") == false);
  }
  Browser browser(address);
  REQUIRE(browser.wait_for("document.querySelector('#loss polyline') !== null"));
  const auto before = browser.evaluate(points_of("loss")).get<int>();
  CHECK(browser.wait_for(points_of("loss") + " > " + std::to_string(before + 20)));
  CHECK(browser.evaluate("document.getElementById('status').textContent") == "running");
  process.signal(SIGINT);
  CHECK(browser.wait_for("document.getElementById('status').textContent === 'interrupted'"));
  CHECK(process.wait().code == 130);
  CHECK(browser.complaints() == "");
}

TEST_CASE("tensorboard: event files have whole records with their sums", "[tools][report]") {
  CHECK(tool::crc32c("123456789") == 0xe3069283u);
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60));
  REQUIRE(tern({"train", "--dataset", "c.csv", "--epochs", "3", "--tensorboard"}, {.folder = folder.path()}).code == 0);
  REQUIRE(fs::exists(folder / "run/tensorboard"));
  const fs::path file = fs::directory_iterator(folder / "run/tensorboard")->path();
  CHECK_THAT(file.filename().string(), ContainsSubstring("events.out.tfevents."));
  const std::string bytes = read_bytes(file.string());
  const auto unmasked = [](std::uint32_t sum) {
    const std::uint32_t rotated = sum - 0xa282ead8u;
    return rotated << 15 | rotated >> 17;
  };
  std::size_t position = 0;
  int records = 0, losses = 0;
  while (position < bytes.size()) {
    const std::size_t length = number_at(bytes, position);
    CHECK(unmasked(number_at(bytes, position + 8)) == tool::crc32c(bytes.substr(position, 8)));
    const std::string record = bytes.substr(position + 12, length);
    CHECK(unmasked(number_at(bytes, position + 12 + length)) == tool::crc32c(record));
    losses += record.find("loss/validation") != std::string::npos;
    position += 16 + length;
    ++records;
  }
  CHECK(position == bytes.size());
  CHECK(losses == 3);
  CHECK(records > 15);
}

TEST_CASE("progress: a bar on a terminal, plain lines elsewhere, no colour where it is not wanted", "[tools][report]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(90));
  const std::vector<std::string> arguments{"train", "--dataset", "c.csv", "--epochs", "300", "--layers", "3,128,128,3"};
  const Outcome shown =
      tern(arguments, {.folder = folder.path(), .environment = {"NO_COLOR", "TERM=xterm"}, .terminal = true});
  REQUIRE(shown.code == 0);
  CHECK_THAT(shown.err, ContainsSubstring("\r\033[Kepoch "));
  CHECK_THAT(shown.err, ContainsSubstring("items/s  ETA"));
  CHECK_THAT(shown.err, ContainsSubstring("\033[32m"));
  const Outcome grey =
      tern(arguments, {.folder = folder.path(), .environment = {"NO_COLOR=1", "TERM=xterm"}, .terminal = true});
  CHECK_THAT(grey.err, ContainsSubstring("items/s  ETA"));
  CHECK(grey.err.find("\033[32m") == std::string::npos);
  const Outcome plain = tern(arguments, {.folder = folder.path()});
  CHECK(plain.err.find('\r') == std::string::npos);
  CHECK(plain.err.find('\033') == std::string::npos);
  CHECK_THAT(plain.err, ContainsSubstring("epoch 300/300  loss "));
  const Outcome dumb = tern(arguments, {.folder = folder.path(), .environment = {"TERM=dumb"}, .terminal = true});
  CHECK(dumb.err.find("\033") == std::string::npos);
  CHECK_THAT(dumb.err, ContainsSubstring("epoch 300/300  loss "));
  auto quiet = arguments;
  quiet.push_back("--quiet");
  const Outcome silent = tern(quiet, {.folder = folder.path(), .terminal = true});
  CHECK(silent.err == "");
  CHECK(std::count(silent.out.begin(), silent.out.end(), '\n') == 1);
}

}  // namespace tern::testing
