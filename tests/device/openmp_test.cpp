// What a program with OpenMP regions of its own may do.
#include <omp.h>

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "support/catch.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"
#include "vectorized/parallel.hpp"

using namespace tern;
namespace op = tern::operators;

TEST_CASE("device: a guard inside an OpenMP region holds for its thread", "[device]") {
  const Device outer{"sequential"};
  int wrong = 0;
#pragma omp parallel for num_threads(4) reduction(+ : wrong)
  for (int i = 0; i < 16; ++i) {
    const Device inner{"vectorized"};
    const Tensor x = full({5000}, i);
    wrong += op::sum(x).item() != 5000.0 * i || current_scope().mode->name != "vectorized";
  }
  CHECK(wrong == 0);
  CHECK(current_scope().mode->name == "sequential");
}

TEST_CASE("team: OpenMP runs it where TERN_TEAM says so, the workers otherwise", "[device]") {
  const char* const requested = std::getenv("TERN_TEAM");
  const bool openmp = requested != nullptr && std::string_view(requested) == "openmp";
  CHECK((mode("vectorized").description.find("of OpenMP") != std::string::npos) == openmp);
  std::atomic<int> parts{0}, in_region{0};
  for (int round = 0; round < 100; ++round)
    vectorized::parallel(7, [&](const vectorized::Team&) {
      ++parts;
      in_region += omp_in_parallel();
    });
  CHECK(parts == 700);
  CHECK((in_region > 0) == openmp);
}

TEST_CASE("team: within an OpenMP region of the program, operators give the same bits", "[device]") {
  const Device device{"vectorized", {.threads = 4}};
  const auto result = [](int i) { return op::sum(op::exp(full({200'000}, 0.01 * i))).item(); };
  std::vector<double> expected;
  for (int i = 0; i < 8; ++i) expected.push_back(result(i));
  int wrong = 0;
#pragma omp parallel for num_threads(4) reduction(+ : wrong)
  for (int i = 0; i < 8; ++i) {
    const Device inner{"vectorized", {.threads = 4}};
    wrong += result(i) != expected[static_cast<std::size_t>(i)];
  }
  CHECK(wrong == 0);
  for (int i = 0; i < 8; ++i) CHECK(result(i) == expected[static_cast<std::size_t>(i)]);
}
