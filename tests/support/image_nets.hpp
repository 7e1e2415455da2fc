#pragma once
// The image networks by name, and in the form that tests train: narrow, for small images.

#include <memory>

#include "tern/tern.hpp"

namespace tern::testing {

/// Options that all image networks share.
struct ImageNetOptions {
  std::int64_t classes = 1000, image_size = 224, width_divisor = 1;
  double dropout = 0;
  nn::Start start = nn::Start::kaiming;
};

/// "alexnet", "googlenet", "vgg16", "resnet18", "resnet50", "mobilenetv2" or "vit", whose narrow form is shallow, too.
inline std::shared_ptr<models::ImageClassifier> make(const std::string& net, const ImageNetOptions& options,
                                                     std::uint64_t seed = 1) {
  const auto [classes, image_size, width_divisor, dropout, start] = options;
  if (net == "alexnet")
    return std::make_shared<models::AlexNet>(models::AlexNetOptions{classes, image_size, dropout, width_divisor, start},
                                             seed);
  if (net == "googlenet")
    return std::make_shared<models::GoogLeNet>(
        models::GoogLeNetOptions{classes, image_size, true, dropout, dropout, width_divisor, start}, seed);
  if (net == "vgg16")
    return std::make_shared<models::Vgg16>(models::Vgg16Options{classes, image_size, dropout, width_divisor, start},
                                           seed);
  if (net == "resnet50")
    return std::make_shared<models::ResNet50>(models::ResNet50Options{classes, image_size, width_divisor, start}, seed);
  if (net == "mobilenetv2")
    return std::make_shared<models::MobileNetV2>(
        models::MobileNetV2Options{classes, image_size, dropout, width_divisor, start}, seed);
  if (net == "vit") {
    const bool narrow = width_divisor > 1;
    return std::make_shared<models::VisionTransformer>(models::VisionTransformerOptions{.classes = classes,
                                                                                        .image_size = image_size,
                                                                                        .patch = narrow ? 8 : 16,
                                                                                        .width = 384 / width_divisor,
                                                                                        .layers = narrow ? 2 : 12,
                                                                                        .hidden = 1536 / width_divisor},
                                                       seed);
  }
  expects(net == "resnet18", "no network is named \"", net, "\"");
  return std::make_shared<models::ResNet18>(models::ResNet18Options{classes, image_size, width_divisor, start}, seed);
}

/// A network that trains in a moment.
struct ImageNet {
  std::string name;
  std::int64_t image_size, width_divisor;
};

inline const std::vector<ImageNet>& image_nets() {
  static const std::vector<ImageNet> nets{
      {"alexnet", 67, 16}, {"googlenet", 80, 8}, {"vgg16", 32, 16}, {"resnet18", 64, 16}};
  return nets;
}

/// For five classes.
inline std::shared_ptr<models::ImageClassifier> make(const ImageNet& net, std::uint64_t seed = 1, double dropout = 0) {
  return make(net.name,
              {.classes = 5, .image_size = net.image_size, .width_divisor = net.width_divisor, .dropout = dropout},
              seed);
}

inline Tensor random_images(const models::ImageClassifier& net, std::int64_t n) {
  Generator generator(5);
  return randn({n, 3, net.image_size(), net.image_size()}, generator);
}

/// Up to 8.
inline Tensor few_labels(std::int64_t n) { return tensor<std::int64_t>({3, 1, 4, 1, 0, 2, 2, 4}).slice(0, 0, n); }

}  // namespace tern::testing
