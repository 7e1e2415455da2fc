// ResNet50, MobileNetV2, VisionTransformer and UNet: sizes, torchvision's names, the same in every mode, and learning.

#include <cmath>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "support/summary.hpp"
#include "tern/models/models.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;
using testing::said;
namespace op = tern::operators;

namespace {

constexpr nn::Start none = nn::Start::none;

void check_names(const nn::Module& net, const std::vector<std::pair<const char*, Shape>>& expected) {
  const nn::State state = net.state();
  for (const auto& [name, shape] : expected) {
    INFO(name);
    REQUIRE(state.contains(name));
    CHECK(state.at(name).shape() == shape);
  }
}

Tensor drawn(const Shape& shape) {
  Generator generator(5);
  return randn(shape, generator);
}

/// Small forms of the four, by their `loss` on a batch of images of 32x32.
struct Small {
  std::string name;
  std::shared_ptr<nn::Module> net;
  std::function<Tensor(const Tensor& images)> loss;
};

std::vector<Small> small_nets() {
  const Tensor labels = tensor<std::int64_t>({1, 0, 2, 3});
  std::vector<Small> nets;
  const auto add = [&](const std::string& name, const auto& net) {
    nets.push_back({name, net, [net, labels](const Tensor& images) { return net->loss(images, labels); }});
  };
  add("ResNet50", std::make_shared<models::ResNet50>(
                      models::ResNet50Options{.classes = 4, .image_size = 32, .width_divisor = 16}, 1));
  add("MobileNetV2",
      std::make_shared<models::MobileNetV2>(
          models::MobileNetV2Options{.classes = 4, .image_size = 32, .dropout = 0, .width_divisor = 4}, 1));
  add("VisionTransformer",
      std::make_shared<models::VisionTransformer>(
          models::VisionTransformerOptions{
              .classes = 4, .image_size = 32, .patch = 8, .width = 24, .layers = 2, .heads = 3, .hidden = 48},
          1));
  const auto unet = std::make_shared<models::UNet>(models::UNetOptions{.classes = 3, .width_divisor = 8}, 1);
  const auto bright = [](const Tensor& images) {  // red, and very red
    const Tensor red = images.slice(1, 0, 1).reshape({4, 32, 32});
    return (op::greater(red, 0).to(DType::float32) + op::greater(red, 1).to(DType::float32)).to(DType::int64);
  };
  nets.push_back({"UNet", unet, [unet, bright](const Tensor& images) { return unet->loss(images, bright(images)); }});
  return nets;
}

}  // namespace

TEST_CASE("more nets: the published numbers of parameters", "[models]") {
  CHECK(models::ResNet50({.start = none}).parameter_count() == 25557032);
  CHECK(models::MobileNetV2({.start = none}).parameter_count() == 3504872);
  CHECK(models::UNet({.start = none}).parameter_count() == 31037698);
  CHECK(models::UNet({.classes = 1, .start = none}).parameter_count() == 31037633);
  CHECK(models::VisionTransformer().parameter_count() == 22050664);
  // ViT-B/16, whose twelve layers are alike.
  const auto base = [](std::int64_t layers) {
    return models::VisionTransformer({.width = 768, .layers = layers, .heads = 12, .hidden = 3072}).parameter_count();
  };
  const std::int64_t without = base(0);
  CHECK(without + 12 * (base(1) - without) == 86567656);
}

