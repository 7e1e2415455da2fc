// Rates of groups, in loops too; the first steps of optimisers; norms of any size.

#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "support/replaying.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

namespace {

using Values = std::vector<double>;

struct TwoGroups {
  Tensor body = ones({2}).set_requires_grad(), head = ones({2}).set_requires_grad();
  optim::Groups groups;
  TwoGroups() {
    groups.add(std::make_unique<optim::SGD>(std::vector{body}, optim::SgdOptions{.learning_rate = 0.25}))
        .add(std::make_unique<optim::SGD>(std::vector{head}, optim::SgdOptions{.learning_rate = 2}));
  }
  Tensor step(const Tensor& x) {
    groups.zero_grad();
    const Tensor loss = op::sum((body + head) * x);
    loss.backward();
    groups.step();
    return loss;
  }
};

}  // namespace

TEST_CASE("optim: a group's own rate is saved and loaded", "[optim]") {
  TwoGroups saved, loaded;
  saved.groups.set_learning_rate(0.5);
  saved.groups[1].set_learning_rate(0.01);
  loaded.groups.load_state(saved.groups.state());
  CHECK(loaded.groups.learning_rate() == 0.5);
  CHECK(loaded.groups[0].learning_rate() == 0.125);
  CHECK(loaded.groups[1].learning_rate() == 0.01);
  // The next change of the factor is of all.
  loaded.groups.set_learning_rate(1);
  CHECK(loaded.groups[1].learning_rate() == 2);
  // What optim::ReduceOnPlateau makes of one of them, too.
  optim::ReduceOnPlateau plateau(saved.groups[0], {.factor = 0.5, .patience = 0});
  plateau.step(1);
  plateau.step(1);
  TwoGroups other;
  other.groups.load_state(saved.groups.state());
  CHECK(other.groups[0].learning_rate() == 0.0625);
}

TEST_CASE("optim: entries of a state belong to parameters", "[optim]") {
  TwoGroups two;
  CHECK_FALSE(two.groups.owner_of("learning_rate").defined());
  CHECK_FALSE(two.groups.owner_of("group1.learning_rate").defined());
  CHECK_FALSE(two.groups.owner_of("group1.0.momentum_buffer").defined());
  optim::Adam adam({two.body, two.head}, {});
  CHECK(adam.owner_of("1.exp_avg").is(two.head));
  CHECK(adam.owner_of("0.exp_avg_sq").is(two.body));
  for (const char* const name : {"2.exp_avg", "1.step", "1exp_avg", "exp_avg", ".exp_avg", "x.exp_avg", "1.", ""})
    CHECK_FALSE(adam.owner_of(name).defined());
  optim::Groups groups;
  groups.add(std::make_unique<optim::Adam>(std::vector{two.body, two.head}, optim::AdamOptions{}));
  const Tensor third = ones({3}).set_requires_grad();
  groups.add(std::make_unique<optim::Adam>(std::vector{third}, optim::AdamOptions{}));
  CHECK(groups.owner_of("group0.1.exp_avg").is(two.head));
  CHECK(groups.owner_of("group1.0.exp_avg").is(third));
}

TEST_CASE("optim: a group that is added later takes the factor of the others", "[optim]") {
  Tensor parameter = ones({1}).set_requires_grad();
  optim::Groups groups;
  groups.set_learning_rate(0.5);
  groups.add(std::make_unique<optim::SGD>(std::vector{parameter}, optim::SgdOptions{.learning_rate = 0.25}));
  CHECK(groups[0].learning_rate() == 0.125);
  parameter.set_grad(ones({1}));
  groups.step();
  CHECK(parameter.item() == 1 - 0.125);
}

TEST_CASE("optim: groups' rates in a loop are those of single steps", "[optim]") {
  const Device device(replaying_mode());
  constexpr std::int64_t steps = 6;
  const auto end = [](bool looped) {
    TwoGroups two;
    optim::Scheduler schedule(two.groups, optim::ExponentialLr{0.5});
    Step step([&](const Tensor& x) { return two.step(x); });
    const Tensor x = ones({steps, 2});
    for (int i = 0; i < 2; ++i) {  // recorded
      (void)step(x[0]);
      schedule.step();
    }
    const int before = launched_loops();
    if (looped) {
      (void)step.run_each({x}, schedule.changes(steps));
      CHECK(launched_loops() > before);
    } else {
      for (int i = 0; i < steps; ++i) {
        (void)step(x[i]);
        schedule.step();
      }
    }
    Values all = two.body.values();
    for (const double value : two.head.values()) all.push_back(value);
    return all;
  };
  const Values expected = end(false);
  // sum over i of 0.25 / 2^i, and of 2 / 2^i.
  CHECK(std::abs(expected[0] - (1 - 0.25 * (2 - std::pow(0.5, 7)))) < 1e-6);
  CHECK(std::abs(expected[2] - (1 - 2 * (2 - std::pow(0.5, 7)))) < 1e-6);
  CHECK(end(true) == expected);
}

