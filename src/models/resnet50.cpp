#include "tern/models/resnet50.hpp"

#include "models/residual_stem.hpp"

namespace tern::models {

Bottleneck::Bottleneck(std::int64_t in, std::int64_t width, std::int64_t stride, nn::Start start, Generator& generator)
    : conv1_(module("conv1", nn::Conv2d(in, width, 1, {.bias = false, .start = start}, generator))),
      bn1_(module("bn1", nn::BatchNorm2d(width))),
      conv2_(module("conv2", nn::Conv2d(width, width, 3,
                                        {.stride = stride, .padding = 1, .bias = false, .start = start}, generator))),
      bn2_(module("bn2", nn::BatchNorm2d(width))),
      conv3_(module("conv3", nn::Conv2d(width, expansion * width, 1, {.bias = false, .start = start}, generator))),
      bn3_(module("bn3", nn::BatchNorm2d(expansion * width))),
      downsample_(shortcut(in, expansion * width, stride, start, generator)) {
  if (downsample_.size() > 0) module("downsample", downsample_);
}

Tensor Bottleneck::forward(const Tensor& x) const {
  Tensor y = bn1_(conv1_(x), {}, Activation::relu);
  y = bn2_(conv2_(y), {}, Activation::relu);
  return bn3_(conv3_(y), downsample_.forward(x), Activation::relu);
}

ResNet50::ResNet50(const ResNet50Options& options, std::uint64_t seed)
    : ImageClassifier("ResNet50", options.classes, options.image_size, 1) {
  Generator generator(seed);
  const Widths width("ResNet50", options.width_divisor);
  const auto add = [this](const std::string& name, const auto& layer) { layers_.add(name, module(name, layer)); };
  constexpr int blocks[]{3, 4, 6, 3};
  std::int64_t channels = width(64);
  add_stem(options, channels, generator, add);
  for (int i = 0; i < 4; ++i) {
    const std::int64_t inner = width(64 << i);
    nn::Sequential layer;
    for (int block = 0; block < blocks[i]; ++block) {
      layer.add(Bottleneck(channels, inner, block == 0 && i > 0 ? 2 : 1, options.start, generator));
      channels = Bottleneck::expansion * inner;
    }
    add("layer" + std::to_string(i + 1), layer);
  }
  add_head(options, channels, generator, add);
}

// Through `forward`: the children of layers_ belong to this network.
Tensor ResNet50::logits(const Tensor& images) const { return layers_.forward(images); }

}  // namespace tern::models
