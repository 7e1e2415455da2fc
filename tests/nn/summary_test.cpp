#include "tern/nn/summary.hpp"

#include "support/catch.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/nn.hpp"

using namespace tern;

TEST_CASE("summary: LeNet's numbers", "[nn]") {
  const models::LeNet net;
  const nn::Summary summary = nn::summary(net, {1, 1, 28, 28});
  CHECK(summary.parameters == 431080);
  CHECK(summary.parameter_bytes == 4 * 431080);
  REQUIRE(summary.layers.size() == 8);
  CHECK(summary.layers[0].name == "0");
  CHECK(summary.layers[0].description == "Conv2d(1, 20, 5x5)");
  CHECK(summary.layers[0].output == Shape{1, 20, 24, 24});
  CHECK(summary.layers[0].parameters == 520);
  CHECK(summary.layers[0].flops == 2 * 25 * 20 * 24 * 24);
  CHECK(summary.layers[1].description == "MaxPool2d(2x2, stride 2x2)");
  CHECK(summary.layers[2].flops == 2 * 20 * 25 * 50 * 8 * 8);
  CHECK(summary.layers[4].description == "Flatten()");
  CHECK(summary.layers[4].output_bytes == 0);
  CHECK(summary.layers[5].parameters == 400500);
  CHECK(summary.layers[6].description == "Relu()");
  CHECK(summary.layers[7].output == Shape{1, 10});
  CHECK(summary.flops == 576000 + 3200000 + 800000 + 10000);
  CHECK(summary.output_bytes == 4 * (20 * 24 * 24 + 20 * 12 * 12 + 50 * 8 * 8 + 800 + 500 + 500 + 10));
  const std::string text = summary.text();
  CHECK_THAT(text, Catch::ContainsSubstring("LeNet on [1,1,28,28]"));
  CHECK_THAT(text, Catch::ContainsSubstring("431,080 parameters (1.72 MB), 4,586,000 FLOPs"));
  CHECK(nn::summary(net, {16, 1, 28, 28}).flops == 16 * summary.flops);
}

TEST_CASE("summary: children inside children, and switches as before", "[nn]") {
  nn::BatchNorm2d norm(2);
  nn::Sequential inner(nn::Conv2d(1, 2, 1), norm), outer(inner, nn::Dropout());
  norm.eval();
  const nn::Summary summary = nn::summary(outer, {1, 1, 3, 3});
  CHECK_FALSE(norm.training());
  CHECK(outer.training());
  CHECK(norm.state().at("running_var").values() == std::vector<double>{1, 1});
  REQUIRE(summary.layers.size() == 3);
  CHECK(summary.layers[1].name == "0.1");
  CHECK(summary.parameters == 4 + 4);
  CHECK_THROWS_AS(nn::summary(outer, {1, 2, 3, 3}), ShapeError);
  CHECK(outer.training());
  CHECK_FALSE(outer.parameters()[0].grad().defined());
}
