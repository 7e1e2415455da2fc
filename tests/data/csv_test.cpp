#include "tern/data/csv.hpp"

#include <cmath>
#include <filesystem>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/places.hpp"
#include "tern/data/scaling.hpp"
#include "tern/tensor/create.hpp"

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
using Labels = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("csv: numbers first, the class last", "[data]") {
  const Table table = parsed("1,2.5,b\n-3,+4e1,a\n.5,-0,b\n");
  CHECK(table.features.to_vector<float>() == std::vector<float>{1, 2.5f, -3, 40, 0.5f, 0});
  CHECK(table.features.shape() == Shape{3, 2});
  CHECK(table.labels.to_vector<std::int64_t>() == Labels{1, 0, 1});
  CHECK(table.classes == Names{"a", "b"});
  CHECK(table.columns == Names{"column 1", "column 2"});
  CHECK_FALSE(table.header);
  CHECK(table.dataset().classes == 2);
  CHECK_NOTHROW(table.dataset().check());
}

TEST_CASE("csv: a header is found, or given", "[data]") {
  const Table table = parsed("width,height,kind\n1,2,x\n3,4,y\n");
  CHECK(table.header);
  CHECK(table.columns == Names{"width", "height"});
  CHECK(table.target == "kind");
  CHECK(table.features.shape() == Shape{2, 2});
  // Names that are numbers cannot be distinguished from data.
  CHECK(parsed("1,2,x\n3,4,y\n", {.header = true}).columns == Names{"1", "2"});
  CHECK_THAT(problem_of("width,height,kind\n1,2,x\n", {.header = false}),
             ContainsSubstring("t.csv:1:1: found 'width'"));
  CHECK_THAT(problem_of("a,b,c\n"), ContainsSubstring("t.csv:2:1: found nothing after the header"));
  // A mistyped number is no header.
  CHECK_THAT(problem_of("1,2x,a\n3,4,b\n"), ContainsSubstring("t.csv:1:3: found '2x' in column 2, expected a number"));
}

TEST_CASE("csv: a first row of numbers may be a header and has to be called one or none", "[data]") {
  // A class that is a number where the others are words, or columns that are counted up; the class comes once only.
  for (const char* text :
       {"1990,1991,7\n1,2,x\n3,4,y\n", "0,1,2\n.5,.5,0\n.5,.6,1\n.7,.1,0\n", "1,2,3\n5,6,1\n5,7,1\n"}) {
    INFO(text);
    CHECK_THAT(problem_of(text), ContainsSubstring("t.csv:1:1: found a first row of numbers whose column 3"));
    CHECK(parsed(text, {.header = true}).features.size(0) + 1 == parsed(text, {.header = false}).features.size(0));
  }
  // A class that comes again, rows that are not counted up, and what has no class.
  CHECK(parsed("0,1,2\n5,6,2\n").features.shape() == Shape{2, 2});
  CHECK(parsed("0,2,1\n5,6,3\n").features.shape() == Shape{2, 2});
  CHECK(parsed("0,1,2\n5,6,3\n", {.labelled = CsvTarget::absent}).features.shape() == Shape{2, 3});
}

TEST_CASE("csv: a target is a number where it is set or looks like one", "[data]") {
  const CsvOptions found{.numbers = std::nullopt};
  const Table fractions = parsed("1,2.5\n2,3\n", found);
  CHECK(fractions.numbers());
  CHECK(fractions.labels.to_vector<float>() == std::vector<float>{2.5f, 3});
  CHECK(fractions.classes.empty());
  CHECK(fractions.dataset().classes == no_classes);
  CHECK_NOTHROW(fractions.dataset().check());
  CHECK_FALSE(parsed("5,2\n2,3.0\n", found).numbers());
  CHECK_FALSE(parsed("1,x\n2,2.5\n", found).numbers());
  CHECK_FALSE(parsed("1,2.5\n2,1e39\n", found).numbers());
  CHECK_FALSE(parsed("1,2.5\n2,3\n").numbers());
  CHECK(parsed("5,2\n2,3\n", {.numbers = true}).numbers());
  // Whole numbers: more than 20 different ones, and than one in 20 rows.
  const auto whole = [&](int rows, int different) {
    std::string text;
    for (int i = 0; i < rows; ++i) text += "0.5," + std::to_string(i % different) + "\n";
    return parsed(text, found).numbers();
  };
  CHECK_FALSE(whole(60, 20));
  CHECK(whole(60, 21));
  CHECK_FALSE(whole(1000, 50));
  CHECK(whole(1000, 51));
  CHECK(whole(70000, 66000));  // more than there can be classes
  CHECK_THAT(problem_of("1,2.5\n2,x\n", {.numbers = true}),
             ContainsSubstring("t.csv:2:3: found 'x' in column 2, expected a number"));
}

