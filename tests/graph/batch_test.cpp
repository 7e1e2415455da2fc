// Graphs at other batches than their example's: the result of the program there, or a ShapeError.

#include <optional>

#include "graph/random_batch.hpp"
#include "graph/same_bits.hpp"
#include "support/catch.hpp"
#include "support/environment.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

/// The program's results; nothing where it refuses these inputs.
std::optional<std::vector<Tensor>> results_of(const graph::Function& program, const std::vector<Tensor>& inputs) {
  try {
    return program(inputs);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

TEST_CASE("batch: random programs have the results of the program at every batch, or say that they are not for it",
          "[graph]") {
  const std::string name = GENERATE("sequential", "vectorized");
  const Device device{name};
  const NoGrad no_grad;
  const std::uint64_t first = number_from("TERN_TEST_FIRST_PROGRAM", 0), count = number_from("TERN_TEST_PROGRAMS", 300);
  int checked = 0, refused = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const BatchProgram program(seed);
    const auto inputs = [&](std::int64_t n, std::uint64_t draw) {
      std::vector<Tensor> made{numbers({n, 4, 3}, draw)};
      if (seed % 3 == 0) made.push_back(numbers({n, 4, 3}, draw + 1));
      return made;
    };
    for (const std::int64_t example : {1, 2, 3, 4}) {
      if (!results_of(program, inputs(example, 1))) continue;
      const graph::Graph graph = graph::trace(program, inputs(example, 1));
      const graph::Graph rewritten = graph::optimized(graph);
      INFO(name << ", seed " << seed << ", example of " << example << '\n' << graph.text());
      for (const std::int64_t n : {0, 1, 2, 3, 4, 5, 12, 13, 300}) {
        if (n > 100 && seed % 8 != 0) continue;
        const std::vector<Tensor> x = inputs(n, 7);
        const auto expected = results_of(program, x);
        INFO("batch " << n);
        if ((n != example && graph.structure().batch == 0) || n < graph.structure().least) {
          ++refused;
          REQUIRE_THROWS_AS(graph.run(x), ShapeError);
        } else if (!expected) {
          REQUIRE_THROWS_AS(graph.run(x), Error);
        } else {
          ++checked;
          REQUIRE(difference_of(graph.run(x), *expected) == "");
          REQUIRE(difference_of(rewritten.run(x), *expected) == "");
        }
      }
    }
  }
  if (count >= 100) CHECK(checked > refused / 2);
}
