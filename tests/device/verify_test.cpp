// DeviceOptions::verify and Numerics::check: a fault planted in a kernel is found by the operator's name and its place
// in the network, and healthy networks pass.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "support/catch.hpp"
#include "support/replaying.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;
namespace op = tern::operators;

namespace {

const Mode& healthy() { return mode("vectorized"); }
const kernels::Operators<float>& table() { return healthy().operators; }

/// A kernel with a fault, and what the message about it has to name.
struct Fault {
  std::string name;
  std::string said;  // the operator
  void (*plant)(Mode& mode);
};

// Off by a hundredth: what an index or a factor that is a little wrong makes of one element.
void nudge(float& value) { value += 0.01f * (1 + std::abs(value)); }

/// In LeNet and a small GoogLeNet.
const std::vector<Fault>& faults() {
  using namespace kernels;
  static const std::vector<Fault> list{
      {"conv2d forgets the bias", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d = +[](Context& c, float* y, const float* x, const float* w, const float*,
                                       const Conv2d& s) { table().conv.conv2d(c, y, x, w, nullptr, s); };
       }},
      {"conv2d forgets the activation", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               Conv2d plain = s;
               plain.activation = Activation::none;
               table().conv.conv2d(c, y, x, w, b, plain);
             };
       }},
      {"conv2d: the last output is another's", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               table().conv.conv2d(c, y, x, w, b, s);
               nudge(y[s.OH * s.OW - 1]);
             };
       }},
      {"conv2d reads its weights turned", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               const std::vector<float> turned(std::make_reverse_iterator(w + s.O * (s.C / s.groups) * s.KH * s.KW),
                                               std::make_reverse_iterator(w));
               table().conv.conv2d(c, y, x, turned.data(), b, s);
             };
       }},
      {"conv2d: one image of the batch is not computed", "conv2d in",
       [](Mode& m) {
         m.operators.conv.conv2d =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Conv2d& s) {
               Conv2d fewer = s;
               fewer.N = s.N - 1;
               table().conv.conv2d(c, y, x, w, b, fewer);
               const std::int64_t pitch = s.y_channels > 0 ? s.y_channels : s.O;
               for (std::int64_t i = 0; i < s.OH * s.OW; ++i) y[fewer.N * s.OH * s.OW * pitch + i] = 0;
             };
       }},
      {"the gradient of conv2d's input is off", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           table().conv.conv2d_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gx != nullptr) gx[3] = -gx[3] + 1e-3f;
         };
       }},
      {"the gradient of conv2d's weight is added twice", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           table().conv.conv2d_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gw != nullptr) gw[0] *= 2;
         };
       }},
      {"the gradient of conv2d's bias misses the activation", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           Conv2d plain = s;
           plain.activation = Activation::none;
           table().conv.conv2d_backward(c, gx, gw, nullptr, g, x, w, y, s);
           if (gb != nullptr) table().conv.conv2d_backward(c, nullptr, nullptr, gb, g, x, w, nullptr, plain);
           if (gb != nullptr && s.activation == Activation::none) nudge(gb[0]);
         };
       }},
      {"conv2d's backward leaves the last weight unwritten", "conv2d backward",
       [](Mode& m) {
         m.operators.conv.conv2d_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                                const float* x, const float* w, const float* y, const Conv2d& s) {
           table().conv.conv2d_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gw != nullptr) gw[s.O * (s.C / s.groups) * s.KH * s.KW - 1] = 77;
         };
       }},
      {"max_pool2d takes the last maximum", "max_pool2d in",
       [](Mode& m) {
         m.operators.pooling.max_pool2d =
             +[](Context& c, float* out, std::uint8_t* index, const float* in, const Pool2d& s) {
               table().pooling.max_pool2d(c, out, index, in, s);
               if (index != nullptr) index[1] = static_cast<std::uint8_t>((index[1] + 1) % (s.KH * s.KW));
             };
       }},
      {"max_pool2d: one maximum is not the largest", "max_pool2d in",
       [](Mode& m) {
         m.operators.pooling.max_pool2d =
             +[](Context& c, float* out, std::uint8_t* index, const float* in, const Pool2d& s) {
               table().pooling.max_pool2d(c, out, index, in, s);
               out[5] -= 0.01f;
             };
       }},
      {"max_pool2d's gradient goes to the neighbour", "max_pool2d backward",
       [](Mode& m) {
         m.operators.pooling.max_pool2d_backward =
             +[](Context& c, float* gx, const float* g, const std::uint8_t* index, const Pool2d& s) {
               table().pooling.max_pool2d_backward(c, gx, g, index, s);
               std::rotate(gx, gx + 1, gx + s.planes * s.H * s.W);
             };
       }},
      {"avg_pool2d divides by another number", "avg_pool2d",
       [](Mode& m) {
         m.operators.pooling.avg_pool2d = +[](Context& c, float* out, const float* in, const Pool2d& s) {
           table().pooling.avg_pool2d(c, out, in, s);
           out[0] *= 1.02f;
           out[0] += 0.01f;
         };
         m.operators.pooling.adaptive_avg_pool2d =
             +[](Context& c, float* out, const float* in, const AdaptivePool2d& s) {
               table().pooling.adaptive_avg_pool2d(c, out, in, s);
               out[0] += 0.01f;
             };
       }},
      {"avg_pool2d's gradient keeps what was there", "avg_pool2d backward",
       [](Mode& m) {
         m.operators.pooling.avg_pool2d_backward = +[](Context& c, float* gx, const float* g, const Pool2d& s) {
           table().pooling.avg_pool2d_backward(c, gx, g, s);
           gx[2] += 1;
         };
         m.operators.pooling.adaptive_avg_pool2d_backward =
             +[](Context& c, float* gx, const float* g, const AdaptivePool2d& s) {
               table().pooling.adaptive_avg_pool2d_backward(c, gx, g, s);
               gx[2] += 1;
             };
       }},
      {"linear forgets the bias", "linear in",
       [](Mode& m) {
         m.operators.dot.linear = +[](Context& c, float* y, const float* x, const float* w, const float*,
                                      const Linear& s) { table().dot.linear(c, y, x, w, nullptr, s); };
       }},
      {"linear: the last feature is left out", "linear in",
       [](Mode& m) {
         m.operators.dot.linear =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Linear& s) {
               std::vector<float> shorter(x, x + s.rows * s.in);
               for (std::int64_t i = 0; i < s.rows; ++i) shorter[(i + 1) * s.in - 1] = 0;
               table().dot.linear(c, y, shorter.data(), w, b, s);
             };
       }},
      {"linear's last row is computed with the row before", "linear in",
       [](Mode& m) {
         m.operators.dot.linear =
             +[](Context& c, float* y, const float* x, const float* w, const float* b, const Linear& s) {
               table().dot.linear(c, y, x, w, b, s);
               std::copy_n(y, s.out, y + (s.rows - 1) * s.out);
             };
       }},
      {"the gradient of linear's input is transposed", "linear backward",
       [](Mode& m) {
         m.operators.dot.linear_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                               const float* x, const float* w, const float* y, const Linear& s) {
           table().dot.linear_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gx != nullptr) std::reverse(gx, gx + s.rows * s.in);
         };
       }},
      {"the gradient of linear's weight is off", "linear backward",
       [](Mode& m) {
         m.operators.dot.linear_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                               const float* x, const float* w, const float* y, const Linear& s) {
           table().dot.linear_backward(c, gx, gw, gb, g, x, w, y, s);
           if (gw != nullptr) nudge(gw[s.in - 1]);
         };
       }},
      {"the gradient of linear's bias is a mean", "linear backward",
       [](Mode& m) {
         m.operators.dot.linear_backward = +[](Context& c, float* gx, float* gw, float* gb, const float* g,
                                               const float* x, const float* w, const float* y, const Linear& s) {
           table().dot.linear_backward(c, gx, gw, gb, g, x, w, y, s);
           for (std::int64_t i = 0; gb != nullptr && i < s.out; ++i) gb[i] /= 2;
         };
       }},
      {"cross_entropy is a sum", "cross_entropy in",
       [](Mode& m) {
         m.operators.loss.cross_entropy =
             +[](Context& c, float* loss, float* p, const float* x, const std::int64_t* labels, const CrossEntropy& s) {
               CrossEntropy sum = s;
               sum.reduce = Reduce::sum;
               table().loss.cross_entropy(c, loss, p, x, labels, sum);
             };
       }},
      {"cross_entropy's probabilities do not add up", "cross_entropy in",
       [](Mode& m) {
         m.operators.loss.cross_entropy =
             +[](Context& c, float* loss, float* p, const float* x, const std::int64_t* labels, const CrossEntropy& s) {
               table().loss.cross_entropy(c, loss, p, x, labels, s);
               p[1] *= 1.01f;
             };
       }},
      {"cross_entropy's gradient forgets the label", "cross_entropy backward",
       [](Mode& m) {
         m.operators.loss.cross_entropy_backward = +[](Context& c, float* gx, const float* g, const float* p,
                                                       const std::int64_t* labels, const CrossEntropy& s) {
           table().loss.cross_entropy_backward(c, gx, g, p, labels, s);
           gx[labels[0]] += 1.0f / static_cast<float>(s.rows);
         };
       }},
      {"local_response_norm looks at one channel less", "local_response_norm in",
       [](Mode& m) {
         m.operators.normalization.local_response_norm =
             +[](Context& c, float* y, const float* x, const LocalResponseNorm& s) {
               LocalResponseNorm narrow = s;
               narrow.alpha = s.alpha * 40;
               table().normalization.local_response_norm(c, y, x, narrow);
             };
       }},
      {"local_response_norm's gradient is the output's", "local_response_norm backward",
       [](Mode& m) {
         m.operators.normalization.local_response_norm_backward =
             +[](Context& c, float* gx, const float* g, const float* x, const float* y, const LocalResponseNorm& s) {
               table().normalization.local_response_norm_backward(c, gx, g, x, y, s);
               gx[0] = g[0] + 1e-3f;
             };
       }},
      {"dropout keeps what it should not", "dropout in",
       [](Mode& m) {
         m.operators.shape.dropout =
             +[](Context& c, float* out, const float* in, std::int64_t n, double probability, const random::Key& key) {
               table().shape.dropout(c, out, in, n, probability, {key.seed, key.offset + 1, key.base});
             };
       }},
      {"add_all forgets an addend", "add_all",
       [](Mode& m) {
         m.operators.arithmetic.add_all =
             +[](Context& c, float* out, const float* a, const float* b, const float* d, const float*, std::int64_t n) {
               table().arithmetic.add_all(c, out, a, b, d, nullptr, n);
             };
       }},
      {"sgd forgets the weight decay", "sgd in",
       [](Mode& m) {
         m.operators.update.sgd = +[](Context& c, const Parameters<float>& p, const float* rate, const Sgd& s) {
           Sgd without = s;
           without.weight_decay = 0;
           table().update.sgd(c, p, rate, without);
         };
       }},
      {"sgd skips the last parameter", "sgd in",
       [](Mode& m) {
         m.operators.update.sgd = +[](Context& c, const Parameters<float>& p, const float* rate, const Sgd& s) {
           Parameters<float> fewer = p;
           --fewer.count;
           table().update.sgd(c, fewer, rate, s);
         };
       }},
      {"sgd's momentum has the wrong sign", "sgd in",
       [](Mode& m) {
         m.operators.update.sgd = +[](Context& c, const Parameters<float>& p, const float* rate, const Sgd& s) {
           Sgd turned = s;
           turned.momentum = -s.momentum;
           turned.first_step = false;
           table().update.sgd(c, p, rate, turned);
         };
       }},
      {"a copy leaves the last element", "copy", [](Mode& m) {
         m.movement.copy = +[](Context& c, void* out, const void* in, const Strided& s, std::size_t element) {
           healthy().movement.copy(c, out, in, s, element);
           if (s.count > 1) static_cast<std::byte*>(out)[0] ^= std::byte{0x40};
         };
       }}};
  return list;
}

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
  for (const Fault& fault : faults()) {
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
  for (const std::string mode : {"sequential", "vectorized"}) {
    CHECK(message_of(train_lenet, "verify:" + mode) == "");
    CHECK(message_of(train_googlenet, "verify:" + mode) == "");
  }
}

TEST_CASE("verify: GoogLeNet and AlexNet in full size", "[.][verify-long]") {
  train(models::GoogLeNet({.classes = 1000}), {2, 3, 224, 224}, 1000, "verify:vectorized");
  train(models::AlexNet({.classes = 1000}), {2, 3, 227, 227}, 1000, "verify:vectorized");
}

TEST_CASE("verify: the message names module, way, sizes, element and both values", "[verify]") {
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
