// A Trainer in several ranks: whole checkpoints of layers that are split, comparisons before the first step, and stops.

#include <array>
#include <mutex>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tern.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::Group;
using parallel::Layout;
using training::Ended;
using training::Trainer;
using training::TrainerOptions;

namespace {

data::Dataset points(std::int64_t count, std::uint64_t seed = 8) {
  Generator generator(seed);
  return {.images = randn({count, 4}, generator),
          .labels = randint(0, 3, {count}, generator),
          .classes = 3,
          .source = "points"};
}

nn::Sequential split_net(const Group& group) {
  Generator generator(3);
  return nn::Sequential{nn::Linear(4, 6, {}, generator), nn::Tanh(),
                        parallel::ColumnLinear(group, 6, 12, {.input = Layout::rows}, generator), nn::Tanh(),
                        parallel::RowLinear(group, 12, 3, {.output = Layout::rows}, generator)};
}

parallel::ShardLoss loss_of(const nn::Module& net, const Tensor& x, const Tensor& labels) {
  const Tensor logits = net(x);
  return {op::cross_entropy(logits, labels), nn::count_right(logits, labels)};
}

std::unique_ptr<optim::Optimizer> optimizer_of(const nn::Sequential& net, bool groups) {
  if (!groups) return std::make_unique<optim::Adam>(net.parameters(), optim::AdamOptions{.learning_rate = 0.02});
  auto all = std::make_unique<optim::Groups>();
  all->add(std::make_unique<optim::SGD>(net[0].parameters(), optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9}));
  std::vector<Tensor> rest = net[2].parameters(), last = net[4].parameters();
  rest.insert(rest.end(), last.begin(), last.end());
  all->add(std::make_unique<optim::Adam>(rest, optim::AdamOptions{.learning_rate = 0.02}));
  return all;
}

/// A training of split layers in all ranks of a group.
struct Split {
  nn::Sequential net;
  std::unique_ptr<optim::Optimizer> optimizer;
  Trainer trainer;
  Split(const Group& group, const TrainerOptions& options, bool groups = false)
      : net(split_net(group)),
        optimizer(optimizer_of(net, groups)),
        trainer(
            net, *optimizer, data::DataLoader(points(24), {.batch_size = 12, .seed = 2, .resident = true}),
            [this](const Tensor& x, const Tensor& labels) { return loss_of(net, x, labels); }, options, group) {}
};

std::string far(const nn::State& found, const nn::State& expected, double most) {
  if (found.size() != expected.size()) return message(found.size(), " tensors for ", expected.size());
  for (const auto& [name, tensor] : found) {
    const auto other = expected.find(name);
    if (other == expected.end()) return name + " is not expected";
    if (tensor.shape() != other->second.shape())
      return message(name, " is ", tensor.shape(), " for ", other->second.shape());
    const std::vector<double> a = tensor.values(), b = other->second.values();
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(std::abs(a[i] - b[i]) <= most)) return message(name, ": ", a[i], " for ", b[i]);
  }
  return {};
}

/// Runs in every rank; what is wrong in one fails the test.
void check(int ranks, const std::function<std::string(const Group& group)>& program) {
  std::mutex mutex;
  std::vector<std::string> wrong;
  parallel::launch({.ranks = ranks, .limit = std::chrono::seconds(60)}, [&](const Group& group) {
    manual_seed(7);
    const std::string said = program(group);
    const std::lock_guard lock(mutex);
    if (!said.empty()) wrong.push_back(message("rank ", group.rank(), ": ", said));
  });
  INFO((wrong.empty() ? std::string() : wrong[0]));
  CHECK(wrong.empty());
}

TrainerOptions split_options(const std::string& folder) {
  return {.epochs = 4,
          .validation = data::DataLoader(points(17, 9), {.batch_size = 7, .shuffle = false}),
          .clip_norm = 0.3,
          .average = 0.5,
          .patience = 3,
          .checkpoints = folder,
          .keep = 100};
}

}  // namespace

