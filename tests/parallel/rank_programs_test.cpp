// Random programs over ranks: data parallel modules, split layers, pipelines and copies of both, with steps of all
// sizes, accumulation, clipping, freezing, averages, checkpoints and failures. TERN_TEST_PROGRAMS is their number, and
// TERN_TEST_FIRST_PROGRAM the first one:
//
//     TERN_TEST_PROGRAMS=10000 tern_test_parallel "rank programs*"
//     TERN_TEST_TRANSPORT=mpi TERN_TEST_PROGRAMS=1000 mpirun -n 3 tern_test_parallel "rank programs*"

#include "rank_programs.hpp"

#include "tern/autograd/tape.hpp"
#include "tern/nn/load.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/parallel/batch_norm.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/parallel/mesh.hpp"
#include "tern/parallel/pipeline.hpp"
#include "two_gpus.hpp"

namespace tern::testing {

using parallel::DataParallel;
using parallel::Group;
using parallel::Layout;
using parallel::Mesh;
using parallel::Pipeline;
using parallel::ShardLoss;

namespace {

enum class Kind { plain, split, split_copies, stages, stage_copies };

/// All that the ranks decide alike.
struct Plan {
  std::uint64_t seed;
  int ranks;
  Kind kind = Kind::plain;
  int shards = 0, micro_batches = 1, optimizer = 0, actions = 0;
  bool joint_norm = false, averages = false;
  int fails_at = -1, failing = 0;  // before which action, in which rank
  bool fails_inside = false;       // in the middle of its backward

  Plan(std::uint64_t number, int count, bool may_fail) : seed(number), ranks(count) {
    Draws draws(number);
    std::vector<Kind> kinds{Kind::plain, Kind::plain, Kind::split, Kind::stages};
    if (count == 2 || count == 4) kinds.insert(kinds.end(), {Kind::split_copies, Kind::stage_copies});
    kind = draws.one_of(kinds);
    shards = kind == Kind::split ? 0 : draws.one_of(std::vector{0, 4, 5, 7});
    micro_batches = static_cast<int>(draws.number(1, 4));
    optimizer = static_cast<int>(draws.number(0, 4));
    actions = static_cast<int>(draws.number(3, 9));
    joint_norm = kind == Kind::plain && shards == 0 && draws.once_in(2);
    averages = draws.once_in(2);
    if (may_fail && draws.once_in(6)) {
      fails_at = static_cast<int>(draws.number(0, actions - 1));
      failing = static_cast<int>(draws.number(0, count - 1));
      fails_inside = draws.once_in(2);
    }
  }

  bool staged() const { return kind == Kind::stages || kind == Kind::stage_copies; }
  bool copied() const { return kind == Kind::split_copies || kind == Kind::stage_copies; }
  /// What the program has in common with the same one of a single rank: all bits, or what a sum in another order is
  /// near to; else nothing, as masks and statistics are of other parts.
  bool same_bits() const { return (kind == Kind::plain && shards > 0) || kind == Kind::stages; }
  bool is_near() const { return optimizer == 0 && (kind == Kind::plain || kind == Kind::split); }
  std::int64_t multiple_of() const {
    return kind == Kind::split ? ranks : kind == Kind::stages || kind == Kind::stage_copies ? micro_batches : 1;
  }
};

/// A rank's net with what trains it.
class Subject {
 public:
  Subject(const Plan& plan, const Group& group)
      : plan_(plan), group_(group), mesh_(group, plan.copied() && group.size() > 1 ? 2 : 1), draws_(plan.seed + 1) {
    manual_seed(plan.seed);
    Generator generator(plan.seed);
    images_ = randn({48, 1, 2, 2}, generator);
    labels_ = randint(0, 3, {48}, generator);
    make();
  }

