// The steps of a loop (Step::each) are those called one by one, in every mode, and where they are one launch.

#include "device/replays.hpp"
#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/nn/nn.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

constexpr std::int64_t steps = 20, batch = 4, examples = steps * batch;

// A net with dropout, trained on batches that it gathers by rows of indices, at the rates of a schedule.
struct Training {
  Generator random{3};
  Tensor images = randn({examples, 6}, random);
  Tensor labels = randint(0, 3, {examples}, random);
  nn::Sequential net{nn::Linear(6, 5, {}, random), nn::Relu(), nn::Dropout(0.25), nn::Linear(5, 3, {}, random)};
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Scheduler> schedule;
  Step step{[this](const Tensor& rows) {
    const Tensor loss = op::cross_entropy(net(op::index_select(images, 0, rows)), op::index_select(labels, 0, rows));
    optimizer->zero_grad();
    loss.backward();
    optimizer->step();
    return loss;
  }};

  explicit Training(bool adam) {
    if (adam) {
      optimizer = std::make_unique<optim::Adam>(net.parameters(), optim::AdamOptions{.learning_rate = 0.01});
    } else {
      auto groups = std::make_unique<optim::Groups>();
      const std::vector<Tensor> all = net.parameters();
      groups->add(std::make_unique<optim::SGD>(std::vector{all[0], all[1]},
                                               optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9}));
      groups->add(std::make_unique<optim::SGD>(std::vector{all[2], all[3]},
                                               optim::SgdOptions{.learning_rate = 0.2, .weight_decay = 0.01}));
      optimizer = std::move(groups);
    }
    schedule = std::make_unique<optim::Scheduler>(*optimizer, optim::CosineLr{.total = 3 * steps, .warmup = 3});
  }

  // Some epochs; `loop` of them in loops of `length` steps.
  Values train(bool loop, std::int64_t length = steps) {
    manual_seed(8);
    Generator shuffle(5);
    Values seen;
    for (int epoch = 0; epoch < 3; ++epoch) {
      const Tensor order = randperm(examples, shuffle).reshape({steps, batch});
      for (std::int64_t at = 0; at < steps; at += length) {
        const Tensor rows = order.slice(0, at, std::min(steps, at + length));
        if (loop) {
          const std::vector<Step::Change> changes = schedule->changes(rows.size(0));
          append(seen, step.run_each({rows}, changes));
          schedule->set_position(schedule->position() + rows.size(0));
        } else {
          for (const Tensor& row : rows) {
            append(seen, step(row));
            schedule->step();
          }
        }
      }
      seen.push_back(optimizer->learning_rate());
    }
    for (const Tensor& parameter : net.parameters()) append(seen, parameter);
    for (const auto& [name, tensor] : optimizer->state()) append(seen, tensor);
    append(seen, op::dropout(ones({16}), 0.5, true));  // the generator stands where it stood
    return seen;
  }
};

}  // namespace

TEST_CASE("loop: a training has the same bits in loops, in every mode", "[device]") {
  std::vector<std::string> names = available_modes();
  for (const std::string& name : {replaying_mode().name, std::string("debug")}) names.push_back(name);
  for (const std::string& name : names)
    for (const bool adam : {false, true}) {
      INFO(name << ", " << (adam ? "Adam" : "groups of SGD"));
      const Device device{name};
      const Values expected = Training(adam).train(false);
      for (const std::int64_t length : {steps, std::int64_t{4}, std::int64_t{1}}) {
        INFO("loops of " << length);
        Training training(adam);
        CHECK(training.train(true, length) == expected);
        CHECK(training.step.unrecorded().empty());
      }
    }
}

TEST_CASE("loop: the steps after the recording are one launch", "[device]") {
  const Device device(replaying_mode());
  Training training(true);
  training.train(true);
  // The first two steps of all are calls: one runs, one is recorded.
  CHECK(training.step.replays() == 3 * steps - 1);
  CHECK(training.step.launches() == 1 + 3);
}

TEST_CASE("loop: inputs that are the same in all steps, several results, and none", "[device]") {
  std::vector<std::string> names = available_modes();
  for (const std::string& name : {replaying_mode().name, std::string("debug")}) names.push_back(name);
  for (const std::string& name : names) {
    INFO(name);
    const Mode* const mode = &tern::mode(name);
    const Device device(*mode);
    Tensor total = zeros({2});
    Step step([&](const Tensor& x, const Tensor& y, const Tensor& z) {
      total.copy_(total + x);
      return op::add(op::mul(x, y), z);
    });
    const Tensor x = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, {6, 2});
    const Tensor y = full({2}, 3.0).unsqueeze(0).expand({6, 2});
    for (int i = 0; i < 3; ++i) {
      const Tensor result = step.each(x, y, x);
      CHECK(result.shape() == Shape{6, 2});
      CHECK(result.values() == op::mul(x, 4.0).values());
      CHECK(total.values() == Values{36.0 * (i + 1), 42.0 * (i + 1)});
    }
    Step silent([&](const Tensor& row) {
      total.copy_(total + row);
      return Tensor();
    });
    total.fill_(0);
    CHECK_FALSE(silent.each(x).defined());
    CHECK_FALSE(silent.each(x).defined());
    CHECK(total.values() == Values{72, 84});
    if (mode->capture != nullptr) CHECK(silent.launches() == 3);
  }
}

