// Tables whose columns or rows are not as they were in the training.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "metrics.hpp"
#include "process.hpp"
#include "samples.hpp"
#include "support/catch.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using Json = nlohmann::json;

namespace {

/// A CSV text with its columns in another order; -1 is left out.
std::string rearranged(const std::string& text, const std::vector<std::size_t>& order) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::vector<std::string> row;
    for (std::string field; std::getline(fields, field, ',');) row.push_back(field);
    for (std::size_t i = 0; i < order.size(); ++i) result += (i > 0 ? "," : "") + row[order[i]];
    result += "\n";
  }
  return result;
}

/// The lines behind the first, from the last to the first.
std::string reversed(const std::string& text) {
  std::istringstream lines(text);
  std::string header;
  std::getline(lines, header);
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  std::reverse(rows.begin(), rows.end());
  for (const std::string& row : rows) header += "\n" + row;
  return header + "\n";
}

struct Trained {
  TemporaryFolder folder;
  std::string text = clusters(90, "x,y,z,kind\n");

  explicit Trained(const std::vector<std::string>& more = {}) {
    write_bytes(folder / "c.csv", text);
    std::vector<std::string> arguments{"train", "--dataset", "c.csv", "--epochs", "10", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome outcome = run(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.code == 0);
  }
  Outcome run(const std::vector<std::string>& arguments) const { return tern(arguments, {.folder = folder.path()}); }
  Outcome test(const std::string& table, const std::vector<std::string>& more = {}) const {
    write_bytes(folder / "t.csv", table);
    std::vector<std::string> arguments{"test", "--model", "run", "--dataset", "t.csv", "--format", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  Outcome predict(const std::string& table, const std::vector<std::string>& more = {}) const {
    write_bytes(folder / "t.csv", table);
    std::vector<std::string> arguments{"predict", "--model", "run", "--dataset", "t.csv", "--format", "csv"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
};

}  // namespace

TEST_CASE("tables: a model finds its columns by their names", "[tools][tables]") {
  const Trained trained;
  const Outcome plain = trained.test(trained.text);
  REQUIRE(plain.code == 0);
  const Outcome reordered = trained.test(rearranged(trained.text, {3, 2, 0, 1}));
  CHECK(reordered.code == 0);
  CHECK(reordered.out == plain.out);
  const Outcome predicted = trained.predict(trained.text),
                without_class = trained.predict(rearranged(trained.text, {2, 1, 0}));
  CHECK(predicted.code == 0);
  CHECK(without_class.out == predicted.out);
  // Without a header the position counts.
  const std::string headless = trained.text.substr(trained.text.find('\n') + 1);
  CHECK(trained.test(headless, {"--target", "-1"}).out == plain.out);

  const auto refused = [](const Outcome& outcome, const std::string& words) {
    CHECK(outcome.code == 3);
    CHECK_THAT(outcome.err, ContainsSubstring(words));
  };
  const std::string rows = headless;
  refused(trained.test(headless), "found 4 columns and no header, expected one named 'kind' for the target");
  refused(trained.test("x,width,z,kind\n" + rows), "t.csv:1:1: found no column named 'y'");
  refused(trained.predict("x,y,depth,kind\n" + rows), "found no column named 'z'");
  refused(trained.test(rearranged(trained.text, {0, 2, 3})), "found no column named 'y'");
  refused(trained.test(rearranged(trained.text, {0, 1, 2})), "expected one named 'kind' for the target");
  refused(trained.test("x,y,x,kind\n" + rows), "found more than one column named 'x'");
  const std::string wider = rearranged(trained.text, {1, 0, 1, 2, 3});
  refused(trained.test(wider), "found more than one column named 'y'");
  const std::string noted = "note" + wider.substr(1);
  refused(trained.test(noted), "t.csv:1:1: found the column 'note', expected only columns that the model knows");
  CHECK(trained.test(noted, {"--ignore", "note"}).out == plain.out);
  CHECK(trained.predict(noted, {"--ignore", "note"}).out == predicted.out);
}

TEST_CASE("tables: what the training ignored may be missing later", "[tools][tables]") {
  const Trained trained({"--ignore", "2", "--target", "4"});
  const Outcome plain = trained.test(trained.text);
  REQUIRE(plain.code == 0);
  CHECK(trained.test(rearranged(trained.text, {3, 2, 0})).out == plain.out);
  CHECK(trained.test(rearranged(trained.text, {1, 3, 2, 0})).out == plain.out);
  CHECK(trained.predict(rearranged(trained.text, {2, 0})).code == 0);
}

TEST_CASE("tables: held out means held out of these very rows", "[tools][tables]") {
  const Trained trained;
  const Outcome plain = trained.test(trained.text, {"--held-out"});
  REQUIRE(plain.code == 0);
  CHECK(Json::parse(plain.out)["examples"] == 18);
  CHECK(trained.test(rearranged(trained.text, {2, 3, 1, 0}), {"--held-out"}).out == plain.out);
  // The same number of rows in another order: which ones were held out cannot be told.
  const Outcome sorted = trained.test(reversed(trained.text), {"--held-out"});
  CHECK(sorted.code == 3);
  CHECK_THAT(sorted.err,
             ContainsSubstring("t.csv: found 90 examples that are not those of the training, or not in their order"));
  CHECK(trained.test(reversed(trained.text)).code == 0);
  std::string changed = trained.text;
  char& digit = changed[changed.rfind('.') + 1];
  digit = digit == '1' ? '2' : '1';
  CHECK(trained.test(changed, {"--held-out"}).code == 3);
}

TEST_CASE("tables: a training is not taken up on other rows of the same number", "[tools][tables]") {
  const Trained trained;
  const std::vector<std::string> more{"train", "--resume", "--epochs", "12"};
  write_bytes(trained.folder / "c.csv", reversed(trained.text));
  const Outcome other = trained.run(more);
  CHECK(other.code == 3);
  CHECK_THAT(other.err, ContainsSubstring(
                            "c.csv: the data set is not the one that this training began with, or not in its order"));
  write_bytes(trained.folder / "c.csv", trained.text);
  const Outcome same = trained.run(more);
  INFO(same.err);
  CHECK(same.code == 0);
}

TEST_CASE("tables: a header of numbers has to be called one", "[tools][tables]") {
  const TemporaryFolder folder;
  write_bytes(folder / "c.csv", clusters(60, "0,1,2,3\n"));
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"train", "--dataset", "c.csv", "--epochs", "2", "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return tern(arguments, {.folder = folder.path()});
  };
  const Outcome unsure = train({});
  CHECK(unsure.code == 3);
  CHECK_THAT(unsure.err,
             ContainsSubstring("c.csv:1:1: found a first row of numbers whose column 4, '3', never comes again"));
  CHECK_THAT(unsure.err, ContainsSubstring("--header yes or no"));
  CHECK(train({"--header", "yes"}).code == 0);
  CHECK(events_of(folder / "run").front()["data"]["classes"].size() == 3);
  // The model knows the names, so nobody has to say it again.
  const Outcome tested =
      tern({"test", "--model", "run", "--dataset", "c.csv", "--held-out"}, {.folder = folder.path()});
  INFO(tested.err);
  CHECK(tested.code == 0);
}

}  // namespace tern::testing
