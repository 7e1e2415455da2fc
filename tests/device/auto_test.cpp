// Device{"auto"}: each Step stays where its calls take the least time.
#include <chrono>
#include <map>
#include <thread>

#include "support/catch.hpp"
#include "tern/models/models.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;
using Catch::ContainsSubstring;

namespace {

std::string here() { return current_scope().mode->name; }

/// A function whose calls take as long as the test says (20 ms or nothing, so that a busy machine does not matter), and
/// how often it ran in which mode.
struct Clockwork {
  std::map<std::string, std::chrono::microseconds> takes;
  std::map<std::string, int> runs = {};
  std::string last = {};

  Tensor operator()(const Tensor& x) {
    last = here();
    ++runs[last];
    std::this_thread::sleep_for(takes[last]);
    const Tensor result = op::add(x, 1.0);
    static_cast<void>(result.values());  // what the host reads is never recorded, so that every call comes here
    return result;
  }
};

/// Calls until the trials are over; false when they never are.
template <class... Inputs>
bool settles(Step& step, const Inputs&... inputs) {
  for (int i = 0; i < 1'000'000 && step.chosen() == nullptr; ++i) step(inputs...);
  return step.chosen() != nullptr;
}

using std::chrono::microseconds;

}  // namespace

TEST_CASE("auto: a step stays in the mode that takes the least time", "[device][auto]") {
  for (const std::string fast : {"sequential", "vectorized"}) {
    INFO(fast);
    const Device device{"auto"};
    Clockwork clockwork{
        {{"sequential", microseconds(20000)}, {"vectorized", microseconds(20000)}, {"cuda", microseconds(20000)}}};
    clockwork.takes[fast] = microseconds(0);
    Step step([&](const Tensor& x) { return clockwork(x); });
    const Tensor x = ones({3});
    CHECK(step.chosen() == nullptr);
    REQUIRE(settles(step, x));
    CHECK(step.chosen()->name == fast);
    const int before = clockwork.runs[fast];
    for (int i = 0; i < 10; ++i) CHECK(step(x).values() == std::vector<double>(3, 2));
    CHECK(clockwork.runs[fast] == before + 10);
    const std::string said = device.explain();
    INFO(said);
    CHECK_THAT(said, ContainsSubstring("auto: what is outside a Step runs in " + fastest_mode()));
    CHECK_THAT(said, ContainsSubstring("Step of float32 [3]: " + fast + ", "));
    CHECK_THAT(said, ContainsSubstring(" us a call"));
    CHECK(here() == fastest_mode());
  }
}

TEST_CASE("auto: what a caller does between the calls counts", "[device][auto]") {
  const Device device{"auto"};
  std::string last;
  Step step([&](const Tensor& x) {
    last = here();
    const Tensor result = op::add(x, 1.0);
    static_cast<void>(result.values());
    return result;
  });
  // As if what the fast mode makes had to be fetched from far away.
  for (int i = 0; i < 1'000'000 && step.chosen() == nullptr; ++i) {
    step(ones({3}));
    std::this_thread::sleep_for(microseconds(last == "sequential" ? 0 : 20000));
  }
  REQUIRE(step.chosen() != nullptr);
  CHECK(step.chosen()->name == "sequential");
}

TEST_CASE("auto: a mode that its products alone make too slow is not tried", "[device][auto]") {
  const Device device{"auto", {.threads = 1}};
  std::map<std::string, int> runs;
  const Tensor weight = ones({1024, 1024});
  Step step([&](const Tensor& x) {
    ++runs[here()];
    return op::matmul(x, weight);
  });
  REQUIRE(settles(step, ones({512, 1024})));
  CHECK(step.chosen()->name == fastest_mode());
  CHECK(runs["sequential"] == 0);
  CHECK_THAT(device.explain(), ContainsSubstring("sequential is not tried, its products would take about "));
}

TEST_CASE("auto: a mode that is hopeless in its first call gets no second one", "[device][auto]") {
  const Device device{"auto"};
  Clockwork clockwork{{{"sequential", microseconds(300000)}}};
  Step step([&](const Tensor& x) { return clockwork(x); });
  REQUIRE(settles(step, ones({3})));
  CHECK(step.chosen()->name != "sequential");
  CHECK(clockwork.runs["sequential"] == 1);
  step(ones({3}));
  CHECK_THAT(device.explain(), ContainsSubstring("sequential one call took "));
}

