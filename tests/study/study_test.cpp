// The program `study` run as a user runs it, on networks and sets so small that a cell takes milliseconds.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "browser.hpp"
#include "layout.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

using Catch::ContainsSubstring;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> tiny{"--nets",          "alexnet",
                                    "--batches",       "1,4",
                                    "--epochs",        "2",
                                    "--images",        "8",
                                    "--image-size",    "67",
                                    "--width-divisor", "32",
                                    "--modes",         "sequential,vectorized",
                                    "--machine",       "trial"};

pid_t start(std::vector<std::string> arguments, const std::string& log) {
  arguments.insert(arguments.begin(), TERN_STUDY);
  const pid_t child = fork();
  if (child != 0) return child;
  if (std::freopen(log.c_str(), "w", stderr) == nullptr) _exit(126);
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  execv(TERN_STUDY, words.data());
  _exit(127);
}

// The exit code; minus the signal of a process that was killed.
int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Options with other values, or more of them.
std::vector<std::string> with(std::vector<std::string> arguments, std::initializer_list<std::string> more) {
  for (auto name = more.begin(); name != more.end(); name += 2) {
    const auto known = std::find(arguments.begin(), arguments.end(), *name);
    if (known == arguments.end())
      arguments.insert(arguments.end(), {*name, *(name + 1)});
    else
      *(known + 1) = *(name + 1);
  }
  return arguments;
}

