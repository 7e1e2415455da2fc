// AlexNet, GoogLeNet, Vgg16 and ResNet18: sizes and names, shapes, mistakes. That they learn is in tests/training.

#include "support/image_nets.hpp"

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;
using testing::ImageNet, testing::image_nets, testing::make, testing::random_images, testing::few_labels;

namespace {

std::vector<std::string> names_of(const nn::Module& net) {
  std::vector<std::string> names;
  for (const auto& named : net.named_parameters()) names.push_back(named.name);
  return names;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Shape shape_of(const nn::Module& net, const std::string& name) { return net.state().at(name).shape(); }

}  // namespace

TEST_CASE("image nets: the published numbers of parameters", "[models]") {
  constexpr nn::Start none = nn::Start::none;
  CHECK(models::AlexNet({.start = none}).parameter_count() == 60965224);
  CHECK(models::GoogLeNet({.start = none}).parameter_count() == 13378280);
  CHECK(models::GoogLeNet({.auxiliary = false, .start = none}).parameter_count() == 6998552);
  CHECK(models::Vgg16({.start = none}).parameter_count() == 138357544);
  CHECK(models::ResNet18({.start = none}).parameter_count() == 11689512);
  CHECK(models::ResNet18({.classes = 10, .image_size = 32, .start = none, .stem = models::Stem::small})
            .parameter_count() == 11173962);
}

TEST_CASE("image nets: summary has the published parameters and the work of one image", "[models]") {
  const models::GoogLeNet googlenet({.auxiliary = false, .start = nn::Start::none});
  const nn::Summary summary = nn::summary(googlenet, {1, 3, 224, 224});
  CHECK(summary.parameters == 6998552);
  CHECK(summary.flops / 1000000 == 3165);
  CHECK_THAT(summary.text(), Catch::ContainsSubstring("inception4e.branch3.1.conv Conv2d(32, 128, 5x5"));
  const models::AlexNet alexnet({.start = nn::Start::none});
  const nn::Summary other = nn::summary(alexnet, {1, 3, 227, 227});
  CHECK(other.parameters == 60965224);
  CHECK(other.flops / 1000000 == 1448);
}

TEST_CASE("image nets: parameters are named as torchvision's", "[models]") {
  constexpr nn::Start none = nn::Start::none;
  const models::AlexNet alexnet({.start = none});
  std::vector<std::string> expected;
  for (const char* layer : {"features.0", "features.3", "features.6", "features.8", "features.10", "classifier.1",
                            "classifier.4", "classifier.6"})
    for (const char* part : {".weight", ".bias"}) expected.push_back(std::string(layer) + part);
  CHECK(names_of(alexnet) == expected);
  CHECK(shape_of(alexnet, "features.3.weight") == Shape{256, 48, 5, 5});
  CHECK(shape_of(alexnet, "classifier.1.weight") == Shape{4096, 9216});

  const models::Vgg16 vgg({.start = none});
  expected.clear();
  for (const int layer : {0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28})
    for (const char* part : {".weight", ".bias"}) expected.push_back(message("features.", layer, part));
  for (const int layer : {0, 3, 6})
    for (const char* part : {".weight", ".bias"}) expected.push_back(message("classifier.", layer, part));
  CHECK(names_of(vgg) == expected);
  CHECK(shape_of(vgg, "classifier.0.weight") == Shape{4096, 25088});

  const models::GoogLeNet googlenet({.start = none});
  const std::vector<std::string> names = names_of(googlenet);
  CHECK(names.size() == 2 * (3 + 9 * 6 + 1 + 2 * 3));
  for (const char* name :
       {"conv1.conv.weight", "conv3.conv.bias", "inception3a.branch1.conv.weight", "inception4d.branch2.0.conv.weight",
        "inception4d.branch2.1.conv.bias", "inception5b.branch3.1.conv.weight", "inception5b.branch4.1.conv.weight",
        "aux1.conv.conv.weight", "aux1.fc1.weight", "aux2.fc2.bias", "fc.weight"})
    CHECK(has(names, name));
  CHECK(shape_of(googlenet, "inception3a.branch3.1.conv.weight") == Shape{32, 16, 5, 5});
  CHECK(shape_of(googlenet, "aux2.conv.conv.weight") == Shape{128, 528, 1, 1});
  CHECK(shape_of(googlenet, "aux1.fc1.weight") == Shape{1024, 2048});
  CHECK_FALSE(has(names_of(models::GoogLeNet({.auxiliary = false, .start = none})), "aux1.fc1.weight"));

  const models::ResNet18 resnet({.start = none});
  const nn::State state = resnet.state();
  CHECK(state.size() == 62 + 40);  // parameters, running statistics
  for (const char* name : {"conv1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
                           "layer2.0.downsample.1.bias", "layer4.1.bn2.running_mean", "fc.bias"})
    CHECK(state.contains(name));
  CHECK(shape_of(resnet, "layer2.0.downsample.0.weight") == Shape{128, 64, 1, 1});
}

TEST_CASE("image nets: torchvision's count of batches is passed over", "[models]") {
  models::ResNet18 net({.classes = 3, .image_size = 32, .width_divisor = 32});
  nn::State state = net.state();
  state.emplace("layer3.1.bn2.num_batches_tracked", scalar<std::int64_t>(7));
  net.load_state(state);
  state.emplace("num_batches_tracked", scalar<std::int64_t>(7));
  CHECK_THROWS_WITH(net.load_state(state), Catch::ContainsSubstring("unexpected: num_batches_tracked"));
}

TEST_CASE("image nets: any number of classes and any size of image", "[models]") {
  const auto check = [](const models::ImageClassifier& net) {
    INFO(net.describe() << ' ' << net.image_size());
    const Tensor y = net(zeros({2, 3, net.image_size(), net.image_size()}));
    CHECK(y.shape() == Shape{2, net.classes()});
    for (const double value : y.values()) CHECK(std::isfinite(value));
  };
  for (const std::int64_t size : {67, 100, 131})
    check(models::AlexNet({.classes = 7, .image_size = size, .width_divisor = 64}));
  for (const std::int64_t size : {47, 64})
    check(models::GoogLeNet({.classes = 7, .image_size = size, .auxiliary = false, .width_divisor = 64}));
  for (const std::int64_t size : {32, 50}) check(models::Vgg16({.image_size = size, .width_divisor = 64}));
  for (const std::int64_t size : {1, 32, 41})
    check(models::ResNet18({.classes = 1, .image_size = size, .width_divisor = 64}));
  // The auxiliary heads fit themselves too.
  for (const std::int64_t size : {79, 80, 97, 128}) {
    const models::GoogLeNet net({.classes = 4, .image_size = size, .width_divisor = 64});
    INFO("GoogLeNet " << size);
    CHECK(net.loss(random_images(net, 1), few_labels(1)).item() >= 0);
  }
}

TEST_CASE("image nets: mistakes say what to change", "[models]") {
  const models::AlexNet alexnet({.classes = 3, .width_divisor = 64});
  CHECK(testing::said<ShapeError>([&] {
          alexnet(zeros({8, 3, 200, 200}));
        }) ==
        "AlexNet: input [8,3,200,200], expected [N,3,227,227]; resize the images or construct AlexNet with image_size "
        "200");
  CHECK_THAT(testing::said<ShapeError>([&] {
               alexnet(zeros({8, 3, 227, 200}));
             }),
             Catch::ContainsSubstring("resize the images or cut them square"));
  CHECK_THAT(testing::said<ShapeError>([&] {
               alexnet(zeros({8, 1, 227, 227}));
             }),
             Catch::ContainsSubstring("expected [N,3,227,227]: a batch of images of three channels"));
  CHECK_THROWS_AS(alexnet(zeros({3, 227, 227})), ShapeError);
  CHECK_THROWS_AS(alexnet(Tensor()), Error);
  CHECK_THROWS_AS(alexnet.loss(zeros({2, 3, 227, 227}), few_labels(1)), ShapeError);
  const models::GoogLeNet googlenet({.classes = 3, .width_divisor = 64});
  CHECK_THAT(testing::said<ShapeError>([&] {
               googlenet.loss(zeros({1, 3, 227, 227}), few_labels(1));
             }),
             Catch::ContainsSubstring("construct GoogLeNet with image_size 227"));
  CHECK_THROWS_AS(googlenet.loss(zeros({1, 3, 224, 224}), tensor<std::int64_t>({3})).item(), NumericError);

  CHECK(testing::said<ShapeError>([] { models::AlexNet({.image_size = 66}); }) ==
        "AlexNet: images of 66x66 are too small for its layers, expected at least 67x67");
  CHECK_THROWS_AS(models::GoogLeNet({.image_size = 78}), ShapeError);
  CHECK_THROWS_AS(models::GoogLeNet({.image_size = 46, .auxiliary = false}), ShapeError);
  CHECK_THROWS_AS(models::Vgg16({.image_size = 31}), ShapeError);
  CHECK_THROWS_AS(models::ResNet18({.image_size = 0}), ShapeError);
  CHECK_THROWS_AS(models::ResNet18({.classes = 0}), ShapeError);
  CHECK_THROWS_AS(models::Vgg16({.width_divisor = 0}), ShapeError);
}

TEST_CASE("image nets: the loss of GoogLeNet counts the auxiliary heads in training only", "[models]") {
  const ImageNet& small = image_nets()[1];
  const auto net = make(small);
  const Tensor x = random_images(*net, 2), y = few_labels(2);
  const double main_loss = op::cross_entropy((*net)(x), y).item(), training = net->loss(x, y).item();
  CHECK(training > main_loss);
  // A head of zeros gives every class the same probability.
  nn::State state = net->state();
  for (const char* head : {"aux1", "aux2"})
    for (const char* part : {".fc2.weight", ".fc2.bias"}) state.at(std::string(head) + part).fill_(0);
  CHECK(net->loss(x, y).item() == Approx(main_loss + 2 * 0.3 * std::log(5.0)).epsilon(1e-5));
  net->eval();
  CHECK(net->loss(x, y).item() == Approx(main_loss).epsilon(1e-6));
}

TEST_CASE("image nets: gradients reach every parameter; dropout draws in training only", "[models]") {
  for (const ImageNet& small : image_nets()) {
    const auto net = make(small, 1, 0.5);
    const Tensor x = random_images(*net, 4), y = few_labels(4);
    net->loss(x, y).backward();
    for (const auto& [name, parameter] : net->named_parameters()) {
      INFO(small.name << ' ' << name);
      REQUIRE(parameter.grad().defined());
      double sum = 0;  // of absolute values: finite if all are
      for (const double value : parameter.grad().values()) sum += std::abs(value);
      CHECK(std::isfinite(sum));
      CHECK(sum > 0);
    }
    INFO(small.name);
    if (small.name != "resnet18") CHECK((*net)(x).values() != (*net)(x).values());
    net->eval();
    CHECK((*net)(x).values() == (*net)(x).values());
  }
}

TEST_CASE("image nets: the seed decides the start", "[models]") {
  for (const ImageNet& small : image_nets()) {
    INFO(small.name);
    CHECK(make(small, 1)->parameters()[2].values() == make(small, 1)->parameters()[2].values());
    CHECK(make(small, 1)->parameters()[0].values() != make(small, 2)->parameters()[0].values());
  }
}