TEST_CASE("csv: known columns are found by name under a header", "[data]") {
  const auto known = [](CsvTarget labelled, const std::string& target = {}, const Names& ignore = {}) {
    return CsvOptions{.labelled = labelled, .target = target, .ignore = ignore, .features = 2, .columns = {"b", "a"}};
  };
  const CsvOptions required = known(CsvTarget::required), optional = known(CsvTarget::optional, "c");
  const Table table = parsed("a,c,b\n1,x,2\n3,y,4\n", required);
  CHECK(table.columns == Names{"b", "a"});
  CHECK(table.features.to_vector<float>() == std::vector<float>{2, 1, 4, 3});
  CHECK(table.target == "c");
  CHECK(parsed("a,b\n1,2\n", optional).features.to_vector<float>() == std::vector<float>{2, 1});
  CHECK_FALSE(parsed("a,b\n1,2\n", optional).labels.defined());
  CHECK(parsed("c,a,b\nx,1,2\n", optional).labels.defined());
  CHECK(parsed("2,1,x\n", required).features.to_vector<float>() == std::vector<float>{2, 1});
  // Names that are numbers.
  CHECK(parsed("1,0,2\n5,6,x\n7,8,y\n", {.features = 2, .columns = {"0", "1"}}).features.to_vector<float>() ==
        std::vector<float>{6, 5, 8, 7});
  CHECK(parsed("id,a,b,c\n7,1,2,x\n", known(CsvTarget::required, "c", {"id"})).ignored == Names{"id"});
  CHECK(parsed("a,b,c\n1,2,x\n", known(CsvTarget::required, "c", {"id"})).ignored.empty());
  CHECK_THAT(problem_of("a,B,c\n1,2,x\n", required), ContainsSubstring("t.csv:1:1: found no column named 'b'"));
  CHECK_THAT(problem_of("c\nx\n", required), ContainsSubstring("found no column named 'b', 'a'"));
  CHECK_THAT(problem_of("a,b,a,c\n1,2,3,x\n", required), ContainsSubstring("more than one column named 'a'"));
  CHECK_THAT(problem_of("a,b\n1,2\n", required), ContainsSubstring("found no column beside the features"));
  CHECK_THAT(problem_of("a,b\n1,2\n", known(CsvTarget::required, "a")),
             ContainsSubstring("found the target 'a' among the features"));
  CHECK_THAT(problem_of("a,d,b,c\n1,0,2,x\n", known(CsvTarget::required, "c")),
             ContainsSubstring("t.csv:1:3: found the column 'd', expected only columns that the model knows"));
}

TEST_CASE("csv: numbers too small for a double are 0, too large ones are refused", "[data]") {
  for (const char* tiny : {"1e-400", "-1e-400", "0.0001e-320", "12345e-340", "1E-99999999999999999999", "+4.9e-330"}) {
    INFO(tiny);
    CHECK(parsed(std::string(tiny) + ",a\n1,b\n").features.to_vector<float>()[0] == 0);
  }
  CHECK(std::signbit(parsed("-1e-400,a\n1,b\n").features.to_vector<float>()[0]));
  const std::string zeros(400, '0');
  CHECK(parsed("0." + zeros + "1,a\n1,b\n").features.to_vector<float>()[0] == 0);
  for (const std::string& huge :
       {std::string("1e400"), "1" + zeros, "1" + zeros + "e-5", std::string("1e+99999999999999999999")})
    CHECK_THAT(problem_of("1,a\n" + huge + ",b\n"), ContainsSubstring("expected a number"));
}

