// Random training programs, run as they stand in the sequential mode and through Steps that are recorded and replayed:
// they see the same bits, on the replaying mode and on the debug device. TERN_TEST_PROGRAMS is their number, 400 and 64
// where nothing is requested.

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>

#include "device/random_net.hpp"
#include "support/catch.hpp"
#include "support/replaying.hpp"
#include "tern/autograd/tape.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;

namespace {

/// One training program. `values` is what it sees.
class Program {
 public:
  /// As it stands where there is no `steps_on`.
  Program(std::uint64_t number, const Mode* steps_on)
      : dice_(number),
        stepped_(steps_on != nullptr),
        mode_(stepped_ ? *steps_on : mode("sequential")),
        outer_(mode_, {.precision = number % 7 == 3   ? Precision::bf16
                                    : number % 7 == 5 ? Precision::f16
                                                      : Precision::strict}),
        net_(seeded(number), stepped_) {
    parameters_ = net_.parameters();
    spare_ = full({2}, 0.5).set_requires_grad();
    parameters_.push_back(spare_);
    optimizer_ = make_optimizer(dice_, parameters_);
    kind_ = dice_.roll(6);
    zeroes_ = dice_.chance(50);
    updates_ = dice_.chance(50);
    clips_ = dice_.chance(20);
    regularises_ = dice_.chance(20);
    changes_input_ = dice_.chance(10);
    reads_ = dice_.chance(3);
    keeps_ = dice_.chance(3);
    own_generator_ = dice_.chance(10);
    counts_ = dice_.chance(30);
    returns_ = dice_.roll(8);
    micro_batches_ = 1 + dice_.roll(3);
    input_kind_ = dice_.roll(7);
    train_ = callable([this](const Tensor& x, const Tensor& y) { return train(x, y); });
    evaluate_ = callable([this](const Tensor& x, const Tensor&) {
      const NoGrad no_grad;
      return net_(x);
    });
    shrink_ = callable([this](const Tensor& x, const Tensor&) {
      const NoGrad no_grad;
      for (Tensor& one : parameters_) one.copy_(op::mul(one, op::clamp(op::sum(x), 0.5, 0.75)));
      return parameters_[0];
    });
  }

  std::vector<double> values;
  std::int64_t calls = 0, replays = 0;

  void run() {
    const int rounds = 4 + dice_.roll(8);
    for (int round = 0; round < rounds; ++round) {
      const int events = dice_.roll(3);
      for (int i = 0; i < events; ++i) event();
      if (!zeroes_) optimizer_->zero_grad();
      for (int part = 0; part < micro_batches_; ++part) step();
      if (!updates_) optimizer_->step();
    }
    for (const Tensor& tensor : held_) see(tensor);
    for (const Tensor& tensor : parameters_) see(tensor);
    for (const auto& [name, tensor] : net_.state()) see(tensor);
    for (const auto& [name, tensor] : optimizer_->state()) see(tensor);
    see(total_);
    values.push_back(static_cast<double>(default_generator().position()));
    for (const auto& made : steps_) replays += made->replays();
  }

 private:
  using Function = std::function<Tensor(const Tensor&, const Tensor&)>;

  Dice& seeded(std::uint64_t number) {
    manual_seed(number);
    return dice_;
  }
  Function callable(const Function& function) {
    if (!stepped_) return function;
    steps_.push_back(std::make_shared<Step>(function));
    return [made = steps_.back()](const Tensor& x, const Tensor& y) { return (*made)(x, y); };
  }

  void see(const Tensor& tensor) {
    if (!tensor.defined()) return values.push_back(-1234);
    for (const double value : tensor.values()) values.push_back(value);
  }

  Tensor loss_of(const Tensor& prediction, const Tensor& y) const {
    switch (kind_) {
      case 0:
        return op::cross_entropy(prediction, y);
      case 1:
        return op::nll(op::log_softmax(prediction), y);
      case 2:
        return op::mse(prediction, y);
      case 3:
        return op::mae(prediction, y);
      case 4:
        return op::binary_cross_entropy_with_logits(prediction, y);
      default:
        return op::mean(op::hinge(prediction, y, Reduce::none));
    }
  }

  Tensor train(const Tensor& x, const Tensor& y) {
    if (changes_input_) {
      const NoGrad no_grad;
      Tensor(x).copy_(op::mul(x, 0.5));
    }
    if (zeroes_) optimizer_->zero_grad();
    Tensor input = x;
    if (own_generator_) {
      Generator generator(5);
      input = op::dropout(x, 0.25, true, generator);
    }
    const Tensor prediction = net_(input);
    Tensor loss = loss_of(prediction, y);
    if (reads_) loss = op::mul(loss, loss.item() > 1 ? 0.5 : 1.0);
    if (loss.requires_grad()) loss.backward();
    if (regularises_) op::mul(op::sum(op::mul(spare_, spare_)), 0.1).backward();
    if (clips_) optim::clip_grad_norm(parameters_, 1);
    if (updates_) optimizer_->step();
    if (keeps_) kept_.push_back(prediction);
    if (counts_) total_.copy_(op::add(total_, loss.detach()));
    switch (returns_) {
      case 0:
        return prediction;
      case 1:
        return x;
      case 2:
        return spare_.grad();
      case 3:
        return op::cat({op::reshape(loss, {1}), op::reshape(total_, {1})}, 0);
      default:
        return loss;
    }
  }