  /// Empty, or what was wrong.
  std::string run() {
    for (int action = 0; action < plan_.actions; ++action) {
      fails_inside_ = false;
      if (action == plan_.fails_at && group_.rank() == plan_.failing && group_.size() == plan_.ranks) {
        if (!plan_.fails_inside) throw Planned();
        fails_inside_ = true;
      }
      const std::string what = act(draws_.number(0, 9));
      if (fails_inside_) throw Planned();
      Lines lines(net());
      if (optimizer_) lines.add(*optimizer_);
      if (average_) lines.add("average", average_->state());
      for (const auto& [name, value] : figures_) lines.add(name, value);
      lines.add("generator", static_cast<double>(default_generator().position()));
      if (const std::string wrong = lines.difference(group_); !wrong.empty())
        return message("after action ", action, ", ", what, ": ", wrong);
    }
    return {};
  }

  nn::State whole() const { return pipeline_ ? pipeline_->whole_state() : parallel::whole_state(net_); }

 private:
  const nn::Sequential& net() const { return pipeline_ ? pipeline_->stage() : net_; }
  nn::Sequential& net() { return pipeline_ ? pipeline_->stage() : net_; }
  bool splits() const { return plan_.kind == Kind::split || plan_.kind == Kind::split_copies; }

  nn::Sequential make_net() const {
    // Each rank begins with weights of its own where they are made equal.
    const bool own = plan_.kind == Kind::plain;
    Generator generator(plan_.seed + (own ? static_cast<std::uint64_t>(group_.rank()) : 0));
    nn::Sequential net{nn::Conv2d(1, 3, 1, {}, generator)};
    if (plan_.joint_norm)
      net.add(parallel::BatchNorm2d(group_, 3));
    else if (plan_.same_bits())
      net.add(nn::BatchNorm2d(3));
    net.add(nn::Flatten());
    if (splits()) {
      const Group& over = plan_.kind == Kind::split ? group_ : mesh_.model;
      const Layout rows = plan_.kind == Kind::split ? Layout::rows : Layout::whole;
      net.add(parallel::ColumnLinear(over, 12, 24, {.input = rows}, generator));
      net.add(nn::Tanh());
      net.add(parallel::RowLinear(over, 24, 12, {.output = rows}, generator));
    } else {
      net.add(nn::Linear(12, 12, {}, generator));
      net.add(nn::Tanh());
      if (plan_.same_bits()) net.add(nn::Dropout(0.2));
    }
    net.add(nn::Linear(12, 3, {}, generator));
    return net;
  }

  void make() {
    net_ = make_net();
    if (plan_.staged()) pipeline_.emplace(mesh_of_model(), net_, options_of_pipeline());
    if (!plan_.staged())
      ranks_.emplace(plan_.copied() ? mesh_.data : group_, net_, parallel::DataParallelOptions{.shards = plan_.shards});
    else if (plan_.copied())
      ranks_.emplace(mesh_.data, pipeline_->stage());
    optimizer_ = make_optimizer(net().parameters());
    if (plan_.averages) average_.emplace(net(), 0.75);
  }
  const Group& mesh_of_model() const { return plan_.copied() ? mesh_.model : group_; }
  parallel::PipelineOptions options_of_pipeline() const { return {.micro_batches = plan_.micro_batches}; }

  std::unique_ptr<optim::Optimizer> make_optimizer(const std::vector<Tensor>& parameters) const {
    if (parameters.empty()) return nullptr;  // a stage without any
    switch (plan_.optimizer) {
      case 0:
        return std::make_unique<optim::SGD>(parameters, optim::SgdOptions{.learning_rate = 0.05, .momentum = 0.9});
      case 1:
        return std::make_unique<optim::Adam>(parameters, optim::AdamOptions{.learning_rate = 0.01});
      case 2:
        return std::make_unique<optim::RMSprop>(parameters, optim::RMSpropOptions{.learning_rate = 0.01});
      case 3:
        return std::make_unique<optim::Lion>(parameters, optim::LionOptions{.weight_decay = 0.1});
      default: {
        // The first layer, if the stage has it, and the rest.
        const bool first = net().named_parameters()[0].name == "0.weight";
        const auto rest = parameters.begin() + (first ? 2 : 0);
        auto groups = std::make_unique<optim::Groups>();
        if (first)
          groups->add(std::make_unique<optim::SGD>(std::vector(parameters.begin(), rest),
                                                   optim::SgdOptions{.learning_rate = 0.1}));
        if (rest != parameters.end())
          groups->add(std::make_unique<optim::AdamW>(std::vector(rest, parameters.end()),
                                                     optim::AdamWOptions{.learning_rate = 0.01}));
        return groups;
      }
    }
  }

