// Layers over one operator each, beside it or beside their formula.

#include <cmath>

#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Values = std::vector<double>;

namespace {

void check_near(const Tensor& got, const Values& wanted, double tolerance = 1e-12) {
  const Values values = got.values();
  REQUIRE(values.size() == wanted.size());
  for (std::size_t i = 0; i < values.size(); ++i) CHECK(std::abs(values[i] - wanted[i]) <= tolerance);
}

std::vector<std::string> names_of(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module.named_parameters()) names.push_back(message(name, tensor.shape()));
  return names;
}

void shift_parameters(nn::Module& module) {
  const NoGrad no_grad;
  double number = 0.5;
  for (const auto& [name, tensor] : module.named_parameters()) {
    Tensor(tensor).copy_(linspace(number, number + 1, tensor.numel(), tensor.dtype()).reshape(tensor.shape()));
    ++number;
  }
}

}  // namespace

TEST_CASE("nn: LayerNorm, RmsNorm and GroupNorm", "[nn]") {
  const Tensor x = tensor<double>({1, 2, 3, 6}, {1, 4});
  const nn::NormOptions options{.dtype = DType::float64};
  nn::LayerNorm layer({4}, options);
  // Mean 3, variance 3.5.
  const double deviation = std::sqrt(3.5 + 1e-5);
  check_near(layer(x), {-2 / deviation, -1 / deviation, 0, 3 / deviation});
  CHECK(names_of(layer) == std::vector<std::string>{"weight[4]", "bias[4]"});
  shift_parameters(layer);
  check_near(layer(x), {0.5 * -2 / deviation + 1.5, 5.0 / 6 * -1 / deviation + 1.5 + 1.0 / 3, 1.5 + 2.0 / 3,
                        1.5 * 3 / deviation + 2.5});
  nn::RmsNorm rms({4}, options);
  const double size = std::sqrt(12.5 + 0x1p-52);
  check_near(rms(x), {1 / size, 2 / size, 3 / size, 6 / size});
  // torch's epsilon, which small numbers show: 2^-23 in float32, 1e-5 where it is said.
  const Tensor tiny = tensor<float>({0.001f, -0.001f}, {1, 2});
  CHECK(nn::RmsNorm({2})(tiny).values()[0] == Approx(0.001 / std::sqrt(1e-6 + 0x1p-23)));
  CHECK(nn::RmsNorm({2}, {.epsilon = 1e-5})(tiny).values()[0] == Approx(0.001 / std::sqrt(1e-6 + 1e-5)));
  CHECK(names_of(rms) == std::vector<std::string>{"weight[4]"});
  nn::GroupNorm group(2, 4, options);
  check_near(group(x.reshape({1, 4, 1})), {-0.5 / std::sqrt(0.25 + 1e-5), 0.5 / std::sqrt(0.25 + 1e-5),
                                           -1.5 / std::sqrt(2.25 + 1e-5), 1.5 / std::sqrt(2.25 + 1e-5)});
  CHECK(nn::LayerNorm({4}, {.affine = false}).parameters().empty());
  CHECK(layer.describe() == "LayerNorm([4])");
  CHECK(group.describe() == "GroupNorm(2, 4)");
  CHECK_THROWS_AS(nn::GroupNorm(3, 4), ShapeError);
  CHECK_THROWS_AS(nn::LayerNorm({0}), ShapeError);
  CHECK_THROWS_AS(group(ones({1, 5, 1}, DType::float64)), ShapeError);
}

TEST_CASE("nn: Conv1d", "[nn]") {
  nn::Conv1d conv(1, 1, 2, {.stride = 2, .padding = 1, .dtype = DType::float64});
  CHECK(names_of(conv) == std::vector<std::string>{"weight[1,1,2]", "bias[1]"});
  shift_parameters(conv);  // weight 0.5 and 1.5, bias 1.5
  // 0 1 2 3 0 in steps of 2: windows (0, 1) and (2, 3).
  check_near(conv(tensor<double>({1, 2, 3}, {1, 1, 3})), {3, 7});
  CHECK(conv.describe() == "Conv1d(1, 1, 2)");
  CHECK(nn::summary(conv, {1, 1, 3}).flops == 8);
  CHECK_THROWS_WITH(nn::Conv1d(3, 4, 2, {.groups = 2}),
                    "Conv1d: 3 input and 4 output channels do not divide into 2 groups");
  CHECK(nn::Conv1d(2, 4, 3, {.groups = 2, .bias = false}).parameter_count() == 12);
}

