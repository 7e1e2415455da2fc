// RMSprop, Adagrad and Lion beside their formulas, groups, averages, and the schedules that look at more.

#include <cmath>
#include <numbers>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

using Values = std::vector<double>;

Values gradient(int t, std::size_t n) {
  Values values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(1.3 * static_cast<double>(i + 1) + 2.1 * t);
  return values;
}

struct Reference {
  Values value, squares, momenta, means;
  explicit Reference(const Values& start)
      : value(start), squares(start.size(), 0), momenta(start.size(), 0), means(start.size(), 0) {}
};

const Values start{1, -2, 0.5, 3, -0.25};

/// The parameter after `steps` steps with the gradients above.
template <class Optimizer, class Options>
Values trained(const Options& options, int steps, DType dtype = DType::float64) {
  Tensor parameter = tensor<double>(start, {5}).to(dtype).set_requires_grad();
  Optimizer optimizer({parameter}, options);
  for (int t = 1; t <= steps; ++t) {
    parameter.set_grad(tensor(gradient(t, start.size()), {5}).to(dtype));
    optimizer.step();
  }
  return parameter.values();
}

template <class Step>
Values expected(int steps, Step step) {
  Reference p(start);
  for (int t = 1; t <= steps; ++t)
    for (std::size_t i = 0; i < start.size(); ++i) step(p, i, gradient(t, start.size())[i]);
  return p.value;
}

void check_near(const Values& got, const Values& wanted, double tolerance = 1e-13) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    CHECK(std::abs(got[i] - wanted[i]) <= tolerance * (1 + std::abs(wanted[i])));
}

double rate_after(const optim::Schedule& schedule, std::int64_t position) { return schedule(position); }

}  // namespace

TEST_CASE("optim: RMSprop is torch's", "[optim]") {
  for (const optim::RMSpropOptions& o :
       {optim::RMSpropOptions{}, optim::RMSpropOptions{.alpha = 0.9, .weight_decay = 0.1},
        optim::RMSpropOptions{.momentum = 0.9}, optim::RMSpropOptions{.momentum = 0.5, .centered = true}})
    check_near(trained<optim::RMSprop>(o, 7), expected(7, [&](Reference& p, std::size_t i, double g) {
                 g += o.weight_decay * p.value[i];
                 p.squares[i] = o.alpha * p.squares[i] + (1 - o.alpha) * g * g;
                 double variance = p.squares[i];
                 if (o.centered) {
                   p.means[i] = o.alpha * p.means[i] + (1 - o.alpha) * g;
                   variance -= p.means[i] * p.means[i];
                 }
                 const double change = g / (std::sqrt(variance) + o.epsilon);
                 p.momenta[i] = o.momentum * p.momenta[i] + change;
                 p.value[i] -= o.learning_rate * p.momenta[i];
               }));
  CHECK_THROWS_AS(optim::RMSprop({ones({1}).set_requires_grad()}, {.alpha = 1}), Error);
}

TEST_CASE("optim: Adagrad is torch's", "[optim]") {
  for (const optim::AdagradOptions& o :
       {optim::AdagradOptions{}, optim::AdagradOptions{.weight_decay = 0.2, .initial_accumulator = 0.5}})
    check_near(trained<optim::Adagrad>(o, 5),
               expected(5, [&, sums = Values(5, o.initial_accumulator)](Reference& p, std::size_t i, double g) mutable {
                 g += o.weight_decay * p.value[i];
                 sums[i] += g * g;
                 p.value[i] -= o.learning_rate * g / (std::sqrt(sums[i]) + o.epsilon);
               }));
}

TEST_CASE("optim: Lion is its formula", "[optim]") {
  for (const optim::LionOptions& o :
       {optim::LionOptions{}, optim::LionOptions{.learning_rate = 0.01, .weight_decay = 0.3}})
    check_near(trained<optim::Lion>(o, 6), expected(6, [&](Reference& p, std::size_t i, double g) {
                 const double blend = o.beta1 * p.momenta[i] + (1 - o.beta1) * g;
                 const double sign = blend > 0 ? 1 : blend < 0 ? -1 : 0;
                 p.value[i] -= o.learning_rate * (sign + o.weight_decay * p.value[i]);
                 p.momenta[i] = o.beta2 * p.momenta[i] + (1 - o.beta2) * g;
               }));
}

