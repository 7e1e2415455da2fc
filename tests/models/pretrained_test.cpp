// Weights of torchvision in a network with other classes: taken over, frozen, trained on.

#include <algorithm>
#include <cmath>

#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/io/safetensors.hpp"
#include "tern/tern.hpp"

using namespace tern;
using Catch::ContainsSubstring;

namespace {

// The state_dict of torchvision's resnet18, with random numbers, spelt out independently of models::ResNet18.
class TorchvisionResNet18 {
 public:
  explicit TorchvisionResNet18(std::string prefix) : prefix_(std::move(prefix)) {
    convolution("conv1", 64, 3, 7);
    normalisation("bn1", 64);
    std::int64_t in = 64;
    for (int layer = 1; layer <= 4; ++layer)
      for (int block = 0; block < 2; ++block) {
        const std::int64_t out = 32 << layer;
        const std::string name = message("layer", layer, ".", block, ".");
        convolution(name + "conv1", out, in, 3);
        normalisation(name + "bn1", out);
        convolution(name + "conv2", out, out, 3);
        normalisation(name + "bn2", out);
        if (in != out) {
          convolution(name + "downsample.0", out, in, 1);
          normalisation(name + "downsample.1", out);
        }
        in = out;
      }
    add("fc.weight", randn({1000, 512}, generator_, 0, 0.02));
    add("fc.bias", zeros({1000}));
  }
  const nn::State& state() const { return state_; }

 private:
  void add(const std::string& name, const Tensor& tensor) { state_.emplace(prefix_ + name, tensor); }
  void convolution(const std::string& name, std::int64_t out, std::int64_t in, std::int64_t kernel) {
    const double deviation = std::sqrt(2 / static_cast<double>(out * kernel * kernel));
    add(name + ".weight", randn({out, in, kernel, kernel}, generator_, 0, deviation));
  }
  void normalisation(const std::string& name, std::int64_t channels) {
    add(name + ".weight", rand({channels}, generator_, 0.5, 1));
    add(name + ".bias", rand({channels}, generator_, -0.1, 0.1));
    add(name + ".running_mean", rand({channels}, generator_, -0.1, 0.1));
    add(name + ".running_var", rand({channels}, generator_, 0.5, 1.5));
    add(name + ".num_batches_tracked", scalar(std::int64_t{5}));
  }

  std::string prefix_;
  Generator generator_{3};
  nn::State state_;
};

struct Batch {
  Tensor images, labels;
};

// Five classes that differ by their colours.
Batch some_images() {
  Generator generator(5);
  Batch batch{randn({10, 3, 64, 64}, generator, 0, 0.3), tensor<std::int64_t>({0, 1, 2, 3, 4, 0, 1, 2, 3, 4})};
  const Tensor shift =
      tensor({1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 0.0f, 0.0f, 0.0f, 1.0f, 1.0f, 1.0f, 0.0f, 0.0f, 1.0f, 1.0f}, {5, 3, 1, 1});
  batch.images = batch.images + operators::cat({shift, shift}, 0);
  return batch;
}

double step(nn::Module& net, optim::Optimizer& optimizer, const Batch& batch) {
  const Tensor loss = operators::cross_entropy(net(batch.images), batch.labels);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
  return loss.item();
}

}  // namespace

TEST_CASE("pretrained: a file with torchvision's names fits ResNet18 as it is", "[models][pretrained]") {
  const testing::TemporaryFolder folder;
  const TorchvisionResNet18 there("");
  io::save_safetensors(folder / "resnet18.safetensors", there.state());
  models::ResNet18 net;
  const nn::LoadReport report = nn::load(net, folder / "resnet18.safetensors");
  CHECK(report.whole());
  for (const auto& [name, tensor] : net.state()) CHECK(tensor.values() == there.state().at(name).values());
}

TEST_CASE("pretrained: a new head learns on a frozen body, then all of it", "[models][pretrained]") {
  const testing::TemporaryFolder folder;
  // As another program saves it, in which torchvision's network is a part and its head has another name.
  nn::State there;
  const TorchvisionResNet18 body("model.backbone.");
  for (const auto& [name, tensor] : body.state()) {
    const std::string head = "model.backbone.fc.";
    there.emplace(name.starts_with(head) ? "model.head." + name.substr(head.size()) : name, tensor);
  }
  there.emplace("epoch", scalar(std::int64_t{90}));
  io::save_safetensors(folder / "checkpoint.safetensors", there);

  models::ResNet18 net{{.classes = 5, .image_size = 64}, 1};
  const auto head = net.state().at("fc.weight").values();
  const nn::ImportOptions options{.prefix = "model.", .rename = {{"backbone.", ""}, {"head.", "fc."}}, .strict = false};
  const nn::LoadReport report = nn::load(net, folder / "checkpoint.safetensors", options);
  CHECK(report.taken.size() == 100);
  CHECK(report.missing.empty());
  CHECK(report.unexpected.empty());
  REQUIRE(report.differing.size() == 2);
  CHECK_THAT(report.text(), ContainsSubstring("100 of 102 tensors were taken") &&
                                ContainsSubstring("different: fc.weight is [5,512] here and [1000,512] there"));
  CHECK(net.state().at("layer4.1.conv2.weight").values() == there.at("model.backbone.layer4.1.conv2.weight").values());
  CHECK(net.state().at("fc.weight").values() == head);

  nn::freeze(net, {"*"});
  CHECK(nn::unfreeze(net, {"fc.*"}) == std::vector<std::string>{"fc.weight", "fc.bias"});
  net.eval();  // the statistics of the body stay, too
  const Batch batch = some_images();
  optim::Adam adam{nn::trained_parameters(net), {.learning_rate = 0.02}};
  const double first = step(net, adam, batch);
  double last = first;
  for (int i = 0; i < 15; ++i) last = step(net, adam, batch);
  CHECK(last < 0.75 * first);
  for (const auto& [name, tensor] : net.state())
    if (name.starts_with("fc."))
      CHECK(tensor.values() != (name == "fc.weight" ? head : std::vector<double>(5)));
    else
      CHECK(tensor.values() == there.at("model.backbone." + name).values());

  nn::unfreeze(net, {"*"});
  net.train();
  optim::SGD all{nn::trained_parameters(net), {.learning_rate = 0.001, .momentum = 0.9}};
  CHECK(nn::trained_parameters(net).size() == net.parameters().size());
  (void)step(net, all, batch);
  for (const char* name : {"conv1.weight", "layer4.1.bn2.bias", "bn1.running_mean"})
    CHECK(net.state().at(name).values() != there.at(std::string("model.backbone.") + name).values());
}