TEST_CASE("loop: results that are held stay as they are", "[device]") {
  const Device device(replaying_mode());
  Step step([&](const Tensor& x) { return op::mul(x, 2.0); });
  std::vector<Tensor> held;
  for (int i = 0; i < 5; ++i) {
    held.push_back(step.each(full({4, 3}, i)));
    held.push_back(step(full({3}, i)));
  }
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(held[2 * i].values() == Values(12, 2.0 * static_cast<double>(i)));
    CHECK(held[2 * i + 1].values() == Values(3, 2.0 * static_cast<double>(i)));
  }
}

TEST_CASE("loop: what one launch cannot do is called step by step", "[device]") {
  const auto both = [](const Function& function, const Tensor& rows) {
    const Device device(replaying_mode());
    Values one_by_one, looped;
    Step step(function), loop(function);
    for (int i = 0; i < 4; ++i) {
      const Tensor mine = rows.clone(), other = rows.clone();
      for (const Tensor& row : mine) append(one_by_one, step(row));
      append(one_by_one, mine);
      append(looped, loop.each(other));
      append(looped, other);
    }
    CHECK(looped == one_by_one);
    CHECK(loop.launches() == loop.replays());
    CHECK(loop.replays() > 0);
  };
  const Tensor rows = tensor<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {5, 2});
  SECTION("the input is changed") {
    both(
        [](const Tensor& x) {
          Tensor changed = x;
          changed.copy_(op::mul(x, 2.0));
          return op::sum(x);
        },
        rows);
  }
  SECTION("the result is the input") {
    both([](const Tensor& x) { return x; }, rows);
  }
  SECTION("gradients add up") {
    Weight one, other;
    const Device device(replaying_mode());
    Step step([&](const Tensor&x) { return one.call(x); }), loop([&](const Tensor&x) { return other.call(x); });
    for (int i = 0; i < 3; ++i) {
      for (const Tensor& row : rows) step(row);
      loop.each(rows);
      CHECK(one.w.grad().values() == other.w.grad().values());
    }
  }
  SECTION("what changes is an input too") {
    const Device device(replaying_mode());
    Tensor rate = ones({1});
    Step step([](const Tensor& x, const Tensor& y) { return op::mul(x, y); });
    for (int i = 0; i < 3; ++i) {
      const Tensor same = rate.unsqueeze(0).expand({5, 1}), rates = tensor<float>({1, 2, 3, 4, 5}, {5, 1});
      CHECK(step.run_each({rows, same}, {{rate, rates}}).values() == op::mul(rows, rates).values());
    }
  }
  SECTION("rows that do not lie together") {
    const Device device(replaying_mode());
    Step step([](const Tensor& x) { return op::mul(x, 3.0); });
    const Tensor columns = rows.transpose(0, 1);
    for (int i = 0; i < 3; ++i) CHECK(step.each(columns).values() == op::mul(columns, 3.0).values());
    CHECK(step.launches() == step.replays());
  }
}

TEST_CASE("loop: says what it cannot go over", "[device]") {
  Step step([](const Tensor& x, const Tensor& y) { return op::add(x, y); });
  CHECK_THROWS_AS(step.each(ones({3, 2}), ones({2, 2})), ShapeError);
  CHECK_THROWS_AS(step.each(ones({0, 2}), ones({0, 2})), ShapeError);
  CHECK_THROWS_AS(step.each(scalar(1.0), scalar(1.0)), ShapeError);
  CHECK_THROWS_AS(step.each(ones({3, 2}).set_requires_grad(), ones({3, 2})), AutogradError);
  CHECK_THROWS_AS(step.run_each({ones({3, 2}), ones({3, 2})}, {{ones({2}), ones({4, 2})}}), ShapeError);
  CHECK_THROWS_AS(step.run_each({ones({3, 2}), ones({3, 2})}, {{ones({2}), ones({3, 2}, DType::float64)}}), DTypeError);
  CHECK_THROWS_AS(step.run_each({ones({3, 2})}), Error);
  int calls = 0;
  Step grows([&](const Tensor&) { return ones({++calls}); });
  CHECK_THROWS_AS(grows.each(ones({2, 2})), ShapeError);
}