TEST_CASE("optim: the composed optimisers keep float32 moments of 16-bit parameters and go on from a state",
          "[optim]") {
  Tensor parameter = tensor<double>(start, {5}).to(DType::bfloat16).set_requires_grad();
  optim::RMSprop first({parameter}, {.momentum = 0.9});
  const auto step = [&](optim::Optimizer& optimizer, int t) {
    parameter.set_grad(tensor(gradient(t, start.size()), {5}).to(DType::bfloat16));
    optimizer.step();
  };
  step(first, 1);
  CHECK(first.state().at("0.square_avg").dtype() == DType::float32);
  const Tensor kept = parameter.detach().clone();
  nn::State state;
  for (const auto& [name, tensor] : first.state()) state.emplace(name, tensor.clone());
  step(first, 2);
  const Values wanted = parameter.values();
  {
    const NoGrad no_grad;
    parameter.copy_(kept);
  }
  optim::RMSprop second({parameter}, {.momentum = 0.9});
  second.load_state(state);
  step(second, 2);
  CHECK(parameter.values() == wanted);
}

TEST_CASE("optim: a composed optimiser is replayed with the rate of the moment", "[optim]") {
  const auto train = [](bool recorded) {
    Tensor parameter = tensor<double>(start, {5}).set_requires_grad();
    optim::Lion optimizer({parameter}, {.learning_rate = 0.125});
    const auto once = [&](const Tensor& x) {
      const Tensor loss = operators::sum(parameter * x);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      return loss;
    };
    Step step(once);
    for (int t = 0; t < 4; ++t) {
      const Tensor x = tensor(gradient(t, start.size()), {5});
      recorded ? step(x) : once(x);
      optimizer.set_learning_rate(optimizer.learning_rate() / 2);
    }
    return parameter.values();
  };
  CHECK(train(true) == train(false));
}

TEST_CASE("optim: groups have rates of their own, and a schedule scales all of them", "[optim]") {
  Tensor body = ones({2}).set_requires_grad(), head = ones({2}).set_requires_grad();
  optim::Groups groups;
  groups.add(std::make_unique<optim::SGD>(std::vector{body}, optim::SgdOptions{.learning_rate = 0.25}))
      .add(std::make_unique<optim::SGD>(std::vector{head}, optim::SgdOptions{.learning_rate = 2}));
  CHECK(groups.parameters().size() == 2);
  CHECK(groups.count() == 2);
  optim::Scheduler schedule(groups, optim::ExponentialLr{0.5});
  const auto step = [&] {
    groups.zero_grad();
    operators::sum(body + head).backward();
    groups.step();
  };
  step();
  CHECK(body.values() == Values{0.75, 0.75});
  CHECK(head.values() == Values{-1, -1});
  schedule.step();
  CHECK(groups[1].learning_rate() == 1);
  step();
  CHECK(body.values() == Values{0.625, 0.625});
  CHECK(head.values() == Values{-2, -2});
  const nn::State state = groups.state();
  CHECK(state.contains("group1.learning_rate"));
  groups.set_learning_rate(1);
  groups.load_state(state);
  CHECK(groups.learning_rate() == 0.5);
  CHECK(groups[0].learning_rate() == 0.125);
  CHECK_THROWS_AS(groups.load_state({{"group7.learning_rate", scalar(1.0)}}), Error);
  CHECK_THROWS_AS(groups.add(std::make_unique<optim::SGD>(std::vector{head}, optim::SgdOptions{})), Error);
}