  ShardLoss part(const nn::Module& module, const Tensor& x, std::int64_t begin, std::int64_t end) {
    if (fails_inside_) throw Planned();
    const Tensor y = module(x), labels = labels_.slice(0, begin, end);
    return {operators::cross_entropy(y, labels), nn::count_right(y, labels)};
  }

  ShardLoss backward(std::int64_t first, std::int64_t batch) {
    if (pipeline_) {
      ShardLoss whole = pipeline_->backward(
          batch,
          [&](const data::Rows& rows) {
            if (fails_inside_) throw Planned();
            return images_.slice(0, first + rows.begin, first + rows.end);
          },
          [&](const Tensor& y, const data::Rows& rows) -> ShardLoss {
            if (fails_inside_) throw Planned();
            const Tensor labels = labels_.slice(0, first + rows.begin, first + rows.end);
            return {operators::cross_entropy(y, labels), nn::count_right(y, labels)};
          });
      if (ranks_) ranks_->average();
      return whole;
    }
    return ranks_->backward(batch, [&](const data::Rows& rows) {
      return part(net_, images_.slice(0, first + rows.begin, first + rows.end), first + rows.begin, first + rows.end);
    });
  }

  void train(std::int64_t batch, int times, double clip) {
    if (optimizer_) optimizer_->zero_grad();
    for (int i = 0; i < times; ++i) {
      const ShardLoss whole = backward(draws_.number(0, 48 - batch), batch);
      figures_["loss"] = whole.loss.item();
      figures_["right"] = whole.sums.item();
    }
    if (clip > 0)
      figures_["norm"] =
          (pipeline_ ? pipeline_->clip_grad_norm(clip) : optim::clip_grad_norm(net_.parameters(), clip)).item();
    if (optimizer_) optimizer_->step();
    if (average_) average_->update();
  }

  // Saved, made anew, and loaded.
  void reload() {
    const nn::State state = copied(whole()), averages = average_ ? copied(average_->state()) : nn::State();
    const nn::State moments = optimizer_ ? copied(optimizer_->state()) : nn::State();
    std::map<std::string, bool> takes_gradient;
    for (const nn::NamedTensor& named : net().named_parameters())
      takes_gradient[named.name] = named.tensor.requires_grad();
    const std::uint64_t position = default_generator().position();
    average_.reset();
    ranks_.reset();
    pipeline_.reset();
    make();
    if (pipeline_)
      pipeline_->stage().load_state(state, {.allow_unexpected = true});
    else
      parallel::load_whole_state(net_, state);
    if (optimizer_) optimizer_->load_state(moments);
    if (average_) average_->load_state(averages);
    for (nn::NamedTensor& named : net().named_parameters())
      named.tensor.set_requires_grad(takes_gradient.at(named.name));
    default_generator().set_position(position);
  }
  static nn::State copied(nn::State state) {
    for (auto& [name, tensor] : state) tensor = tensor.clone();
    return state;
  }

  std::string act(std::int64_t action) {
    const std::int64_t multiple = plan_.multiple_of();
    const std::int64_t least = plan_.joint_norm ? plan_.ranks : 1;
    const std::int64_t batch = std::max(least, draws_.number(1, 16 / multiple)) * multiple;
    const double clip = draws_.one_of(std::vector<double>{0, 0, 0.05, 0.5, 1e-3});
    const auto several = static_cast<int>(draws_.number(2, 3));
    const std::string layer = draws_.one_of(std::vector<std::string>{"0.*", "3.*", "4.*", "1.weight"});
    switch (action) {
      case 0:
      case 1:
      case 2:
      case 3:
        train(batch, 1, clip);
        return message("a step on ", batch, " examples, clipped to ", clip);
      case 4:
        train(batch, several, clip);
        return message(several, " gradients of ", batch, " examples, clipped to ", clip);
      case 5: {
        const bool fewer = std::max(least, std::int64_t{1}) * multiple < plan_.ranks;
        train(std::max(least, std::int64_t{1}) * multiple, 1, clip);
        return fewer ? "a step on fewer examples than ranks" : "a step on few examples";
      }
      case 6:
        if (plan_.kind == Kind::stage_copies) return "nothing";
        toggle(layer);
        return message(layer, " frozen or unfrozen");
      case 7:
        reload();
        return "saved and loaded";
      case 8:
        if (average_) {
          average_->swap();
          figures_["averaged"] = evaluated();
          average_->swap();
        }
        return "the averages in place of the weights, and back";
      default:
        if (optimizer_) optimizer_->set_learning_rate(optimizer_->learning_rate() * 0.5);
        return "half the rate";
    }
  }

