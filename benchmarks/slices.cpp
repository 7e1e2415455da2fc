// The cost of slices' gradients: an LSTM written by hand, trained for one step, that reads an input per step, or slices
// of one tensor that itself has a gradient. Prints the seconds of a training step and its peak memory.
//   slices [steps] [mode]

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "tern/tern.hpp"

namespace {

using namespace tern;
namespace op = operators;

constexpr std::int64_t batch = 64, width = 64;

struct Lstm {
  Tensor input = op::mul(randn({width, 4 * width}), 0.1), state = op::mul(randn({width, 4 * width}), 0.1);
  Lstm() {
    input.set_requires_grad();
    state.set_requires_grad();
  }

  /// The last state; from_input(t) is the input's part of step t's gates, [batch, 4 width].
  Tensor run(std::int64_t steps, const std::function<Tensor(std::int64_t t)>& from_input) const {
    Tensor h = zeros({batch, width}), c = h;
    for (std::int64_t t = 0; t < steps; ++t) {
      const std::vector<Tensor> gates = op::chunk(from_input(t) + op::matmul(h, state), 4, 1);
      c = op::sigmoid(gates[0]) * c + op::sigmoid(gates[1]) * op::tanh(gates[2]);
      h = op::sigmoid(gates[3]) * op::tanh(c);
    }
    return h;
  }
};

void measure(const char* name, const std::function<Tensor()>& loss) {
  using Clock = std::chrono::steady_clock;
  Memory& memory = *current_scope().mode->memory;
  loss().backward();
  double best = 1e9;
  memory.reset_peak();
  const std::size_t before = memory.statistics().in_use;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    loss().backward();
    memory.synchronize(memory.stream());
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::printf("%-22s %8.1f ms %9.1f MB\n", name, 1e3 * best,
              static_cast<double>(memory.statistics().peak - before) / 1e6);
}

}  // namespace

int main(int count, char** arguments) {
  const std::int64_t steps = count > 1 ? std::atoll(arguments[1]) : 400;
  const Device device(count > 2 ? arguments[2] : "vectorized");
  const Lstm lstm;
  std::vector<Tensor> inputs;
  for (std::int64_t t = 0; t < steps; ++t) inputs.push_back(randn({batch, width}));
  const Tensor together = op::stack(inputs, 1);  // [batch, steps, width]
  Tensor leaf = together.clone();
  leaf.set_requires_grad();
  const auto features = [&] { return op::mul(leaf, 1.0); };  // what another layer would return
  const auto gates = [&](const Tensor& x) { return op::matmul(x, lstm.input); };

  measure("an input per step",
          [&] { return op::sum(lstm.run(steps, [&](std::int64_t t) { return gates(inputs[t]); })); });
  measure("slices of one tensor", [&] {
    const Tensor all = features();
    return op::sum(lstm.run(steps, [&](std::int64_t t) { return gates(all.slice(1, t, t + 1).squeeze(1)); }));
  });
  measure("slices of a transposed", [&] {
    const Tensor all = features();
    return op::sum(lstm.run(steps, [&](std::int64_t t) { return gates(all.transpose(0, 1)[t]); }));
  });
  measure("unbind", [&] {
    const std::vector<Tensor> all = op::unbind(features(), 1);
    return op::sum(lstm.run(steps, [&](std::int64_t t) { return gates(all[t]); }));
  });
}
