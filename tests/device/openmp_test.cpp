// What a program with OpenMP regions of its own may do.
#include "support/catch.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

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
