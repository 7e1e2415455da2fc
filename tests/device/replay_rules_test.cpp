// When a Step records on a device without a device, for how long it keeps what it recorded, and when it just runs.

#include <thread>

#include "device/replays.hpp"
#include "support/catch.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/nn/nn.hpp"
#include "tern/run/branches.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

TEST_CASE("replay: a recording belongs to its scope", "[device]") {
  const Mode& mode = testing::replaying_mode();
  Tensor w = ones({2}).set_requires_grad();
  std::vector<Scope> seen;
  Step step([&](const Tensor& x) {
    seen.push_back(current_scope());
    return op::mul(x, w);
  });
  const Tensor x = ones({2});
  const auto four_times = [&](const DeviceOptions& options) {
    const Device device(mode, options);
    for (int i = 0; i < 4; ++i) step(x);
  };
  four_times({.precision = Precision::tf32});
  CHECK(seen.size() == 2);
  four_times({.precision = Precision::strict});
  CHECK(seen.size() == 4);
  CHECK(seen.back().context.precision == Precision::strict);
  four_times({.deterministic = false});
  CHECK(seen.size() == 6);
  CHECK(!seen.back().context.deterministic);
  four_times({.threads = 7});
  CHECK(seen.size() == 8);
  {
    const NoGrad no_grad;
    four_times({.threads = 7});
  }
  CHECK(seen.size() == 10);
  four_times({.precision = Precision::tf32});
  CHECK(seen.size() == 10);
  CHECK(step.replays() == 19);
}

TEST_CASE("replay: recordings are bounded, the one used longest ago goes", "[device]") {
  const Device device(testing::replaying_mode());
  const int before = testing::live_recordings();
  const std::size_t bytes = memory_statistics("replaying").in_use;
  Step step([](const Tensor& x) { return op::mul(x, 2.0); });
  for (int n = 1; n <= 100; ++n) {
    for (int i = 0; i < 3; ++i) step(ones({n, 1024}));
    CHECK(testing::live_recordings() - before == std::min(n, 32));
  }
  CHECK(testing::live_recordings() - before == 32);
  step.keep_recordings(2);
  CHECK(testing::live_recordings() - before == 2);
  const std::int64_t replays = step.replays();
  step(ones({100, 1024}));
  CHECK(step.replays() == replays + 1);
  step(ones({98, 1024}));
  CHECK(step.replays() == replays + 1);
  CHECK_THROWS_AS(step.keep_recordings(0), Error);
  step.reset();
  CHECK(testing::live_recordings() == before);
  CHECK(memory_statistics("replaying").in_use == bytes);
}

TEST_CASE("replay: steps nest", "[device]") {
  const Device device(testing::replaying_mode());
  Tensor rate = full({1}, 0.5), w = ones({2});
  Step inner([&](const Tensor& x) { return op::mul(x, rate); });
  Step outer([&](const Tensor& x) { return op::add(inner(x), w); });
  for (int i = 0; i < 5; ++i) {
    rate.write<float>()[0] = static_cast<float>(i);
    CHECK(outer(ones({2})).values() == Values(2, i + 1));
    CHECK(inner(ones({2})).values() == Values(2, i));
  }
  CHECK(outer.replays() == 4);
  CHECK(inner.replays() == 4);
}

TEST_CASE("replay: a recording that fails leaves everything as it was, says why and runs", "[device]") {
  const Device device(testing::replaying_mode());
  for (const int failures : {0, 1}) {
    Tensor w = ones({8}).set_requires_grad();
    optim::Adam adam({w}, {.learning_rate = 0.1});
    const auto function = [&](const Tensor& x) {
      adam.zero_grad();
      Tensor loss = op::sum(op::dropout(op::mul(w, x), 0.5, true));
      loss.backward();
      adam.step();
      return loss;
    };
    Step step(function);
    manual_seed(9);
    Values seen;
    for (int i = 0; i < 6; ++i) {
      if (i == 1) testing::fail_recordings(failures);
      seen.push_back(step(ones({8})).item());
    }
    append(seen, w);
    seen.push_back(static_cast<double>(default_generator().position()));
    static Values right;
    if (failures == 0) {
      right = seen;
      CHECK(step.unrecorded().empty());
      continue;
    }
    CHECK(seen == right);
    CHECK(step.replays() == 0);
    CHECK_THAT(step.unrecorded(), ContainsSubstring("this recording was to fail"));
    step.reset();
    for (int i = 0; i < 3; ++i) step(ones({8}));
    CHECK(step.replays() > 0);
    CHECK(step.unrecorded().empty());
  }
}

