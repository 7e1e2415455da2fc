// What a Trainer keeps between its epochs: the best weights, averages, steps, and its folder of checkpoints.

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using training::Ended;
using training::EpochResult;
using training::Trainer;
using training::TrainerOptions;

namespace {

using Values = std::vector<double>;

data::Dataset points(std::int64_t count) {
  Generator generator(8);
  return {.images = randn({count, 3}, generator),
          .labels = randn({count, 1}, generator),
          .classes = data::no_classes,
          .source = "points"};
}

/// A training of a line with its own rate.
struct Line {
  nn::Linear net;
  optim::SGD sgd;
  Trainer trainer;
  explicit Line(const TrainerOptions& options, double rate = 0.1,
                const data::LoaderOptions& loader = {.batch_size = 8, .seed = 2})
      : Line(options, rate, loader, Generator(1)) {}
  Values weights() const { return net.weight().values(); }

 private:
  Line(const TrainerOptions& options, double rate, const data::LoaderOptions& loader, Generator generator)
      : net(3, 1, {}, generator),
        sgd(net.parameters(), {.learning_rate = rate}),
        trainer(
            net, sgd, data::DataLoader(points(20), loader),
            [this](const Tensor& x, const Tensor& y) { return parallel::ShardLoss{op::mse(net(x), y)}; }, options) {}
};

training::Callbacks losses(const Values& all) {
  return {.validate = [all](EpochResult& result) {
    result.validation_loss = all.at(static_cast<std::size_t>(result.epoch) - 1);
    result.stopping = {*result.validation_loss, 0};
    return true;
  }};
}

}  // namespace

TEST_CASE("trainer: taken up after any epoch it keeps the same best weights and stops at the same epoch", "[trainer]") {
  const Values curve{5, 3, 4, 2, 6, 7, 8, 9, 10, 11};
  const TrainerOptions options{.epochs = 10, .patience = 3};
  Line whole(options);
  std::vector<Values> after;
  training::Callbacks callbacks = losses(curve);
  callbacks.epoch = [&](const EpochResult&) { after.push_back(whole.weights()); };
  REQUIRE(whole.trainer.run(callbacks) == Ended::stopped_early);
  REQUIRE(after.size() == 7);
  CHECK(whole.trainer.kept().epoch == 4);
  CHECK(whole.trainer.result().at("weight").values() == after[3]);
  for (std::int64_t epoch = 1; epoch < 7; ++epoch) {
    CAPTURE(epoch);
    Line first(options), second(options);
    first.trainer.run(epoch, losses(curve));
    second.trainer.restore(first.trainer.snapshot(), "here");
    CHECK(second.trainer.result().at("weight").values() == first.trainer.result().at("weight").values());
    CHECK(second.trainer.run(losses(curve)) == Ended::stopped_early);
    CHECK(second.trainer.history().size() == 7);
    CHECK(second.trainer.result().at("weight").values() == after[3]);
    CHECK(second.weights() == after[6]);
  }
}

TEST_CASE("trainer: epochs that nobody judged do not use up the patience", "[trainer]") {
  Line training({.epochs = 6, .patience = 2});
  CHECK(training.trainer.run() == Ended::finished);
  CHECK(training.trainer.history().size() == 6);
  // Judged every second epoch: 3, then 5 and 6 are worse.
  Line seldom({.epochs = 12, .patience = 2});
  const Ended ended = seldom.trainer.run({.validate = [](EpochResult& result) {
    if (result.epoch % 2 == 0) result.stopping = {result.epoch == 2 ? 3.0 : 5.0 + double(result.epoch), 0};
    return true;
  }});
  CHECK(ended == Ended::stopped_early);
  CHECK(seldom.trainer.history().size() == 6);
  CHECK(seldom.trainer.kept().epoch == 2);
}

