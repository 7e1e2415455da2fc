#include "tern/models/resnet18.hpp"

#include "models/residual_stem.hpp"

namespace tern::models {

// Batch normalisation subtracts the mean and with it any bias, so the convolutions have none.
ResidualBlock::ResidualBlock(std::int64_t in, std::int64_t out, std::int64_t stride, nn::Start start,
                             Generator& generator)
    : conv1_(module(
          "conv1", nn::Conv2d(in, out, 3, {.stride = stride, .padding = 1, .bias = false, .start = start}, generator))),
      bn1_(module("bn1", nn::BatchNorm2d(out))),
      conv2_(module("conv2", nn::Conv2d(out, out, 3, {.padding = 1, .bias = false, .start = start}, generator))),
      bn2_(module("bn2", nn::BatchNorm2d(out))),
      downsample_(shortcut(in, out, stride, start, generator)) {
  if (downsample_.size() > 0) module("downsample", downsample_);
}

Tensor ResidualBlock::forward(const Tensor& x) const {
  const Tensor y = conv2_(bn1_(conv1_(x), {}, Activation::relu));
  return bn2_(y, downsample_.forward(x), Activation::relu);
}

ResNet18::ResNet18(const ResNet18Options& options, std::uint64_t seed)
    : ImageClassifier("ResNet18", options.classes, options.image_size, 1) {
  Generator generator(seed);
  const Widths width("ResNet18", options.width_divisor);
  const nn::Start start = options.start;
  const auto add = [this](const std::string& name, const auto& layer) { layers_.add(name, module(name, layer)); };

  std::int64_t channels = width(64);
  add_stem(options, channels, generator, add);
  for (int i = 1; i <= 4; ++i) {
    const std::int64_t out = width(32 << i);
    const ResidualBlock first(channels, out, i == 1 ? 1 : 2, start, generator);
    add("layer" + std::to_string(i), nn::Sequential(first, ResidualBlock(out, out, 1, start, generator)));
    channels = out;
  }
  add_head(options, channels, generator, add);
}

// Through `forward`: the children of layers_ belong to this network.
Tensor ResNet18::logits(const Tensor& images) const { return layers_.forward(images); }

}  // namespace tern::models
