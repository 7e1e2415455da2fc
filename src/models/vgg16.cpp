#include "tern/models/vgg16.hpp"

#include "models/widths.hpp"
#include "tern/nn/activation.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/pooling.hpp"
#include "tern/nn/shape.hpp"

namespace tern::models {

Vgg16::Vgg16(const Vgg16Options& options, std::uint64_t seed)
    : ImageClassifier("Vgg16", options.classes, options.image_size, 32) {
  Generator generator(seed);
  const Widths width("Vgg16", options.width_divisor);
  const nn::Start start = options.start;

  constexpr struct {
    std::int64_t channels;
    int convolutions;
  } stages[]{{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}};
  std::int64_t channels = 3, side = options.image_size;
  for (const auto& stage : stages) {
    const std::int64_t out = width(stage.channels);
    for (int i = 0; i < stage.convolutions; ++i) {
      features_.add(nn::Conv2d(channels, out, 3, {.padding = 1, .start = start}, generator)).add(nn::Relu());
      channels = out;
    }
    features_.add(nn::MaxPool2d(2));
    side /= 2;
  }

  const std::int64_t hidden = width(4096);
  classifier_.add("flatten", nn::Flatten());
  classifier_.add("0", nn::Linear(channels * side * side, hidden, {.start = start}, generator)).add("1", nn::Relu());
  if (options.dropout > 0) classifier_.add("2", nn::Dropout(options.dropout));
  classifier_.add("3", nn::Linear(hidden, hidden, {.start = start}, generator)).add("4", nn::Relu());
  if (options.dropout > 0) classifier_.add("5", nn::Dropout(options.dropout));
  classifier_.add("6", nn::Linear(hidden, options.classes, {.start = last_start(start)}, generator));

  module("features", features_);
  module("classifier", classifier_);
}

Tensor Vgg16::logits(const Tensor& images) const { return classifier_(features_(images)); }

}  // namespace tern::models
