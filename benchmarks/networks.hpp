#pragma once
// The networks that the benchmarks time.

#include <memory>
#include <string>

#include "tern/tern.hpp"

namespace tern::benchmarks {

/// A network with the shape of an input, without the batch.
struct Network {
  std::shared_ptr<nn::Module> module;
  Shape image;
  std::int64_t classes;

  Shape input(std::int64_t batch) const {
    Shape shape{batch};
    for (const std::int64_t size : image) shape.push_back(size);
    return shape;
  }
};

/// One of the library's ten by its name, with random weights.
inline Network net_of(const std::string& name) {
  const auto classifier = [](auto net) {
    return Network{net, {3, net->image_size(), net->image_size()}, net->classes()};
  };
  if (name == "mlp") return {std::make_shared<models::Mlp>(models::mlp_big()), {784}, 10};
  if (name == "lenet") return {std::make_shared<models::LeNet>(), {1, 28, 28}, 10};
  if (name == "alexnet") return classifier(std::make_shared<models::AlexNet>());
  if (name == "googlenet") return classifier(std::make_shared<models::GoogLeNet>());
  if (name == "resnet18") return classifier(std::make_shared<models::ResNet18>());
  if (name == "resnet50") return classifier(std::make_shared<models::ResNet50>());
  if (name == "mobilenet_v2") return classifier(std::make_shared<models::MobileNetV2>());
  if (name == "vgg16") return classifier(std::make_shared<models::Vgg16>());
  if (name == "unet") return {std::make_shared<models::UNet>(), {3, 128, 128}, 2};
  if (name == "vit_b_16")
    return classifier(std::make_shared<models::VisionTransformer>(
        models::VisionTransformerOptions{.width = 768, .heads = 12, .hidden = 3072}));
  throw Error(message("net \"", name, "\" is unknown"));
}

inline Tensor loss_of(const nn::Module& net, const Tensor& in, const Tensor& labels) {
  if (const auto* googlenet = dynamic_cast<const models::GoogLeNet*>(&net)) return googlenet->loss(in, labels);
  return operators::cross_entropy(net(in), labels);
}

}  // namespace tern::benchmarks
