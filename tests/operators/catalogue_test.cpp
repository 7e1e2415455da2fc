// Every operator of the catalogue in every mode, and the catalogue against the headers.

#include "support/catalogue.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "support/catch.hpp"
#include "support/checks.hpp"
#include "support/summary.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

/// TERN_TEST_OPERATOR limits a run to one operator or family.
bool chosen(const Operator& op) {
  const char* choice = std::getenv("TERN_TEST_OPERATOR");
  return choice == nullptr || op.name == choice || op.family == choice;
}

void run_catalogue(const std::string& mode, std::int64_t least) {
  const std::vector<std::string> modes = available_modes();
  if (std::find(modes.begin(), modes.end(), mode) == modes.end()) {
    WARN("skipped: mode " << mode << " is not available");
    return;
  }
  Report report(mode);
  bool whole = true;
  for (const Operator& op : catalogue()) {
    whole = whole && chosen(op);
    if (chosen(op)) check_operator(op, mode, report);
  }
  count_cases(mode, report.cases());
  for (const std::string& failure : report.failures()) FAIL_CHECK(failure);
  if (whole) CHECK(report.cases() >= least);
}

/// How often each function is declared in the public headers of the operators.
std::map<std::string, int> declared_operators() {
  std::map<std::string, int> declared;
  const std::regex declaration(R"(^(?:Tensor|void|std::vector<Tensor>) (\w+)\()");
  for (const auto& entry : std::filesystem::directory_iterator(TERN_INCLUDE "/tern/operators")) {
    std::ifstream file(entry.path().string());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (std::regex_search(line, match, declaration)) ++declared[match[1]];
    }
  }
  return declared;
}

}  // namespace

TEST_CASE("catalogue: sequential", "[catalogue][mode][sequential]") { run_catalogue("sequential", 3000); }
TEST_CASE("catalogue: vectorized", "[catalogue][mode][vectorized]") { run_catalogue("vectorized", 3000); }
TEST_CASE("catalogue: cuda", "[catalogue][mode][cuda]") { run_catalogue("cuda", 1500); }

TEST_CASE("catalogue: every public operator is in it", "[catalogue]") {
  std::map<std::string, int> listed;
  for (const Operator& op : catalogue())
    if (!op.member) ++listed[op.name.substr(0, op.name.find('/'))];
  const std::map<std::string, int> declared = declared_operators();
  REQUIRE(declared.size() > 50);
  for (const auto& [name, count] : declared) {
    INFO(name << " is declared " << count << " times; the catalogue (tests/operators/*_cases.cpp) has "
              << listed[name]);
    CHECK(listed[name] >= count);
  }
  for (const auto& [name, count] : listed) {
    INFO(name << " is in the catalogue, but in no header of operators/");
    CHECK(declared.count(name) == 1);
  }
}

TEST_CASE("catalogue: names are unique and every operator has samples", "[catalogue]") {
  std::set<std::string> operators;
  for (const Operator& op : catalogue()) {
    INFO(op.name);
    CHECK(operators.insert(op.name).second);
    CHECK(!op.samples.empty());
    std::set<std::string> samples;
    for (const Sample& sample : op.samples) {
      INFO(sample.name);
      CHECK(samples.insert(sample.name).second);
    }
  }
}
