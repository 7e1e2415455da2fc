// Tables as people have them: columns of words, holes, and both in what is predicted later.

#include <algorithm>
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
    std::vector<std::string> arguments{"train", "--dataset", "f.csv", "--mode", "vectorized"};
    if (std::find(more.begin(), more.end(), "--epochs") == more.end())
      arguments.insert(arguments.end(), {"--epochs", "30"});
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
  // The shelf is a number unless it is named.
  const Outcome named = shop.train(fruits(240, ""), {"--categorical", "shelf"});
  CHECK_THAT(named.err, ContainsSubstring("colour (3), shelf (4)"));
  CHECK_THAT(named.err, ContainsSubstring("mlp 8-128-3"));
  CHECK(shop.run({"test", "--model", "run", "--dataset", "f.csv"}).code == 0);
  if (!Browser::available()) return;
  REQUIRE(shop.run({"report", "run"}).code == 0);
  Browser browser("file://" + (shop.folder / "run/report.html"));
  CHECK(browser.wait_for("document.body?.innerText.includes('colour: yellow')"));
  CHECK(browser.complaints() == "");
}

namespace {

/// Orders from 24 towns in three regions, which decide the class together with the price.
std::string orders(int rows) {
  Generator generator(9);
  const auto drawn = rand({rows, 2}, generator).to_vector<float>();
  std::ostringstream text;
  text << "price,town,size,way\n";
  for (std::size_t i = 0; i < drawn.size(); i += 2) {
    const auto town = static_cast<int>(24 * drawn[i]);
    const bool dear = drawn[i + 1] > 0.5f;
    text << 100 * drawn[i + 1] << ",town" << town << "," << (dear ? "large" : "small") << ","
         << (town % 3 == 0 ? "ship"
             : dear        ? "train"
                           : "cart")
         << "\n";
  }
  return text.str();
}

}  // namespace

TEST_CASE("mixed: categories become learned vectors", "[tools][mixed]") {
  const Shop shop;
  const std::string table = orders(600);
  const Outcome trained = shop.train(table, {"--embedding", "auto"});
  INFO(trained.err);
  REQUIRE(trained.code == 0);
  CHECK_THAT(trained.err, ContainsSubstring("Columns of categories, an input for each: size (2)"));
  CHECK_THAT(trained.err, ContainsSubstring("Columns of categories, each a learned vector: town (24 by 9)"));
  CHECK_THAT(trained.err, ContainsSubstring("mlp 12-128-3, relu, 1 embedding"));
  CHECK(events_of(shop.folder / "run").back()["accuracy"] > 0.95);
  const auto held_out = [&](const std::string& model) {
    const Outcome tested = shop.run({"test", "--model", model, "--dataset", "f.csv", "--held-out", "--format", "json"});
    INFO(tested.err);
    REQUIRE(tested.code == 0);
    return Json::parse(tested.out)["accuracy"];
  };
  CHECK(held_out("run") == events_of(shop.folder / "run").back()["accuracy"]);
  // The vectors are parameters as others: saved, exported, frozen, taken over.
  const io::Safetensors model = io::load_safetensors(shop.folder / "run/model.safetensors");
  CHECK(model.tensors.at("embeddings.1").shape() == Shape{24, 9});
  CHECK(shop.run({"export", "--model", "run", "--format", "npy", "--out", "weights"}).code == 0);
  CHECK_FALSE(read_bytes(shop.folder / "weights/embeddings.1.npy").empty());
  const Outcome taken = shop.train(
      table, {"--embedding", "auto", "--init", "run", "--freeze", "embeddings.*", "--run", "again", "--epochs", "1"});
  INFO(taken.err);
  REQUIRE(taken.code == 0);
  CHECK(io::load_safetensors(shop.folder / "again/model.safetensors").tensors.at("embeddings.1").values() ==
        model.tensors.at("embeddings.1").values());
  // A town that nobody has seen is a vector of zeros; importance moves the column as a whole.
  write_bytes(shop.folder / "new.csv", "price,size,town\n10,small,elsewhere\n20,small,town3\n");
  const Outcome predicted = shop.run({"predict", "--model", "run", "--dataset", "new.csv", "--format", "csv"});
  INFO(predicted.err);
  CHECK_THAT(predicted.out, ContainsSubstring("\n2,ship,"));
  const Outcome columns = shop.run({"test", "--model", "run", "--dataset", "f.csv", "--importance", "--format", "csv"});
  CHECK_THAT(columns.out, ContainsSubstring("town,"));
  // A stopped training goes on with its vectors, and with no others.
  const auto part = [&](const char* run, const char* epochs) {
    return shop.train(table, {"--embedding", "4", "--run", run, "--epochs", epochs, "--schedule", "constant"});
  };
  REQUIRE(part("whole", "3").code == 0);
  REQUIRE(part("parts", "1").code == 0);
  REQUIRE(shop.run({"train", "--run", "parts", "--resume", "--epochs", "3"}).code == 0);
  CHECK(read_bytes(shop.folder / "parts/model.safetensors") == read_bytes(shop.folder / "whole/model.safetensors"));
  const Outcome other = shop.run({"train", "--run", "parts", "--resume", "--embedding", "5"});
  CHECK(other.code == 2);
  CHECK_THAT(other.err, ContainsSubstring("--embedding"));
  // The search takes it as any other option.
  const Outcome searched =
      shop.run({"tune", "--dataset", "f.csv", "--grid", "embedding=off,auto,3", "--epochs", "2", "--run", "search"});
  INFO(searched.err);
  CHECK(searched.code == 0);
  for (const auto& [trial, size] : {std::pair{"1", "off"}, {"2", "auto"}, {"3", "3"}}) {
    REQUIRE(shop.run({"train", "--dataset", "f.csv", "--embedding", size, "--epochs", "2", "--run", "alone"}).code ==
            0);
    CHECK(read_bytes(shop.folder / "search/trial-00" + trial + "/model.safetensors") ==
          read_bytes(shop.folder / "alone/model.safetensors"));
  }
}

