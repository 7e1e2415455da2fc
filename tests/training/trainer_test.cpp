// The Trainer: the bits of a loop written by hand, and of one that was stopped anywhere and taken up again.

#include "tern/training/trainer.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <mutex>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/replaying.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

using training::Ended;
using training::EpochResult;
using training::Trainer;
using training::TrainerOptions;

namespace {

using Figures = std::vector<double>;

/// Statistics and dropout, so that buffers and random draws matter.
nn::Sequential make_net() {
  Generator generator(5);
  return nn::Sequential{
      nn::Conv2d{1, 4, 3, {}, generator},     nn::BatchNorm2d{4}, nn::Relu{}, nn::Flatten{}, nn::Dropout{0.2},
      nn::Linear{4 * 4 * 4, 3, {}, generator}};
}

data::Dataset examples(std::int64_t count, std::uint64_t seed = 3) {
  Generator generator(seed);
  const Tensor labels = randint(0, 3, {count}, generator);
  const Tensor images = randn({count, 1, 6, 6}, generator) + labels.to(DType::float32).reshape({count, 1, 1, 1});
  return {.images = images, .labels = labels, .classes = 3, .source = "noise"};
}

data::DataLoader loader_of(std::int64_t count, bool resident = true) {
  return data::DataLoader(examples(count), {.batch_size = 8, .seed = 2, .resident = resident});
}

/// A network with all that trains it.
struct Training {
  nn::Sequential net = make_net();
  optim::Adam adam{net.parameters(), {.learning_rate = 0.01}};
  Trainer trainer;

