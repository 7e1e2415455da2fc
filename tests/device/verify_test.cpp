// DeviceOptions::verify and Numerics::check: a fault planted in a kernel is found by the operator's name and its place
// in the network, and healthy networks pass.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "device/planted_faults.hpp"
#include "support/catch.hpp"
#include "support/replaying.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

using testing::healthy;
using testing::table;

// Two steps of training, which use every operator of the network.
template <class Net>
void train(Net net, const Shape& images, std::int64_t classes, const std::string& mode_name) {
  const Device device{mode_name};
  manual_seed(3);
  Generator generator(5);
  const Tensor x = rand(images, generator), y = randint(0, classes, {images[0]}, generator);
  optim::SGD sgd(net.parameters(), {.learning_rate = 0.01, .momentum = 0.9, .weight_decay = 0.05});
  for (int i = 0; i < 2; ++i) {
    net.zero_grad();
    net.loss(x, y).backward();
    sgd.step();
  }
}

void train_lenet(const std::string& mode) { train(models::LeNet(), {2, 1, 28, 28}, 10, mode); }
void train_googlenet(const std::string& mode) {
  train(models::GoogLeNet({.classes = 10, .image_size = 79, .dropout = 0.4, .width_divisor = 16}), {2, 3, 79, 79}, 10,
        mode);
}