  Tensor target(std::int64_t count) {
    return kind_ < 2 ? dice_.labels(count, net_.features()) : dice_.numbers({count, net_.features()});
  }

  Tensor next_input(std::int64_t count) {
    const Shape shape = net_.input(count);
    Tensor& known = inputs_[static_cast<std::size_t>(count)];
    switch (input_kind_) {
      case 0:  // the same tensor
      case 1:  // the same, written in between
        if (!known.defined()) known = dice_.numbers(shape);
        if (input_kind_ == 1) known.copy_(dice_.numbers(shape));
        return known;
      case 2:  // a leaf
        return dice_.numbers(shape).set_requires_grad();
      case 3:  // the same leaf
        if (!known.defined()) known = dice_.numbers(shape).set_requires_grad();
        return known;
      case 4: {  // views of several strides
        Shape swapped(shape.begin(), shape.end());
        std::swap(swapped[0], swapped[1]);
        Tensor whole = dice_.numbers(dice_.chance(50) ? swapped : shape);
        return whole.shape() == shape ? whole : whole.transpose(0, 1);
      }
      case 5: {  // a part of a larger tensor
        Shape larger = shape;
        larger[0] += 2;
        if (!known.defined()) known = dice_.numbers(larger);
        const int begin = dice_.roll(3);
        return known.slice(0, begin, begin + count);
      }
      default:
        return dice_.numbers(shape);
    }
  }

  void step() {
    const std::int64_t count = dice_.chance(80) ? 3 : 2;
    Tensor x = next_input(count);
    if (changes_input_ && x.requires_grad()) x = x.detach();
    const Tensor y = target(count);
    const Tensor result = train_(x, y);
    ++calls;
    if (dice_.chance(40)) see(result);
    if (dice_.chance(15)) held_.push_back(result);
    if (dice_.chance(20)) see(x);
    if (dice_.chance(20) && x.requires_grad()) see(x.grad());
    if (dice_.chance(10)) x.zero_grad();
    if (dice_.chance(20))
      see(parameters_[static_cast<std::size_t>(dice_.roll(static_cast<int>(parameters_.size())))].grad());
  }

  // Step::each; as it stands, a call for each row.
  void loop() {
    if (returns_ == 2) return step();  // there may be no gradient
    const std::int64_t steps = 2 + dice_.roll(5), count = 3;
    const auto stacked = [steps](const Tensor& all, bool same) {
      Shape shape{steps, count};
      for (int i = 1; i < all.rank(); ++i) shape.push_back(all.size(i));
      return same ? all.unsqueeze(0).expand(shape) : all.reshape(shape);
    };
    const bool same = !changes_input_ && dice_.chance(30), scheduled = dice_.chance(50);
    const Tensor x = stacked(dice_.numbers(net_.input(same ? count : steps * count)), same);
    const Tensor y = stacked(target(steps * count), false);
    std::vector<double> rates;
    for (std::int64_t i = 0; i < steps; ++i) rates.push_back(0.01 * (1 + dice_.roll(5)));
    if (stepped_) {
      const std::vector<Step::Change> changes =
          scheduled ? optimizer_->rate_changes(rates) : std::vector<Step::Change>{};
      for (const Tensor& result : steps_.front()->run_each({x, y}, changes)) see(result);
    } else {
      for (std::int64_t i = 0; i < steps; ++i) {
        if (scheduled) optimizer_->set_learning_rate(rates[static_cast<std::size_t>(i)]);
        see(train_(x[i], y[i]));
      }
    }
    if (scheduled) optimizer_->set_learning_rate(rates.back());
    see(x);
    calls += steps;
  }

  void evaluate() {
    const Tensor x = next_input(2).detach();
    see(evaluate_(x, x));
  }