  // A layer that takes its gradients no more, or again; others go on.
  void toggle(const std::string& pattern) {
    bool found = false, taking = false;
    for (const nn::NamedTensor& named : net().named_parameters())
      if (named.name.starts_with(pattern.substr(0, 2))) {
        found = true;
        taking = named.tensor.requires_grad();
      }
    if (!found) return;
    const std::vector<std::string> patterns{pattern.substr(0, 2) + "*"};
    if (taking)
      (void)nn::freeze(net(), patterns);
    else
      (void)nn::unfreeze(net(), patterns);
  }

  /// Of examples that all look at, in evaluation: alike in all that have the whole net.
  double evaluated() {
    if (pipeline_ || plan_.kind == Kind::split) return 0;
    const NoGrad no_grad;
    net_.eval();
    const double value = operators::sum(net_(images_.slice(0, 0, 8))).item();
    net_.train();
    return value;
  }

  const Plan plan_;
  const Group group_;
  const Mesh mesh_;
  Draws draws_;
  Tensor images_, labels_;
  nn::Sequential net_;
  std::optional<Pipeline> pipeline_;
  std::optional<DataParallel> ranks_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<optim::WeightAverage> average_;
  std::map<std::string, double> figures_;
  bool fails_inside_ = false;
};

/// A program in a rank: what is wrong, also beside the same program of one rank.
std::string run_program(const Plan& plan, const Group& group) {
  Subject subject(plan, group);
  if (const std::string wrong = subject.run(); !wrong.empty()) return wrong;
  const nn::State whole = subject.whole();
  if (plan.fails_at >= 0 || group.rank() != 0 || (!plan.same_bits() && !plan.is_near())) return {};
  Subject alone(plan, Group());
  if (const std::string wrong = alone.run(); !wrong.empty()) return "alone: " + wrong;
  return difference(whole, alone.whole(), plan.same_bits() ? 0 : 2e-3);
}

void run_programs(std::uint64_t count, const std::vector<std::string>& devices) {
  const std::uint64_t first = asked_of("TERN_TEST_FIRST_PROGRAM", 0);
  std::uint64_t failed_as_planned = 0;
  for (std::uint64_t seed = first; seed < first + asked_of("TERN_TEST_PROGRAMS", count); ++seed) {
    std::vector<int> counts = under_mpi() ? std::vector{0} : std::vector{1 + static_cast<int>(seed % 4)};
    if (!devices.empty()) counts = {2};
    INFO("TERN_TEST_PROGRAMS=1 TERN_TEST_FIRST_PROGRAM=" << seed << ", " << counts[0] << " ranks");
    try {
      check_ranks(counts[0], [&](const Group& group) -> std::string {
        std::optional<Device> device;
        if (!devices.empty()) device.emplace(devices[static_cast<std::size_t>(group.rank())]);
        return run_program(Plan(seed, group.size(), !under_mpi() && devices.empty()), group);
      });
    } catch (const Planned&) {
      CHECK(Plan(seed, counts[0], true).fails_at >= 0);
      ++failed_as_planned;
    }
  }
  if (!under_mpi()) UNSCOPED_INFO(failed_as_planned << " programs failed as planned");
}

}  // namespace

TEST_CASE("rank programs: what every rank holds whole has the same bits in every rank", "[parallel][ranks]") {
  run_programs(under_mpi() ? 20 : 300, {});  // processes wait for each other by polling
}

TEST_CASE("rank programs: on two GPUs", "[parallel][cuda]") {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  run_programs(60, {device_name(0), device_name(1)});
}

}  // namespace tern::testing