std::string message_of(void (*program)(const std::string&), const std::string& mode) {
  try {
    program(mode);
  } catch (const VerifyError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("verify: every planted fault is found by the operator's name", "[verify]") {
  int number = 0;
  for (const testing::Fault& fault : testing::planted_faults()) {
    INFO(fault.name);
    Mode broken = healthy();
    fault.plant(broken);
    const std::string name = message("broken", number++);
    register_mode(name, broken);
    std::string said = message_of(train_lenet, "verify:" + name);
    if (said.empty()) said = message_of(train_googlenet, "verify:" + name);
    CHECK_THAT(said, ContainsSubstring(fault.said));
    CHECK_THAT(said, ContainsSubstring(name));
    CHECK_THAT(said, ContainsSubstring("element ["));
  }
  CHECK(number >= 30);
}

TEST_CASE("verify: healthy networks pass in every mode", "[verify]") {
  std::vector<std::string> names{"sequential", "vectorized"};
  for (const ModeStatus& status : modes())
    if (status.name == "cuda" && status.available) names.push_back(status.name);
  for (const std::string& mode : names) {
    CHECK(message_of(train_lenet, "verify:" + mode) == "");
    CHECK(message_of(train_googlenet, "verify:" + mode) == "");
  }
}

TEST_CASE("verify: GoogLeNet and AlexNet in full size", "[.][verify-long]") {
  train(models::GoogLeNet({.classes = 1000}), {2, 3, 224, 224}, 1000, "verify:vectorized");
  train(models::AlexNet({.classes = 1000}), {2, 3, 227, 227}, 1000, "verify:vectorized");
}

TEST_CASE("verify: the message names module, algorithm, sizes, element and both values", "[verify]") {
  Mode broken = healthy();
  broken.operators.conv.conv2d =
      +[](Context& c, float* y, const float* x, const float* w, const float* b, const kernels::Conv2d& s) {
        table().conv.conv2d(c, y, x, w, b, s);
        if (s.C == 3) y[(s.layout == kernels::Layout::channels_last ? s.O : 1)] = 1000;
      };
  register_mode("broken-conv", broken);
  Generator generator(1);
  nn::Sequential inner(nn::Conv2d(2, 3, 3, {}, generator), nn::Relu(), nn::Conv2d(3, 4, 3, {}, generator));
  nn::Sequential net(nn::Conv2d(1, 2, 3, {}, generator), inner);
  const Device device{"broken-conv", {.verify = true}};
  const Tensor x = rand({1, 1, 12, 12}, generator);
  try {
    net(x);
    FAIL("nothing was noticed");
  } catch (const VerifyError& error) {
    const std::string said = error.what();
    CHECK_THAT(said, ContainsSubstring("at 1.2, Conv2d(3, 4, 3x3)"));
    CHECK_THAT(said, ContainsSubstring("(conv2d:"));
    CHECK_THAT(said, ContainsSubstring("of float32 [1,3,8,8] and float32 [4,3,3,3] and float32 [4]: "));
    CHECK_THAT(said, ContainsSubstring("element [0, 0, 0, 1] of the result"));
    CHECK_THAT(said, ContainsSubstring("is 1000"));
  }
}

TEST_CASE("verify: is inherited, ends with its scope and holds for backward from elsewhere", "[verify]") {
  Mode broken = healthy();
  broken.operators.activation.tanh_backward =
      +[](Context& c, float* gx, const float* g, const float* y, std::int64_t n) {
        table().activation.tanh_backward(c, gx, g, y, n);
        gx[0] += 1;
      };
  register_mode("broken-tanh", broken);
  Tensor x = tensor({0.5f, 0.25f});
  x.set_requires_grad();
  Tensor y;
  {
    const Device outer{"sequential", {.verify = true}};
    const Device inner{"broken-tanh"};
    y = op::sum(op::tanh(x));
  }
  CHECK_THROWS_AS(y.backward(), VerifyError);
  const Device plain{"broken-tanh"};
  Tensor z = op::sum(op::tanh(x.detach().set_requires_grad()));
  z.backward();
}

TEST_CASE("verify: a Step runs eagerly and says so", "[verify]") {
  const Device device(testing::replaying_mode(), {.verify = true});
  Step step([](const Tensor& x) { return op::tanh(x); });
  const Tensor x = tensor({0.5f, 2.0f});
  for (int i = 0; i < 4; ++i) CHECK(step(x).values()[0] == Approx(std::tanh(0.5)));
  CHECK(step.replays() == 0);
  CHECK_THAT(step.unrecorded(), ContainsSubstring("verify"));
}

TEST_CASE("verify: moves that it makes itself are not counted", "[verify]") {
  const Tensor x = ones({64, 64});
  const Device device(testing::replaying_mode(), {.verify = true});
  op::relu(x);
  reset_transfers();
  op::matmul(op::relu(x), x);
  CHECK(transfers().empty());
}

TEST_CASE("numerics: the first operator whose result is not finite is named", "[verify]") {
  const Device device{"vectorized", {.numerics = Numerics::check}};
  const Tensor x = tensor({1.0f, 90.0f, 2.0f});
  try {
    op::log(op::exp(op::mul(x, x)));
    FAIL("nothing was noticed");
  } catch (const NumericError& error) {
    const std::string said = error.what();
    CHECK_THAT(said, ContainsSubstring("numerics: exp in vectorized"));
    CHECK_THAT(said, ContainsSubstring("element [1] of the result, float32 [3], is inf"));
  }
  // What was not finite before is not the operator's fault.
  const Tensor infinite = tensor({std::numeric_limits<float>::infinity()});
  CHECK(std::isinf(op::add(infinite, infinite).item()));
  CHECK(op::exp(x.slice(0, 0, 1)).item() == Approx(std::exp(1.0)));
}

TEST_CASE("numerics: a network's module and backward are named", "[verify]") {
  Generator generator(1);
  nn::Sequential net(nn::Linear(4, 4, {}, generator), nn::Sequential(nn::Linear(4, 4, {}, generator)));
  net.parameters()[2].detach().fill_(3e38f);  // the weight of the second layer
  {
    const Device device{"vectorized", {.numerics = Numerics::check}};
    try {
      net(full({1, 4}, 100.0f));
      FAIL("nothing was noticed");
    } catch (const NumericError& error) {
      CHECK_THAT(error.what(), ContainsSubstring("at 1.0, Linear(4, 4"));
    }
  }
  Tensor x = tensor({1e-30f});
  x.set_requires_grad();
  const Device device{"vectorized", {.numerics = Numerics::check}};
  const Tensor y = op::pow(x, -0.5);
  CHECK_THROWS_WITH(y.backward(), ContainsSubstring("pow backward"));
}

TEST_CASE("modules: an error of shapes names the module's path", "[verify]") {
  Generator generator(1);
  nn::Sequential net(nn::Conv2d(1, 2, 3, {}, generator), nn::Relu(),
                     nn::Sequential(nn::Conv2d(3, 4, 3, {}, generator), nn::Relu()));
  CHECK_THROWS_WITH(net(ones({1, 1, 8, 8})), ContainsSubstring("2.0, Conv2d(3, 4, 3x3): conv2d: input has 2 channels"));
  CHECK_THROWS_AS(net(ones({1, 1, 8, 8})), ShapeError);
  CHECK_THROWS_WITH(net(ones({1, 1, 8, 8}, DType::int32)), ContainsSubstring("0, Conv2d(1, 2, 3x3): conv2d"));
  CHECK_THROWS_AS(net(ones({1, 1, 8, 8}, DType::int32)), DTypeError);
}
