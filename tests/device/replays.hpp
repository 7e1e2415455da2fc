#pragma once
// Programs that call a function as it stands and by a Step.

#include <functional>
#include <memory>

#include "support/replaying.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using Values = std::vector<double>;
using Function = std::function<Tensor(const Tensor&)>;

inline void append(Values& values, const Tensor& tensor) {
  for (const double value : tensor.values()) values.push_back(value);
}

/// What a program gives that calls `function` as it stands, and by a Step. The program gets what to call.
struct Both {
  Values eager, stepped;
  std::int64_t replays = 0;
  std::string unrecorded;
};

/// `make` builds a program's function anew; `program` calls what it gets and returns what it saw.
template <class Make, class Program>
Both both(Make make, Program program) {
  const Device device(testing::replaying_mode());
  Both result;
  {
    auto made = make();
    result.eager = program([&](const Tensor& x) { return made->call(x); }, *made);
  }
  auto made = make();
  Step step([&](const Tensor& x) { return made->call(x); });
  result.stepped = program([&](const Tensor& x) { return step(x); }, *made);
  result.replays = step.replays();
  result.unrecorded = step.unrecorded();
  return result;
}

inline Tensor square_loss(const Tensor& w, const Tensor& x) {
  const Tensor error = operators::mul(w, x);
  return operators::sum(operators::mul(error, error));
}

/// One weight and its optimiser.
struct Weight {
  Tensor w = full({2}, 1.0).set_requires_grad();
  optim::SGD sgd{{w}, {.learning_rate = 0.1}};
  virtual ~Weight() = default;
  virtual Tensor call(const Tensor& x) {
    Tensor loss = square_loss(w, x);
    loss.backward();
    return loss;
  }
};

template <class M>
auto maker() {
  return [] { return std::make_unique<M>(); };
}

}  // namespace tern::testing