TEST_CASE("auto: a single call of other sizes stays where the others run, and is no trial", "[device][auto]") {
  const Device device{"auto"};
  Clockwork clockwork{{{"vectorized", microseconds(20000)}, {"cuda", microseconds(20000)}}};
  Step step([&](const Tensor& x) { return clockwork(x); });
  REQUIRE(settles(step, ones({8})));
  REQUIRE(step.chosen()->name == "sequential");
  for (int epoch = 0; epoch < 40; ++epoch) {
    for (int i = 0; i < 3; ++i) step(ones({8}));
    CHECK(step(ones({5})).values() == std::vector<double>(5, 2));
    CHECK(clockwork.last == "sequential");
    CHECK(step.chosen() == nullptr);
  }
  // In a row they are tried.
  REQUIRE(settles(step, ones({5})));
  CHECK(step.chosen()->name == "sequential");
}

TEST_CASE("auto: a mode without room for the step is left out, and other errors are the caller's", "[device][auto]") {
  const Device device{"auto"};
  bool broken = false;
  Step step([&](const Tensor& x) -> Tensor {
    if (broken) throw ShapeError("not today");
    if (here() == fastest_mode()) throw OutOfMemory("too large for here");
    return op::add(x, 1.0);
  });
  CHECK_THROWS_AS(step(ones({3})), OutOfMemory);
  broken = true;
  CHECK_THROWS_AS(step(ones({3})), ShapeError);
  broken = false;
  REQUIRE(settles(step, ones({3})));
  CHECK(step.chosen()->name != fastest_mode());
  CHECK_THAT(device.explain(), ContainsSubstring(fastest_mode() + " has too little memory: too large for here"));
}

TEST_CASE("auto: a reset, another device and checks of the scope", "[device][auto]") {
  Clockwork clockwork{{{"vectorized", microseconds(20000)}, {"cuda", microseconds(20000)}}};
  Step step([&](const Tensor& x) { return clockwork(x); });
  const Tensor x = ones({4});
  {
    const Device device{"auto"};
    REQUIRE(settles(step, x));
    CHECK(step.chosen()->name == "sequential");
    {
      const Device named{"vectorized"};
      step(x);
      CHECK(clockwork.last == "vectorized");
      CHECK(step.chosen() == nullptr);
      CHECK(named.explain().starts_with("everything runs in vectorized ("));
    }
    // A call elsewhere costs no trial: what was found is still known.
    step(x);
    CHECK(clockwork.last == "sequential");
    REQUIRE(step.chosen() != nullptr);
    CHECK(step.chosen()->name == "sequential");
  }
  const Device again{"auto"};
  CHECK(again.explain().find("Step of") == std::string::npos);
  step.reset();
  CHECK(step.chosen() == nullptr);
  REQUIRE(settles(step, x));
  CHECK_THAT(again.explain(), ContainsSubstring("Step of float32 [4]: sequential"));
  const Device checked{"auto", {.numerics = Numerics::check}};
  step(x);
  CHECK(clockwork.last == fastest_mode());
}

TEST_CASE("auto: a training goes on through the trials", "[device][auto]") {
  Generator generator(3);
  const Tensor x = randn({16, 784}, generator), labels = randint(0, 10, {16}, generator);
  const auto losses = [&](const char* mode) {
    const Device device{mode};
    models::Mlp net = models::mlp_small(1);
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.01, .momentum = 0.9});
    Step step([&](const Tensor& images, const Tensor& targets) {
      const Tensor loss = op::cross_entropy(net(images), targets);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
      return loss;
    });
    std::vector<double> result;
    for (int i = 0; i < 200; ++i) result.push_back(step(x, labels).item());
    return result;
  };
  const std::vector<double> tried = losses("auto"), plain = losses("vectorized");
  for (std::size_t i = 0; i < plain.size(); ++i) {
    INFO(i);
    CHECK(std::abs(tried[i] - plain[i]) < 1e-3 * (1 + plain[i]));
  }
}
