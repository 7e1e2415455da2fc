// Tables with holes: targets and rows that are missing, columns whose names tell nothing apart.

#include <cmath>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/data/csv.hpp"

namespace tern::data {

using Catch::ContainsSubstring;
using namespace testing;

namespace {

Table parsed(const std::string& text, const CsvOptions& options = {}) {
  return parse_csv(as_bytes(text), "t.csv", options);
}

std::string problem_of(const std::string& text, const CsvOptions& options = {}) {
  return said<FileError>([&] { parsed(text, options); });
}

using Names = std::vector<std::string>;
const CsvOptions found{.numbers = std::nullopt, .missing = true, .find_categorical = true};

}  // namespace

TEST_CASE("csv: a row without a target is an error, whatever stands for missing values", "[data]") {
  for (const char* hole : {"", "NA", "na", "?", "nan", "NaN"}) {
    INFO(hole);
    const std::string end = std::string(hole) + "\n";
    CHECK_THAT(problem_of("p,k\n1,yes\n2," + end), ContainsSubstring("t.csv:3:3: found") && ContainsSubstring(" in k"));
    CHECK_THAT(problem_of("p,k\n1,yes\n2," + end, found), ContainsSubstring("t.csv:3:3: found"));
    // Of a regression too, which it does not turn into classes.
    CHECK_THAT(problem_of("p,y\n1,0.5\n2,1.5\n3," + end, found), ContainsSubstring("t.csv:4:3: found"));
    CHECK_THAT(problem_of("p,y\n1,0.5\n2," + end, {.numbers = true, .missing = true}),
               ContainsSubstring("expected a number"));
  }
  CHECK(parsed("p,k\n1,yes\n2,\"NA\"\n", found).classes == Names{"NA", "yes"});
  CHECK(parsed("p,k\n1,yes\n2,NA\n", {.classes = {"NA", "yes"}}).labels.values() == std::vector<double>{1, 0});
}

TEST_CASE("csv: a table to predict may have a target without values", "[data]") {
  const CsvOptions known{
      .labelled = CsvTarget::optional, .target = "k", .classes = {"no", "yes"}, .features = 2, .columns = {"p", "q"}};
  for (const char* text : {"p,q,k\n1,2,\n3,4,\n", "q,k,p\n2,NA,1\n4,,3\n", "p,q,k\n1,2,yes\n3,4,\n"}) {
    const Table table = parsed(text, known);
    CHECK(table.features.values() == std::vector<double>{1, 2, 3, 4});
    CHECK_FALSE(table.labels.defined());
  }
  CHECK(parsed("p,q,k\n1,2,yes\n", known).labels.values() == std::vector<double>{1});
  // By position, and a number.
  const CsvOptions numbers{.labelled = CsvTarget::optional, .numbers = true, .header = false, .features = 2};
  CHECK_FALSE(parsed("1,2,\n3,4,\n", numbers).labels.defined());
  CHECK(parsed("1,2,5\n", numbers).labels.values() == std::vector<double>{5});
  // Predictions may leave it out.
  CsvOptions ignoring = known;
  ignoring.ignore = {"k"};
  CHECK_FALSE(parsed("p,q,k\n1,2,perhaps\n", ignoring).labels.defined());
}

TEST_CASE("csv: a row whose values are all missing is a row", "[data]") {
  const CsvOptions known{.labelled = CsvTarget::optional, .features = 2, .columns = {"p", "q"}, .missing = true};
  for (const char* text : {"p,q\n5,-5\n,\n-5,5\n", "p,q\n5,-5\n\n?,NA\n-5,5\n"}) {
    const Table table = parsed(text, known);
    REQUIRE(table.features.shape() == Shape{3, 2});
    CHECK(std::isnan(table.features.to_vector<float>()[2]));
    CHECK(table.features.to_vector<float>()[4] == -5);
  }
  CsvOptions bare{.labelled = CsvTarget::optional, .header = false, .features = 2, .missing = true};
  CHECK(parsed(",\n1,2\n", bare).features.shape() == Shape{2, 2});
  // Nothing stands for them: an error with its place, no row less.
  bare.missing = false;
  CHECK_THAT(problem_of("1,2\n,\n3,4\n", bare), ContainsSubstring("t.csv:2:1: found nothing in column 1"));
  // With a target nothing is lost by passing over a line of separators.
  CHECK(parsed("p,q,k\n1,2,a\n,,\n3,4,b\n", found).features.shape() == Shape{2, 2});
}

TEST_CASE("csv: features and target have names of their own", "[data]") {
  CHECK_THAT(problem_of("a,a,c\n1,2,x\n3,4,y\n"), ContainsSubstring("t.csv:1:3: found two columns named 'a'"));
  CHECK_THAT(problem_of("a,b,a\n1,2,x\n3,4,y\n"), ContainsSubstring("t.csv:1:5: found two columns named 'a'"));
  CHECK_THAT(problem_of("column 2,,c\n1,2,x\n3,4,y\n"), ContainsSubstring("two columns named 'column 2'"));
  CHECK_THAT(problem_of("a,a,c\n1,2,x\n", {.ignore = {"2"}}), ContainsSubstring("two columns named 'a'"));
  CHECK(parsed("a,n,n,c\n1,2,3,x\n4,5,6,y\n", {.ignore = {"2", "3"}}).columns == Names{"a"});
  CHECK(parsed(",b,c\n1,2,x\n3,4,y\n").columns == Names{"column 1", "b"});
}

TEST_CASE("csv: in a table of words a header whose words come again has to be called one", "[data]") {
  const std::string rows = "40-49,left,no\n30-39,left,yes\n40-49,right,no\n";
  CHECK_THAT(problem_of(rows, found),
             ContainsSubstring("of which '40-49' occurs again") && ContainsSubstring("CsvOptions::header"));
  CsvOptions options = found;
  options.header = false;
  CHECK(parsed(rows, options).features.shape() == Shape{3, 2});
  options.header = true;
  CHECK(parsed(rows, options).features.shape() == Shape{2, 2});
  CHECK(parsed("age,side,kind\n" + rows, found).header);
  // A target alone, and a table that has numbers too.
  CHECK_THAT(problem_of("a,no\nb,yes\nc,no\n", found), ContainsSubstring("of which 'no' occurs again"));
  CHECK(parsed("left,size,kind\nleft,1,a\nright,2,b\n", found).header);
}

TEST_CASE("csv: exponents beyond any number, and bytes of 0", "[data]") {
  for (const char* number : {"1e9223372036854775807", "1e99999999999999999999", "-1e9223372036854775807", "1e400"}) {
    INFO(number);
    CHECK_THAT(problem_of("1,a\n" + std::string(number) + ",b\n"), ContainsSubstring("t.csv:2:1: found '"));
  }
  for (const char* number : {"1e-9223372036854775808", "1e-99999999999999999999", "0.000001e-9223372036854775807"}) {
    INFO(number);
    CHECK(parsed("1,a\n" + std::string(number) + ",b\n").features.to_vector<float>()[1] == 0);
  }
  std::string text = "1,a\n";
  while (text.size() < 5000) text += "2,b\n";
  text += std::string("3,c\0d\n", 6);
  CHECK_THAT(problem_of(text), ContainsSubstring("found bytes that are not text") && ContainsSubstring("t.csv:1251:1"));
}

// What a survey of mutants found unnoticed.
TEST_CASE("csv: separators inside quotes are not counted", "[data]") {
  const Table table = parsed("\"a;b;c;d\",e,kind\n1,2,x\n3,4,y\n");
  CHECK(table.columns == Names{"a;b;c;d", "e"});
  CHECK(table.features.values() == std::vector<double>{1, 2, 3, 4});
  CHECK(parsed("\"a,b,c\";d\n1;x\n2;y\n").columns == Names{"a,b,c"});
}

}  // namespace tern::data
