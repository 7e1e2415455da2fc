// `tern compare`: runs side by side.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;
namespace fs = std::filesystem;

TEST_CASE("compare: the settings that differ and what came of them, the best first", "[tools][compare]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(90));
  const auto train = [&](const std::string& run, const std::string& epochs, const std::string& width) {
    REQUIRE(tern({"train", "--dataset", "c.csv", "--mode", "sequential", "--run", run, "--epochs", epochs, "--layers",
                  "3," + width + ",3", "--quiet"},
                 {.folder = folder.path()})
                .code == 0);
  };
  train("short one", "1", "1");
  train("long", "30", "16");
  const Outcome table = tern({"compare", "short one", "long"}, {.folder = folder.path()});
  INFO(table.out << table.err);
  REQUIRE(table.code == 0);
  CHECK_THAT(table.out, ContainsSubstring("run "));
  CHECK_THAT(table.out, ContainsSubstring("layers"));
  CHECK_THAT(table.out, ContainsSubstring("3,16,3"));
  CHECK_THAT(table.out, !ContainsSubstring("seed"));  // is the same in both
  CHECK(table.out.find("\nlong") < table.out.find("\nshort one"));
  CHECK_THAT(table.out, ContainsSubstring("finished"));

  const Outcome json = tern({"compare", "short one", "long", "--format", "json"}, {.folder = folder.path()});
  const Json all = Json::parse(json.out);
  REQUIRE(all.size() == 2);
  CHECK(all[0]["run"] == "long");
  CHECK(all[0]["epochs_done"] == 30);
  CHECK(all[0]["settings"]["layers"] == Json({3, 16, 3}));
  CHECK(all[0]["accuracy"].get<double>() > all[1]["accuracy"].get<double>());
  CHECK_FALSE(all[0]["settings"].contains("batch-size"));

  REQUIRE(
      tern({"compare", "short one", "long", "--format", "csv", "--out", "runs.csv"}, {.folder = folder.path()}).code ==
      0);
  const std::string csv = read_bytes(folder / "runs.csv");
  CHECK_THAT(csv, ContainsSubstring(",epochs_done,training_loss,loss,accuracy,r2,seconds\nlong,"));
  CHECK_THAT(csv, ContainsSubstring("\"3,16,3\""));

  const Outcome same = tern({"compare", "long", "long"}, {.folder = folder.path()});
  CHECK_THAT(same.out, ContainsSubstring("All settings are the same."));
}

TEST_CASE("compare: runs that are under way, of other data, or no runs", "[tools][compare]") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& run, const std::string& lines) {
    fs::create_directory(folder / run);
    write_bytes(folder / (run + "/metrics.jsonl"), lines);
  };
  write("a", R"({"event":"start","net":"mlp","settings":{"seed":1},"data":{"source":"x"}}
{"event":"epoch","epoch":2,"loss":0.5,"validation_loss":0.75,"validation_r2":0.25,"seconds":61}
)");
  write("b", R"({"event":"start","net":"mlp","settings":{"seed":2},"data":{"source":"y"}}
{"event":"epoch","epoch":1,"loss":null,"validation_loss":2,"validation_accuracy":0.5,"seconds":"long"}
{"event":"interrupt"}
)");
  const Outcome both = tern({"compare", "b", "a"}, {.folder = folder.path()});
  INFO(both.out << both.err);
  REQUIRE(both.code == 0);
  CHECK_THAT(both.out, ContainsSubstring("R2"));
  CHECK_THAT(both.out, ContainsSubstring("1:01"));
  CHECK_THAT(both.out, ContainsSubstring("not finished"));
  CHECK_THAT(both.out, ContainsSubstring("interrupted"));
  CHECK(both.out.find("\nb") < both.out.find("\na"));  // as they were given: no figure says which is better

  // Nor does one that both have, of other data; of the same data it does, and times add up.
  const auto epoch = [](const std::string& data, const char* accuracy) {
    return R"({"event":"start","settings":{},"data":{"source":")" + data + R"("}}
{"event":"epoch","epoch":1,"validation_accuracy":0.1,"seconds":60}
{"event":"epoch","epoch":2,"validation_accuracy":)" +
           accuracy + R"(,"seconds":5}
)";
  };
  write("poor", epoch("x", "0.5"));
  write("good", epoch("x", "0.75"));
  write("other", epoch("y", "0.9"));
  const std::string same = tern({"compare", "poor", "good"}, {.folder = folder.path()}).out;
  CHECK(same.find("\ngood") < same.find("\npoor"));
  CHECK_THAT(same, ContainsSubstring("1:05"));
  const std::string apart = tern({"compare", "poor", "other"}, {.folder = folder.path()}).out;
  CHECK(apart.find("\npoor") < apart.find("\nother"));

  write("odd", R"({"event":"start","net":7,"settings":[],"data":3}
{"event":"epoch","epoch":1e300,"loss":{},"seconds":-1}
{"event":"end","reason":null}
)");
  CHECK(tern({"compare", "a", "odd"}, {.folder = folder.path()}).code == 0);
  const Outcome one = tern({"compare", "a"}, {.folder = folder.path()});
  CHECK(one.code == 2);
  CHECK_THAT(one.err, ContainsSubstring("two or more runs"));
  const Outcome none = tern({"compare", "a", "nowhere"}, {.folder = folder.path()});
  CHECK(none.code == 3);
  CHECK_THAT(none.err, ContainsSubstring("nowhere/metrics.jsonl"));
}

}  // namespace tern::testing
