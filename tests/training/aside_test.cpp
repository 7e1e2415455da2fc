// Recorded backward passes, whose gradients of parameters go aside, have the bits of eager ones.

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/replaying.hpp"
#include "support/summary.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

using Values = std::vector<double>;

/// What a case trains: all its leaves, and the work of a step with a batch.
struct Program {
  std::vector<Tensor> leaves;
  std::function<Tensor(const Tensor& x)> step;
};

constexpr std::int64_t channels = 8;

struct Maker {
  Generator generator = Generator(4);
  Program made = {};

  Tensor leaf(const Shape& shape, double scale = 0.1) {
    made.leaves.push_back((randn(shape, generator) * scale).detach());
    return made.leaves.back().set_requires_grad();
  }
  Tensor kernel() { return leaf({channels, channels, 3, 3}); }
};

Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                 Activation activation = Activation::none) {
  return op::conv2d(x, weight, bias, {.padding = 1, .activation = activation});
}
Tensor loss_of(const Tensor& y) { return op::mean(op::square(y.to(DType::float32))); }

void descend(const std::vector<Tensor>& leaves) {
  const NoGrad none;
  for (Tensor leaf : leaves)
    if (leaf.grad().defined()) leaf -= leaf.grad() * 0.02;
}
void forget(const std::vector<Tensor>& leaves) {
  for (Tensor leaf : leaves) leaf.zero_grad();
}

/// Convolutions with and without biases, a shortcut and a product, with all gradients.
Program network() {
  Maker maker;
  const Tensor first = maker.kernel(), bias = maker.leaf({channels}), second = maker.kernel(), third = maker.kernel(),
               matrix = maker.leaf({4, channels * 36}), row = maker.leaf({4});
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    const Tensor a = convolved(x, first, bias, Activation::relu);
    const Tensor b = op::add(convolved(convolved(a, second, {}, Activation::relu), third), a);
    const Tensor loss = loss_of(op::linear(b.reshape({x.size(0), channels * 36}), matrix, row));
    loss.backward();
    descend(leaves);
    return loss;
  };
  return maker.made;
}

/// Channels that fill no lanes, so that kernels may copy weights before they pack them.
Program odd() {
  Maker maker;
  const Tensor first = maker.leaf({13, channels, 3, 3}), second = maker.leaf({21, 13, 3, 3}),
               third = maker.leaf({channels, 21, 3, 3});
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    const Tensor loss = loss_of(convolved(convolved(convolved(x, first, {}, Activation::relu), second), third));
    loss.backward();
    descend(leaves);
    return loss;
  };
  return maker.made;
}

/// One weight for several layers, beside one whose gradient comes first.
Program shared() {
  Maker maker;
  const Tensor one = maker.kernel(), other = maker.kernel(), matrix = maker.leaf({channels, channels});
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    const Tensor y = convolved(convolved(convolved(convolved(x, one), other), one), one);
    const Tensor rows = op::linear(op::linear(op::mean(y, {2, 3}), matrix), matrix);
    const Tensor loss = op::add(loss_of(rows), loss_of(op::mul(one, other)));
    loss.backward();
    descend(leaves);
    return loss;
  };
  return maker.made;
}

/// Gradients add up over two passes of a step and over steps, and somebody reads them in between.
Program adding() {
  Maker maker;
  const Tensor one = maker.kernel(), other = maker.kernel();
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    const Tensor loss = loss_of(convolved(convolved(x, one), other));
    loss.backward({.retain_graph = true});
    const Tensor between = op::sum(op::square(one.grad()));
    loss.backward();
    loss_of(convolved(convolved(x, other), one)).backward();
    const NoGrad none;
    for (Tensor leaf : leaves) leaf -= leaf.grad() * 0.01;
    return op::add(loss.detach(), between);
  };
  return maker.made;
}