TEST_CASE("optim: the average of the weights", "[optim]") {
  Generator generator(3);
  nn::Linear net(3, 2, {.dtype = DType::float64}, generator);
  const auto values = [&] { return net.weight().values(); };
  Values average = values();
  optim::WeightAverage weights(net, 0.75);
  optim::SGD sgd(net.parameters(), {.learning_rate = 0.5});
  for (int t = 0; t < 3; ++t) {
    sgd.zero_grad();
    operators::sum(operators::square(net(ones({1, 3}, DType::float64)))).backward();
    sgd.step();
    weights.update();
    for (std::size_t i = 0; i < average.size(); ++i) average[i] = 0.75 * average[i] + 0.25 * values()[i];
  }
  const Values last = values();
  weights.swap();
  check_near(values(), average);
  CHECK_THROWS_AS(weights.update(), Error);
  weights.swap();
  CHECK(values() == last);
  check_near(weights.state().at("weight").values(), average);
  optim::WeightAverage other(net);
  other.load_state(weights.state());
  CHECK(other.state().at("bias").values() == weights.state().at("bias").values());
  CHECK_THROWS_AS(optim::WeightAverage(net, 1), Error);
}

TEST_CASE("optim: polynomial and one-cycle schedules", "[optim]") {
  const optim::PolynomialLr polynomial{.total = 10, .power = 2};
  CHECK(rate_after(polynomial, 0) == 1);
  CHECK(rate_after(polynomial, 5) == 0.25);
  CHECK(rate_after(polynomial, 10) == 0);
  CHECK(rate_after(polynomial, 11) == 0);
  // torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=20): the peak is at step 5.
  const optim::OneCycleLr cycle{.total = 20};
  CHECK(std::abs(rate_after(cycle, 0) - 0.04) < 1e-15);
  CHECK(std::abs(rate_after(cycle, 5) - 1) < 1e-15);
  CHECK(std::abs(rate_after(cycle, 1) - (1 + (0.04 - 1) * 0.5 * (1 + std::cos(std::numbers::pi / 5)))) < 1e-15);
  CHECK(std::abs(rate_after(cycle, 12) - (4e-6 + (1 - 4e-6) * 0.5)) < 1e-12);
  CHECK(std::abs(rate_after(cycle, 19) - 4e-6) < 1e-15);
  CHECK(rate_after(cycle, 100) == rate_after(cycle, 19));
  CHECK_THROWS_AS(rate_after(optim::OneCycleLr{.total = 1}, 0), Error);
}

TEST_CASE("optim: the rate falls where a value gets no better", "[optim]") {
  Tensor parameter = ones({1}).set_requires_grad();
  optim::SGD sgd({parameter}, {.learning_rate = 1});
  optim::ReduceOnPlateau plateau(sgd, {.factor = 0.5, .patience = 1, .cooldown = 1, .minimum = 0.2});
  const auto rates = [&](const Values& values) {
    Values seen;
    for (const double value : values) {
      plateau.step(value);
      seen.push_back(sgd.learning_rate());
    }
    return seen;
  };
  // Better; one step is borne, the second lowers; the next one rests; two more lower again; no further than 0.2.
  CHECK(rates({3, 2, 2, 2}) == Values{1, 1, 1, 0.5});
  // Another one goes on from the state of the first.
  const nn::State state = plateau.state();
  plateau = optim::ReduceOnPlateau(sgd, {.factor = 0.5, .patience = 1, .cooldown = 1, .minimum = 0.2});
  plateau.load_state(state);
  CHECK(rates({2, 2, 2}) == Values{0.5, 0.5, 0.25});
  CHECK_THROWS_WITH(plateau.load_state({}), Catch::ContainsSubstring("best"));
  CHECK(rates({2, 1, 1, std::nan("")}) == Values{0.25, 0.25, 0.25, 0.2});
  optim::SGD other({parameter}, {.learning_rate = 1});
  optim::ReduceOnPlateau rising(other, {.patience = 0, .larger_is_better = true});
  rising.step(0.5);
  rising.step(0.6);
  CHECK(other.learning_rate() == 1);
  rising.step(0.6);
  CHECK(other.learning_rate() == 0.1);
  CHECK_THROWS_AS(optim::ReduceOnPlateau(sgd, {.factor = 1}), Error);
}