TEST_CASE("optim: the first step of the composed optimisers, by hand", "[optim]") {
  const auto stepped = [](auto make) {
    Tensor parameter = tensor<double>(Values{1, -2}, {2}).set_requires_grad();
    parameter.set_grad(tensor<double>(Values{0.5, -4}, {2}));
    auto optimizer = make(std::vector{parameter});
    optimizer.step();
    return parameter.values();
  };
  const auto near = [](const Values& found, const Values& expected) {
    return std::abs(found[0] - expected[0]) < 1e-12 && std::abs(found[1] - expected[1]) < 1e-12;
  };
  // s = 0.25 g^2, so g / sqrt(s) = 2 sign(g).
  CHECK(near(stepped([](std::vector<Tensor> all) {
               return optim::RMSprop(std::move(all), {.learning_rate = 0.1, .alpha = 0.75, .epsilon = 0});
             }),
             {0.8, -1.8}));
  // With a momentum the first is the change itself; centred, the variance is s - (0.25 g)^2 = 0.1875 g^2.
  CHECK(near(stepped([](std::vector<Tensor> all) {
               return optim::RMSprop(std::move(all),
                                     {.learning_rate = 0.1, .alpha = 0.75, .epsilon = 0, .momentum = 0.9});
             }),
             {0.8, -1.8}));
  const double centred = 0.1 / std::sqrt(0.1875);
  CHECK(near(stepped([](std::vector<Tensor> all) {
               return optim::RMSprop(std::move(all),
                                     {.learning_rate = 0.1, .alpha = 0.75, .epsilon = 0, .centered = true});
             }),
             {1 - centred, -2 + centred}));
  // The accumulator begins with what the options say: 0.5 / sqrt(0.75 + 0.25), 4 / sqrt(0.75 + 16).
  CHECK(near(stepped([](std::vector<Tensor> all) {
               return optim::Adagrad(std::move(all), {.learning_rate = 0.1, .initial_accumulator = 0.75, .epsilon = 0});
             }),
             {1 - 0.05, -2 + 0.4 / std::sqrt(16.75)}));
  // Lion's first change is the gradient's sign, and the decay of the parameter.
  CHECK(near(stepped([](std::vector<Tensor> all) {
               return optim::Lion(std::move(all), {.learning_rate = 0.1, .weight_decay = 0.5});
             }),
             {1 - 0.1 * (1 + 0.5), -2 + 0.1 * (1 + 1)}));
}

TEST_CASE("optim: what the composed optimisers have after their first step", "[optim]") {
  Tensor parameter = tensor<double>(Values{1, -2}, {2}).set_requires_grad();
  parameter.set_grad(tensor<double>(Values{0.5, -4}, {2}));
  optim::RMSprop rms({parameter}, {.learning_rate = 0, .alpha = 0.75, .momentum = 0.5, .centered = true});
  rms.step();
  CHECK(rms.state().at("0.square_avg").values() == Values{0.0625, 4});
  CHECK(rms.state().at("0.grad_avg").values() == Values{0.125, -1});
  optim::Lion lion({parameter}, {.learning_rate = 0, .beta1 = 0.5, .beta2 = 0.75});
  lion.step();
  CHECK(lion.state().at("0.exp_avg").values() == Values{0.125, -1});
}

TEST_CASE("optim: gradients of any size are clipped", "[optim]") {
  for (const double size : {3e19, 1e30, 3e-24, 1e-3}) {
    CAPTURE(size);
    std::vector<Tensor> parameters{ones({4}), ones({1})};
    parameters[0].set_grad(full({4}, size));
    parameters[1].set_grad(full({1}, 0));
    const Tensor norm = optim::clip_grad_norm(parameters, size);
    CHECK(norm.dtype() == DType::float32);
    CHECK(norm.rank() == 0);
    CHECK(norm.item() == Approx(2 * size));
    if (size < 1e-20) continue;  // 1e-6 is all there is to divide by
    CHECK(parameters[0].grad().values()[3] == Approx(size * size / (2 * size + 1e-6)));
  }
}

TEST_CASE("optim: a rate below the least one is not raised", "[optim]") {
  Tensor parameter = ones({1}).set_requires_grad();
  optim::SGD sgd({parameter}, {.learning_rate = 1e-3});
  optim::ReduceOnPlateau plateau(sgd, {.patience = 0, .minimum = 1e-2});
  for (int i = 0; i < 3; ++i) plateau.step(1);
  CHECK(sgd.learning_rate() == 1e-3);
}

TEST_CASE("optim: a cycle whose peak is its first step", "[optim]") {
  const optim::OneCycleLr at_once{.total = 4, .rise = 0.25};
  CHECK(at_once(0) == 1);
  for (std::int64_t i = 0; i < 6; ++i) CHECK(std::isfinite(at_once(i)));
  CHECK(at_once(1) < 1);
  CHECK(optim::OneCycleLr{.total = 3, .rise = 0.1}(0) <= 1);
}

}  // namespace tern::testing
