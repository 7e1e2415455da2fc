#include "tern/run/step.hpp"

#include <thread>

#include "support/catch.hpp"
#include "support/logged_capture.hpp"
#include "support/replaying.hpp"
#include "support/summary.hpp"
#include "tern/models/inception.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/run/branches.hpp"
#include "tern/tensor/create.hpp"

using namespace tern;
namespace op = tern::operators;

TEST_CASE("step: where nothing is captured it just runs", "[device]") {
  for (const char* name : {"sequential", "vectorized"}) {
    const Device device{name};
    int runs = 0;
    Step step([&](const Tensor& x) {
      ++runs;
      return op::mul(x, 2.0);
    });
    for (int i = 0; i < 5; ++i) CHECK(step(full({3}, i)).values() == std::vector<double>(3, 2 * i));
    CHECK(step(full({2, 2}, 7)).values() == std::vector<double>(4, 14));
    CHECK(runs == 6);
    CHECK(step.replays() == 0);
    step.reset();
    CHECK(step(ones({1})).item() == 2);
  }
}

TEST_CASE("step: takes one, two or three inputs and passes on what is thrown", "[device]") {
  Step two([](const Tensor& a, const Tensor& b) { return op::add(a, b); });
  CHECK(two(ones({2}), ones({2})).values() == std::vector<double>{2, 2});
  Step three([](const Tensor& a, const Tensor& b, const Tensor& c) { return op::add(op::add(a, b), c); });
  CHECK(three(ones({2}), ones({2}), ones({2})).values() == std::vector<double>{3, 3});
  CHECK_THROWS_AS(two(ones({2}), ones({3})), ShapeError);
  CHECK(two(ones({2}), ones({2})).values() == std::vector<double>{2, 2});
  CHECK_THROWS_AS(two.run({ones({2})}), Error);
  Step moved = std::move(two);
  CHECK(moved(ones({1}), ones({1})).item() == 2);
}

TEST_CASE("step: any number of inputs and results, recorded too", "[device]") {
  for (const Mode* const place : {&testing::replaying_mode(), &mode("sequential")}) {
    const Device device{*place};
    const NoGrad no_grad;
    // Two results share elements, one is an input, one is empty.
    const auto function = [](const std::vector<Tensor>& x) {
      Tensor sum = x[0];
      for (std::size_t i = 1; i < x.size(); ++i) sum = op::add(sum, x[i]);
      return std::vector{sum, sum.slice(0, 1, 2), op::mul(x[0], 2), x.back(), Tensor()};
    };
    Step step{Step::Function(function)};
    std::vector<Tensor> kept;
    std::vector<double> kept_values;
    for (int i = 0; i < 12; ++i) {
      std::vector<Tensor> x;
      for (int k = 0; k < 3 + i % 2 * 2; ++k) x.push_back(full({3}, i + 10 * k));
      const std::vector<Tensor> found = step.run_all(x), expected = function(x);
      REQUIRE(found.size() == expected.size());
      for (std::size_t k = 0; k + 1 < found.size(); ++k) CHECK(found[k].values() == expected[k].values());
      CHECK(!found.back().defined());
      kept.push_back(found[1]);
      kept_values.push_back(expected[1].item());
    }
    for (std::size_t i = 0; i < kept.size(); ++i) CHECK(kept[i].item() == kept_values[i]);
    if (place->capture != nullptr) CHECK(step.replays() > 4);
    CHECK_THROWS_AS(step.run({ones({3}), ones({3})}), Error);
    Step none(Step::Function([](const std::vector<Tensor>&) { return std::vector<Tensor>{}; }));
    for (int i = 0; i < 4; ++i) CHECK(none.run_all({}).empty());
  }
}

TEST_CASE("step: a training step gives the same bits as its function, in every mode", "[device]") {
  for (const std::string& name : testing::available_modes()) {
    INFO(name);
    const Device device{name};
    const auto train = [](bool stepped) {
      Generator generator(4);
      Tensor w = randn({10, 20}, generator).set_requires_grad();
      const Tensor rate = full({}, 0.1);
      const auto once = [&](const Tensor& x, const Tensor& labels) {
        w.zero_grad();
        Tensor loss = op::cross_entropy(op::linear(op::dropout(x, 0.2, true), w), labels);
        loss.backward();
        op::sgd({w}, {w.grad()}, {}, rate, {});
        return loss;
      };
      manual_seed(3);
      Step step(once);
      std::vector<double> losses;
      for (int i = 0; i < 8; ++i) {
        const Tensor x = rand({16, 20}, generator);
        const Tensor labels = randint(0, 10, {16}, generator);
        losses.push_back((stepped ? step(x, labels) : once(x, labels)).item());
      }
      for (const double value : w.values()) losses.push_back(value);
      return losses;
    };
    CHECK(train(true) == train(false));
  }
}

