// The rules by which the cuda mode cuts its own kernels (docs/architecture.md), on a GPU: tests/card/cuts_test.cpp
// checks the cuts themselves without one.

#include <algorithm>
#include <cmath>
#include <optional>
#include <thread>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

/// A small network and its input. With whole numbers, TF32 rounds nothing in front of a maximum or a relu, so that no
/// gradient takes another way than in float32.
struct Work {
  models::LeNet net{/*seed=*/3};
  Generator generator{4};
  Tensor x;

  explicit Work(bool whole) {
    if (!whole) {
      x = randn({32, 1, 28, 28}, generator);
      return;
    }
    const NoGrad none;
    x = randint(0, 2, {32, 1, 28, 28}, generator).to(DType::float32);
    for (Tensor parameter : net.parameters())
      parameter.copy_(randint(-1, 2, parameter.shape(), generator).to(DType::float32));
  }
};

/// The loss and all gradients, with cuts by that rule; `taken`: how often it cut something.
std::vector<std::vector<double>> step(const char* mode, const char* rule, Precision precision, std::int64_t& taken) {
  const Device device{mode, {.precision = precision}};
  std::optional<ForcedAlgorithm> forced;
  if (rule != nullptr) forced.emplace("cut_rule", rule);
  Work work(precision == Precision::tf32);
  const models::LeNet& net = work.net;
  const Tensor loss = op::cross_entropy(net(work.x), randint(0, 10, {32}, work.generator));
  loss.backward();
  std::vector<std::vector<double>> all{loss.values()};
  for (const Tensor& parameter : net.parameters()) all.push_back(parameter.grad().values());
  taken = forced ? forced->taken() : 0;
  return all;
}

}  // namespace

TEST_CASE("cut rule: each gives its bits in every thread, and right results", "[algorithms][cuda]") {
  const std::vector<std::string> available = tern::testing::available_modes();
  if (std::find(available.begin(), available.end(), "cuda") == available.end()) {
    WARN("skipped: mode cuda is not available");
    return;
  }
  for (const Precision precision : {Precision::strict, Precision::tf32}) {
    std::int64_t taken = 0;
    const auto expected = step("sequential", nullptr, precision, taken);
    for (const char* rule : {"fitted", "plain"}) {
      INFO(rule << ", precision " << static_cast<int>(precision));
      const auto here = step("cuda", rule, precision, taken);
      if (std::string_view(rule) == "plain") CHECK(taken > 0);
      std::vector<std::vector<double>> there;
      std::int64_t ignored = 0;
      std::thread([&] { there = step("cuda", rule, precision, ignored); }).join();
      CHECK(here == there);
      REQUIRE(here.size() == expected.size());
      const double tolerance = precision == Precision::strict ? 1e-4 : 2e-2;
      for (std::size_t i = 0; i < here.size(); ++i) {
        double largest = 0, worst = 0;
        for (std::size_t j = 0; j < here[i].size(); ++j) {
          largest = std::max(largest, std::abs(expected[i][j]));
          worst = std::max(worst, std::abs(here[i][j] - expected[i][j]));
        }
        CHECK(worst <= tolerance * largest);
      }
    }
  }
}