TEST_CASE("trainer: checkpoints and results of split layers are the whole model, for any number of ranks",
          "[trainer][parallel]") {
  for (const bool groups : {false, true}) {
    CAPTURE(groups);
    const TemporaryFolder folder;
    // One rank, without an interruption.
    TrainerOptions options = split_options(folder / "one");
    manual_seed(7);
    Split one(Group(), options, groups);
    REQUIRE(one.trainer.run() != Ended::interrupted);
    const nn::State expected = one.trainer.result();
    const io::Checkpoint last = one.trainer.snapshot();
    REQUIRE(one.trainer.history().size() >= 3);
    // As many as 3 ranks, each epoch with another number of them than the one before.
    options = split_options(folder / "several");
    const std::array ranks{2, 3, 1, 2};
    for (std::size_t epoch = 0; epoch < one.trainer.history().size(); ++epoch) {
      CAPTURE(epoch);
      check(ranks[epoch], [&](const Group& group) -> std::string {
        Split training(group, options, groups);
        if (training.trainer.resume() != (epoch > 0)) return "what is resumed is wrong";
        if (epoch > 0) {
          const io::Checkpoint stored = io::resume_checkpoint(options.checkpoints)->checkpoint;
          group.barrier();
          if (const std::string wrong = far(training.trainer.snapshot().tensors, stored.tensors, 0); !wrong.empty())
            return "resumed: " + wrong;
        }
        training.trainer.run(static_cast<std::int64_t>(epoch) + 1);
        const auto &found = training.trainer.history(), &known = one.trainer.history();
        for (std::size_t i = 0; i < found.size(); ++i) {
          if (std::abs(*found[i].validation_loss - *known[i].validation_loss) > 1e-5)
            return message("the loss of epoch ", i + 1, " is ", *found[i].validation_loss, " for ",
                           *known[i].validation_loss);
          if (*found[i].validation_accuracy != *known[i].validation_accuracy) return "the accuracy differs";
        }
        if (epoch + 1 < known.size()) return {};
        if (const std::string wrong = far(training.trainer.result(), expected, 1e-4); !wrong.empty()) return wrong;
        io::Checkpoint snapshot = training.trainer.snapshot(), other = last;
        for (io::Checkpoint* const checkpoint : {&snapshot, &other}) checkpoint->tensors.erase("history");
        return far(snapshot.tensors, other.tensors, 1e-3);
      });
    }
  }
}