TEST_CASE("csv: separators, line ends, blanks, quotes and marks as people have them", "[data]") {
  const std::string plain = "1,2,a\n3,4,b\n";
  const std::vector<float> features{1, 2, 3, 4};
  for (const std::string& text :
       {plain, std::string("1;2;a\n3;4;b\n"), std::string("1\t2\ta\r\n3\t4\tb\r\n"), std::string("1,2,a\r3,4,b"),
        std::string("\xef\xbb\xbf") + plain, std::string("\n\n1,2,a\n,,\n\n 3 , 4 , b \n\n"),
        std::string("\"1\",\"2\",\"a\"\n\"3\" ,4,\"b\"")}) {
    INFO(text);
    const Table table = parsed(text);
    CHECK(table.features.to_vector<float>() == features);
    CHECK(table.classes == Names{"a", "b"});
  }
  const Table quoted = parsed("1,\"a, \"\"b\"\"\nc\"\n2,d\n");
  CHECK(quoted.classes == Names{"a, \"b\"\nc", "d"});
  CHECK(parsed("1|2|a\n3|4|b\n", {.separator = '|'}).features.to_vector<float>() == features);
}

TEST_CASE("csv: any column may be the class, any may be left out", "[data]") {
  const std::string text = "id,kind,x,y\n7,b,1,2\n8,a,3,4\n";
  for (const CsvOptions& options :
       {CsvOptions{.target = "kind", .ignore = {"id"}}, CsvOptions{.target = "2", .ignore = {"1"}},
        CsvOptions{.target = "-3", .ignore = {"-4"}}}) {
    const Table table = parsed(text, options);
    CHECK(table.columns == Names{"x", "y"});
    CHECK(table.target == "kind");
    CHECK(table.features.to_vector<float>() == std::vector<float>{1, 2, 3, 4});
    CHECK(table.labels.to_vector<std::int64_t>() == Labels{1, 0});
  }
  // The last column that is left is the class.
  CHECK(parsed("1,a,note\n2,b,note\n", {.ignore = {"3"}}).classes == Names{"a", "b"});
  // Each ignored column counts, also one that is named twice, and the features with them.
  const Table three = parsed("9,1,8,2,7,a\n9,3,8,4,7,b\n", {.ignore = {"1", "3", "5", "-2"}, .features = 2});
  CHECK(three.features.to_vector<float>() == std::vector<float>{1, 2, 3, 4});
  CHECK(three.ignored == Names{"column 1", "column 3", "column 5"});
  const CsvOptions maybe{.labelled = CsvTarget::optional, .ignore = {"1", "1"}, .features = 2};
  CHECK(parsed("9,1,2,a\n", maybe).labels.defined());
  CHECK_FALSE(parsed("9,1,2\n", maybe).labels.defined());
  // What is ignored may be empty.
  CHECK(parsed("1,,,,a\n2,,,,b\n", {.ignore = {"2", "3", "4"}}).features.shape() == Shape{2, 1});
}

TEST_CASE("csv: classes are ordered as numbers where they are numbers, or as they are known", "[data]") {
  CHECK(parsed("1,10\n1,9\n1,-1\n").classes == Names{"-1", "9", "10"});
  CHECK(parsed("1,10\n1,9\n1,x\n").classes == Names{"10", "9", "x"});
  const Table known = parsed("1,b\n1,a\n", {.classes = {"b", "c", "a"}});
  CHECK(known.labels.to_vector<std::int64_t>() == Labels{0, 2});
  CHECK_THAT(problem_of("1,b\n1,z\n", {.classes = {"a", "b"}}),
             ContainsSubstring("t.csv:2:3: found the class 'z', expected one of a, b"));
  CHECK(parsed("1,inf\n2,2\n3,10\n").classes == Names{"10", "2", "inf"});  // infinity is no number here
}

TEST_CASE("csv: a table may come without classes", "[data]") {
  const CsvOptions options{.labelled = CsvTarget::optional, .features = 2};
  CHECK_FALSE(parsed("1,2\n3,4\n", options).labels.defined());
  CHECK(parsed("1,2,a\n3,4,b\n", options).labels.defined());
  CHECK_THROWS_AS(parsed("1,2\n3,4\n", options).dataset(), FileError);
  CHECK(parsed("1,2\n3,4\n", {.labelled = CsvTarget::absent}).features.shape() == Shape{2, 2});
  CHECK_THAT(problem_of("1,2,3,a\n", {.features = 2}), ContainsSubstring("found 3 features and the class, expected 2"));
}

