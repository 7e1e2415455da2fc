// Columns of a table: what is found in a file, and what a net gets of it.

#include "tern/data/encoding.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "support/files.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

using Names = std::vector<std::string>;
using Values = std::vector<float>;

Table parsed(const std::string& text, const CsvOptions& options) { return parse_csv(as_bytes(text), "t.csv", options); }

std::string problem_of(const std::string& text, const CsvOptions& options) {
  return said<FileError>([&] { parsed(text, options); });
}

constexpr const char* mixed = "size,colour,kind\n1,red,a\n,blue,b\n4,?,a\n1,red,b\n";
const CsvOptions found{.missing = true, .find_categorical = true};

}  // namespace

TEST_CASE("encoding: columns of words are categories, and holes are NaN", "[data]") {
  const Table table = parsed(mixed, found);
  CHECK(table.columns == Names{"size", "colour"});
  CHECK(table.categories == std::vector<Names>{{}, {"blue", "red"}});
  const Values values = table.features.to_vector<float>();
  CHECK(values[0] == 1);
  CHECK(values[1] == 1);
  CHECK(std::isnan(values[2]));
  CHECK(values[3] == 0);
  CHECK(std::isnan(values[5]));
  CHECK(whole_rows(table.features) == std::vector<std::int64_t>{0, 3});
  for (const char* hole : {"", "NA", "na", "NaN", "nan", "?", "\"\""}) {
    INFO(hole);
    const std::string text = "1,2,a\n3," + std::string(hole) + ",b\n";
    CHECK(std::isnan(parsed(text, found).features.to_vector<float>()[3]));
    CHECK_THAT(problem_of(text, {}), ContainsSubstring("t.csv:2:3: found ") &&
                                         ContainsSubstring("in column 2, expected a number; CsvOptions::missing"));
  }
  CHECK_THAT(problem_of("x,y\n1,a\n?,b\nred,a\n", {.categorical = {"x"}}),
             ContainsSubstring("t.csv:3:1: found '?' in x, expected a category; CsvOptions::missing"));
}

TEST_CASE("encoding: a mistyped number makes no categories, and categories may be named", "[data]") {
  const std::string text = "a,b,c\n1,5,x\n2,6,y\n3,7o,x\n";
  CHECK_THAT(problem_of(text, found),
             ContainsSubstring("t.csv:4:3: found '7o' in b, expected a number; CsvOptions::categorical"));
  CHECK(parsed(text, {.categorical = {"b"}}).categories == std::vector<Names>{{}, {"5", "6", "7o"}});
  CHECK(parsed(text, {.categorical = {"2"}, .find_categorical = true}).categories[1].size() == 3);
  CHECK(parsed(text, {.categories = std::vector<bool>{true, true}}).categories[0] == Names{"1", "2", "3"});
  CHECK_THAT(problem_of(text, {.categorical = {"c"}}), ContainsSubstring("found 'c' among the columns of categories"));
  CHECK_THAT(problem_of(text, {.categorical = {"d"}}), ContainsSubstring("expected one named 'd' for the columns of"));
  // Numbers are in the order of numbers.
  CHECK(parsed("10,a\n9,b\n10,a\n", {.categorical = {"1"}}).categories[0] == Names{"9", "10"});
}

TEST_CASE("encoding: figures of the training rows serve all others", "[data]") {
  const Table table = parsed(mixed, found);
  const auto encoded = [&](Missing missing) {
    return encoding_of(table, table.features, missing).apply(table.features, table.categories).to_vector<float>();
  };
  // The sizes 1, 4 and 1: mean 2, deviation sqrt(2); red is the most frequent colour.
  const float low = -1 / std::sqrt(2.0f), high = 2 / std::sqrt(2.0f);
  CHECK(encoded(Missing::mean) == Values{low, 0, 1, 0, 1, 0, high, 0, 1, low, 0, 1});
  CHECK(encoded(Missing::median) == Values{low, 0, 1, low, 1, 0, high, 0, 1, low, 0, 1});
  CHECK(encoded(Missing::indicator) == Values{low, 0, 0, 1, 0, 0, 1, 1, 0, 0, high, 0, 0, 0, 1, low, 0, 0, 1, 0});

  // Another table, with its own order of categories and one that is unknown.
  const Encoding encoding = encoding_of(table, table.features, Missing::mean);
  CHECK(encoding.inputs() == 3);
  const Table other = parsed("size,colour,kind\n2,amber,a\n,red,b\n", found);
  CHECK(encoding.apply(other.features, other.categories).to_vector<float>() == Values{0, 0, 0, 0, 0, 1});

  // A category that is in no training row is as unknown, and so is not an input.
  const Encoding part = encoding_of(table, table.features.slice(0, 3, 4), Missing::mean);
  CHECK(part.columns[1].categories == Names{"red"});
  CHECK(part.apply(table.features, table.categories).to_vector<float>() == Values{0, 1, 0, 0, 3, 1, 0, 1});
}

TEST_CASE("encoding: columns that say nothing, or are names, are refused", "[data]") {
  const Table empty = parsed("1,?,a\n2,?,b\n", found);
  CHECK_THAT(said<FileError>([&] { encoding_of(empty, empty.features, Missing::mean); }),
             ContainsSubstring("t.csv: found no value in column 2 of any row to train on"));
  std::string text;
  for (int i = 0; i < 60; ++i) text += "name " + std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  const Table names = parsed(text, {.header = false, .find_categorical = true});
  CHECK_THAT(said<FileError>([&] { encoding_of(names, names.features, Missing::refuse); }),
             ContainsSubstring("found 60 different texts in column 1 of 60 rows"));
  const Encoding encoding = encoding_of(parsed("1,a\n2,b\n", {}), parsed("1,a\n2,b\n", {}).features, Missing::refuse);
  CHECK_THROWS_AS(encoding.apply(Tensor({2, 3})), ShapeError);
}

}  // namespace tern::data