TEST_CASE("trainer: copies of split layers are resumed, and one rank of all writes", "[trainer][parallel]") {
  const TemporaryFolder folder;
  const auto make = [&](const parallel::Mesh& mesh, nn::Sequential& net, optim::SGD& sgd) {
    return std::make_unique<Trainer>(
        net, sgd, data::DataLoader(points(24), {.batch_size = 12, .seed = 2, .resident = true}),
        [&](const Tensor& x, const Tensor& labels) { return loss_of(net, x, labels); },
        TrainerOptions{.epochs = 2,
                       .validation = data::DataLoader(points(17, 9), {.batch_size = 5, .shuffle = false}),
                       .checkpoints = folder / "run",
                       .shards = 2},
        mesh.data);
  };
  std::array<nn::State, 2> results;
  for (const bool resumed : {false, true})
    check(4, [&](const Group& group) -> std::string {
      const parallel::Mesh mesh(group, 2);
      Generator generator(3);
      nn::Sequential net{parallel::ColumnLinear(mesh.model, 4, 6, {}, generator), nn::Tanh(),
                         parallel::RowLinear(mesh.model, 6, 3, {}, generator)};
      optim::SGD sgd(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
      const auto trainer = make(mesh, net, sgd);
      if (trainer->resume() != resumed) return "what is resumed is wrong";
      trainer->run(resumed ? 2 : 1);
      const nn::State result = trainer->result();
      if (group.rank() == 0) results[resumed ? 1 : 0] = result;
      return {};
    });
  CHECK(io::resume_checkpoint(folder / "run")->checkpoint.epoch == 2);
  CHECK(results[0].at("0.weight").shape() == Shape{6, 4});
  check(4, [&](const Group& group) -> std::string {
    const parallel::Mesh mesh(group, 2);
    Generator generator(3);
    nn::Sequential net{parallel::ColumnLinear(mesh.model, 4, 6, {}, generator), nn::Tanh(),
                       parallel::RowLinear(mesh.model, 6, 3, {}, generator)};
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
    const auto trainer = make(mesh, net, sgd);
    if (!trainer->resume()) return "nothing was resumed";
    return far(trainer->result(), results[1], 0);
  });
}

TEST_CASE("trainer: a stage of a pipeline is refused", "[trainer][parallel]") {
  std::string said;
  try {
    parallel::launch({.ranks = 2, .limit = std::chrono::seconds(10)}, [&](const Group& group) {
      parallel::Pipeline pipeline(group, nn::Sequential{nn::Linear(4, 6), nn::Linear(6, 3)});
      nn::Sequential& net = pipeline.stage();
      optim::SGD sgd(net.parameters(), {.learning_rate = 0.1});
      const Trainer trainer(
          net, sgd, data::DataLoader(points(24)),
          [&](const Tensor& x, const Tensor& labels) { return loss_of(net, x, labels); }, {}, group);
    });
  } catch (const Error& error) {
    said = error.what();
  }
  CHECK_THAT(said, ContainsSubstring("one stage of a parallel::Pipeline"));
}

namespace {

/// The error of two ranks whose trainings differ as `change` says, before the first step.
struct Change {
  TrainerOptions options = {.epochs = 1, .shards = 2};
  data::LoaderOptions loader = {.batch_size = 8, .seed = 2, .resident = true};
  data::Dataset examples = points(24);
  optim::SgdOptions sgd = {.learning_rate = 0.1};
};
std::string refusal(const std::function<void(Change&)>& change) {
  std::atomic<int> steps{0};
  try {
    parallel::launch({.ranks = 2, .limit = std::chrono::seconds(10)}, [&](const Group& group) {
      manual_seed(7);
      Change own;
      if (group.rank() == 1) change(own);
      Generator generator(1);
      nn::Sequential net{nn::Linear(4, 3, {}, generator)};
      optim::SGD sgd(net.parameters(), own.sgd);
      Trainer trainer(
          net, sgd, data::DataLoader(own.examples, own.loader),
          [&](const Tensor& x, const Tensor& labels) { return loss_of(net, x, labels); }, own.options, group);
      trainer.run({.step = [&](const training::Position&, const Tensor&) { ++steps; }});
    });
  } catch (const ParallelError& error) {
    CHECK(steps == 0);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("trainer: options and data that differ between ranks are found before the first step",
          "[trainer][parallel]") {
  CHECK(refusal([](Change&) {}).empty());
  CHECK_THAT(refusal([](Change& rank) { rank.sgd.learning_rate = 0.2; }), ContainsSubstring("learning rate 0.2"));
  CHECK_THAT(refusal([](Change& rank) { rank.sgd.momentum = 0.9; }), ContainsSubstring("momentum 0.9"));
  CHECK_THAT(refusal([](Change& rank) { rank.options.clip_norm = 1; }), ContainsSubstring("clip_norm 1"));
  CHECK_THAT(refusal([](Change& rank) { rank.options.average = 0.5; }), ContainsSubstring("average 0.5"));
  CHECK_THAT(refusal([](Change& rank) { rank.options.epochs = 2; }), ContainsSubstring("epochs 2"));
  CHECK_THAT(refusal([](Change& rank) { rank.options.patience = 2; }), ContainsSubstring("patience 2"));
  CHECK_THAT(refusal([](Change&) { default_generator().skip(3); }), ContainsSubstring("position 3"));
  CHECK_THAT(refusal([](Change& rank) { rank.options.shards = 4; }), ContainsSubstring("shards 4"));
  CHECK_THAT(refusal([](Change& rank) { rank.options.schedule = optim::StepLr{.step_size = 1}; }),
             ContainsSubstring("schedule by epoch: 1"));
  CHECK_THAT(refusal([](Change& rank) { rank.options.augment.seed = 3; }), ContainsSubstring("seed 3"));
  CHECK_THAT(refusal([](Change& rank) { rank.loader.seed = 3; }), ContainsSubstring("seed 3"));
  CHECK_THAT(refusal([](Change& rank) { rank.loader.batch_size = 6; }), ContainsSubstring("batch size 6"));
  CHECK_THAT(refusal([](Change&) { manual_seed(8); }), ContainsSubstring("random numbers: seed 8"));
  // As many examples, one number is another.
  CHECK_THAT(refusal([](Change& rank) {
               rank.examples.images = rank.examples.images.clone();
               rank.examples.images.write<float>()[50] += 1e-6f;
             }),
             ContainsSubstring("training: 24 examples of 3 classes, fingerprint "));
  CHECK_THAT(refusal([](Change& rank) {
               rank.examples.labels = rank.examples.labels.clone();
               auto labels = rank.examples.labels.write<std::int64_t>();
               labels[5] = (labels[5] + 1) % 3;
             }),
             ContainsSubstring("fingerprint "));
}

TEST_CASE("trainer: ranks with another past, and all ranks of a grid, are compared before the first step",
          "[trainer][parallel]") {
  const auto said = [](int ranks, const std::function<void(const Group&)>& program) -> std::string {
    try {
      parallel::launch({.ranks = ranks, .limit = std::chrono::seconds(10)}, program);
    } catch (const ParallelError& error) {
      return error.what();
    }
    return {};
  };
  CHECK_THAT(said(2,
                  [](const Group& group) {
                    manual_seed(7);
                    Split training(group, {.epochs = 2});
                    training.trainer.run(1);
                    io::Checkpoint snapshot = training.trainer.snapshot();
                    std::vector<training::EpochResult> history = training.trainer.history();
                    history[0].loss += group.rank();
                    snapshot.tensors["history"] = training::table_of(history);
                    training.trainer.restore(snapshot, "here");
                    training.trainer.run();
                  }),
             ContainsSubstring("epoch 1: loss"));
  // Targets that are distinguished from the examples.
  CHECK_THAT(said(2,
                  [](const Group& group) {
                    manual_seed(7);
                    nn::Sequential net{nn::Flatten(), nn::Linear(48, 1)};
                    optim::SGD sgd(net.parameters(), {.learning_rate = 0.1});
                    const auto source = std::make_shared<const data::SyntheticImages>(
                        data::SyntheticImagesOptions{.count = 8, .size = 4, .classes = 2});
                    Trainer trainer(
                        net, sgd, data::DataLoader(source, {.batch_size = 4, .targets = full({2, 1}, group.rank())}),
                        [&](const Tensor& x, const Tensor& y) { return parallel::ShardLoss{op::mse(net(x), y)}; },
                        {.epochs = 1}, group);
                    trainer.run();
                  }),
             ContainsSubstring("fingerprint "));
  // Ranks of one model are alike, those beside them are not.
  CHECK_THAT(said(4,
                  [](const Group& group) {
                    manual_seed(7);
                    const parallel::Mesh mesh(group, 2);
                    nn::Sequential net{parallel::ColumnLinear(mesh.model, 4, 4), parallel::RowLinear(mesh.model, 4, 3)};
                    optim::SGD sgd(net.parameters(), {.learning_rate = 0.1 + mesh.data.rank()});
                    Trainer trainer(
                        net, sgd, data::DataLoader(points(24), {.batch_size = 12}),
                        [&](const Tensor& x, const Tensor& labels) { return loss_of(net, x, labels); }, {.epochs = 1},
                        mesh.data);
                    trainer.run();
                  }),
             ContainsSubstring("learning rate 1.1"));
}

TEST_CASE("trainer: of all ranks that hold parts of a model one alone writes", "[trainer][parallel]") {
  const TemporaryFolder folder;
  const auto place = [&](int rank) { return folder / message("rank", rank); };
  check(4, [&](const Group& group) -> std::string {
    const parallel::Mesh mesh(group, 2);
    Generator generator(3);
    nn::Sequential net{parallel::ColumnLinear(mesh.model, 4, 4, {}, generator),
                       parallel::RowLinear(mesh.model, 4, 3, {}, generator)};
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.1});
    Trainer trainer(
        net, sgd, data::DataLoader(points(24), {.batch_size = 12}),
        [&](const Tensor& x, const Tensor& labels) { return loss_of(net, x, labels); },
        {.epochs = 1, .checkpoints = place(group.rank())}, mesh.data);
    trainer.run();
    return {};
  });
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    CHECK(io::checkpoint_steps(place(rank)).empty() == (rank > 0));
  }
}

TEST_CASE("trainer: any rank stops all, at one step", "[trainer][parallel]") {
  for (const int who : {0, 1, 2}) {
    CAPTURE(who);
    check(3, [&](const Group& group) -> std::string {
      Split training(group, {.epochs = 4});
      const auto& at = training.trainer.position();
      const auto stop = [&] { return group.rank() == who && at.step == 3; };
      if (training.trainer.run({.stop = stop}) != Ended::interrupted) return "not interrupted";
      return at.step == 3 ? std::string() : message("stopped at step ", at.step);
    });
  }
}

TEST_CASE("trainer: a batch that cannot be divided is found before the first step", "[trainer][parallel]") {
  const auto said = [](std::int64_t examples, std::int64_t batch, bool drop_last) {
    std::atomic<int> steps{0};
    try {
      parallel::launch({.ranks = 3, .limit = std::chrono::seconds(10)}, [&](const Group& group) {
        nn::Sequential net = split_net(group);
        optim::SGD sgd(net.parameters(), {.learning_rate = 0.1});
        Trainer trainer(
            net, sgd,
            data::DataLoader(points(examples), {.batch_size = batch, .drop_last = drop_last, .resident = true}),
            [&](const Tensor& x, const Tensor& labels) { return loss_of(net, x, labels); }, {.epochs = 1}, group);
        trainer.run({.step = [&](const training::Position&, const Tensor&) { ++steps; }});
      });
    } catch (const ShapeError& error) {
      CHECK(steps == 0);
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(said(25, 12, false), ContainsSubstring("a batch of 1 examples is not divided equally"));
  CHECK_THAT(said(20, 10, false), ContainsSubstring("a batch of 10 examples is not divided equally"));
  CHECK(said(25, 12, true).empty());
  CHECK_THAT(said(5, 12, true), ContainsSubstring("the loader has no batch: 5 examples in batches of 12"));
}

}  // namespace tern::testing