TEST_CASE("replay: what cannot be replayed runs as it stands", "[device]") {
  struct Reads : Weight {
    Tensor call(const Tensor& x) override { return op::mul(x, op::sum(x).item()); }
  };
  struct Keeps : Weight {
    std::vector<Tensor> kept;
    Tensor call(const Tensor& x) override {
      kept.push_back(op::mul(x, 2.0));
      return op::sum(kept.back());
    }
    ~Keeps() override { CHECK(kept.size() >= 5); }
  };
  struct Rebinds : Weight {
    Tensor total = zeros({2});
    Tensor call(const Tensor& x) override {
      total = op::add(total, x);
      return op::mul(total, 1.0);
    }
  };
  struct Swaps : Weight {
    Tensor a = full({2}, 1.0), b = full({2}, 2.0);
    Tensor call(const Tensor& x) override {
      std::swap(a, b);
      return op::sub(op::mul(a, x), b);
    }
  };
  struct Counts : Weight {
    Tensor count = zeros({1});
    Tensor call(const Tensor& x) override {
      count.write<float>()[0] += 1;
      return op::mul(x, 2.0);
    }
    ~Counts() override { CHECK(count.item() >= 5); }
  };
  struct Schedules : Weight {
    optim::Scheduler schedule{sgd, optim::ExponentialLr{.gamma = 0.5}};
    Tensor call(const Tensor& x) override {
      sgd.zero_grad();
      Tensor loss = square_loss(w, x);
      loss.backward();
      sgd.step();
      schedule.step();
      return loss;
    }
  };
  struct Evaluates : Weight {
    nn::Sequential net{nn::Dropout(0.5)};
    Tensor call(const Tensor& x) override {
      net.eval();
      Tensor y = net(x);
      net.train();
      return op::mul(y, 2.0);
    }
  };
  const auto program = [](const Function& call, Weight&) {
    Values seen;
    for (int i = 0; i < 5; ++i) append(seen, call(full({2}, i)));
    return seen;
  };
  for (const Both& found :
       {both(maker<Reads>(), program), both(maker<Keeps>(), program), both(maker<Rebinds>(), program),
        both(maker<Swaps>(), program), both(maker<Counts>(), program), both(maker<Schedules>(), program),
        both(maker<Evaluates>(), program)}) {
    CHECK(found.stepped == found.eager);
    CHECK(!found.unrecorded.empty());
  }
}

TEST_CASE("replay: training, frozen weights and switches are noticed", "[device]") {
  struct Net : Weight {
    nn::Sequential net{nn::Linear(4, 4), nn::Dropout(0.5), nn::Linear(4, 2)};
    Tensor call(const Tensor& x) override {
      net.zero_grad();
      Tensor loss = op::sum(net(x));
      loss.backward();
      return loss;
    }
  };
  const auto make = [] {
    manual_seed(1);
    return std::make_unique<Net>();
  };
  const Both found = both(make, [](const Function& call, Net& made) {
    manual_seed(4);
    Values seen;
    const auto several = [&] {
      for (int i = 0; i < 4; ++i) {
        seen.push_back(call(full({3, 4}, i)).item());
        for (const Tensor& parameter : made.net.parameters()) {
          seen.push_back(parameter.grad().defined());
          if (parameter.grad().defined()) append(seen, parameter.grad());
        }
      }
    };
    several();
    made.net.eval();
    several();
    made.net.train();
    several();
    Tensor first = made.net.parameters()[0];
    first.set_requires_grad(false);
    several();
    first.set_requires_grad();
    several();
    return seen;
  });
  CHECK(found.stepped == found.eager);
  CHECK(found.replays >= 13);
}

TEST_CASE("replay: inputs that share their elements", "[device]") {
  const Device device(testing::replaying_mode());
  for (const bool writes : {false, true}) {
    const auto function = [&](const Tensor& a, const Tensor& b) {
      if (writes) Tensor(a).copy_(op::add(a, 1.0));
      return op::add(a, op::mul(b, 10.0));
    };
    Step step(function);
    Tensor x = tensor<float>({1, 2, 3, 4}, {2, 2}), y = x.clone();
    for (int i = 0; i < 10; ++i) {
      const bool same = i % 2 == 0;
      const Values stepped = step(x, same ? x : x.transpose(0, 1)).values();
      CHECK(stepped == function(y, same ? y : y.transpose(0, 1)).values());
      CHECK(x.values() == y.values());
    }
    CHECK(step.replays() >= 4);
  }
  Tensor w = ones({2});
  const auto adds = [](Tensor& to) {
    return [&to](const Tensor& x) {
      to.copy_(op::add(to, x));
      return op::mul(x, 1.0);
    };
  };
  Step step(adds(w));
  for (int i = 0; i < 4; ++i) step(ones({2}));
  CHECK(step(w).values() == Values{10, 10});
  CHECK_THAT(step.unrecorded(), ContainsSubstring("shares its elements"));
  CHECK(w.values() == Values{10, 10});
}
