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
  // The same number of rows in another order: which ones were held out is unknown.
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
             ContainsSubstring("c.csv:1:1: found a first row of numbers whose column 4, '3', occurs only once"));
  CHECK_THAT(unsure.err, ContainsSubstring("--header yes or no"));
  CHECK(train({"--header", "yes"}).code == 0);
  CHECK(events_of(folder / "run").front()["data"]["classes"].size() == 3);
  // The model knows the names, so nobody has to say it again.
  const Outcome tested =
      tern({"test", "--model", "run", "--dataset", "c.csv", "--held-out"}, {.folder = folder.path()});
  INFO(tested.err);
  CHECK(tested.code == 0);
}

TEST_CASE("tables: a model remembers that its table had no header", "[tools][tables]") {
  // A table of words: its first row would pass for names.
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += std::string(i % 2 == 0 ? "left" : "right") + "," + (i % 3 == 0 ? "up" : "down") + "," +
            (i % 2 == 0 ? "yes" : "no") + "\n";
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  write_bytes(folder / "w.csv", text);
  const Outcome unsure = tern({"train", "--dataset", "w.csv", "--epochs", "1"}, here);
  CHECK(unsure.code == 3);
  CHECK_THAT(unsure.err, ContainsSubstring("occurs again in its column") && ContainsSubstring("--header yes or no"));
  REQUIRE(
      tern({"train", "--dataset", "w.csv", "--header", "no", "--epochs", "20", "--run", "w", "--quiet"}, here).code ==
      0);
  write_bytes(folder / "new.csv", "left,up\nright,down\nleft,down\n");
  const Outcome three = tern({"predict", "--model", "w", "--dataset", "new.csv", "--format", "csv"}, here);
  CHECK_THAT(three.out, ContainsSubstring("1,yes") && ContainsSubstring("2,no") && ContainsSubstring("3,yes"));
  write_bytes(folder / "one.csv", "right,up\n");
  CHECK_THAT(tern({"predict", "--model", "w", "--dataset", "one.csv", "--format", "csv"}, here).out,
             ContainsSubstring("1,no"));
  const Outcome tested = tern({"test", "--model", "w", "--dataset", "w.csv", "--held-out"}, here);
  INFO(tested.err);
  CHECK(tested.code == 0);
}

TEST_CASE("tables: one whose target is there and empty can be predicted", "[tools][tables]") {
  const Trained trained;
  const Outcome plain = trained.predict(rearranged(trained.text, {0, 1, 2}));
  REQUIRE(plain.code == 0);
  std::istringstream lines(trained.text);
  std::string empty;
  for (std::string line; std::getline(lines, line);)
    empty += empty.empty() ? line + "\n" : line.substr(0, line.rfind(',') + 1) + "\n";
  CHECK(trained.predict(empty).out == plain.out);
  CHECK(trained.predict(trained.text, {"--ignore", "kind"}).out == plain.out);
  const Outcome tested = trained.test(empty);
  CHECK(tested.code == 3);
  CHECK_THAT(tested.err, ContainsSubstring("t.csv:2:") && ContainsSubstring("found nothing in kind"));
}

TEST_CASE("tables: rows without a value and rows without a target", "[tools][tables]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  std::string text = "p,q,k\n";
  for (int i = 0; i < 120; ++i)
    text += (i % 9 == 0 ? "" : std::to_string(i % 2 == 0 ? 1.0 + i * 0.001 : -1.0 - i * 0.001)) + "," +
            std::to_string(i % 2 == 0 ? -1 : 1) + "," + (i % 2 == 0 ? "yes" : "no") + "\n";
  write_bytes(folder / "m.csv", text);
  REQUIRE(tern({"train", "--dataset", "m.csv", "--missing", "mean", "--epochs", "20", "--run", "m", "--quiet"}, here)
              .code == 0);
  write_bytes(folder / "new.csv", "p,q\n5,-5\n,\n-5,5\n");
  const Outcome three = tern({"predict", "--model", "m", "--dataset", "new.csv", "--format", "csv"}, here);
  CHECK_THAT(three.out, ContainsSubstring("1,yes") && ContainsSubstring("\n2,") && ContainsSubstring("3,no"));
  write_bytes(folder / "na.csv", text + "1,1,NA\n");
  const Outcome refused = tern({"train", "--dataset", "na.csv", "--missing", "mean", "--epochs", "1"}, here);
  CHECK(refused.code == 3);
  CHECK_THAT(refused.err, ContainsSubstring("na.csv:122:5: found 'NA' in k, expected a class"));
  // What the library calls by its members, the program calls by its options.
  const Outcome hole = tern({"train", "--dataset", "m.csv", "--epochs", "1"}, here);
  CHECK(hole.code == 3);
  CHECK_THAT(hole.err, ContainsSubstring("--missing of the training accepts") && !ContainsSubstring("CsvOptions"));
}

TEST_CASE("tables: a report shows the numbers that were read", "[tools][tables]") {
  const TemporaryFolder folder;
  const ProcessOptions here{.folder = folder.path()};
  std::string text = "a,b,y\n";
  for (int i = 0; i < 60; ++i)
    text += (i % 3 == 0 ? "0.00" : std::to_string(i % 7) + ".3") + "," + std::to_string(1000 + i) + ".1," +
            std::to_string(i) + ".7\n";
  write_bytes(folder / "r.csv", text);
  const Outcome trained =
      tern({"train", "--dataset", "r.csv", "--task", "regression", "--epochs", "2", "--quiet"}, here);
  REQUIRE(trained.code == 0);
  int shown = 0;
  for (const Json& event : events_of(folder / "run")) {
    if (event["event"] != "evaluation") continue;
    for (const Json& picture : event["pictures"]) {
      const std::string b = picture["features"]["b"].dump(), a = picture["features"]["a"].dump();
      CHECK_THAT(text, ContainsSubstring("," + b + ","));
      CHECK((a == "0.0" || a.size() == 3));
      CHECK_THAT(text, ContainsSubstring("," + picture["actual"].dump() + "\n"));
      ++shown;
    }
  }
  CHECK(shown > 5);
}

}  // namespace tern::testing