TEST_CASE("csv: every error has its place and says what was expected", "[data]") {
  CHECK_THAT(problem_of(""), ContainsSubstring("t.csv:1:1: found nothing"));
  CHECK_THAT(problem_of("\n , ,\n"), ContainsSubstring("t.csv:1:1: found nothing"));
  CHECK_THAT(problem_of("1,2,a\n3,four,b\n"),
             ContainsSubstring("t.csv:2:3: found 'four' in column 2, expected a number"));
  CHECK_THAT(problem_of("x,y,c\n1,2,a\n3,,b\n"), ContainsSubstring("t.csv:3:3: found nothing in y, expected a number"));
  CHECK_THAT(problem_of("1,2,a\n3,4,\n"), ContainsSubstring("t.csv:2:5: found nothing in column 3, expected a class"));
  CHECK_THAT(problem_of("1,2,a\n3,b\n"), ContainsSubstring("t.csv:2:4: found 2 fields, expected 3"));
  CHECK_THAT(problem_of("1,2,a\n3,4,b,5\n"), ContainsSubstring("t.csv:2:7: found 4 fields, expected 3"));
  CHECK_THAT(problem_of("1,2,a\n3,\"4,b\n"), ContainsSubstring("t.csv:2:3: found a quote that is never closed"));
  CHECK_THAT(problem_of("1,\"2\"3,a\n"), ContainsSubstring("t.csv:1:6: found more text after a closing quote"));
  CHECK_THAT(problem_of("1,\"a\nb\"\nx,c\n"), ContainsSubstring("t.csv:3:1: found 'x'"));
  CHECK_THAT(problem_of("abc\n1\n"), ContainsSubstring("found 1 column, expected at least one feature and the class"));
  CHECK_THAT(problem_of("1,2,a\n", {.target = "kind"}),
             ContainsSubstring("found 3 columns and no header, expected one named 'kind'"));
  CHECK_THAT(problem_of("1,2,a\n", {.target = "4"}), ContainsSubstring("expected one with the number 4"));
  CHECK_THAT(problem_of("1,2,a\n", {.target = "0"}), ContainsSubstring("expected one with the number 0"));
  CHECK_THAT(problem_of("x,x,c\n1,2,a\n", {.target = "x"}), ContainsSubstring("more than one column named 'x'"));
  CHECK_THAT(problem_of(std::string("\xff\xfe") + "1\0", {}), ContainsSubstring("UTF-16"));
  CHECK_THAT(problem_of(std::string("\x89PNG\0\0", 6)), ContainsSubstring("bytes that are not text"));
  CHECK_THAT(problem_of("1,caf\xe9\n2,a\n"), ContainsSubstring("not UTF-8"));
  CHECK_THAT(said<FileError>([] { read_csv("/nowhere/t.csv"); }), ContainsSubstring("/nowhere/t.csv"));
  for (const char* number : {"nan", "inf", "1e999", "0x10", "1,5", "--1", "+-1", "1e", "1 2", "1e39"}) {
    INFO(number);
    CHECK_THAT(problem_of("1;a\n" + std::string(number) + ";b\n"), ContainsSubstring("t.csv:2:1: found '"));
  }
}

TEST_CASE("csv: a hostile file is refused without much memory", "[data]") {
  CHECK_THAT(problem_of(message(std::string(70000, ','), '\n')), ContainsSubstring("more than 65536 fields"));
  CHECK_THAT(problem_of("1,\"" + std::string(9 << 20, 'x')), ContainsSubstring("a row of more than 8 MiB"));
  std::string many;
  for (int i = 0; i < 70000; ++i) many += "1," + std::to_string(i) + "\n";
  CHECK_THAT(problem_of(many), ContainsSubstring("t.csv:65537:3: found more than 65536 different values in column 2"));
  std::string most = many.substr(0, many.find("1,65536\n"));
  CHECK(parsed(most).classes.size() == 65536);
  CHECK(parsed(most + "1,65535\n").classes.size() == 65536);
  // A wide row before many empty ones must not reserve their product.
  const std::string wide = [] {
    std::string row;
    for (int i = 0; i < 50000; ++i) row += "1,";
    return row + "a\n" + std::string(1 << 20, '\n') + row + "b\n";
  }();
  CHECK(parsed(wide).features.shape() == Shape{2, 50000});
}