TEST_CASE("more nets: parameters are named as torchvision's", "[models]") {
  const models::ResNet50 resnet({.start = none});
  CHECK(resnet.state().size() == 161 + 106);  // parameters, running statistics
  check_names(resnet, {{"conv1.weight", {64, 3, 7, 7}},
                       {"layer1.0.conv3.weight", {256, 64, 1, 1}},
                       {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
                       {"layer2.0.downsample.1.running_mean", {512}},
                       {"layer2.0.conv2.weight", {128, 128, 3, 3}},
                       {"layer3.5.bn3.bias", {1024}},
                       {"fc.weight", {1000, 2048}}});
  const models::MobileNetV2 mobile({.start = none});
  CHECK(mobile.state().size() == 158 + 104);
  check_names(mobile, {{"features.0.0.weight", {32, 3, 3, 3}},
                       {"features.0.1.running_var", {32}},
                       {"features.1.conv.0.0.weight", {32, 1, 3, 3}},
                       {"features.1.conv.1.weight", {16, 32, 1, 1}},
                       {"features.1.conv.2.bias", {16}},
                       {"features.2.conv.0.0.weight", {96, 16, 1, 1}},
                       {"features.17.conv.3.running_mean", {320}},
                       {"features.18.0.weight", {1280, 320, 1, 1}},
                       {"classifier.1.weight", {1000, 1280}}});
  const models::VisionTransformer vit({.layers = 2});
  check_names(vit, {{"class_token", {1, 1, 384}},
                    {"conv_proj.weight", {384, 3, 16, 16}},
                    {"encoder.pos_embedding", {1, 197, 384}},
                    {"encoder.layers.encoder_layer_1.ln_2.weight", {384}},
                    {"encoder.layers.encoder_layer_0.self_attention.in_proj_weight", {1152, 384}},
                    {"encoder.layers.encoder_layer_0.self_attention.out_proj.bias", {384}},
                    {"encoder.layers.encoder_layer_0.mlp.0.weight", {1536, 384}},
                    {"encoder.layers.encoder_layer_1.mlp.3.bias", {384}},
                    {"encoder.ln.bias", {384}},
                    {"heads.head.weight", {1000, 384}}});
}

TEST_CASE("more nets: every mode computes the reference's losses and gradients", "[models]") {
  const Tensor images = drawn({4, 3, 32, 32});
  for (const Small& small : small_nets()) {
    const auto run = [&](const std::string& mode) {
      const Device device(mode);
      small.net->zero_grad();
      const Tensor loss = small.loss(images);
      loss.backward();
      std::vector<double> values{loss.item()};
      for (const Tensor& tensor : small.net->parameters()) values.push_back(op::norm(tensor.grad()).item());
      return values;
    };
    const std::vector<double> reference = run("sequential");
    for (const double value : reference) CHECK(std::isfinite(value));
    for (const std::string& mode : testing::available_modes()) {
      INFO(small.name << ' ' << mode);
      const std::vector<double> found = run(mode);
      REQUIRE(found.size() == reference.size());
      for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == Approx(reference[i]).epsilon(2e-3).margin(1e-4));
    }
  }
}

TEST_CASE("more nets: a batch is learnt by heart", "[models]") {
  const Tensor images = drawn({4, 3, 32, 32});
  for (const Small& small : small_nets()) {
    INFO(small.name);
    optim::Adam adam(small.net->parameters(), {.learning_rate = 3e-3});
    const double before = small.loss(images).item();
    Tensor loss;
    for (int i = 0; i < 50; ++i) {
      loss = small.loss(images);
      adam.zero_grad();
      loss.backward();
      adam.step();
    }
    CHECK(loss.item() < 0.5 * before);
  }
}

TEST_CASE("more nets: the parts of the vision transformer", "[models]") {
  // Without layers the logits are those of the class token alone, whatever the image.
  const models::VisionTransformer bare({.classes = 3, .image_size = 8, .patch = 4, .width = 6, .layers = 0}, 2);
  const nn::State state = bare.state();
  const Tensor first = state.at("class_token") + state.at("encoder.pos_embedding").slice(1, 0, 1);
  const Tensor expected = op::linear(op::layer_norm(first.reshape({1, 6}), {6}, {}, {}, 1e-6),
                                     state.at("heads.head.weight"), state.at("heads.head.bias"));
  const Tensor found = bare(drawn({2, 3, 8, 8}));
  for (std::int64_t i = 0; i < 2; ++i)
    for (std::int64_t j = 0; j < 3; ++j) CHECK(found[i][j].item() == Approx(expected[0][j].item()).margin(1e-6));
  // With layers every patch counts.
  const models::VisionTransformer net({.classes = 3, .image_size = 8, .patch = 4, .width = 6, .layers = 1, .heads = 2},
                                      2);
  const Tensor images = drawn({1, 3, 8, 8});
  for (const std::int64_t corner : {0, 7}) {
    Tensor changed = images.clone();
    changed.slice(2, corner, corner + 1).slice(3, corner, corner + 1).fill_(9);
    CHECK(net(changed).values() != net(images).values());
  }
  CHECK_THAT(said<ShapeError>([] { models::VisionTransformer({.image_size = 100}); }),
             ContainsSubstring("patches of 16 pixels do not divide images of 100"));
  CHECK_THROWS_AS(models::VisionTransformer({.width = 20, .heads = 3}), ShapeError);
}

TEST_CASE("more nets: a U-Net speaks of every pixel, near and far", "[models]") {
  models::UNet net({.channels = 1, .classes = 3, .width_divisor = 32}, 4);
  net.eval();
  const Tensor images = drawn({2, 1, 32, 48}), logits = net(images);
  CHECK(logits.shape() == Shape{2, 3, 32, 48});
  Tensor changed = images.clone();
  changed.slice(0, 1, 2).fill_(1);
  CHECK(net(changed)[0].values() == logits[0].values());  // images do not see each other in evaluation
  CHECK(net(changed)[1].values() != logits[1].values());
  for (const Shape& wrong : {Shape{1, 1, 40, 32}, Shape{1, 3, 32, 32}, Shape{1, 32, 32}})
    CHECK_THAT(said<ShapeError>([&] { net(zeros(wrong)); }), ContainsSubstring("expected [N,1,H,W]"));
  CHECK_THROWS_AS(models::UNet({.classes = 0}), ShapeError);
}