TEST_CASE("mixed: an embedding that cannot be is refused", "[tools][mixed]") {
  const Shop shop;
  const auto refused = [&](const Outcome& outcome, const std::string& sentence) {
    CHECK(outcome.code == 2);
    CHECK_THAT(outcome.err, ContainsSubstring(sentence));
  };
  const std::string table = orders(120);
  refused(shop.train(table, {"--embedding", "some"}), "--embedding: found 'some'");
  refused(shop.train(table, {"--embedding", "0"}),
          "--embedding: found '0', expected a whole number from 1 to 1000, off or auto");
  refused(shop.train(table, {"--embedding", "auto", "--layers", "27,8,3"}),
          "--layers begins with 27, but an example of f.csv has 12 values with its --embedding");
  refused(shop.run({"train", "--dataset", "synthetic-digits", "--limit", "50", "--embedding", "auto"}),
          "--embedding is for a table's columns");
  // A model file is not believed.
  REQUIRE(shop.train(table, {"--embedding", "auto", "--epochs", "1"}).code == 0);
  const std::string file = shop.folder / "run/model.safetensors";
  io::Safetensors model = io::load_safetensors(file);
  auto& [key, text] = *model.metadata.begin();
  const std::string whole = text;
  for (const char* sizes : {"[0,9]", "[9,9,0]", "[0,-1,0]", "[0,2000000,0]", "[0,8,0]"}) {
    text = whole;
    const auto at = text.find("\"embedding\":[");
    REQUIRE(at != std::string::npos);
    const std::size_t begin = at + 12;
    text.replace(begin, text.find(']', begin) + 1 - begin, sizes);
    io::save_safetensors(file, model.tensors, model.metadata);
    const Outcome outcome = shop.run({"test", "--model", "run", "--dataset", "f.csv"});
    INFO(sizes << ": " << outcome.err);
    CHECK(outcome.code == 3);
  }
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
      {"indicator", "52 values are missing: an extra input per such column says where"},
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
