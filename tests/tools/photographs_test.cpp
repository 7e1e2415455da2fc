// Folders of photographs of which some cannot be read.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "../data/pictures.hpp"
#include "metrics.hpp"
#include "process.hpp"
#include "support/catch.hpp"
#include "training.hpp"

namespace tern::testing {

#if TERN_TEST_IMAGES

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// A folder "p" of two classes of `each` pictures, every picture of a shade of its own, of which some are broken.
void write_pictures(const TemporaryFolder& folder, int each, const std::vector<std::string>& broken) {
  fs::create_directory(folder / "p");
  int shade = 0;
  for (const char* name : {"dark", "light"}) {
    fs::create_directory(folder / (std::string("p/") + name));
    for (int i = 0; i < each; ++i) {
      const auto grey = static_cast<std::uint8_t>(shade += 5);
      write_bytes(folder / (std::string("p/") + name + "/" + std::to_string(i) + ".png"),
                  png_of(plain_picture(16, 16, {grey, grey, grey})));
    }
  }
  for (const std::string& file : broken) write_bytes(folder / ("p/" + file), "no image");
}

/// Another source, which notes the shades of what it gives.
class Noted final : public data::ExampleSource {
 public:
  explicit Noted(std::shared_ptr<const data::ExampleSource> source) : source_(std::move(source)) {}
  std::int64_t size() const override { return source_->size(); }
  std::int64_t classes() const override { return source_->classes(); }
  Shape shape() const override { return source_->shape(); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }
  std::string name() const override { return source_->name(); }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw, std::span<float> to) const override {
    const auto found = source_->read(index, draw, to);
    const std::lock_guard lock(mutex_);
    if (found) shades_.insert(to[0]);
    return found;
  }
  std::set<float> shades() const {
    const std::lock_guard lock(mutex_);
    return shades_;
  }

 private:
  std::shared_ptr<const data::ExampleSource> source_;
  mutable std::mutex mutex_;
  mutable std::set<float> shades_;
};

}  // namespace

TEST_CASE("photographs: those that were set aside do not stand in for broken ones", "[tools][photographs]") {
  const TemporaryFolder folder;
  write_pictures(folder, 20, {"dark/0.png", "dark/3.png", "dark/7.png", "light/2.png", "light/11.png"});
  for (const bool three_parts : {false, true}) {
    tool::Settings settings;
    settings.dataset = folder / "p";
    settings.image_size = 16;
    settings.corrupt = "skip";
    settings.layers = {768, 4, 2};
    settings.early_stop = 10;
    settings.epochs = 3;
    settings.batch_size = 4;
    if (three_parts) settings.test_fraction = 0.2;
    tool::TrainingData data = tool::load_training_data(settings);
    const auto trained = std::make_shared<Noted>(data.train.source), judged = std::make_shared<Noted>(data.plain);
    data.train.source = trained;
    data.plain = judged;
    tool::complete(settings, data);
    tool::Training training(settings, data);
    REQUIRE(training.run(3, {}) == tool::Ended::finished);
    INFO((three_parts ? "three parts" : "a share of the training examples"));
    CHECK(trained->shades().size() >= 18);  // of 40: 5 broken, 8 held out, some 8 set aside
    CHECK(judged->shades().size() >= 4);
    std::set<float> both;
    std::ranges::set_intersection(trained->shades(), judged->shades(), std::inserter(both, both.end()));
    CHECK(both.empty());
  }
}

TEST_CASE("photographs: names of any length and any bytes come from all ranks whole", "[tools][photographs]") {
  const TemporaryFolder folder;
  write_pictures(folder, 12, {});
  // More than 255 bytes in all, and one name that is not UTF-8.
  std::vector<std::string> names{"p/dark/caf\xe9.png"};
  for (const char* of : {"p/dark/", "p/light/"})
    for (int i = 0; i < 3; ++i) names.push_back(of + std::string(100, static_cast<char>('a' + i)) + ".png");
  for (const std::string& name : names) write_bytes(folder / name, "no image");
  const std::vector<std::string> train{"train", "--dataset", "p",    "--layers",     "768,8,2", "--image-size",
                                       "16",    "--epochs",  "1",    "--batch-size", "4",       "--validation",
                                       "0.3",   "--corrupt", "skip", "--shards",     "4",       "--run"};
  std::string alone;
  for (const char* ranks : {"1", "2", "3"}) {
    std::vector<std::string> words = train;
    words.insert(words.end(), {ranks, "--ranks", ranks});
    const Outcome done = tern(words, {.folder = folder.path()});
    INFO(done.err);
    REQUIRE(done.code == 0);
    CHECK(events_of(folder / ranks).back()["unreadable"] == 7);
    std::vector<std::string> test{"test", "--model",  ranks,  "--dataset", "p",  "--corrupt",
                                  "skip", "--format", "json", "--ranks",   ranks};
    const Outcome tested = tern(test, {.folder = folder.path()});
    INFO(tested.err);
    REQUIRE(tested.code == 0);
    CHECK_THAT(tested.err, ContainsSubstring("7 images could not be read"));
    const std::string said = tested.out + tested.err;
    if (alone.empty()) alone = said;
    CHECK(said == alone);
  }
}