TEST_CASE("trainer: a training ends once its losses have turned, though each is within its error", "[trainer]") {
  // Means of two are least at epoch 5, and three times as many epochs are the end.
  const auto curve = [](std::int64_t epoch) { return epoch < 4 ? 6.0 - double(epoch) : 2 + 0.05 * double(epoch); };
  const auto epochs = [&](double error, const std::function<double(std::int64_t)>& loss) {
    Line training({.epochs = 40, .patience = 4});
    const Ended ended = training.trainer.run({.validate = [&](EpochResult& result) {
      result.stopping = {loss(result.epoch), error};
      return true;
    }});
    const auto done = static_cast<std::int64_t>(training.trainer.history().size());
    CHECK((ended == Ended::stopped_early) == (done < 40));
    CHECK(training.trainer.kept().epoch == done);
    return done;
  };
  CHECK(epochs(3, curve) == 15);
  // The rise must be more than a tenth of the error, a fall and a flat end are no turn, nor is an early one at once.
  CHECK(epochs(10, curve) == 26);
  CHECK(epochs(100, curve) == 40);
  CHECK(epochs(3, [](std::int64_t epoch) { return 5 - 0.1 * double(epoch); }) == 40);
  CHECK(epochs(3, [](std::int64_t) { return 5.0; }) == 40);
  CHECK(epochs(3, [](std::int64_t epoch) { return 5 + 0.2 * double(epoch); }) == 5);
  CHECK(epochs(3, [&](std::int64_t epoch) { return curve(epoch) + (epoch % 2 == 0 ? 1 : -1); }) == 15);
}

TEST_CASE("trainer: the averages are those of optim::WeightAverage after each step", "[trainer]") {
  Line training({.epochs = 2, .average = 0.75}), by_hand({});
  training.trainer.run();
  optim::WeightAverage average(by_hand.net, 0.75);
  const data::DataLoader loader(points(20), {.batch_size = 8, .seed = 2});
  for (std::int64_t epoch = 0; epoch < 2; ++epoch)
    for (const data::Batch& batch : loader.epoch(epoch)) {
      by_hand.sgd.zero_grad();
      op::mse(by_hand.net(batch.images), batch.labels).backward();
      by_hand.sgd.step();
      average.update();
    }
  CHECK(training.weights() == by_hand.weights());
  CHECK(training.trainer.result().at("weight").values() == average.state().at("weight").values());
  CHECK(training.trainer.snapshot().tensors.at("average.weight").values() == average.state().at("weight").values());
}

TEST_CASE("trainer: results and snapshots are the same inside a validation with averages", "[trainer]") {
  const TemporaryFolder folder;
  Line training({.epochs = 2, .average = 0.75, .checkpoints = folder / "run"});
  nn::State inside, raw;
  io::Checkpoint snapshot;
  const auto validate = [&](EpochResult&) {
    inside = training.trainer.result();
    for (auto& [name, tensor] : inside) tensor = tensor.clone();
    snapshot = training.trainer.snapshot();
    for (auto& [name, tensor] : snapshot.tensors) tensor = tensor.clone();
    CHECK(training.weights() == inside.at("weight").values());  // the averages stay in their place
    return true;
  };
  training.trainer.run({.validate = validate});
  CHECK(inside.at("weight").values() == training.trainer.result().at("weight").values());
  CHECK(snapshot.tensors.at("model.weight").values() == training.weights());
  CHECK(snapshot.tensors.at("average.weight").values() == inside.at("weight").values());
  CHECK(inside.at("weight").values() != training.weights());
}

TEST_CASE("trainer: an epoch's loss weighs whole and short batches by their examples", "[trainer]") {
  for (const bool resident : {true, false}) {
    CAPTURE(resident);
    // 20 examples in batches of 8, 8 and 4; a rate of 0 leaves the weights alone.
    Line training({.epochs = 1}, 0, {.batch_size = 8, .seed = 2, .resident = resident});
    Values steps;
    training.trainer.run(
        {.step = [&](const training::Position&, const Tensor& loss) { steps.push_back(loss.item()); }});
    REQUIRE(steps.size() == 3);
    const double expected = (8 * steps[0] + 8 * steps[1] + 4 * steps[2]) / 20;
    CHECK(training.trainer.history().at(0).loss == Approx(expected).epsilon(1e-12));
    const data::Dataset all = points(20);
    CHECK(training.trainer.history().at(0).loss ==
          Approx(op::mse(training.net(all.images), all.labels).item()).epsilon(1e-5));
  }
}

