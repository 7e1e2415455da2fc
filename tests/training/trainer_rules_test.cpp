// What a Trainer does at its edges: modes, options and checkpoints that are seldom met.

#include <cmath>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using training::EpochResult;
using training::Trainer;
using training::TrainerOptions;

namespace {

data::Dataset images(std::int64_t count) {
  Generator generator(8);
  return {.images = randn({count, 1, 4, 4}, generator),
          .labels = randint(0, 3, {count}, generator),
          .classes = 3,
          .source = "noise"};
}

/// A network with a mask, whose draws follow the seed, and what trains it.
struct Masked {
  nn::Sequential net;
  optim::SGD sgd;
  int ranks_of_labels = 0;
  Trainer trainer;
  explicit Masked(const TrainerOptions& options,
                  const data::DataLoader& loader = data::DataLoader(images(16), {.batch_size = 8}))
      : net(make()),
        sgd(net.parameters(), {.learning_rate = 0.1}),
        trainer(
            net, sgd, loader,
            [this](const Tensor& x, const Tensor& labels) {
              ranks_of_labels = labels.rank();
              return parallel::ShardLoss{op::cross_entropy(net(x), labels)};
            },
            options) {}
  std::vector<double> weights() const { return net.parameters()[0].values(); }

 private:
  static nn::Sequential make() {
    Generator generator(1);
    return nn::Sequential{nn::Flatten(), nn::Dropout(0.5), nn::Linear(16, 3, {}, generator)};
  }
};

/// A source that leaves one example out.
class WithHole final : public data::ExampleSource {
 public:
  std::int64_t size() const override { return 12; }
  std::int64_t classes() const override { return 3; }
  Shape shape() const override { return {1, 4, 4}; }
  std::int64_t label(std::int64_t index) const override { return index % 3; }
  std::string name() const override { return "a set with a hole"; }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words&, std::span<float> to) const override {
    std::fill(to.begin(), to.end(), 1.0f);
    return index == 5 ? std::nullopt : std::optional(label(index));
  }
};

}  // namespace

TEST_CASE("trainer: before the first step there is no loss", "[trainer]") {
  Masked training({});
  CHECK(std::isnan(training.trainer.running_loss()));
  training.trainer.run(1);
  CHECK(training.trainer.history().front().loss > 0);
}

TEST_CASE("trainer: pairs of examples are mixed by default", "[trainer]") {
  Masked plain({.epochs = 1}), mixed({.epochs = 1, .augment = {.mix = 0.5}});
  plain.trainer.run();
  mixed.trainer.run();
  CHECK(plain.ranks_of_labels == 1);
  CHECK(mixed.ranks_of_labels == 2);
}

TEST_CASE("trainer: a network that evaluates while it trains does so after a validation", "[trainer]") {
  const data::DataLoader validation(images(8), {.batch_size = 8, .shuffle = false});
  for (const bool training : {false, true}) {
    Masked one({.epochs = 1, .validation = validation});
    one.net.train(training);
    one.trainer.run();
    CHECK(one.net.training() == training);
  }
}

TEST_CASE("trainer: examples that a source leaves out are not augmented as others", "[trainer]") {
  const data::DataLoader loader(std::make_shared<const WithHole>(), {.batch_size = 4});
  Masked plain({.epochs = 1}, loader), augmented({.epochs = 1, .augment = {.mirror = true}}, loader);
  CHECK_NOTHROW(plain.trainer.run());
  std::string said;
  try {
    augmented.trainer.run();
  } catch (const ShapeError& error) {
    said = error.what();
  }
  CHECK_THAT(said, ContainsSubstring("cannot be augmented"));
}

TEST_CASE("trainer: a checkpoint brings its seed with it", "[trainer]") {
  manual_seed(7);
  Masked first({.epochs = 2});
  first.trainer.run(1);
  const io::Checkpoint snapshot = first.trainer.snapshot();
  manual_seed(8);
  Masked second({.epochs = 2});
  second.trainer.restore(snapshot, "here");
  second.trainer.run();
  manual_seed(7);
  default_generator().set_position(snapshot.random_position);
  first.trainer.run();
  CHECK(second.weights() == first.weights());
}

TEST_CASE("trainer: set back, it looks again at what its folder holds", "[trainer]") {
  const TemporaryFolder folder;
  Masked training({.epochs = 3, .checkpoints = folder / "run"});
  training.trainer.run(1);
  const io::Checkpoint snapshot = training.trainer.snapshot();
  training.trainer.run(2);
  training.trainer.restore(snapshot, "here");
  CHECK_THROWS_AS(training.trainer.run(), FileError);
}

TEST_CASE("trainer: losses that are no numbers come back as they were", "[trainer]") {
  const EpochResult before{.epoch = 1,
                           .loss = 2,
                           .validation_loss = NAN,
                           .validation_accuracy = 0.5,
                           .stopping = training::StoppingLoss{NAN, 0.25}};
  const std::vector<EpochResult> after = training::epochs_in(training::table_of({before, {.epoch = 2, .loss = 1}}));
  REQUIRE(after.size() == 2);
  REQUIRE(after[0].validation_loss);
  CHECK(std::isnan(*after[0].validation_loss));
  REQUIRE(after[0].stopping);
  CHECK(std::isnan(after[0].stopping->loss));
  CHECK(after[0].stopping->error == 0.25);
  CHECK_FALSE(after[1].validation_loss);
  CHECK_FALSE(after[1].stopping);
}

}  // namespace tern::testing