TEST_CASE("photographs: a class whose name is not UTF-8 is refused before anything is trained",
          "[tools][photographs]") {
  const TemporaryFolder folder;
  write_pictures(folder, 3, {});
  fs::rename(folder / "p/light", folder / "p/caf\xe9");
  const Outcome refused =
      tern({"train", "--dataset", "p", "--layers", "768,8,2", "--image-size", "16"}, {.folder = folder.path()});
  CHECK(refused.code == 3);
  CHECK_THAT(refused.err, ContainsSubstring("p: found a class folder named ") && ContainsSubstring("rename it"));
  CHECK_FALSE(fs::exists(folder / "run/metrics.jsonl"));
}

TEST_CASE("photographs: those that cannot be read are counted, named and tested by none", "[tools][photographs]") {
  const TemporaryFolder folder;
  for (const char* part : {"p", "p/train", "p/val"}) fs::create_directory(folder / part);
  for (const char* part : {"p/train/", "p/val/"})
    for (const char* name : {"dark", "light"}) {
      fs::create_directory(folder / (std::string(part) + name));
      const auto shade = static_cast<std::uint8_t>(std::string(name) == "dark" ? 30 : 220);
      for (int i = 0; i < 8; ++i)
        write_bytes(folder / (std::string(part) + name + "/" + std::to_string(i) + ".png"),
                    png_of(plain_picture(20, 20, {shade, shade, shade})));
    }
  for (const char* broken : {"p/train/dark/3.png", "p/val/dark/0.png", "p/val/light/7.png"})
    write_bytes(folder / broken, "no image");
  const std::vector<std::string> train{"train", "--dataset", "p", "--layers",     "768,8,2", "--image-size",
                                       "16",    "--epochs",  "3", "--batch-size", "4"};
  const Outcome refused = tern(train, {.folder = folder.path()});
  CHECK(refused.code == 3);
  CHECK_THAT(refused.err, ContainsSubstring(".png: is neither a JPEG nor a PNG"));
  auto skipping = train;
  skipping.insert(skipping.end(), {"--corrupt", "skip"});
  const Outcome trained = tern(skipping, {.folder = folder.path()});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.err,
             ContainsSubstring("1 image could not be read: p/train/dark/3.png; replaced by others of their class"));
  CHECK_THAT(trained.err,
             ContainsSubstring("2 images could not be read: p/val/dark/0.png, p/val/light/7.png; left out"));
  const auto events = events_of(folder / "run");
  CHECK(events.back()["unreadable"] == 3);
  CHECK(events[events.size() - 2]["examples"] == 14);

  const Outcome tested = tern({"test", "--model", "run", "--dataset", "p", "--corrupt", "skip", "--format", "json"},
                              {.folder = folder.path()});
  REQUIRE(tested.code == 0);
  CHECK(Json::parse(tested.out)["examples"] == 14);
  CHECK_THAT(tested.err, ContainsSubstring("2 images could not be read"));
  const Outcome together =
      tern({"test", "--model", "run", "--dataset", "p", "--corrupt", "skip", "--format", "json", "--ranks", "2"},
           {.folder = folder.path()});
  CHECK(together.out == tested.out);
  CHECK(together.err == tested.err);
  const Outcome predicted =
      tern({"predict", "--model", "run", "--dataset", "p", "--corrupt", "skip", "--format", "json"},
           {.folder = folder.path()});
  REQUIRE(predicted.code == 0);
  const Json rows = Json::parse(predicted.out);
  REQUIRE(rows.size() == 14);
  CHECK(rows.front()["example"] == 2);
  CHECK(rows.back()["example"] == 15);
}

TEST_CASE("photographs: a net with several heads tells its loss where nothing else is known", "[tools][photographs]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "p");
  for (const char* name : {"dark", "light"}) {
    fs::create_directory(folder / (std::string("p/") + name));
    const auto shade = static_cast<std::uint8_t>(std::string(name) == "dark" ? 30 : 220);
    write_bytes(folder / (std::string("p/") + name + "/0.png"), png_of(plain_picture(20, 20, {shade, shade, shade})));
  }
  const Outcome trained = tern({"train", "--dataset", "p", "--net", "googlenet", "--batch-size", "2", "--epochs", "1",
                                "--validation", "0", "--quiet"},
                               {.folder = folder.path()});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.out, ContainsSubstring("training loss: "));
  CHECK_THAT(trained.out, !ContainsSubstring("nan"));
}

#endif

}  // namespace tern::testing