TEST_CASE("trainer: steps are counted from first_step, and schedules and checkpoints by them", "[trainer]") {
  const TemporaryFolder folder;
  const auto schedule = [](std::int64_t position) { return 1.0 / double(1 + position); };
  const TrainerOptions options{.epochs = 3,
                               .schedule = schedule,
                               .schedule_by_step = true,
                               .checkpoints = folder / "run",
                               .checkpoint_every = 4,
                               .keep = 100,
                               .first_step = 101};
  Line training(options);
  CHECK(training.trainer.position().step == 101);
  CHECK(training.sgd.learning_rate() == 0.1);
  std::vector<std::int64_t> steps;
  Values rates;
  training.trainer.run({.step = [&](const training::Position& at, const Tensor&) {
    steps.push_back(at.step);
    rates.push_back(training.sgd.learning_rate());
  }});
  REQUIRE(steps.size() == 9);
  CHECK(steps.front() == 102);
  CHECK(steps.back() == 110);
  CHECK(rates.front() == 0.1 / 2);
  CHECK(io::checkpoint_steps(folder / "run") == std::vector<std::int64_t>{108, 104});
  Line resumed(options);
  REQUIRE(resumed.trainer.resume());
  CHECK(resumed.trainer.position().step == 108);
  CHECK(resumed.sgd.learning_rate() == 0.1 / 8);
  resumed.trainer.run();
  CHECK(resumed.weights() == training.weights());
}

TEST_CASE("trainer: rates that groups have of their own are resumed beside a schedule", "[trainer]") {
  struct Grouped {
    nn::Sequential net{nn::Linear(3, 2), nn::Linear(2, 1)};
    optim::Groups groups;
    std::optional<Trainer> trainer;
    Grouped() {
      for (const std::size_t i : {0, 1})
        groups.add(std::make_unique<optim::SGD>(net[i].parameters(), optim::SgdOptions{.learning_rate = 0.1}));
      trainer.emplace(
          net, groups, data::DataLoader(points(20), {.batch_size = 8}),
          [this](const Tensor& x, const Tensor& y) { return parallel::ShardLoss{op::mse(net(x), y)}; },
          TrainerOptions{.epochs = 3, .schedule = optim::ExponentialLr{0.5}});
    }
  };
  Grouped first, second;
  first.trainer->run(1);
  first.groups[1].set_learning_rate(0.003);
  second.trainer->restore(first.trainer->snapshot(), "here");
  CHECK(second.groups[0].learning_rate() == 0.05);
  CHECK(second.groups[1].learning_rate() == 0.003);
}

TEST_CASE("trainer: checkpoints of another training in its folder are not passed over in silence", "[trainer]") {
  const TemporaryFolder folder;
  const TrainerOptions options{.epochs = 5, .checkpoints = folder / "run"};
  Line first(options, 0.1);
  first.trainer.run();
  Line second(options, 0.001);
  CHECK_THROWS_WITH(second.trainer.run(2), ContainsSubstring("checkpoint of another training after 15 steps"));
  CHECK(second.trainer.position().step == 0);
  CHECK(io::resume_checkpoint(options.checkpoints)->checkpoint.step == 15);
  // Behind it, or taken up, is no mistake.
  TrainerOptions behind = options;
  behind.first_step = 15;
  Line third(behind, 0.001);
  third.trainer.run(1);
  Line fourth(options, 0.001);
  std::filesystem::remove(io::checkpoint_file(options.checkpoints, 18));
  REQUIRE(fourth.trainer.resume());
  CHECK(fourth.trainer.run() == Ended::finished);
  // One that goes back is overtaken by what it has left.
  Line back(options);
  back.trainer.restore(io::load_checkpoint(io::checkpoint_file(options.checkpoints, 12)), "12");
  CHECK_THROWS_AS(back.trainer.run(), FileError);
}

TEST_CASE("trainer: a loader without a batch is refused", "[trainer]") {
  Line training({.epochs = 2}, 0.1, {.batch_size = 64, .drop_last = true});
  CHECK_THROWS_WITH(training.trainer.run(),
                    ContainsSubstring("the loader has no batch: 20 examples in batches of 64, without the last"));
}

}  // namespace tern::testing
