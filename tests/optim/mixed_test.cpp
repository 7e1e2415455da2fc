// Mixed precision: float32 masters of 16-bit weights, and the scale of the loss.

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

/// One step with this gradient.
void step_with(Tensor& weight, double gradient, optim::MasterWeights& masters, optim::Optimizer& optimizer) {
  weight.set_grad(full(weight.shape(), gradient, weight.dtype()));
  masters.load_gradients();
  optimizer.step();
  masters.store();
}

}  // namespace

TEST_CASE("mixed: masters add up what a 16-bit weight would lose", "[optim][mixed]") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    Tensor alone = ones({3}, dtype).set_requires_grad(), weight = ones({3}, dtype).set_requires_grad();
    optim::MasterWeights masters{{weight}};
    CHECK(masters.parameters()[0].dtype() == DType::float32);
    optim::SGD plain{{alone}, {.learning_rate = 0x1p-13}}, sgd{masters.parameters(), {.learning_rate = 0x1p-13}};
    for (int i = 0; i < 1024; ++i) {
      alone.set_grad(ones({3}, dtype));
      plain.step();
      step_with(weight, 1, masters, sgd);
    }
    CHECK(alone.values()[0] == 1);
    CHECK(masters.parameters()[0].values()[0] == 1 - 0x1p-3);
    CHECK(weight.values()[0] == 1 - 0x1p-3);
  }
}

TEST_CASE("mixed: other weights are their own masters", "[optim][mixed]") {
  Tensor weight = ones({2}).set_requires_grad();
  optim::MasterWeights masters{{weight}};
  CHECK(masters.parameters()[0].is(weight));
  optim::SGD sgd{masters.parameters(), {.learning_rate = 0.5}};
  step_with(weight, 1, masters, sgd);
  CHECK(weight.values()[0] == 0.5);
}

TEST_CASE("mixed: a step that is not finite changes the scale alone", "[optim][mixed]") {
  for (const bool adam : {false, true}) {
    Tensor weight = ones({4}, DType::float16).set_requires_grad();
    optim::MasterWeights masters{{weight}};
    const auto optimizer = [&]() -> std::unique_ptr<optim::Optimizer> {
      if (adam) return std::make_unique<optim::Adam>(masters.parameters(), optim::AdamOptions{.learning_rate = 0.1});
      return std::make_unique<optim::SGD>(masters.parameters(),
                                          optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9});
    }();
    optim::GradScaler scaler{{.scale = 1024, .interval = 2}};
    const auto step = [&](double gradient) {
      weight.set_grad(full({4}, gradient, DType::float16));
      scaler.step(masters, *optimizer);
    };
    const double infinite = std::numeric_limits<double>::infinity();
    step(infinite);  // the first step of all
    CHECK(weight.values()[0] == 1);
    CHECK(scaler.value() == 512);
    for (const auto& [name, tensor] : optimizer->state())
      if (name != "learning_rate") CHECK(tensor.values()[0] == 0);
    step(512);  // a gradient of 1
    const std::vector<double> moved = masters.parameters()[0].values();
    CHECK(moved[0] == Approx(0.9).margin(1e-4));
    std::map<std::string, std::vector<double>> state;
    for (const auto& [name, tensor] : optimizer->state()) state[name] = tensor.values();
    step(-infinite);
    step(std::numeric_limits<double>::quiet_NaN());
    CHECK(masters.parameters()[0].values() == moved);
    for (const auto& [name, tensor] : optimizer->state()) CHECK(tensor.values() == state.at(name));
    CHECK(scaler.value() == 128);
    step(128);
    step(128);
    CHECK(scaler.value() == 256);
    CHECK(masters.parameters()[0].values()[0] < moved[0]);
  }
}

namespace {

/// Hides that steps of the other can depend on a tensor: they are taken back instead.
class Plain final : public optim::Optimizer {
 public:
  explicit Plain(std::unique_ptr<optim::Optimizer> other) : Optimizer("Plain"), other_(std::move(other)) {
    take_over(*other_);
  }
  void step() override { other_->step(); }
  nn::State state() const override { return other_->state(); }

