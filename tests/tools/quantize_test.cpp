// `tern quantize` as a user runs it, and what the other verbs do with its model.

#include "process.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;

TEST_CASE("quantize: a model in 8 bits is tested, timed and used", "[tools][quantize]") {
  const TemporaryFolder folder;
  const auto run = [&](const std::vector<std::string>& words) { return tern(words, {.folder = folder.path()}); };
  REQUIRE(run({"train", "--dataset", "synthetic-digits", "--limit", "2000", "--epochs", "2", "--run", "m"}).code == 0);
  const Outcome made = run({"quantize", "--model", "m", "--dataset", "synthetic-digits", "--limit", "2000", "--out",
                            "small.tern", "--force", "--examples", "64"});
  INFO(made.err);
  REQUIRE(made.code == 0);
  CHECK_THAT(made.out, ContainsSubstring("runs in") && ContainsSubstring("int8") && ContainsSubstring("whole"));
  CHECK_THAT(read_bytes(folder / "small.tern"), ContainsSubstring("quantized_"));
  const auto accuracy = [&](const char* model) {
    const Outcome tested =
        run({"test", "--model", model, "--dataset", "synthetic-digits", "--limit", "2000", "--format", "json"});
    INFO(tested.err);
    REQUIRE(tested.code == 0);
    const std::string key = "\"accuracy\": ";
    const std::size_t at = tested.out.find(key);
    REQUIRE(at != std::string::npos);
    return std::stod(tested.out.substr(at + key.size()));
  };
  CHECK(std::abs(accuracy("small.tern") - accuracy("m")) < 0.01);
  CHECK(run({"predict", "--model", "small.tern", "--dataset", "synthetic-digits", "--limit", "50"}).code == 0);
  const Outcome timed = run({"bench", "--model", "small.tern", "--modes", "vectorized", "--seconds", "0.05"});
  CHECK(timed.code == 0);
  CHECK_THAT(timed.out, ContainsSubstring("median") && ContainsSubstring("vectorized"));
  CHECK_THAT(run({"quantize", "--model", "small.tern", "--dataset", "synthetic-digits", "--out", "again.tern"}).err,
             ContainsSubstring("in 8 bits already"));
  CHECK_THAT(run({"quantize", "--model", "m", "--dataset", "synthetic-digits"}).err,
             ContainsSubstring("--out is missing"));
  CHECK(run({"quantize", "--model", "m", "--dataset", "synthetic-digits", "--out", "x", "--bound", "-1"}).code == 2);
}

}  // namespace tern::testing
