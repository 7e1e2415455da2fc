#pragma once
// The image networks as tests train them: narrow, for small images.

#include <memory>

#include "tern/tern.hpp"

namespace tern::testing {

struct ImageNet {
  std::string name;
  std::int64_t image_size, width_divisor;
};

inline const std::vector<ImageNet>& image_nets() {
  static const std::vector<ImageNet> nets{
      {"AlexNet", 67, 16}, {"GoogLeNet", 80, 8}, {"Vgg16", 32, 16}, {"ResNet18", 64, 16}};
  return nets;
}

/// For five classes.
inline std::shared_ptr<models::ImageClassifier> make(const ImageNet& net, std::uint64_t seed = 1, double dropout = 0) {
  constexpr std::int64_t classes = 5;
  if (net.name == "AlexNet")
    return std::make_shared<models::AlexNet>(
        models::AlexNetOptions{
            .classes = classes, .image_size = net.image_size, .dropout = dropout, .width_divisor = net.width_divisor},
        seed);
  if (net.name == "GoogLeNet")
    return std::make_shared<models::GoogLeNet>(models::GoogLeNetOptions{.classes = classes,
                                                                        .image_size = net.image_size,
                                                                        .dropout = dropout,
                                                                        .auxiliary_dropout = dropout,
                                                                        .width_divisor = net.width_divisor},
                                               seed);
  if (net.name == "Vgg16")
    return std::make_shared<models::Vgg16>(
        models::Vgg16Options{
            .classes = classes, .image_size = net.image_size, .dropout = dropout, .width_divisor = net.width_divisor},
        seed);
  return std::make_shared<models::ResNet18>(
      models::ResNet18Options{.classes = classes, .image_size = net.image_size, .width_divisor = net.width_divisor},
      seed);
}

inline Tensor random_images(const models::ImageClassifier& net, std::int64_t n) {
  Generator generator(5);
  return randn({n, 3, net.image_size(), net.image_size()}, generator);
}

/// Up to 8.
inline Tensor few_labels(std::int64_t n) { return tensor<std::int64_t>({3, 1, 4, 1, 0, 2, 2, 4}).slice(0, 0, n); }

}  // namespace tern::testing