/// Some leaves need no gradient, and the weights of others are results.
Program partial() {
  Maker maker;
  const Tensor frozen = maker.kernel(), scale = maker.leaf({channels, 1, 1, 1}), shape = maker.kernel(),
               bias = maker.leaf({channels}), alone = maker.leaf({channels});
  Tensor(frozen).set_requires_grad(false);
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    const Tensor weight = op::mul(op::tanh(shape), scale);
    const Tensor a = convolved(convolved(x, weight, bias), frozen, alone);
    const Tensor loss = loss_of(convolved(op::tanh(a), op::mul(weight, 0.5)));
    loss.backward();
    descend(leaves);
    return loss;
  };
  return maker.made;
}

/// Two updates in one step: the second reads weights that the step has written.
Program twice() {
  Maker maker;
  const Tensor one = maker.kernel(), matrix = maker.leaf({4, channels * 36});
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    Tensor loss;
    for (int i = 0; i < 2; ++i) {
      forget(leaves);
      loss = loss_of(op::linear(convolved(x, one).reshape({x.size(0), channels * 36}), matrix));
      loss.backward();
      descend(leaves);
    }
    return loss;
  };
  return maker.made;
}

/// x as it is. Its backward, in the middle of the others, reads the gradient of a later weight and changes what a later
/// convolution has read.
Tensor meddled(const Tensor& x, const Tensor& later) {
  Tensor out = x.detach().clone();
  autograd::record("meddled", out, {x}, [later, shown = out.detach()](const Tensor& grad) {
    Tensor changed = shown;
    changed *= 0.5;
    return autograd::Gradients{op::mul(grad, op::sum(op::square(later.grad())))};
  });
  return out;
}

Program meddling() {
  Maker maker;
  const Tensor one = maker.kernel(), other = maker.kernel();
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    const Tensor loss = loss_of(convolved(meddled(convolved(x, one), other), other));
    loss.backward();
    descend(leaves);
    return loss;
  };
  return maker.made;
}

/// Each gradient is read once it is complete.
Program watched() {
  Maker maker;
  const Tensor one = maker.kernel(), other = maker.kernel();
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    Tensor seen = op::sum(x);
    const Tensor loss = loss_of(convolved(convolved(x, one), other));
    loss.backward({.complete = [&](const Tensor& leaf) {
      const NoGrad none;
      seen = op::add(op::mul(seen, 0.5), op::sum(leaf.grad()));
    }});
    descend(leaves);
    return seen;
  };
  return maker.made;
}

/// A network whose weights an optimiser updates, each early, after `between` and the gradients of `passes`.
Program updating(int passes, const std::function<void(optim::SGD&, const std::vector<Tensor>&)>& between) {
  Maker maker;
  const Tensor first = maker.kernel(), bias = maker.leaf({channels}), second = maker.kernel(), third = maker.kernel(),
               matrix = maker.leaf({4, channels * 36}), row = maker.leaf({4});
  const auto optimiser =
      std::make_shared<optim::SGD>(maker.made.leaves, optim::SgdOptions{.learning_rate = 0.02, .momentum = 0.9});
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    Tensor loss;
    for (int i = 0; i < passes; ++i) {
      const Tensor a = convolved(convolved(x, first, bias, Activation::relu), second);
      loss = loss_of(op::linear(convolved(a, third).reshape({x.size(0), channels * 36}), matrix, row));
      loss.backward();
    }
    between(*optimiser, leaves);
    optimiser->step();
    return loss;
  };
  return maker.made;
}
Program updated() {
  return updating(1, [](const auto&, const auto&) {});
}
Program updated_with_sums() {
  return updating(2, [](const auto&, const auto&) {});
}
Program updated_twice() {
  return updating(1, [](optim::SGD& optimiser, const auto&) { optimiser.step(); });
}
Program clipped() {
  return updating(1, [](const auto&, const auto& leaves) { optim::clip_grad_norm(leaves, 0.01); });
}
Program decayed() {
  return updating(1, [](const auto&, const auto& leaves) {
    const NoGrad none;
    for (Tensor leaf : leaves) leaf *= 0.99;
  });
}

/// x as it is. Its backward reads `weight`, whose gradient is complete.
Tensor weighed(const Tensor& x, const Tensor& weight) {
  Tensor out = x.detach().clone();
  autograd::record("weighed", out, {x}, [weight](const Tensor& grad) {
    return autograd::Gradients{op::mul(grad, op::sum(op::square(weight.detach())))};
  });
  return out;
}