// Waits until the child has written the file; false when it ended before.
bool appears(const std::string& file, pid_t child) {
  while (!fs::exists(file)) {
    if (waitpid(child, nullptr, WNOHANG) != 0) return fs::exists(file);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

int run(const std::vector<std::string>& arguments, const std::string& log) { return wait_for(start(arguments, log)); }

json cell_of(const std::string& out, const std::string& name) {
  return json::parse(text_of(out + "/cells/" + name + ".json"));
}

std::vector<std::string> lines_of(const std::string& file) {
  std::vector<std::string> lines;
  std::istringstream text(text_of(file));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Every tag is closed by its own, as a browser would need it least of all.
void check_tags(const std::string& html) {
  std::vector<std::string> open;
  for (std::size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const std::size_t end = html.find('>', at);
    REQUIRE(end != std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    const std::string name =
        tag.substr(tag[0] == '/' ? 1 : 0, tag.find_first_of(" \t\n/>", 1) - (tag[0] == '/' ? 1 : 0));
    if (tag[0] == '!' || tag.back() == '/' || name == "meta") continue;
    if (tag[0] != '/') {
      open.push_back(name);
      // What a script holds is no markup; only its own end is.
      if (name == "script") at = html.find("</script>", end) - 1;
      continue;
    }
    REQUIRE(!open.empty());
    CHECK(open.back() == name);
    open.pop_back();
  }
  CHECK(open.empty());
}

}  // namespace

TEST_CASE("study: cells, tables and a report that needs nothing else", "[study]") {
  const tern::testing::TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(run(with(tiny, {"--out", out}), folder / "log") == 0);
  CHECK_THAT(text_of(folder / "log"), ContainsSubstring("report.html"));

  for (const char* mode : {"sequential", "vectorized"})
    for (const int batch : {1, 4}) {
      const json cell = cell_of(out, std::string("alexnet_") + mode + "_strict_" + std::to_string(batch));
      CHECK(cell.at("status") == "complete");
      CHECK(cell.at("loss").size() == 2u * 8u / batch);
      CHECK(cell.at("step").size() == cell.at("loss").size());
      CHECK(cell.at("warm_up") == 1);
      for (const json& loss : cell.at("loss")) CHECK(loss.get<double>() > 0);
      const json& time = cell.at("time");
      CHECK(time.at("low").get<double>() > 0);
      CHECK(time.at("low") <= time.at("median"));
      CHECK(time.at("median") <= time.at("high"));
      CHECK(cell.at("peak_bytes").get<double>() > 0);
      bool convolution = false;
      for (const json& row : cell.at("profile").at("rows"))
        convolution |= row.at("name") == "conv2d" && row.at("backward") == true;
      CHECK(convolution);
    }
  // The modes start from the same weights and see the same images.
  const json one = cell_of(out, "alexnet_sequential_strict_4"), other = cell_of(out, "alexnet_vectorized_strict_4");
  for (std::size_t i = 0; i < one.at("loss").size(); ++i)
    CHECK(one.at("loss")[i].get<double>() == Approx(other.at("loss")[i].get<double>()).epsilon(1e-3));

  const auto loss = lines_of(out + "/loss_trial_tern.csv"), times = lines_of(out + "/times_trial_tern.csv");
  REQUIRE(loss.size() == 1 + 2 * (16 + 4));
  REQUIRE(times.size() == loss.size());
  CHECK(loss[0] == "network,mode,batch,step,loss,precision,epoch");
  CHECK(times[0] == "network,mode,batch,step,time,precision,epoch,move_time,warm_up");
  CHECK_THAT(loss[1], ContainsSubstring("alexnet,sequential,1,1,"));
  CHECK(lines_of(out + "/cells_trial_tern.csv").size() == 1 + 4);

  const std::string html = text_of(out + "/report.html");
  check_tags(html);
  std::string loading = html;
  const std::string svg = "http://www.w3.org/2000/svg";  // a name, which nothing loads
  for (std::size_t at; (at = loading.find(svg)) != std::string::npos;) loading.erase(at, svg.size());
  for (const char* loads : {"<link", "src=", "href=", "url(", "@import", "import(", "fetch(", "http:", "https:"})
    CHECK(loading.find(loads) == std::string::npos);
  for (const char* says : {"class=\"drawing\"", "AlexNet", "conv2d", "GFLOP/s", "GB/s", "of roofline", "as fast as",
                           "never negative", "memory", "images in a batch", "--width-divisor 32"})
    CHECK_THAT(html, ContainsSubstring(says));
  for (const char* nonsense : {"nan", "inf\"", "not a number"}) CHECK(html.find(nonsense) == std::string::npos);

  // The same report from the results alone.
  fs::remove(out + "/report.html");
  CHECK(run({"--report-only", "--out", out}, folder / "log") == 0);
  CHECK(text_of(out + "/report.html") == html);
}

TEST_CASE("study: its page is whole on every screen and in print, also where a loss runs away", "[study]") {
  using tern::testing::Browser;
  if (!Browser::available()) {
    WARN("skipped: there is no Chromium here");
    return;
  }
  const tern::testing::TemporaryFolder folder;
  const std::string out = folder / "out";
  const std::string batches = "1,2,4,8,16,32,64,128,256,512";
  REQUIRE(run(with(tiny, {"--out", out, "--modes", "vectorized", "--batches", batches, "--images", "512", "--epochs",
                          "3", "--steps", "3"}),
              folder / "log") == 0);
  // As a machine with a GPU would have left it: three precisions of cuda, a cell that is missing and one that diverges.
  for (const char* precision : {"strict", "tf32", "bf16"})
    for (int batch = 1; batch <= 512; batch *= 2) {
      json cell = cell_of(out, "alexnet_vectorized_strict_" + std::to_string(batch));
      const double factor = precision[0] == 's' ? 0.1 : 0.05;
      cell["key"]["mode"] = "cuda";
      cell["key"]["precision"] = precision;
      for (const char* time : {"median", "low", "high"}) cell["time"][time] = cell["time"][time].get<double>() * factor;
      if (batch == 512)
        for (json& loss : cell["loss"]) loss = loss.get<double>() * 1e9;
      const std::string name = "alexnet_cuda_" + std::string(precision) + "_" + std::to_string(batch) + ".json";
      std::ofstream(out + "/cells/" + name) << cell;
    }
  REQUIRE(run({"--report-only", "--out", out}, folder / "log") == 0);
  Browser browser("file://" + out + "/report.html");
  REQUIRE(browser.wait_for("document.querySelectorAll('.chart > svg').length > 3"));
  CHECK(tern::testing::faults_of(browser) == "");
  const json said = browser.evaluate(tern::testing::hovering("figure"));
  INFO(said);
  CHECK(said.size() == 4);  // and no complaint among them
  CHECK(said.front() == "at images in a batch 1:");
  CHECK(said.back() == "at images in a batch 512:");
  CHECK(browser.complaints() == "");
}

TEST_CASE("study: killed, it continues where it was", "[study]") {
  const tern::testing::TemporaryFolder folder;
  const std::string out = folder / "out";
  // Steps enough for the kill to come in the middle.
  const auto arguments = with(tiny, {"--out", out, "--epochs", "400"});
  const pid_t child = start(arguments, folder / "log");
  const std::string first = out + "/cells/alexnet_sequential_strict_1.json";
  REQUIRE(appears(first, child));
  kill(child, SIGKILL);
  REQUIRE(wait_for(child) == -SIGKILL);
  const std::string before = text_of(first);
  const auto written = fs::last_write_time(first);
  REQUIRE(!fs::exists(out + "/cells/alexnet_vectorized_strict_4.json"));
  // As a kill in the middle of writing leaves it.
  std::ofstream(out + "/cells/alexnet_vectorized_strict_4.json.tmp.0123456789abcdef") << "{";

  REQUIRE(run(arguments, folder / "log") == 0);
  CHECK(text_of(first) == before);
  CHECK(fs::last_write_time(first) == written);
  for (const char* name : {"alexnet_sequential_strict_4", "alexnet_vectorized_strict_1", "alexnet_vectorized_strict_4"})
    CHECK(cell_of(out, name).at("status") == "complete");
  for (const fs::directory_entry& entry : fs::directory_iterator(out + "/cells"))
    CHECK(entry.path().extension() == ".json");
  CHECK(lines_of(out + "/loss_trial_tern.csv").size() == 1 + 2 * (3200 + 800));

  // Another setting would make cells that cannot be compared.
  CHECK(run(with(tiny, {"--out", out, "--epochs", "3"}), folder / "log") == 1);
  CHECK_THAT(text_of(folder / "log"), ContainsSubstring("epochs 400 then, 3 now") && ContainsSubstring("--out"));
}

TEST_CASE("study: gone on with at another commit, every cell names its own", "[study]") {
  const tern::testing::TemporaryFolder folder;
  const std::string out = folder / "out";
  const auto arguments = with(tiny, {"--out", out, "--modes", "vectorized"});
  REQUIRE(run(with(arguments, {"--batches", "1,4", "--commit", "first"}), folder / "log") == 0);
  CHECK_THAT(text_of(out + "/report.html"), ContainsSubstring("<td>first</td>"));
  REQUIRE(run(with(arguments, {"--batches", "1,2,4", "--commit", "second"}), folder / "log") == 0);
  CHECK(cell_of(out, "alexnet_vectorized_strict_4").at("commit") == "first");
  CHECK(cell_of(out, "alexnet_vectorized_strict_2").at("commit") == "second");
  CHECK_THAT(text_of(out + "/report.html"), ContainsSubstring("first in 2 cells, second in 1"));
  const auto cells = lines_of(out + "/cells_trial_tern.csv");
  REQUIRE(cells.size() == 1 + 3);
  CHECK_THAT(cells[0], ContainsSubstring(",commit,note"));
  CHECK_THAT(cells[2], ContainsSubstring("alexnet,vectorized,strict,2,") && ContainsSubstring(",\"second\","));
}

TEST_CASE("study: on a request to stop, it ends after a step and leaves no half cell", "[study]") {
  const tern::testing::TemporaryFolder folder;
  const std::string out = folder / "out";
  const pid_t child = start(with(tiny, {"--out", out, "--epochs", "100000"}), folder / "log");
  const std::string begun = out + "/cells/alexnet_sequential_strict_1.begun";
  REQUIRE(appears(begun, child));
  kill(child, SIGTERM);
  CHECK(wait_for(child) == 130);
  CHECK(fs::is_empty(out + "/cells"));
  CHECK_THAT(text_of(folder / "log"), ContainsSubstring("continues where"));
}

TEST_CASE("study: cells that do not fit, take too long or fail are recorded, and the rest runs", "[study]") {
  const tern::testing::TemporaryFolder folder;
  const std::string out = folder / "out";
  REQUIRE(run(with(tiny, {"--out", out, "--batches", "1,8", "--images", "16", "--memory-limit", "0.0026"}),
              folder / "log") == 0);
  CHECK(cell_of(out, "alexnet_vectorized_strict_8").at("status") == "does not fit");
  CHECK(cell_of(out, "alexnet_vectorized_strict_1").at("status") == "complete");
  const std::string html = text_of(out + "/report.html");
  CHECK_THAT(html, ContainsSubstring("Does not fit into memory") && ContainsSubstring("\"missing\":[8.0]"));
  check_tags(html);

  const std::string cut = folder / "cut";
  REQUIRE(run(with(tiny, {"--out", cut, "--seconds-per-cell", "0.00001"}), folder / "log") == 0);
  const json first = cell_of(cut, "alexnet_sequential_strict_1"), second = cell_of(cut, "alexnet_sequential_strict_4");
  CHECK(first.at("status") == "cut");
  CHECK(first.at("loss").size() == 2);
  CHECK_THAT(first.at("note").get<std::string>(), ContainsSubstring("cut after 2 of 16 steps"));
  CHECK(second.at("status") == "too slow");
  CHECK_THAT(second.at("note").get<std::string>(), ContainsSubstring("one step would take"));
  check_tags(text_of(cut + "/report.html"));
}

TEST_CASE("study: a cell in which the program died three times is passed over", "[study]") {
  const tern::testing::TemporaryFolder folder;
  const std::string out = folder / "out";
  fs::create_directories(out + "/cells");
  std::ofstream(out + "/cells/alexnet_vectorized_strict_4.begun") << 3;
  REQUIRE(run(with(tiny, {"--out", out, "--modes", "vectorized"}), folder / "log") == 0);
  CHECK(cell_of(out, "alexnet_vectorized_strict_1").at("status") == "complete");
  const json cell = cell_of(out, "alexnet_vectorized_strict_4");
  CHECK(cell.at("status") == "failed");
  CHECK_THAT(cell.at("note").get<std::string>(), ContainsSubstring("3 times"));
}

TEST_CASE("study: what cannot be studied is said before anything runs", "[study]") {
  const tern::testing::TemporaryFolder folder;
  const std::string log = folder / "log";
  const auto refused = [&](std::initializer_list<std::string> more, const char* why) {
    CHECK(run(with(with(tiny, {"--out", folder / "other"}), more), log) == 1);
    CHECK_THAT(text_of(log), ContainsSubstring(why));
  };
  refused({"--nets", "lexnet"}, "lexnet");
  refused({"--modes", "abacus"}, "abacus");
  refused({"--batches", "16"}, "16 cannot be taken from 8 images");
  refused({"--precision", "fp8"}, "fp8");
  refused({"--data", folder / "nowhere"}, "nowhere");
  CHECK(run({"--report-only", "--out", folder / "empty"}, log) == 1);
}
