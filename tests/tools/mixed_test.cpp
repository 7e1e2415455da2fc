// Tables as people have them: columns of words, holes, and both in what is predicted later.

#include <functional>
#include <sstream>

#include "browser.hpp"
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

/// Fruits: the colour and the weight tell them apart; some values are not there.
std::string fruits(int rows, const std::string& hole) {
  Generator generator(4);
  const auto drawn = rand({rows, 3}, generator).to_vector<float>();
  const char* const colours[]{"red", "green", "yellow"};
  std::ostringstream text;
  text << "weight,colour,shelf,fruit\n";
  for (std::size_t i = 0; i < drawn.size(); i += 3) {
    const auto colour = static_cast<std::size_t>(3 * drawn[i]);
    const bool heavy = drawn[i + 1] > 0.5f;
    text << (!hole.empty() && i % 24 == 0 ? hole : std::to_string(heavy ? 180 + drawn[i] : 90 + drawn[i])) << ","
         << (!hole.empty() && i % 33 == 0 ? hole : colours[colour]) << "," << static_cast<int>(4 * drawn[i + 2]) << ","
         << (colour == 2 ? "lemon"
             : heavy     ? "apple"
                         : "plum")
         << "\n";
  }
  return text.str();
}

struct Shop {
  TemporaryFolder folder;
  Outcome run(const std::vector<std::string>& arguments) const { return tern(arguments, {.folder = folder.path()}); }
  Outcome train(const std::string& table, const std::vector<std::string>& more = {}) const {
    write_bytes(folder / "f.csv", table);
    std::vector<std::string> arguments{"train", "--dataset", "f.csv", "--mode", "vectorized", "--epochs", "30"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

}  // namespace

TEST_CASE("mixed: columns of words are found, learnt and predicted by", "[tools][mixed]") {
  const Shop shop;
  const Outcome trained = shop.train(fruits(240, ""));
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.err, ContainsSubstring("Columns of categories, an input for each: colour (3)"));
  CHECK(events_of(shop.folder / "run").back()["accuracy"] == 1);
  const Outcome tested = shop.run({"test", "--model", "run", "--dataset", "f.csv", "--held-out", "--format", "json"});
  INFO(tested.err);
  CHECK(Json::parse(tested.out)["accuracy"] == 1);
  // Other columns first, one colour only, and one that nobody has seen.
  write_bytes(shop.folder / "new.csv", "colour,shelf,weight\nyellow,1,91\nblue,1,180\n");
  const Outcome predicted = shop.run({"predict", "--model", "run", "--dataset", "new.csv", "--format", "csv"});
  INFO(predicted.err);
  CHECK_THAT(predicted.out, ContainsSubstring("\n1,lemon,"));
  CHECK_THAT(predicted.out, ContainsSubstring("\n2,"));
  write_bytes(shop.folder / "hole.csv", "colour,shelf,weight\nyellow,1,\n");
  const Outcome refused = shop.run({"predict", "--model", "run", "--dataset", "hole.csv"});
  CHECK(refused.code == 3);
  CHECK_THAT(refused.err, ContainsSubstring("hole.csv:2:10: found nothing in weight, expected a number; --missing"));
  // The shelf is a number unless it is told.
  const Outcome told = shop.train(fruits(240, ""), {"--categorical", "shelf"});
  CHECK_THAT(told.err, ContainsSubstring("colour (3), shelf (4)"));
  CHECK_THAT(told.err, ContainsSubstring("mlp 8-128-3"));
  CHECK(shop.run({"test", "--model", "run", "--dataset", "f.csv"}).code == 0);
  if (!Browser::available()) return;
  REQUIRE(shop.run({"report", "run"}).code == 0);
  Browser browser("file://" + (shop.folder / "run/report.html"));
  CHECK(browser.wait_for("document.body?.innerText.includes('colour: yellow')"));
  CHECK(browser.complaints() == "");
}

TEST_CASE("mixed: missing values are refused, filled, shown or left out", "[tools][mixed]") {
  const Shop shop;
  const std::string table = fruits(240, "NA");
  const Outcome refused = shop.train(table);
  CHECK(refused.code == 3);
  CHECK_THAT(refused.err, ContainsSubstring("f.csv:2:1: found 'NA' in weight, expected a number; --missing"));
  const auto words = std::vector<std::pair<std::string, std::string>>{
      {"mean", "52 values are missing: each is taken for the mean of its column, or its most frequent category."},
      {"median", "52 values are missing: each is taken for the median"},
      {"indicator", "52 values are missing: an input more says where"},
      {"drop", "52 values are missing: 49 of 240 rows are left out."}};
  for (const auto& [missing, note] : words) {
    INFO(missing);
    const Outcome trained = shop.train(table, {"--missing", missing});
    INFO(trained.err);
    REQUIRE(trained.code == 0);
    CHECK_THAT(trained.err, ContainsSubstring(note));
    CHECK(events_of(shop.folder / "run").back()["accuracy"] > 0.75);
    const Outcome tested = shop.run({"test", "--model", "run", "--dataset", "f.csv", "--held-out", "--format", "json"});
    INFO(tested.err);
    REQUIRE(tested.code == 0);
    CHECK(Json::parse(tested.out)["accuracy"] == events_of(shop.folder / "run").back()["accuracy"]);
    // The numbers of the rows are those of the file.
    write_bytes(shop.folder / "new.csv", "weight,colour,shelf\n90,red,0\nNA,red,1\n180,NaN,2\n90,yellow,1\n");
    const Outcome predicted = shop.run({"predict", "--model", "run", "--dataset", "new.csv", "--format", "csv"});
    INFO(predicted.err);
    REQUIRE(predicted.code == 0);
    CHECK((predicted.out.find("\n2,") == std::string::npos) == (missing == "drop"));
    CHECK_THAT(predicted.out, ContainsSubstring("\n4,lemon,"));
    // A training that goes on must treat them alike.
    CHECK(shop.run({"train", "--resume", "--missing", "refuse"}).code == 2);
  }
  const Outcome every = shop.train("a,b,c\n1,?,x\n?,2,y\n", {"--missing", "drop"});
  CHECK(every.code == 3);
  CHECK_THAT(every.err, ContainsSubstring("found a missing value in every row"));
}

TEST_CASE("mixed: the model's file holds what its columns mean, and is not trusted", "[tools][mixed]") {
  const Shop shop;
  REQUIRE(shop.train(fruits(120, "?"), {"--missing", "indicator"}).code == 0);
  const io::Safetensors content = io::load_safetensors(shop.folder / "run/model.safetensors");
  const auto predicts = [&](const std::function<void(Json&)>& edit) {
    Json description = Json::parse(content.metadata.at("tern.model"));
    edit(description);
    io::save_safetensors(shop.folder / "other.safetensors", content.tensors, {{"tern.model", description.dump()}});
    const Outcome outcome = shop.run({"predict", "--model", "other.safetensors", "--dataset", "f.csv"});
    INFO(outcome.err);
    CHECK((outcome.code == 0 || outcome.code == 3));
    return outcome.code == 0;
  };
  CHECK(predicts([](Json&) {}));
  CHECK_FALSE(predicts([](Json& json) { json["missing"] = "guess"; }));
  CHECK_FALSE(predicts([](Json& json) { json["fill"].erase(0); }));
  CHECK_FALSE(predicts([](Json& json) { json["fill"][1] = 7; }));
  CHECK_FALSE(predicts([](Json& json) { json["fill"][0] = "many"; }));
  CHECK_FALSE(predicts([](Json& json) { json["indicator"][0] = "yes"; }));
  CHECK_FALSE(predicts([](Json& json) { json["categories"][1] = Json::array(); }));
  CHECK_FALSE(predicts([](Json& json) { json["categories"].push_back(Json::array()); }));
  CHECK_FALSE(predicts([](Json& json) { json["deviation"][0] = 0; }));
}

}  // namespace tern::testing