Program read_late() {
  Maker maker;
  const Tensor one = maker.kernel(), other = maker.kernel();
  const auto optimiser =
      std::make_shared<optim::SGD>(maker.made.leaves, optim::SgdOptions{.learning_rate = 0.02, .momentum = 0.9});
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    const Tensor loss = loss_of(convolved(weighed(convolved(weighed(convolved(x, one), other), one), other), other));
    loss.backward();
    optimiser->step();
    return loss;
  };
  return maker.made;
}

/// Many layers, with updates beside backward.
Program deep() {
  Maker maker;
  std::vector<Tensor> kernels;
  for (int i = 0; i < 24; ++i) kernels.push_back(maker.kernel());
  const auto optimiser =
      std::make_shared<optim::SGD>(maker.made.leaves, optim::SgdOptions{.learning_rate = 0.02, .momentum = 0.9});
  maker.made.step = [=, leaves = maker.made.leaves](const Tensor& x) {
    forget(leaves);
    Tensor y = x;
    for (std::size_t i = 0; i < kernels.size(); i += 2)
      y = op::add(convolved(convolved(y, kernels[i], {}, Activation::relu), kernels[i + 1]), y);
    const Tensor loss = loss_of(y);
    loss.backward();
    optimiser->step();
    return loss;
  };
  return maker.made;
}

Values trained(const std::function<Program()>& make, Precision precision, bool stepped) {
  const Device device(current_scope().mode->name, {.precision = precision});
  const Program program = make();
  Step step(program.step);
  Generator generator(9);
  Values seen;
  for (int i = 0; i < 6; ++i) {
    const Tensor x = randn({2, channels, 6, 6}, generator);
    seen.push_back((stepped ? step(x) : program.step(x)).item());
  }
  for (const Tensor& leaf : program.leaves) {
    for (const double value : leaf.values()) seen.push_back(value);
    if (leaf.grad().defined())
      for (const double value : leaf.grad().values()) seen.push_back(value);
  }
  CHECK(std::ranges::all_of(seen, [](double value) { return std::isfinite(value); }));
  if (stepped) CHECK(step.replays() >= 3);
  if (stepped) CHECK(step.unrecorded() == "");
  return seen;
}

void check_bits(const Mode& mode) {
  const Device device(mode);
  const std::pair<const char*, Program (*)()> programs[]{{"network", network},
                                                         {"odd", odd},
                                                         {"shared", shared},
                                                         {"adding", adding},
                                                         {"partial", partial},
                                                         {"twice", twice},
                                                         {"meddling", meddling},
                                                         {"watched", watched},
                                                         {"updated", updated},
                                                         {"updated with sums", updated_with_sums},
                                                         {"updated twice", updated_twice},
                                                         {"clipped", clipped},
                                                         {"decayed", decayed},
                                                         {"read late", read_late},
                                                         {"deep", deep}};
  for (const auto& [name, make] : programs)
    for (const Precision precision : {Precision::strict, Precision::tf32, Precision::bf16, Precision::f16}) {
      INFO(mode.name << ": " << name << " with precision " << static_cast<int>(precision));
      CHECK(trained(make, precision, true) == trained(make, precision, false));
    }
}

}  // namespace

TEST_CASE("aside: recorded trainings have the bits of eager ones", "[training]") {
  check_bits(testing::replaying_mode());
  check_bits(testing::replaying_early_mode());
  check_bits(mode("debug"));
}

TEST_CASE("aside: recorded trainings have the bits of eager ones in cuda", "[training][cuda]") {
  const std::vector<std::string> modes = testing::available_modes();
  if (std::ranges::find(modes, "cuda") == modes.end()) return;
  check_bits(mode("cuda"));
  const Device device(mode("cuda"));
  const ForcedAlgorithm forward("conv2d", "padded"), to_x("conv2d_grad_x", "padded"),
      to_weight("conv2d_grad_weight", "padded");
  check_bits(mode("cuda"));
  CHECK(forward.taken() * to_x.taken() * to_weight.taken() > 0);
}
