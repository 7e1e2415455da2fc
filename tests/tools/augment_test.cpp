// Augmentation of pictures: the options, what is kept of them, the sheet.

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../data/pictures.hpp"
#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

const Words changes{"--flip",     "--crop", "3",        "--rotate", "10",      "--brightness", "0.3",
                    "--contrast", "0.2",    "--cutout", "5",        "--mixup", "0.4"};

Words joined(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string trained(const TemporaryFolder& folder, const std::string& run, const Words& words) {
  const Outcome outcome = tern(joined({"train", "--run", run, "--quiet"}, words), {.folder = folder.path()});
  INFO(outcome.err);
  REQUIRE(outcome.code == 0);
  return read_bytes(folder / (run + "/model.safetensors"));
}

Json json_of(const std::string& file) {
  std::ifstream stream(file);
  return Json::parse(stream);
}

}  // namespace

TEST_CASE("augment: digits are changed alike for any number of ranks, and after a stop", "[tools][augment]") {
  const TemporaryFolder folder;
  const Words digits = joined({"--dataset", "synthetic-digits", "--limit", "120", "--layers", "784,16,10", "--schedule",
                               "constant", "--shards", "2"},
                              changes);
  const std::string whole = trained(folder, "whole", joined(digits, {"--epochs", "2"}));
  CHECK(trained(folder, "ranks", joined(digits, {"--epochs", "2", "--ranks", "2"})) == whole);
  CHECK(trained(folder, "stopped", joined(digits, {"--epochs", "1"})) != whole);
  CHECK(trained(folder, "stopped", {"--resume", "--epochs", "2"}) == whole);

  const Json config = json_of(folder / "whole/config.json");
  CHECK(config["flip"] == true);
  CHECK(config["crop"] == 3);
  CHECK(config["mixup"] == 0.4);
  const Outcome other = tern({"train", "--run", "whole", "--resume", "--crop", "2"}, {.folder = folder.path()});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, ContainsSubstring("--crop"));
}

TEST_CASE("augment: what does not fit the pictures is said", "[tools][augment]") {
  const TemporaryFolder folder;
  write_bytes(folder / "t.csv", clusters(30));
  const auto refused = [&](const Words& words, const std::string& expected) {
    const Outcome outcome = tern(joined({"train"}, words), {.folder = folder.path()});
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(expected));
    CHECK_FALSE(fs::exists(folder / "run/model.safetensors"));
  };
  for (const Words& words : {Words{"--flip"}, {"--crop", "2"}, {"--mixup", "0.2"}, {"--augment-sheet", "s.html"}})
    refused(joined({"--dataset", "t.csv"}, words), words[0] + " is for pictures; t.csv is a table");
  const Words digits{"--dataset", "synthetic-digits", "--limit", "50"};
  refused(joined(digits, {"--crop", "28"}), "--crop 28: the pictures have 28x28 pixels");
  refused(joined(digits, {"--cutout", "28"}), "--cutout 28 covers all of the pictures");
  refused(joined(digits, {"--saturation", "0.5"}), "the pictures are grey");
  refused(joined(digits, {"--rotate", "181"}), "expected degrees from 0 to 180");
  refused(joined(digits, {"--mixup", "3"}), "expected a number from 0 to 2");
}

TEST_CASE("augment: the sheet shows pictures and what becomes of them", "[tools][augment]") {
  const TemporaryFolder folder;
  const Words digits{"train", "--dataset", "synthetic-digits", "--limit", "60", "--augment-sheet", "s.html"};
  const auto sheet = [&](const Words& words) {
    const Outcome outcome = tern(joined(digits, words), {.folder = folder.path()});
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
    const std::string page = read_bytes(folder / "s.html");
    const std::string begin = "const sheet = ";
    const auto at = page.find(begin) + begin.size();
    return Json::parse(page.substr(at, page.find(";\n", at) - at));
  };
  const Json plain = sheet({}), changed = sheet({"--rotate", "30", "--mixup", "1"});
  CHECK_FALSE(fs::exists(folder / "run/model.safetensors"));
  REQUIRE(plain["parts"].size() == 8);
  for (const Json& part : plain["parts"]) {
    const Json& row = part["pictures"];
    REQUIRE(row.size() == 8);
    CHECK_THAT(row[0]["caption"].get<std::string>(), ContainsSubstring("as it is"));
    for (const Json& picture : row) CHECK(picture["pixels"] == row[0]["pixels"]);
  }
  for (std::size_t r = 0; r < 8; ++r) {
    const Json& row = changed["parts"][r]["pictures"];
    CHECK(row[0]["pixels"] == plain["parts"][r]["pictures"][0]["pixels"]);
    for (std::size_t i = 1; i < row.size(); ++i) CHECK(row[i]["pixels"] != row[0]["pixels"]);
    CHECK_THAT(row[1]["caption"].get<std::string>(), ContainsSubstring(" % "));
  }
}

#if TERN_TEST_IMAGES

TEST_CASE("augment: photographs are changed alike for any number of workers", "[tools][augment]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "p");
  for (const char* name : {"dark", "light"}) {
    fs::create_directory(folder / (std::string("p/") + name));
    for (std::uint8_t i = 0; i < 6; ++i) {
      const auto shade = static_cast<std::uint8_t>((std::string(name) == "dark" ? 30 : 200) + 5 * i);
      write_bytes(folder / (std::string("p/") + name + "/" + std::to_string(i) + ".png"),
                  png_of(plain_picture(24, 20, {shade, static_cast<std::uint8_t>(shade / 2), shade})));
    }
  }
  const Words photographs = joined({"--dataset", "p", "--layers", "768,8,2", "--image-size", "16", "--epochs", "2",
                                    "--batch-size", "4", "--validation", "0", "--saturation", "0.5"},
                                   changes);
  const std::string one = trained(folder, "one", joined(photographs, {"--threads", "1"}));
  CHECK(trained(folder, "three", joined(photographs, {"--threads", "3"})) == one);
  Words without = photographs;
  without.resize(without.size() - 2);  // no mixup
  CHECK(trained(folder, "other", joined(without, {"--threads", "1"})) != one);
}

#endif

}  // namespace tern::testing