TEST_CASE("nn: BatchNorm1d", "[nn]") {
  nn::BatchNorm1d norm(2, {.dtype = DType::float64});
  const Tensor x = tensor<double>({1, 10, 3, 30}, {2, 2});
  const double first = 1 / std::sqrt(1 + 1e-5), second = 10 / std::sqrt(100 + 1e-5);
  check_near(norm(x), {-first, -second, first, second});
  // torch's running variance is the unbiased one.
  check_near(norm.state().at("running_mean"), {0.2, 2});
  check_near(norm.state().at("running_var"), {0.9 + 0.2, 0.9 + 20});
  check_near(norm(x.reshape({1, 2, 2}).transpose(1, 2)), {-first, first, -second, second});
  norm.eval();
  const Tensor frozen = norm(x);
  Tensor leaf = x.clone().set_requires_grad();
  norm(leaf).sum().backward();
  check_near(leaf.grad()[0], (1.0 / operators::sqrt(norm.state().at("running_var") + 1e-5)).values(), 1e-9);
  check_near(norm(leaf), frozen.values(), 1e-12);
  CHECK(norm.describe() == "BatchNorm1d(2)");
  CHECK_THROWS_WITH(norm(ones({2, 3})), "BatchNorm1d: input is [2,3], expected [N,2] or [N,2,L]");
  CHECK_THROWS_WITH(nn::BatchNorm2d(3)(ones({2, 3})), "BatchNorm2d: input is [2,3], expected [N,3,H,W]");
  norm.train();
  CHECK_THROWS_AS(norm(ones({1, 2}, DType::float64)), ShapeError);
}

TEST_CASE("nn: Elu, Silu and Prelu", "[nn]") {
  const Tensor x = tensor<double>({-1, 2});
  check_near(nn::Elu(2)(x), {2 * (std::exp(-1) - 1), 2});
  check_near(nn::Silu()(x), {-1 / (1 + std::exp(1)), 2 / (1 + std::exp(-2))});
  nn::Prelu prelu(1, 0.25, DType::float64);
  check_near(prelu(x), {-0.25, 2});
  CHECK(names_of(prelu) == std::vector<std::string>{"weight[1]"});
  prelu(x).sum().backward();
  CHECK(prelu.parameters()[0].grad().item() == -1);
}

TEST_CASE("nn: Embedding", "[nn]") {
  Generator generator(2);
  nn::Embedding embedding(5, 3, DType::float32, generator);
  const Tensor rows = embedding(tensor<std::int64_t>({4, 0, 4, 2}, {2, 2}));
  CHECK(rows.shape() == Shape{2, 2, 3});
  CHECK(rows[0][0].values() == embedding.weight()[4].values());
  rows.sum().backward();
  CHECK(embedding.weight().grad().values() == Values{1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0, 2, 2, 2});
  CHECK(embedding.describe() == "Embedding(5, 3)");
  CHECK_THROWS_AS(nn::Embedding(0, 3), ShapeError);
  CHECK_THROWS_AS(embedding(tensor<std::int64_t>({5})), NumericError);
}

TEST_CASE("nn: Identity and Residual", "[nn]") {
  Generator generator(4);
  const Tensor x = randn({2, 3}, generator);
  CHECK(nn::Identity()(x).is(x));
  const nn::Linear body(3, 3, {}, generator), shortcut(3, 3, {}, generator);
  const nn::Residual plain(nn::Sequential(body, nn::Relu()));
  CHECK(plain(x).values() == (operators::relu(body(x)) + x).values());
  const nn::Residual other(body, shortcut);
  CHECK(other(x).values() == (body(x) + shortcut(x)).values());
  CHECK(names_of(other) ==
        std::vector<std::string>{"body.weight[3,3]", "body.bias[3]", "shortcut.weight[3,3]", "shortcut.bias[3]"});
  CHECK(nn::Residual(nn::Identity{})(x).values() == (x + x).values());
}

TEST_CASE("nn: Upsample and ConvTranspose2d", "[nn]") {
  Generator generator(5);
  const Tensor x = arange(0, 4, 1, DType::float32).reshape({1, 1, 2, 2});
  CHECK(nn::Upsample(2)(x).values() == Values{0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3});
  CHECK(nn::Upsample({1, 2}, {.mode = nn::Interpolation::bilinear})(x).values() ==
        Values{0, 0.25, 0.75, 1, 2, 2.25, 2.75, 3});
  CHECK_THROWS_AS(nn::Upsample(0), ShapeError);
  CHECK_THROWS_AS(nn::Upsample(2)(ones({2, 2})), ShapeError);
  const nn::ConvTranspose2d up(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}, generator);
  CHECK(names_of(up) == std::vector<std::string>{"weight[4,3,3,3]", "bias[6]"});
  const Tensor images = randn({2, 4, 5, 4}, generator);
  CHECK(up(images).shape() == Shape{2, 6, 10, 8});
  CHECK(up(images).values() ==
        operators::conv_transpose2d(images, up.state().at("weight"), up.state().at("bias"),
                                    {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2})
            .values());
  const double bound = 1 / std::sqrt(27.0);
  for (const Tensor& parameter : up.parameters()) CHECK(operators::abs(parameter).max().item() <= bound);
  CHECK(nn::summary(up, {2, 4, 5, 4}).flops == 2 * 160 * 27);
  CHECK(up.describe() == "ConvTranspose2d(4, 6, 3x3)");
  CHECK_THROWS_AS(nn::ConvTranspose2d(3, 4, 3, {.groups = 2}), ShapeError);
}