TEST_CASE("csv: rows over the edges of the window are whole, from files as from memory", "[data]") {
  std::string text;
  const int rows = 60000;
  for (int i = 0; i < rows; ++i) text += std::to_string(i) + ",\"" + (i % 2 ? "o\"\"dd" : "even") + "\"\r\n";
  REQUIRE(text.size() > 3 * (256 << 10));
  const TemporaryFolder folder;
  write_bytes(folder / "t.csv", text);
  const Table table = read_csv(folder / "t.csv");
  REQUIRE(table.features.shape() == Shape{rows, 1});
  const auto features = table.features.to_vector<float>();
  const auto labels = table.labels.to_vector<std::int64_t>();
  bool same = true;
  for (int i = 0; i < rows; ++i)
    same = same && features[static_cast<std::size_t>(i)] == static_cast<float>(i) &&
           labels[static_cast<std::size_t>(i)] == i % 2;
  CHECK(same);
  CHECK(table.classes == Names{"even", "o\"dd"});
}

TEST_CASE("csv: the real files", "[data]") {
  const std::string folder = shared_data("csv/");
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: " << folder << " is not there");
    return;
  }
  CHECK(read_csv(folder + "iris.csv").classes == Names{"Iris-setosa", "Iris-versicolor", "Iris-virginica"});
  CHECK(read_csv(folder + "iris.csv").features.shape() == Shape{150, 4});
  CHECK(read_csv(folder + "banknote_authentication.csv").features.shape() == Shape{1372, 4});
  CHECK(read_csv(folder + "sonar.csv").features.shape() == Shape{208, 60});
  CHECK(read_csv(folder + "wheat-seeds.csv").classes == Names{"1", "2", "3"});
}

TEST_CASE("csv: numbers with a comma are no categories and no classes", "[data]") {
  const std::string text = "a;b;kind\n1,5;2;x\n2,5;3;y\n1,5;4;x\n";
  CHECK_THAT(problem_of(text, {.find_categorical = true}),
             ContainsSubstring("t.csv:2:1: found '1,5' in a, expected a number with a decimal point"));
  CHECK(parsed(text, {.categorical = {"a"}, .find_categorical = true}).categories[0] == Names{"1,5", "2,5"});
  // Where most are words, they are words.
  CHECK(parsed("a;b;kind\nx;2;x\ny;3;y\n1,5;4;x\n", {.find_categorical = true}).categories[0].size() == 3);
  const std::string prices = "a;price\n1;2,50\n2;3,50\n";
  CHECK_THAT(problem_of(prices, {.numbers = std::nullopt}), ContainsSubstring("t.csv: found '2,50' in price"));
  CHECK(parsed(prices, {.numbers = false}).classes == Names{"2,50", "3,50"});
}

TEST_CASE("scaling: the training rows get mean 0 and deviation 1, others the same figures", "[data]") {
  const Tensor train = tensor({1.0f, 5.0f, 7.0f, 3.0f, 5.0f, 7.0f}, {2, 3});
  const Scaling scaling = scaling_of(train);
  CHECK(scaling.mean == std::vector<double>{2, 5, 7});
  CHECK(scaling.deviation == std::vector<double>{1, 1, 1});  // a constant column is left as it is
  CHECK(scaling.apply(train).to_vector<float>() == std::vector<float>{-1, 0, 0, 1, 0, 0});
  CHECK(scaling.apply(tensor({4.0f, 6.0f, 0.0f}, {1, 3})).to_vector<float>() == std::vector<float>{2, 1, -7});
  CHECK_THROWS_AS(scaling.apply(zeros({2, 4})), ShapeError);
  CHECK_THROWS_AS(scaling_of(zeros({0, 3})), ShapeError);
  CHECK_THROWS_AS(scaling_of(zeros({2, 3}, DType::int64)), DTypeError);
}

}  // namespace tern::data