 private:
  std::unique_ptr<optim::Optimizer> other_;
};

/// The masters and the optimiser's tensors after steps some of which do not apply.
std::vector<std::vector<double>> after_steps(int kind, bool conditional, const std::vector<double>& gradients) {
  std::vector<Tensor> weights;
  for (const Shape& shape : {Shape{37}, Shape{3, 1000}, Shape{1}})
    weights.push_back(ones(shape, DType::float16).set_requires_grad());
  optim::MasterWeights masters{weights};
  const auto sgd = [](const std::vector<Tensor>& parameters, double dampening) -> std::unique_ptr<optim::Optimizer> {
    return std::make_unique<optim::SGD>(
        parameters,
        optim::SgdOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = dampening, .weight_decay = 0.01});
  };
  const auto make = [&]() -> std::unique_ptr<optim::Optimizer> {
    const std::vector<Tensor> all = masters.parameters();
    if (kind == 0) return sgd(all, 0);
    if (kind == 1) return sgd(all, 0.5);
    if (kind == 2) return std::make_unique<optim::SGD>(all, optim::SgdOptions{.learning_rate = 0.1});
    if (kind == 3) return std::make_unique<optim::AdamW>(all, optim::AdamWOptions{.learning_rate = 0.1});
    auto groups = std::make_unique<optim::Groups>();
    groups->add(sgd({all[0]}, 0)).add(std::make_unique<optim::Adam>(std::vector{all[1], all[2]}, optim::AdamOptions{}));
    return groups;
  };
  std::unique_ptr<optim::Optimizer> optimizer = make();
  CHECK(optimizer->conditional());
  if (!conditional) optimizer = std::make_unique<Plain>(std::move(optimizer));
  CHECK(optimizer->conditional() == conditional);
  optim::GradScaler scaler{{.scale = 8}};
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    for (std::size_t k = 0; k < weights.size(); ++k)
      if (k != 0 || i != 1)
        weights[k].set_grad(full(weights[k].shape(), gradients[i] + 0.25 * static_cast<double>(k), DType::float16));
    scaler.step(masters, *optimizer);
    for (Tensor& weight : weights) weight.zero_grad();
  }
  std::vector<std::vector<double>> all;
  for (const Tensor& master : masters.parameters()) all.push_back(master.values());
  for (const auto& [name, tensor] : optimizer->state()) all.push_back(tensor.values());
  return all;
}

}  // namespace

TEST_CASE("mixed: a step that the device decides about has the bits of one that is taken back", "[optim][mixed]") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const ModeStatus& mode : modes()) {
    if (!mode.available) continue;
    const std::string& name = mode.name;
    const Device device{name};
    for (int kind = 0; kind < 5; ++kind)
      for (const std::vector<double>& gradients : {std::vector{nan, 1.0, 2.0, HUGE_VAL, 3.0}, {0.5, nan, nan, -1.0}}) {
        INFO(name << ' ' << kind);
        CHECK(after_steps(kind, true, gradients) == after_steps(kind, false, gradients));
      }
  }
  optim::RMSprop other{{ones({2}).set_requires_grad()}};
  CHECK_THROWS_AS(other.step_if(ones({}, DType::boolean)), Error);
}

TEST_CASE("mixed: the scale scales the loss and is saved", "[optim][mixed]") {
  optim::GradScaler scaler{{.scale = 8}}, other;
  CHECK(scaler.scale(scalar(2.0f)).item() == 16);
  other.load_state(scaler.state());
  CHECK(other.value() == 8);
  CHECK_THROWS_AS(optim::GradScaler({.backoff = 1.5}), Error);
  CHECK_THROWS_AS(optim::GradScaler({.interval = 0}), Error);
}

namespace {

/// A step with a scaled loss; all of it outlives the step.
Step scaled_step(nn::Module& net, optim::MasterWeights& masters, optim::SGD& sgd, optim::GradScaler& scaler) {
  return Step([&](const Tensor& x, const Tensor& targets) {
    const Tensor loss = op::cross_entropy(net(x), targets);
    net.zero_grad();
    scaler.scale(loss).backward();
    scaler.step(masters, sgd);
    return loss;
  });
}

}  // namespace

TEST_CASE("mixed: a small network learns in 16 bits", "[optim][mixed]") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    Generator generator{7};
    nn::Sequential net{nn::Linear{8, 32, {}, generator}, nn::Relu{}, nn::Linear{32, 4, {}, generator}};
    const Tensor labels = randint(0, 4, {64}, generator);
    const Tensor x = (randn({64, 8}, generator) + op::one_hot(labels, 8) * 4.0).to(dtype);
    net.to(dtype);
    optim::MasterWeights masters{net.parameters()};
    optim::SGD sgd{masters.parameters(), {.learning_rate = 0.1, .momentum = 0.9}};
    optim::GradScaler scaler;
    Step step = scaled_step(net, masters, sgd, scaler);
    const double first = step(x, labels).item();
    double last = first;
    for (int i = 0; i < 40; ++i) last = step(x, labels).item();
    CHECK(last < 0.1 * first);
  }
}