TEST_CASE("step: the branches of a module give the same bits recorded as run", "[device]") {
  for (const std::string& name : testing::available_modes()) {
    INFO(name);
    const Device device{name};
    const auto train = [](bool stepped) {
      Generator generator(6);
      const models::InceptionChannels sizes{16, 16, 24, 32, 8, 16, 8};
      const models::Inception first(sizes, {}, generator);
      const models::Inception second({sizes.out(), 8, 16, 24, 8, 8, 16}, {}, generator);
      std::vector<Tensor> parameters = first.parameters();
      for (const Tensor& parameter : second.parameters()) parameters.push_back(parameter);
      optim::SGD sgd(parameters, {.learning_rate = 0.05, .momentum = 0.9});
      const auto once = [&](const Tensor& x) {
        Tensor loss = op::mean(op::pow(second(first(x)), 2.0));
        sgd.zero_grad();
        loss.backward();
        sgd.step();
        return loss;
      };
      Step step(once);
      std::vector<double> values;
      for (int i = 0; i < 6; ++i) {
        const Tensor x = randn({3, 16, 13, 13}, generator);
        values.push_back((stepped ? step(x) : once(x)).item());
      }
      for (const Tensor& parameter : parameters)
        for (const double value : parameter.values()) values.push_back(value);
      return values;
    };
    CHECK(train(true) == train(false));
  }
}

TEST_CASE("branches: results in order, side by side only where a step is recorded, and no further down", "[device]") {
  const Mode& captured = testing::register_logged("captured");
  std::string& log = testing::capture_log;
  const auto sums = [](const Tensor& x) {
    const auto doubled = [&] { return branches({[&] { return op::mul(x, 2.0); }})[0]; };
    const std::vector<Tensor> parts = branches({[&] { return op::add(x, 1.0); }, doubled});
    return op::sub(parts[0], parts[1]);
  };
  const Tensor x = full({2}, 3);
  CHECK(branches({}).empty());
  {
    const Device device{"vectorized"};
    Step step(sums);
    for (int i = 0; i < 3; ++i) CHECK(step(x).values() == std::vector<double>{-2, -2});
  }
  CHECK(log.empty());
  const Device device(captured);
  {
    Step step(sums);
    step(x);
    CHECK(log.empty());
    step(x);
    CHECK(log == "begin branch branch join end launch ");
  }
  log.clear();
  bool fails = false;
  Step failing([&](const Tensor& in) {
    return branches({[&] { return in; },
                     [&]() -> Tensor {
                       if (fails) throw ShapeError("no");
                       return in;
                     }})[1];
  });
  failing(x);
  fails = true;
  CHECK_THROWS_AS(failing(x), ShapeError);
  CHECK(log == "begin branch branch join abandon ");
}

TEST_CASE("step: threads that record at once may read what they share", "[device]") {
  for (const std::string& name : testing::available_modes()) {
    INFO(name);
    Generator generator(5);
    const Tensor examples = randn({64, 8}, generator);
    const auto work = [&](const Tensor& shared, int seed) {
      const Device device{name, {.threads = 1}};
      Generator own(static_cast<std::uint64_t>(seed));
      Tensor total = zeros({8});
      Step step([&](const Tensor& rows) {
        const Tensor sum = op::sum(op::index_select(shared, 0, rows), {0});
        total.copy_(op::add(total, sum));
        return sum;
      });
      for (int i = 0; i < 20; ++i) {
        // Reads outside of the step come in between.
        const Tensor rows = randint(0, 64, {4}, own);
        step(rows);
        total.copy_(op::add(total, op::sum(op::index_select(shared, 0, rows), {0})));
      }
      return total.values();
    };
    constexpr int count = 6;
    std::vector<std::vector<double>> expected(count), found(count);
    for (int i = 0; i < count; ++i) expected[static_cast<std::size_t>(i)] = work(examples.clone(), i);
    for (int round = 0; round < 5; ++round) {
      const Tensor shared = examples.clone();
      std::vector<std::thread> threads;
      for (int i = 0; i < count; ++i)
        threads.emplace_back([&, i] { found[static_cast<std::size_t>(i)] = work(shared, i); });
      for (std::thread& thread : threads) thread.join();
      CHECK(found == expected);
    }
  }
}

TEST_CASE("step: a write waits for what other threads read", "[device]") {
  for (const std::string& name : testing::available_modes()) {
    INFO(name);
    const Device device{name};
    Tensor shared = ones({300, 300});
    for (int round = 1; round <= 5; ++round) {
      constexpr int count = 4;
      std::vector<Tensor> results(count);
      std::vector<std::thread> threads;
      for (Tensor& result : results)
        threads.emplace_back([&] {
          const Device same{name, {.threads = 1}};
          for (int i = 0; i < 20; ++i) result = op::matmul(shared, shared);
        });
      for (std::thread& thread : threads) thread.join();
      // The threads are gone, what they queued may still run.
      shared.fill_(round + 1);
      for (const Tensor& result : results) CHECK(result.values() == std::vector<double>(90000, 300.0 * round * round));
    }
    // A step that writes what others have read, and readers of what it wrote.
    Tensor weight = zeros({1000});
    Step step([&](const Tensor& x) {
      weight.copy_(op::add(weight, x));
      return op::sum(weight);
    });
    for (int i = 1; i <= 6; ++i) {
      step(ones({1000}));
      double sum = 0;
      std::thread([&] {
        const Device same{name, {.threads = 1}};
        sum = op::sum(weight).item();
      }).join();
      CHECK(sum == 1000.0 * i);
    }
  }
}
