// Random trainings of a Trainer in ranks: interrupted or failed anywhere, and taken up by another number of ranks.
// TERN_TEST_PROGRAMS and TERN_TEST_FIRST_PROGRAM as in rank_programs_test.cpp:
//
//     TERN_TEST_PROGRAMS=10000 tern_test_parallel "trainer programs*"

#include <atomic>

#include "rank_programs.hpp"
#include "support/files.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/training/trainer.hpp"

namespace tern::testing {

using parallel::Group;
using parallel::Layout;
using training::Trainer;
using training::TrainerOptions;

namespace {

data::Dataset examples(std::int64_t count, std::uint64_t seed) {
  Generator generator(seed);
  return {.images = randn({count, 1, 2, 2}, generator),
          .labels = randint(0, 3, {count}, generator),
          .classes = 3,
          .source = "noise"};
}

struct Plan {
  std::uint64_t seed;
  bool split = false, resident = true;
  int optimizer = 0;
  std::int64_t count = 0, batch = 0, steps = 0;  // examples, of a batch, of the whole training
  int first_ranks, last_ranks;
  std::int64_t stops_after = 0;
  int stopping = 0;
  bool fails = false;
  DType weights = DType::float32;
  Precision precision = Precision::strict;
  const char* mode = "vectorized";
  TrainerOptions options = {};

  Plan(std::uint64_t number, int first, int last, bool may_fail) : seed(number), first_ranks(first), last_ranks(last) {
    Draws draws(number + 7);
    split = draws.once_in(3);
    resident = split || draws.once_in(2);
    optimizer = split ? 0 : static_cast<int>(draws.number(0, 2));
    batch = 12;
    count = draws.one_of(std::vector<std::int64_t>{12, 24, 36});
    if (!split && draws.once_in(2)) count += draws.number(1, 5);  // a short last batch
    options.epochs = draws.number(1, 3);
    options.shards = split ? 0 : draws.one_of(std::vector{4, 5, 8});
    options.clip_norm = draws.one_of(std::vector<double>{0, 0.05, 0.5});
    options.average = draws.one_of(std::vector<double>{0, 0.75});
    options.checkpoint_every = draws.one_of(std::vector<std::int64_t>{0, 1, 2});
    options.keep = static_cast<int>(draws.number(1, 3));
    if (draws.once_in(2)) options.schedule = optim::ExponentialLr{0.8};
    options.schedule_by_step = draws.once_in(2);
    if (draws.once_in(2)) {
      options.validation = data::DataLoader(examples(draws.number(5, 17), number + 1), {.batch_size = 7});
      options.patience = draws.number(0, 2);
    }
    steps = options.epochs * ((count + batch - 1) / batch);
    stops_after = draws.number(0, steps);
    stopping = static_cast<int>(draws.number(0, first_ranks - 1));
    fails = may_fail && draws.once_in(4);
    if (draws.once_in(3)) weights = draws.one_of(std::vector{DType::bfloat16, DType::float16});
    if (draws.once_in(3)) precision = weights == DType::float32 && draws.once_in(2) ? Precision::f16 : Precision::bf16;
    if (draws.once_in(2)) mode = "sequential";
    if (draws.once_in(4) && weights == DType::float32)
      options.scaler = optim::GradScalerOptions{.scale = 1024, .interval = 2};
  }
};

class Subject {
 public:
  Subject(const Plan& plan, const Group& group, const std::string& folder)
      : plan_(plan), group_(group), net_(make_net()), optimizer_(make_optimizer()) {
    TrainerOptions options = plan.options;
    options.checkpoints = folder;
    data::LoaderOptions loader{.batch_size = plan.batch, .seed = plan.seed, .resident = plan.resident};
    if (!plan.resident) loader.share = {group.rank(), group.size(), plan.options.shards};
    manual_seed(plan.seed);
    trainer.emplace(
        net_, *optimizer_, data::DataLoader(examples(plan.count, plan.seed), loader),
        [this](const Tensor& x, const Tensor& labels) {
          if (fails && trainer->position().step == plan_.stops_after) throw Planned();
          const Tensor y = net_(x.to(plan_.weights)).to(DType::float32);
          return parallel::ShardLoss{operators::cross_entropy(y, labels), nn::count_right(y, labels)};
        },
        options, group);
  }

  std::string wrong() const {
    Lines lines(net_);
    lines.add(*optimizer_);
    lines.add("generator", static_cast<double>(default_generator().position()));
    lines.add("step", static_cast<double>(trainer->position().step));
    for (const training::EpochResult& epoch : trainer->history()) {
      lines.add(message("loss of epoch ", epoch.epoch), epoch.loss);
      lines.add(message("validation of epoch ", epoch.epoch), epoch.validation_loss.value_or(-1));
    }
    for (const auto& [name, tensor] : trainer->result())  // the whole, in all
      lines.add(message("result ", name), operators::sum(operators::square(tensor.to(DType::float64))).item());
    return lines.difference(group_);
  }

  std::optional<Trainer> trainer = {};
  bool fails = false;