TEST_CASE("mixed: a step with a scaled loss is recorded", "[optim][mixed]") {
  const Device device("debug");
  Generator generator{7};
  nn::Linear net{8, 4, {}, generator};
  optim::MasterWeights masters{net.parameters()};
  optim::SGD sgd{masters.parameters(), {.learning_rate = 0.1, .momentum = 0.9}};
  optim::GradScaler scaler;
  const Tensor x = randn({16, 8}, generator), labels = randint(0, 4, {16}, generator);
  Step step = scaled_step(net, masters, sgd, scaler);
  for (int i = 0; i < 4; ++i) step(x, labels);
  INFO(step.unrecorded());
  CHECK(step.replays() > 0);
}

TEST_CASE("mixed: the scale never becomes infinite, from where it would not come back", "[optim][mixed]") {
  for (const optim::GradScalerOptions& options :
       {optim::GradScalerOptions{.scale = HUGE_VAL}, {.scale = 1e39}, {.scale = std::nan("")}, {.growth = HUGE_VAL}})
    CHECK_THROWS_AS(optim::GradScaler(options), Error);
  Tensor weight = ones({2}).set_requires_grad();
  optim::MasterWeights masters{{weight}};
  optim::SGD sgd{masters.parameters(), {.learning_rate = 0.1}};
  optim::GradScaler scaler{{.scale = 0x1p126, .interval = 1}};
  for (int i = 0; i < 4; ++i) {
    weight.set_grad(zeros({2}));
    scaler.step(masters, sgd);
  }
  CHECK(scaler.value() == 0x1p127);
}

TEST_CASE("mixed: masters take up weights that somebody has changed, and keep what rounding hides", "[optim][mixed]") {
  const NoGrad no_grad;
  nn::Linear net{2, 2, {.bias = false, .dtype = DType::bfloat16}};
  Tensor weight = net.parameters()[0];
  weight.copy_(ones({2, 2}, DType::bfloat16));
  optim::MasterWeights masters{net.parameters()};
  optim::SGD sgd{masters.parameters(), {.learning_rate = 0x1p-12}};
  for (int i = 0; i < 3; ++i) step_with(weight, 1, masters, sgd);  // the master moves, the weight does not
  CHECK(weight.values()[0] == 1);
  // A checkpoint is loaded, in which one element differs.
  nn::State state = net.state();
  state["weight"] = tensor<float>({1, 5, 1, 1}, {2, 2}).to(DType::bfloat16);
  net.load_state(state);
  step_with(weight, 0, masters, sgd);
  CHECK(masters.parameters()[0].values() == std::vector<double>{1 - 3 * 0x1p-12, 5, 1 - 3 * 0x1p-12, 1 - 3 * 0x1p-12});
  CHECK(weight.values() == std::vector<double>{1, 5, 1, 1});
  // What is frozen stays, also by hand, and goes on from there.
  weight.set_requires_grad(false);
  weight.fill_(3);
  weight.zero_grad();
  masters.load_gradients();
  sgd.step();
  masters.store();
  CHECK(weight.values()[0] == 3);
  weight.set_requires_grad();
  step_with(weight, 1, masters, sgd);
  CHECK(masters.parameters()[0].values()[0] == 3 - 0x1p-12);
}

TEST_CASE("mixed: an optimiser of the weights, which their masters would replace, is refused", "[optim][mixed]") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    Tensor weight = ones({3}, dtype).set_requires_grad(), other = ones({3}).set_requires_grad();
    optim::MasterWeights masters{{other, weight}};
    optim::SGD sgd{{weight}, {.learning_rate = 0.5}}, right{masters.parameters(), {.learning_rate = 0.5}};
    optim::GradScaler scaler{{.scale = 2}};
    const auto gradients = [&] {
      other.set_grad(full({3}, 2));
      weight.set_grad(full({3}, 2, dtype));
    };
    gradients();
    CHECK_THROWS_WITH(scaler.step(masters, sgd), Catch::ContainsSubstring("the optimiser changes 16-bit weights"));
    gradients();
    scaler.step(masters, right);
    CHECK(weight.values()[0] == 0.5);
    CHECK(other.values()[0] == 0.5);
  }
}
