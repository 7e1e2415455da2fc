// Random programs over the public operators: random shapes, views, dtypes, hostile sizes, changes in place and
// gradients, each run in the sequential and in the vectorized mode. Both give the same values within rounding, or the
// same kind of typed error; anything else that is thrown is a fault.
//
//     TERN_TEST_PROGRAMS=100000 TERN_TEST_FIRST_PROGRAM=0 tern_test_operators "programs*"

#include "operators/programs.hpp"

#include <cmath>
#include <cstdlib>
#include <typeinfo>

#include "support/catch.hpp"
#include "support/summary.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

std::int64_t setting(const char* name, std::int64_t usual) {
  const char* value = std::getenv(name);
  return value == nullptr ? usual : std::atoll(value);
}

/// What one mode made of an action.
struct Outcome {
  std::string error;  // the type of what was thrown
  std::vector<Tensor> values;
};

Outcome run(const Action& action, const char* mode, bool gradients, std::int64_t seed) {
  Outcome outcome;
  const Device device(mode);
  try {
    std::vector<Tensor> leaves;
    for (const Tensor& input : action.inputs) {
      leaves.push_back(input.clone());
      const bool computes = input.dtype() == DType::float32 || input.dtype() == DType::float64;
      if (gradients && action.gradients && computes) leaves.back().set_requires_grad();
    }
    const std::vector<Tensor> results = action.run(leaves);
    for (const Tensor& result : results) outcome.values.push_back(result.detach().clone());
    Dice dice(static_cast<std::uint64_t>(seed));
    for (const Tensor& result : results)
      if (result.requires_grad()) result.backward(dice.tensor(result.shape(), result.dtype()), {.retain_graph = true});
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].grad().defined()) continue;
      outcome.values.push_back(leaves[i].grad());
      for (std::size_t j = 0; j < i; ++j)
        if (leaves[j].grad().defined() && leaves[i].numel() > 0 &&
            &leaves[i].grad().storage() == &leaves[j].grad().storage())
          throw std::logic_error("two gradients share their elements");
    }
  } catch (const Error& error) {
    outcome.error = typeid(error).name();
    outcome.values.clear();
  }
  return outcome;
}

/// Why two values differ by more than rounding; empty when they do not.
std::string difference(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype())
    return message(a.dtype(), a.shape(), " and ", b.dtype(), b.shape());
  const std::vector<double> x = a.values(), y = b.values();
  double largest = 1;
  for (const double value : x)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  const double allowed = a.dtype() == DType::float64   ? 1e-9
                         : a.dtype() == DType::float32 ? 2e-4
                         : is_floating(a.dtype())      ? 2e-2
                                                       : 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    if (!same && !(std::abs(x[i] - y[i]) <= allowed * largest))
      return message("element ", i, ": ", x[i], " and ", y[i]);
  }
  return {};
}

}  // namespace

TEST_CASE("programs: random ones give the same in both modes of the host, or the same typed error", "[programs]") {
  const std::int64_t count = setting("TERN_TEST_PROGRAMS", 1000), first = setting("TERN_TEST_FIRST_PROGRAM", 0);
  std::int64_t actions = 0, errors = 0, compared = 0;
  for (std::int64_t seed = first; seed < first + count; ++seed) {
    Dice dice(static_cast<std::uint64_t>(seed));
    for (std::int64_t i = 2 + dice.below(5); i > 0; --i) {
      static const std::vector<Action (*)(Dice&)> kinds{elementwise, elementwise, reduction, movement,  products,
                                                        images,      losses,      in_place,  kept_graph};
      const Action action = dice.of(kinds)(dice);
      const bool gradients = !dice.once_in(4);
      INFO("TERN_TEST_PROGRAMS=1 TERN_TEST_FIRST_PROGRAM=" << seed << ", " << action.name
                                                           << (gradients ? " with gradients" : ""));
      Outcome one, two;
      REQUIRE_NOTHROW(one = run(action, "sequential", gradients, seed));
      REQUIRE_NOTHROW(two = run(action, "vectorized", gradients, seed));
      ++actions;
      errors += !one.error.empty();
      if (one.error != two.error || one.values.size() != two.values.size()) {
        FAIL_CHECK("sequential: " << one.error << ", " << one.values.size() << " values; vectorized: " << two.error
                                  << ", " << two.values.size());
        continue;
      }
      for (const Tensor& value : one.values) compared += value.numel();
      for (std::size_t k = 0; k < one.values.size(); ++k)
        if (const std::string found = difference(one.values[k], two.values[k]); !found.empty())
          FAIL_CHECK("value " << k << ": " << found);
    }
  }
  testing::count_cases("programs", actions);
  CHECK(actions > 2 * count);
  CHECK(compared > 20 * actions);
  if (count >= 1000) CHECK((errors > actions / 50 && errors < actions * 3 / 4));
}
