// tern predict on pictures: files, folders of any shape, and the contact sheet.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../data/pictures.hpp"
#include "browser.hpp"
#include "layout.hpp"
#include "process.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace tern::testing {

#if TERN_TEST_IMAGES

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

// A model that tells dark pictures from light ones, and pictures to try it on.
class Shades {
 public:
  Shades() {
    for (const char* name : {"dark", "light"})
      for (int i = 0; i < 8; ++i) write("p/" + std::string(name) + "/" + std::to_string(i) + ".png", shade(name) + i);
    const Outcome trained = run({"train", "--dataset", "p", "--layers", "768,2", "--image-size", "16", "--epochs", "8",
                                 "--batch-size", "4", "--validation", "0", "--quiet"});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    write("new/dark/a.png", 30);
    write("new/dark/below/b.PNG", 230);  // in the wrong folder
    write("new/light/c.png", 220);
    write("new/d.png", 25);
    write("new/.hidden/e.png", 25);
    write_bytes(folder_ / "new/notes.txt", "no picture");
  }

  Outcome run(const Words& words) const { return tern(words, {.folder = folder_.path()}); }
  Outcome predict(Words words) const {
    words.insert(words.begin(), {"predict", "--model", "run"});
    return run(words);
  }
  std::string path(const std::string& name) const { return folder_ / name; }
  void write(const std::string& name, int grey) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    const auto value = static_cast<std::uint8_t>(grey);
    write_bytes(folder_ / name, png_of(plain_picture(20, 24, {value, value, value})));
  }

 private:
  static int shade(const std::string& name) { return name == "dark" ? 30 : 220; }
  TemporaryFolder folder_;
};

Json sheet_of(const std::string& file) {
  const std::string page = read_bytes(file), begin = "const sheet = ";
  const auto at = page.find(begin) + begin.size();
  return Json::parse(page.substr(at, page.find(";\n", at) - at));
}

}  // namespace

TEST_CASE("predict: pictures of a folder are compared with the names of the folders around them", "[tools][predict]") {
  const Shades shades;
  const Outcome found = shades.predict({"new", "--format", "json"});
  INFO(found.err);
  REQUIRE(found.code == 0);
  const Json rows = Json::parse(found.out);
  REQUIRE(rows.size() == 4);
  const auto row = [&](std::size_t i, const char* file, const char* name, const Json& folder) {
    CHECK(rows[i]["example"] == file);
    CHECK(rows[i]["class"] == name);
    CHECK(rows[i]["folder"] == folder);
  };
  row(0, "new/d.png", "dark", nullptr);
  row(1, "new/dark/a.png", "dark", "dark");
  row(2, "new/dark/below/b.PNG", "light", "dark");
  row(3, "new/light/c.png", "light", "light");
  CHECK_THAT(found.err, ContainsSubstring("2 of 3 pictures in folders named after a class are taken for that class"));

  const Outcome csv = shades.predict({"new/", "--format", "csv"});
  CHECK_THAT(csv.out, ContainsSubstring("example,class,score,folder\nnew/d.png,dark,"));
  CHECK_THAT(csv.out, ContainsSubstring(",dark\nnew/light/c.png,light,"));
  CHECK_THAT(shades.predict({"new"}).out, ContainsSubstring("dark   differs\n"));
  // A file's own folder counts; where none is named after a class, nothing is said of folders.
  CHECK(Json::parse(shades.predict({"new/dark/a.png", "--format", "json"}).out)[0]["folder"] == "dark");
  const Outcome alone = shades.predict({"new/d.png", "new/dark/below/b.PNG", "--format", "csv"});
  CHECK_THAT(alone.out, ContainsSubstring("example,class,score\nnew/d.png,dark,"));
  CHECK(alone.err.empty());
}

TEST_CASE("predict: what is no picture is said, or left out", "[tools][predict]") {
  const Shades shades;
  fs::create_directory(shades.path("empty"));
  const auto refused = [&](int code, const Words& words, const std::string& sentence) {
    const Outcome outcome = shades.predict(words);
    CHECK(outcome.code == code);
    CHECK_THAT(outcome.err, ContainsSubstring(sentence));
  };
  refused(3, {"empty"}, "empty: found no image in it, expected files named .jpg, .jpeg or .png");
  refused(3, {"nowhere"}, "nowhere: there is no such file or folder");
  refused(3, {"new/notes.txt"}, "new/notes.txt: is neither a JPEG nor a PNG");
  refused(3, {"new/notes.txt", "--corrupt", "skip"}, "none of the pictures could be read");
  refused(2, {"new/d.png", "--out", "new/d.png"}, "new/d.png is read here");
  refused(2, {"new/d.png", "--sheet", "new/d.png"}, "new/d.png is read here");
  refused(2, {"new", "--dataset", "p"}, "--dataset and pictures are both set");

  write_bytes(shades.path("new/dark/0.png"), "broken");
  const Outcome left = shades.predict({"new", "--corrupt", "skip", "--format", "json", "--sheet", "s.html"});
  REQUIRE(left.code == 0);
  CHECK_THAT(left.err, ContainsSubstring("1 image could not be read: new/dark/0.png; left out"));
  const Json rows = Json::parse(left.out);
  REQUIRE(rows.size() == 4);
  CHECK(rows[1]["example"] == "new/dark/a.png");
  CHECK(rows[3]["folder"] == "light");
  CHECK(sheet_of(shades.path("s.html"))["parts"][0]["pictures"][0]["file"] == "new/dark/below/b.PNG");
}

TEST_CASE("predict: the sheet shows what differs first, and marks it", "[tools][predict]") {
  const Shades shades;
  REQUIRE(shades.predict({"new", "--sheet", "s.html", "--out", "classes.txt"}).code == 0);
  const Json sheet = sheet_of(shades.path("s.html"));
  CHECK_THAT(sheet["note"].get<std::string>(), ContainsSubstring("2 of 3 (66.7 %) agree with the folder's name"));
  REQUIRE(sheet["parts"].size() == 3);
  const Json& first = sheet["parts"][0];
  CHECK(first["heading"] == "1 picture: the model predicts another class than the folder's name");
  CHECK(first["pictures"][0]["wrong"] == "folder: dark");
  CHECK(first["pictures"][0]["title"] == "light");
  CHECK(first["pictures"][0]["pixels"]["width"] == 16);
  for (const Json& picture : sheet["parts"][1]["pictures"]) CHECK_FALSE(picture.contains("wrong"));
  CHECK(sheet["parts"][2]["heading"] == "1 picture in folders without a class name");

  // Of a data set the labels are compared.
  REQUIRE(shades.predict({"--dataset", "p", "--sheet", "t.html", "--out", "classes.txt"}).code == 0);
  CHECK_THAT(sheet_of(shades.path("t.html"))["note"].get<std::string>(),
             ContainsSubstring("16 of 16 (100.0 %) agree with the label"));

  if (!Browser::available()) return;
  Browser browser("file://" + shades.path("s.html"));
  REQUIRE(browser.wait_for("document.querySelectorAll('canvas').length === 4"));
  CHECK(faults_of(browser).empty());
  browser.resize(360);
  CHECK(browser.evaluate(layout_faults).empty());
  CHECK(browser.evaluate("document.querySelectorAll('figure.wrong').length") == 1);
  CHECK(browser.complaints().empty());
}

#endif

}  // namespace tern::testing