  explicit Training(const TrainerOptions& options, const data::DataLoader& loader = loader_of(30),
                    const parallel::Group& group = parallel::Group())
      : trainer(
            net, adam, loader,
            [this](const Tensor& x, const Tensor& labels) {
              const Tensor logits = net(x);
              return parallel::ShardLoss(op::cross_entropy(logits, labels), nn::count_right(logits, labels));
            },
            options, group) {
    manual_seed(7);
  }
};

Figures numbers_in(const nn::State& state) {
  Figures numbers;
  for (const auto& [name, tensor] : state) {
    const Figures values = tensor.values();
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return numbers;
}

/// Bit for bit; what differs would be pages of numbers.
bool same(const Figures& a, const Figures& b) { return !a.empty() && a == b; }

Figures figures_of(const std::vector<EpochResult>& history) {
  Figures figures;
  for (const EpochResult& epoch : history)
    figures.insert(figures.end(), {epoch.loss, epoch.accuracy, epoch.validation_loss.value_or(-1),
                                   epoch.validation_accuracy.value_or(-1), epoch.learning_rate, double(epoch.best)});
  return figures;
}

/// All that a training leaves.
Figures left_by(const Training& training) {
  Figures all = figures_of(training.trainer.history());
  for (const nn::State& state : {training.net.state(), training.trainer.result(), training.adam.state()}) {
    const Figures numbers = numbers_in(state);
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  return all;
}

TrainerOptions all_options() {
  return {.epochs = 3,
          .validation = data::DataLoader(examples(20, 4), {.batch_size = 7}),
          .schedule = optim::OneCycleLr{.total = 12},
          .schedule_by_step = true,
          .clip_norm = 0.5,
          .average = 0.9,
          .patience = 2,
          .augment = {.shift = 1, .mirror = true, .mix = 0.4, .seed = 9}};
}

}  // namespace

TEST_CASE("trainer: has the bits of a loop written by hand", "[trainer]") {
  for (const bool resident : {true, false}) {
    CAPTURE(resident);
    Training training({.epochs = 3, .schedule = optim::CosineLr{.total = 3}, .clip_norm = 0.5},
                      loader_of(30, resident));
    REQUIRE(training.trainer.run() == Ended::finished);

    nn::Sequential net = make_net();
    optim::Adam adam{net.parameters(), {.learning_rate = 0.01}};
    optim::Scheduler schedule{adam, optim::CosineLr{.total = 3}};
    const data::DataLoader loader = loader_of(30);
    manual_seed(7);
    Figures losses;
    for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
      double sum = 0;
      for (const data::Batch& batch : loader.epoch(epoch)) {
        const Tensor loss = op::cross_entropy(net(batch.images), batch.labels);
        adam.zero_grad();
        loss.backward();
        optim::clip_grad_norm(net.parameters(), 0.5);
        adam.step();
        sum += loss.item() * double(batch.size);
      }
      losses.push_back(sum / 30);
      schedule.step();
    }
    CHECK(same(numbers_in(training.trainer.result()), numbers_in(net.state())));
    for (std::size_t i = 0; i < 3; ++i) CHECK(training.trainer.history().at(i).loss == losses[i]);
  }
}

TEST_CASE("trainer: learns, keeps the best epoch's weights and stops early", "[trainer]") {
  std::vector<std::string> calls;
  std::vector<Figures> weights;
  Training training({.epochs = 60,
                     .validation = data::DataLoader(examples(60, 4), {.batch_size = 16, .shuffle = false}),
                     .patience = 3},
                    loader_of(60));
  training::Callbacks callbacks;
  callbacks.step = [&](const training::Position& position, const Tensor& loss) {
    CHECK(std::isfinite(loss.item()));
    CHECK(position.batches == 8);
  };
  callbacks.epoch = [&](const EpochResult& result) {
    calls.emplace_back("epoch");
    CHECK(result.epoch == static_cast<std::int64_t>(calls.size()));
    weights.push_back(numbers_in(training.net.state()));
  };
  callbacks.end = [&](Ended ended) {
    calls.emplace_back("end");
    CHECK(ended == Ended::stopped_early);
  };
  REQUIRE(training.trainer.run(callbacks) == Ended::stopped_early);
  const auto& history = training.trainer.history();
  CHECK(calls.size() == history.size() + 1);
  CHECK(calls.back() == "end");
  CHECK(history.size() < 60);
  const EpochResult& kept = training.trainer.kept();
  CHECK(kept.best);
  CHECK(kept.epoch == static_cast<std::int64_t>(history.size()) - 3);
  for (const EpochResult& epoch : history) CHECK(*epoch.validation_loss >= *kept.validation_loss);
  CHECK(*kept.validation_accuracy > 0.6);
  CHECK(same(numbers_in(training.trainer.result()), weights.at(static_cast<std::size_t>(kept.epoch) - 1)));
  CHECK(same(numbers_in(training.net.state()), weights.back()));
  CHECK(training.trainer.over());
  CHECK(training.net.training());
}

TEST_CASE("trainer: stopped after any step and taken up again it has the same bits", "[trainer]") {
  for (const bool resident : {true, false}) {
    Training whole(all_options(), loader_of(30, resident));
    REQUIRE(whole.trainer.run() != Ended::interrupted);
    const Figures expected = left_by(whole);
    for (std::int64_t stop = 0; stop < 12; ++stop) {
      CAPTURE(resident, stop);
      const TemporaryFolder folder;
      TrainerOptions options = all_options();
      options.checkpoints = folder / "run";
      std::int64_t step = 0;
      Training first(options, loader_of(30, resident));
      CHECK_FALSE(first.trainer.resume());
      const Ended ended =
          first.trainer.run({.step = [&](const training::Position& at, const Tensor&) { step = at.step; },
                             .stop = [&] { return step == stop; }});
      if (ended == Ended::interrupted) first.trainer.save();
      manual_seed(99);
      Training second(options, loader_of(30, resident));
      REQUIRE(second.trainer.resume());
      CHECK(second.trainer.position().step == first.trainer.position().step);
      second.trainer.run();
      CHECK(same(left_by(second), expected));
    }
  }
}

TEST_CASE("trainer: examples that are resident, brought and recorded train alike", "[trainer]") {
  const auto in = [](const Mode& mode, bool resident) {
    const Device device(mode);
    Training training(all_options(), loader_of(30, resident));
    training.trainer.run();
    CHECK((live_recordings() > 0) == (&mode == &replaying_mode()));  // clipping and averages are recorded too
    return left_by(training);
  };
  const Mode& sequential = Device("sequential").mode();
  const Figures expected = in(sequential, true);
  CHECK(same(in(sequential, false), expected));
  CHECK(same(in(replaying_mode(), true), expected));
  CHECK(same(in(replaying_mode(), false), expected));
}

TEST_CASE("trainer: the steps of a loop are reported one by one, and a checkpoint ends it", "[trainer]") {
  const Device device(replaying_mode());
  constexpr std::int64_t batches = 11, every = 4;
  const auto loader = [] { return loader_of(8 * batches); };
  struct Log {
    Figures steps = {};
    std::int64_t stop_calls = 0;
    int loops = launched_loops();

    training::Callbacks callbacks(double seconds) {
      const auto tell = [this](const training::Position& at, const Tensor& loss) {
        steps.insert(steps.end(), {double(at.epoch), double(at.batch), double(at.step), loss.item()});
      };
      return {.step = tell, .stop = [this] { return ++stop_calls < 0; }, .loop_seconds = seconds};
    }
    int launched() const { return launched_loops() - loops; }
  };
  const TrainerOptions options = all_options();
  Training one_by_one(options, loader());
  Log expected;
  one_by_one.trainer.run(expected.callbacks(0));
  CHECK(expected.launched() == 0);

  Training looped(options, loader());
  Log log;
  looped.trainer.run(log.callbacks(1e6));
  CHECK(same(log.steps, expected.steps));
  CHECK(same(left_by(looped), left_by(one_by_one)));
  CHECK(log.launched() > 2);
  CHECK(log.stop_calls < expected.stop_calls);

  const TemporaryFolder folder;
  TrainerOptions saving = options;
  saving.checkpoints = folder / "run";
  saving.checkpoint_every = every;
  saving.keep = 100;
  Training saved(saving, loader());
  Log seen;
  saved.trainer.run(seen.callbacks(1e6));
  CHECK(same(left_by(saved), left_by(one_by_one)));
  CHECK(seen.launched() > 2);
  const std::int64_t last = saved.trainer.position().step / every * every;
  manual_seed(99);
  Training resumed(saving, loader());
  REQUIRE(resumed.trainer.resume());
  CHECK(resumed.trainer.position().step == last);
  resumed.trainer.run();
  CHECK(same(left_by(resumed), left_by(one_by_one)));
}

TEST_CASE("trainer: averages are validated and kept, the weights go on by themselves", "[trainer]") {
  Training plain({.epochs = 2});
  plain.trainer.run();
  Training averaged({.epochs = 2, .average = 0.5});
  double validated = 0;
  averaged.trainer.run({.validate = [&](EpochResult& result) {
    validated = averaged.net.parameters()[0].values()[0];
    result.validation_loss = 1;
    return true;
  }});
  CHECK(same(numbers_in(plain.net.state()), numbers_in(averaged.net.state())));
  CHECK_FALSE(same(numbers_in(averaged.trainer.result()), numbers_in(averaged.net.state())));
  CHECK(validated == averaged.trainer.result().at("0.weight").values()[0]);
}

TEST_CASE("trainer: ranks and shards have the same bits", "[trainer]") {
  // Stopped by the last rank at a step, the fourth and last of an epoch also in its validation, and taken up again.
  const auto with = [](int ranks, bool resident, std::int64_t stop) {
    std::mutex mutex;
    std::vector<Figures> left;
    parallel::launch({.ranks = ranks, .limit = std::chrono::seconds(120)}, [&](const parallel::Group& group) {
      data::LoaderOptions options{.batch_size = 8, .seed = 2, .resident = resident};
      if (!resident) options.share = {group.rank(), group.size(), 4};
      TrainerOptions all = all_options();
      all.shards = 4;
      Training training(all, data::DataLoader(examples(30), options), group);
      const auto& at = training.trainer.position();
      const auto stops = [&] { return group.rank() == group.size() - 1 && at.step == stop; };
      if (training.trainer.run({.stop = stops}) != Ended::interrupted) throw Error("not interrupted");
      const Figures interrupted = left_by(training);
      if (training.trainer.run() == Ended::interrupted) throw Error("interrupted");
      const std::lock_guard lock(mutex);
      if (group.rank() == 0) left = {interrupted, left_by(training)};
    });
    return left;
  };
  for (const std::int64_t stop : {4, 6}) {
    const std::vector<Figures> alone = with(1, true, stop);
    REQUIRE(!same(alone[0], alone[1]));
    for (const int ranks : {1, 2, 3, 4})
      for (const bool resident : {true, false}) {
        CAPTURE(stop, ranks, resident);
        const std::vector<Figures> found = with(ranks, resident, stop);
        CHECK(same(found[0], alone[0]));
        CHECK(same(found[1], alone[1]));
      }
  }
}

TEST_CASE("trainer: checkpoints are written when they are due, and those of others refused", "[trainer]") {
  const TemporaryFolder folder;
  TrainerOptions options{.epochs = 2, .checkpoints = folder / "run", .checkpoint_every = 3, .keep = 2};
  Training training(options);
  training.trainer.run();
  CHECK(io::resume_checkpoint(options.checkpoints)->checkpoint.step == 6);
  CHECK(std::distance(std::filesystem::directory_iterator(options.checkpoints), {}) == 2);

  Training other(options, loader_of(29));
  CHECK_THROWS_AS(other.trainer.resume(), FileError);
  const io::Checkpoint snapshot = training.trainer.snapshot();
  const auto refuses = [&](const auto& change) {
    io::Checkpoint changed = snapshot;
    change(changed);
    Training fresh(options);
    const Figures before = left_by(fresh);
    CHECK_THROWS_AS(fresh.trainer.restore(changed, "here"), FileError);
    CHECK(same(left_by(fresh), before));
  };
  refuses([](io::Checkpoint& c) { c.tensors.erase("history"); });
  refuses([](io::Checkpoint& c) { c.tensors["totals"] = zeros({2}, DType::float64); });
  refuses([](io::Checkpoint& c) { c.epoch = 1; });
  refuses([](io::Checkpoint& c) { c.batch = 100; });
  refuses([](io::Checkpoint& c) { c.tensors["model.0.weight"] = zeros({1}); });
  Training without({.epochs = 2});
  CHECK_THROWS_AS(without.trainer.save(), Error);
  CHECK_THROWS_AS(without.trainer.resume(), Error);
}

TEST_CASE("trainer: what cannot be trained is said", "[trainer]") {
  nn::Sequential net = make_net();
  optim::SGD sgd{net.parameters(), {.learning_rate = 0.1}};
  CHECK_THROWS_AS(Trainer(net, sgd, loader_of(30), nullptr), Error);
  const training::Loss loss = [&](const Tensor& x, const Tensor&) { return op::mean(net(x)) * 1e38 * 1e38; };
  CHECK_THROWS_AS(Trainer(net, sgd, loader_of(30), loss, {.patience = -1}), Error);
  Trainer wild(net, sgd, loader_of(30), loss, {.epochs = 2});
  CHECK_THROWS_AS(wild.run(), NumericError);
  CHECK_THROWS_AS(wild.snapshot(), NumericError);
  CHECK(std::isnan(wild.running_accuracy()));
}

TEST_CASE("trainer: Ctrl-C stops it after a step", "[trainer]") {
  Training training({.epochs = 2});
  const training::SignalGuard signals;
  CHECK(training::SignalGuard::received() == 0);
  const Ended ended = training.trainer.run({.step =
                                                [](const training::Position& at, const Tensor&) {
                                                  if (at.step == 3) std::raise(SIGINT);
                                                },
                                            .stop = [] { return training::SignalGuard::received() != 0; }});
  CHECK(ended == Ended::interrupted);
  CHECK(training.trainer.position().step == 3);
  CHECK(training::SignalGuard::received() == SIGINT);
}

TEST_CASE("trainer: an epoch is kept within a standard error of the least loss", "[trainer]") {
  using Losses = std::vector<training::StoppingLoss>;
  const auto worth_keeping = [](const Losses& losses) { return training::worth_keeping(losses); };
  CHECK(worth_keeping(Losses{{1, 0.1}}));
  CHECK(worth_keeping(Losses{{1, 0.1}, {1.09, 0.1}}));
  CHECK_FALSE(worth_keeping(Losses{{1, 0.1}, {1.2, 0.5}}));
  CHECK(worth_keeping(Losses{{1, 0.1}, {1.2, 0.5}, {0.9, 0}}));
  CHECK_FALSE(worth_keeping(Losses{{1, 0.1}, {NAN, 0}}));
  CHECK(worth_keeping(Losses{{NAN, 0}, {3, 0}}));
}

}  // namespace tern::testing
