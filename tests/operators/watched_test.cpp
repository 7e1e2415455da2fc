// The catalogue in scopes that look at what operators read and write: they refuse no healthy operator.

#include <algorithm>
#include <cmath>

#include "support/catalogue.hpp"
#include "support/catch.hpp"
#include "tern/operators/operators.hpp"

using namespace tern;
using namespace tern::testing;

namespace {

bool all_finite(const std::vector<Tensor>& tensors) {
  return std::ranges::all_of(tensors, [](const Tensor& tensor) {
    return std::ranges::all_of(tensor.values(), [](double value) { return std::isfinite(value); });
  });
}

void backward(const std::vector<Tensor>& results) {
  for (const Tensor& result : results)
    if (result.requires_grad()) result.backward(ones_like(result), {.retain_graph = true});
}

/// Calls visit(operator, sample) for what takes a moment.
template <class Visit>
void for_each_sample(Visit visit) {
  for (const Operator& op : catalogue())
    for (const Sample& sample : op.samples)
      if (!sample.large && std::ranges::count(sample.dtypes, DType::float32) > 0) visit(op, sample);
}

std::vector<Tensor> inputs_of(const Operator& op, const Sample& sample, Layout layout) {
  std::vector<Tensor> inputs = make_inputs(op, sample, DType::float32, layout);
  for (std::size_t i = 0; sample.gradient && i < inputs.size(); ++i)
    if (sample.arguments[i].differentiable && is_floating(inputs[i].dtype())) inputs[i].set_requires_grad();
  return inputs;
}

}  // namespace

TEST_CASE("numerics: no operator of the catalogue is refused whose results are finite", "[operators]") {
  std::int64_t accepted = 0;
  for_each_sample([&](const Operator& op, const Sample& sample) {
    INFO(op.name << ", " << sample.name);
    const std::vector<Tensor> inputs = inputs_of(op, sample, Layout::contiguous);
    const std::vector<Tensor> expected = sample.call(inputs);
    if (!all_finite(inputs) || !all_finite(expected)) return;
    backward(expected);
    std::vector<Tensor> gradients;
    for (const Tensor& input : inputs)
      if (input.grad().defined()) gradients.push_back(input.grad());
    const bool goes_back = all_finite(gradients);
    const Device device{"sequential", {.numerics = Numerics::check}};
    CHECK_NOTHROW([&] {
      const std::vector<Tensor> results = sample.call(inputs);
      if (goes_back) backward(results);
    }());
    ++accepted;
  });
  CHECK(accepted > 300);
}

TEST_CASE("debug: no operator of the catalogue is refused while it is verified", "[operators]") {
  std::int64_t accepted = 0;
  for_each_sample([&](const Operator& op, const Sample& sample) {
    for (const Layout layout : {Layout::contiguous, Layout::sliced}) {
      INFO(op.name << ", " << sample.name);
      const std::vector<Tensor> inputs = inputs_of(op, sample, layout);
      Device device("debug", {.verify = true});
      CHECK_NOTHROW(backward(sample.call(inputs)));
      CHECK_NOTHROW(device.synchronize());
      ++accepted;
    }
  });
  CHECK(accepted > 600);
}