  void event() {
    Tensor& one = parameters_[static_cast<std::size_t>(dice_.roll(static_cast<int>(parameters_.size())))];
    switch (dice_.roll(20)) {
      case 0:
        return manual_seed(static_cast<std::uint64_t>(dice_.roll(3)));
      case 1:
        return default_generator().skip(static_cast<std::uint64_t>(dice_.roll(5)));
      case 2:
        return optimizer_->set_learning_rate(0.01 * (1 + dice_.roll(5)));
      case 3:
        return net_.train(!net_.training());
      case 4:
        saved_net_ = copy_of(net_.state());
        saved_optimizer_ = copy_of(optimizer_->state());
        return;
      case 5:
        if (!saved_net_.empty()) net_.load_state(saved_net_);
        return;
      case 6:
        if (!saved_optimizer_.empty()) optimizer_->load_state(saved_optimizer_);
        return;
      case 7:
        one.set_requires_grad(!one.requires_grad());
        spare_.set_requires_grad();
        return;
      case 8:
        return optimizer_->zero_grad();
      case 9:
        held_.push_back(one.grad());
        return;
      case 10:
        return evaluate();
      case 15:
        held_.push_back(shrink_(dice_.numbers({2}), dice_.numbers({1})));
        return;
      case 11: {
        const Device other(mode_, {.threads = 1 + dice_.roll(2), .deterministic = dice_.chance(50)});
        return step();
      }
      case 12:
        if (stepped_) testing::fail_recordings(1);
        return;
      case 13:
        for (const auto& made : steps_) made->keep_recordings(1 + made->replays() % 3);
        return;
      case 14: {
        const std::uint64_t seed = static_cast<std::uint64_t>(dice_.roll(3));
        std::thread([&] {
          const Device own(mode_);
          manual_seed(seed);
          step();
        }).join();
        return;
      }
      case 16:
      case 17:
      case 18:
        return loop();
      default:
        return one.set_grad(dice_.numbers(one.shape()));
    }
  }

  Dice dice_;
  bool stepped_;
  const Mode& mode_;
  Device outer_;
  Net net_;
  std::vector<Tensor> parameters_;
  Tensor spare_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  int kind_, returns_, micro_batches_, input_kind_;
  bool zeroes_, updates_, clips_, regularises_, changes_input_, reads_, keeps_, own_generator_, counts_;
  Function train_, evaluate_, shrink_;
  std::vector<std::shared_ptr<Step>> steps_;
  std::array<Tensor, 4> inputs_;
  Tensor total_ = zeros({});
  std::vector<Tensor> held_, kept_;
  nn::State saved_net_, saved_optimizer_;
};

struct Outcome {
  std::vector<double> values;
  std::string error;
  std::int64_t calls = 0, replays = 0;
};

Outcome run(std::uint64_t number, const Mode* steps_on) {
  Outcome outcome;
  Program program(number, steps_on);
  try {
    program.run();
  } catch (const Error& error) {
    outcome.error = error.what();
  }
  outcome.values = program.values;
  outcome.calls = program.calls;
  outcome.replays = program.replays;
  return outcome;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

/// What became of all programs.
struct Tally {
  const Mode& steps_on;
  std::atomic<std::int64_t> calls{0}, replays{0}, refused{0}, different{0};
  std::mutex mutex = {};
  std::string differences = {};

  void compare(std::uint64_t number) {
    const Outcome eager = run(number, nullptr), stepped = run(number, &steps_on);
    calls += stepped.calls;
    replays += stepped.replays;
    refused += !eager.error.empty();
    if (same_bits(eager.values, stepped.values) && eager.error == stepped.error) return;
    ++different;
    std::size_t at = 0;
    while (at < std::min(eager.values.size(), stepped.values.size()) &&
           same_bits({eager.values[at]}, {stepped.values[at]}))
      ++at;
    const std::lock_guard lock(mutex);
    differences += message("program ", number, " differs from value ", at, " of ", eager.values.size(), " on, errors '",
                           eager.error, "' and '", stepped.error, "'\n");
  }
};

std::uint64_t requested(const char* variable, std::uint64_t otherwise) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

void run_programs(const Mode& steps_on, std::uint64_t otherwise) {
  const std::uint64_t first = requested("TERN_TEST_FIRST_PROGRAM", 0),
                      count = requested("TERN_TEST_PROGRAMS", otherwise);
  Tally tally{steps_on};
  // Every fourth runs while others do.
  for (std::uint64_t number = first; number < first + count && tally.different < 10; number += 8) {
    for (std::uint64_t i = 0; i < 6; ++i) tally.compare(number + i);
    std::thread beside([&] { tally.compare(number + 6); });
    tally.compare(number + 7);
    beside.join();
    testing::fail_recordings(0);
  }
  UNSCOPED_INFO(count << " programs, " << tally.calls << " training calls, " << tally.replays << " replays, "
                      << tally.refused << " programs ended by an error\n"
                      << tally.differences);
  CHECK(tally.different == 0);
  CHECK(tally.replays * 4 > tally.calls);
  CHECK(tally.refused * 20 < static_cast<std::int64_t>(count) + 20);
}

}  // namespace

TEST_CASE("programs: a Step sees the same bits as its function, whatever the program does", "[device]") {
  run_programs(testing::replaying_mode(), 400);
}

TEST_CASE("programs: the debug device finds no fault in a Step, and the same bits", "[device][debug]") {
  run_programs(mode("debug"), 64);
}
