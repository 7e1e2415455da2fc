// The list of operators in the documentation is the list in the headers, and tests that a page names are there.

#include <filesystem>
#include <regex>
#include <set>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/places.hpp"

namespace tern::testing {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

namespace {

/// Functions that are declared in tern::operators.
Names declared() {
  Names names;
  const std::regex declaration("\n(?:Tensor|bool|void|Sorted|Pooled|std::vector<Tensor>) ([a-z]\\w*)\\(");
  const fs::path folder = source_path("include/tern/operators");
  for (const auto& header : fs::directory_iterator(folder)) {
    const std::string text = read_bytes(header.path().string());
    for (std::sregex_iterator found(text.begin(), text.end(), declaration), end; found != end; ++found)
      names.insert((*found)[1]);
  }
  return names;
}

/// Names in the rows of the page's table.
Names listed() {
  const std::string page = read_bytes(source_path("docs/operators.md"));
  const std::size_t begin = page.find("|---|"), end = page.find("\n\n", begin);
  const std::string table = page.substr(begin, end - begin);
  Names names;
  const std::regex code("`([a-z]\\w*)`");
  for (std::sregex_iterator found(table.begin(), table.end(), code), last; found != last; ++found)
    names.insert((*found)[1]);
  return names;
}

}  // namespace

TEST_CASE("documentation: the list of operators is whole", "[docs]") {
  const Names in_headers = declared(), on_page = listed();
  REQUIRE(in_headers.size() > 60);
  for (const std::string& name : in_headers) {
    INFO(name << " is declared and not listed in docs/operators.md");
    CHECK(on_page.contains(name));
  }
  for (const std::string& name : on_page) {
    INFO(name << " is listed in docs/operators.md and not declared");
    CHECK(in_headers.contains(name));
  }
}

TEST_CASE("documentation: the tests that show what users missed are there", "[docs]") {
  const std::string page = read_bytes(source_path("benchmarks/results/users.md"));
  const std::regex named("(tests/[\\w/]+\\.cpp): ((?:\"[^\"]+\"(?:, )?)+)"), quoted("\"[^\"]+\"");
  int tests = 0;
  for (std::sregex_iterator found(page.begin(), page.end(), named), last; found != last; ++found) {
    const std::string text = read_bytes(source_path((*found)[1].str())), names = (*found)[2];
    for (std::sregex_iterator name(names.begin(), names.end(), quoted), end; name != end; ++name, ++tests) {
      INFO(found->str(1) << " has no test " << name->str());
      CHECK(text.find(message("TEST_CASE(", name->str())) != std::string::npos);
    }
  }
  CHECK(tests > 30);
}

}  // namespace tern::testing
