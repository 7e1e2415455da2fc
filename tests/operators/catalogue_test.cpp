// Every operator of the catalogue in every mode, and the catalogue against the headers.

#include "support/catalogue.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "support/algorithms.hpp"
#include "support/catch.hpp"
#include "support/checks.hpp"
#include "support/places.hpp"
#include "support/summary.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

/// TERN_TEST_OPERATOR limits a run to one operator or family.
bool chosen(const Operator& op) {
  const char* choice = std::getenv("TERN_TEST_OPERATOR");
  return choice == nullptr || op.name == choice || op.family == choice;
}

/// TERN_TEST_WHOLE=1 runs every case there is, for hours.
bool whole_requested() {
  const char* choice = std::getenv("TERN_TEST_WHOLE");
  return choice != nullptr && std::string(choice) == "1";
}

/// Each so many-th sample where the whole was not requested. TERN_TEST_EVERY=N takes each N-th of these, beginning with
/// TERN_TEST_FIRST from 0 to N - 1: for slow tools, or a part of the whole. TERN_TEST_CHECK=threads makes one of the
/// checks of support/checks.hpp alone.
CheckOptions options(std::size_t every, bool deterministic = true) {
  const auto number = [](const char* name, std::size_t otherwise) {
    const char* choice = std::getenv(name);
    return choice == nullptr ? otherwise : std::stoul(choice);
  };
  const char* only = std::getenv("TERN_TEST_CHECK");
  return {.deterministic = deterministic,
          .whole = whole_requested(),
          .every = (whole_requested() ? 1 : every) * std::max(number("TERN_TEST_EVERY", 1), 1ul),
          .first = number("TERN_TEST_FIRST", 0),
          .only = only == nullptr ? "" : only};
}

/// Whether only a part is requested, which may hold nothing of some kinds.
bool limited() {
  const char* const names[]{"TERN_TEST_OPERATOR", "TERN_TEST_FIRST", "TERN_TEST_CHECK"};
  return std::any_of(std::begin(names), std::end(names), [](const char* name) { return std::getenv(name) != nullptr; });
}

bool is_available(const std::string& mode) {
  if (mode == "debug" || mode == "cuda:1") return true;  // in no list
  const std::vector<std::string> modes = available_modes();
  if (std::find(modes.begin(), modes.end(), mode) != modes.end()) return true;
  WARN("skipped: mode " << mode << " is not available");
  return false;
}

void tell(const std::string& mode, const Report& report) {
  count_cases(mode, report.cases());
  for (const std::string& failure : report.failures()) FAIL_CHECK(failure);
}

void run_catalogue(const std::string& mode, std::int64_t least, std::size_t every = 1) {
  if (!is_available(mode)) return;
  // Lesser instruction sets are a run of their own.
  const bool sampled = std::getenv("TERN_SIMD") != nullptr && !whole_requested();
  check_options() = options(sampled ? 8 : every);
  Report report(mode);
  for (const Operator& op : catalogue())
    if (chosen(op)) check_operator(op, mode, report);
  tell(mode, report);
  if (!sampled && !limited() && check_options().every == every) CHECK(report.cases() >= least);
}

/// The families whose kernels choose between algorithms.
bool chooses(const Operator& op) {
  const std::string_view families[]{"conv", "dot", "attention", "recurrent"}, name = op.name;
  if (name == "quantized_conv2d" || name == "quantized_linear") return chosen(op);
  return std::find(std::begin(families), std::end(families), op.family) != std::end(families) && chosen(op);
}

/// The family that a decision is about.
std::string_view family_of(std::string_view decision) {
  const bool convolves = decision.starts_with("conv2d") || decision == "inverted_residual";
  if (decision.starts_with("recurrent")) return "recurrent";
  if (decision.starts_with("quantized") || decision.starts_with("implicit_")) return "quantized";
  return convolves ? "conv" : decision == "attention" ? "attention" : "dot";
}