 private:
  nn::Sequential make_net() const {
    Generator generator(plan_.seed);
    nn::Sequential net{nn::Conv2d(1, 3, 1, {}, generator)};
    if (!plan_.split) net.add(nn::BatchNorm2d(3));
    net.add(nn::Flatten());
    if (plan_.split) {
      net.add(parallel::ColumnLinear(group_, 12, 24, {.input = Layout::rows}, generator));
      net.add(nn::Tanh());
      net.add(parallel::RowLinear(group_, 24, 12, {.output = Layout::rows}, generator));
    } else {
      net.add(nn::Linear(12, 12, {}, generator));
      net.add(nn::Tanh());
      net.add(nn::Dropout(0.2));
    }
    net.add(nn::Linear(12, 3, {}, generator));
    net.to(plan_.weights);
    return net;
  }
  std::unique_ptr<optim::Optimizer> make_optimizer() const {
    const std::vector<Tensor> parameters = net_.parameters();
    if (plan_.optimizer == 0)
      return std::make_unique<optim::SGD>(parameters, optim::SgdOptions{.learning_rate = 0.05, .momentum = 0.9});
    if (plan_.optimizer == 1)
      return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.learning_rate = 0.01});
    auto groups = std::make_unique<optim::Groups>();
    groups->add(std::make_unique<optim::SGD>(std::vector{parameters[0]}, optim::SgdOptions{.learning_rate = 0.1}));
    groups->add(std::make_unique<optim::AdamW>(std::vector(parameters.begin() + 1, parameters.end()),
                                               optim::AdamWOptions{.learning_rate = 0.01}));
    return groups;
  }

  const Plan plan_;
  const Group group_;
  nn::Sequential net_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

nn::State copied(nn::State state) {
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  return state;
}

/// All that the training leaves, without an interruption and in one rank.
struct Expected {
  nn::State result, model;
  std::vector<double> losses;
};
Expected expected_of(const Plan& plan) {
  const Device device(plan.mode, {.precision = plan.precision});
  Subject alone(plan, Group(), "");
  alone.trainer->run();
  Expected expected{copied(alone.trainer->result()), copied(alone.trainer->snapshot().part("model.")), {}};
  for (const training::EpochResult& epoch : alone.trainer->history()) expected.losses.push_back(epoch.loss);
  return expected;
}

std::string beside(const Expected& expected, const Plan& plan, const Trainer& trainer) {
  const double most = plan.split ? 2e-3 : 0;
  // Of losses that are nearly the same another one may be the best, and stop it.
  if (plan.split && plan.options.patience > 0) return {};
  if (trainer.history().size() != expected.losses.size()) return message(trainer.history().size(), " epochs");
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    if (!(std::abs(trainer.history()[i].loss - expected.losses[i]) <= most))
      return message("loss ", i, " is ", trainer.history()[i].loss, " for ", expected.losses[i]);
  const std::string wrong = difference(trainer.result(), expected.result, most);
  return wrong.empty() ? difference(trainer.snapshot().part("model."), expected.model, most) : wrong;
}

/// The first part: until some rank stops it or fails.
std::string begin(const Plan& plan, const Group& group, const std::string& folder) {
  const Device device(plan.mode, {.precision = plan.precision});
  Subject subject(plan, group, folder);
  subject.fails = plan.fails && group.rank() == plan.stopping;
  const auto& at = subject.trainer->position();
  const auto stop = [&] { return !plan.fails && group.rank() == plan.stopping && at.step >= plan.stops_after; };
  (void)subject.trainer->run({.stop = stop});
  if (plan.split || group.rank() == 0) (void)subject.trainer->save();
  const std::string wrong = subject.wrong();
  group.barrier();
  return wrong;
}

/// The second part: from the newest checkpoint to the end.
std::string end(const Plan& plan, const Group& group, const std::string& folder, const Expected& expected) {
  const Device device(plan.mode, {.precision = plan.precision});
  Subject subject(plan, group, folder);
  const bool resumed = subject.trainer->resume();
  if (!plan.fails && !resumed && plan.stops_after > 0) return "nothing was resumed";
  group.barrier();
  if (const std::string wrong = subject.wrong(); !wrong.empty()) return "resumed: " + wrong;
  (void)subject.trainer->run();
  if (const std::string wrong = subject.wrong(); !wrong.empty()) return wrong;
  return beside(expected, plan, *subject.trainer);
}

}  // namespace

TEST_CASE("trainer programs: interrupted anywhere and taken up by other ranks, they end alike", "[parallel][ranks]") {
  const std::uint64_t first = asked_of("TERN_TEST_FIRST_PROGRAM", 0),
                      count = asked_of("TERN_TEST_PROGRAMS", under_mpi() ? 10 : 60);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    INFO("TERN_TEST_PROGRAMS=1 TERN_TEST_FIRST_PROGRAM=" << seed);
    if (under_mpi()) {
      check_ranks(0, [&](const Group& group) -> std::string {
        std::optional<TemporaryFolder> own;
        if (group.rank() == 0) own.emplace();
        const std::string folder = group.broadcast(own ? own->path() : std::string()) + "/run";
        const Plan plan(seed, group.size(), group.size(), false);
        std::string wrong = begin(plan, group, folder);
        if (wrong.empty()) wrong = end(plan, group, folder, expected_of(plan));
        group.barrier();
        return wrong;
      });
      continue;
    }
    Draws draws(seed);
    const std::vector<int> counts{1, 2, 3, 4};
    const Plan plan(seed, draws.one_of(counts), draws.one_of(counts), true);
    INFO(plan.first_ranks << " ranks, then " << plan.last_ranks << (plan.split ? ", split layers" : ""));
    const TemporaryFolder folder;
    const Expected expected = expected_of(plan);
    try {
      check_ranks(plan.first_ranks, [&](const Group& group) { return begin(plan, group, folder / "run"); });
    } catch (const Planned&) {
      CHECK(plan.fails);
    }
    check_ranks(plan.last_ranks, [&](const Group& group) { return end(plan, group, folder / "run", expected); });
  }
}

}  // namespace tern::testing
