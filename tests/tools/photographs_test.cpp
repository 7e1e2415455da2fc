// Folders of photographs of which some cannot be read.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "../data/pictures.hpp"
#include "metrics.hpp"
#include "process.hpp"
#include "support/catch.hpp"

namespace tern::testing {

#if TERN_TEST_IMAGES

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

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
             ContainsSubstring("1 image could not be read: p/train/dark/3.png; others of its class stood in"));
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