/// The samples of those families by every algorithm of the mode that fits them, all decisions that know the algorithm
/// together.
void run_algorithms(const std::string& mode_name) {
  if (!is_available(mode_name)) return;
  const Device device{mode_name};
  std::map<std::string, std::vector<const char*>> decisions;  // by algorithm
  for (const Decision& decision : device.mode().decisions)
    for (const char* algorithm : decision.algorithms)
      if (algorithm != nullptr &&
          decision.name != std::string_view("all_reduce"))  // a group's, which no operator takes
        decisions[algorithm].push_back(decision.name);
  REQUIRE(!decisions.empty());
  for (const auto& [algorithm, names] : decisions) {
    INFO(algorithm);
    std::vector<std::unique_ptr<ForcedAlgorithm>> forced;
    for (const char* name : names) forced.push_back(std::make_unique<ForcedAlgorithm>(name, algorithm));
    const auto around = force_around(names.front());
    check_options() = options(3);
    if (rounds(algorithm)) check_options().precision = Precision::bf16;
    const Device rounded{mode_name, {.precision = check_options().precision}};
    current_scope().activations = DType::float32;  // those of the reference, too
    Report report(mode_name + " by " + algorithm);
    const auto knows = [&names = names](const Operator& op) {
      return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
        return family_of(name) == op.family || (name == "cut_rule" && op.family == "conv");
      });
    };
    for (const Operator& op : catalogue())
      if (chooses(op) && knows(op)) check_operator(op, mode_name, report);
    tell(mode_name + " by " + algorithm, report);
    if (limited()) continue;
    for (std::size_t i = 0; i < names.size(); ++i) {
      INFO(names[i] << ", " << forced[i]->missed() << " times another algorithm");
      // Without cuDNN, on an older card or with code for one, some algorithms are missing.
      if (mode_name == "cuda" && forced[i]->taken() == 0) WARN("cuda took nowhere " << names[i] << ':' << algorithm);
      if (mode_name != "cuda") CHECK(forced[i]->taken() > 0);
    }
  }
}

/// Products and convolutions of rounded factors, by the algorithms that the mode chooses.
void run_bf16(const std::string& mode_name) {
  if (!is_available(mode_name)) return;
  check_options() = options(1);
  check_options().precision = Precision::bf16;
  const Device device{mode_name, {.precision = Precision::bf16}};
  current_scope().activations = DType::float32;  // those of the reference, too
  Report report(mode_name + " in bf16");
  for (const Operator& op : catalogue())
    if (chooses(op) && op.family != "recurrent" && op.family != "quantized") check_operator(op, mode_name, report);
  tell(mode_name + " in bf16", report);
  check_options() = {};
}

/// The same families where the mode may choose freely: what one problem left behind must not decide another. Once in
/// the catalogue's order, once backwards.
void run_free(const std::string& mode) {
  if (!is_available(mode)) return;
  for (const bool backwards : {false, true}) {
    check_options() = options(2, false);
    Report report(mode + " free");
    for (Operator op : catalogue()) {
      if (!chooses(op)) continue;
      if (backwards) std::reverse(op.samples.begin(), op.samples.end());
      check_operator(op, mode, report);
    }
    tell(mode + " free", report);
  }
  check_options() = {};
}

/// How often each function is declared in the public headers of the operators.
std::map<std::string, int> declared_operators() {
  std::map<std::string, int> declared;
  const std::regex declaration(R"(^(?:Tensor|bool|void|Sorted|Pooled|std::vector<Tensor>) (\w+)\()");
  for (const auto& entry : std::filesystem::directory_iterator(source_path("include/tern/operators"))) {
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
TEST_CASE("catalogue: cuda on its second card", "[catalogue][mode][cuda][cards]") {
  if (has_second_card()) run_catalogue("cuda:1", 300, 4);
}
// Queued, in any order, and with every block under guard: no fault is found where there is none.
TEST_CASE("catalogue: debug", "[catalogue][mode][debug]") { run_catalogue("debug", 2000, 16); }

TEST_CASE("catalogue: vectorized by every algorithm", "[catalogue][mode][algorithms]") { run_algorithms("vectorized"); }
TEST_CASE("catalogue: cuda by every algorithm", "[catalogue][mode][algorithms][cuda]") { run_algorithms("cuda"); }
TEST_CASE("catalogue: vectorized in bf16", "[catalogue][mode][algorithms]") { run_bf16("vectorized"); }
TEST_CASE("catalogue: vectorized chooses freely", "[catalogue][mode][algorithms]") { run_free("vectorized"); }

TEST_CASE("catalogue: cuda chooses freely", "[catalogue][mode][algorithms][cuda]") { run_free("cuda"); }

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
