#pragma once
// The layers before and after the blocks of a residual network.

#include <string>

#include "models/widths.hpp"
#include "tern/models/resnet18.hpp"
#include "tern/nn/activation.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/pooling.hpp"
#include "tern/nn/shape.hpp"

namespace tern::models {

/// Calls `add(name, layer)` for the first layers, which make `channels` from the three colours.
template <class Add>
void add_stem(const ResNet18Options& options, std::int64_t channels, Generator& generator, const Add& add) {
  const bool small = options.stem == Stem::small;
  const std::int64_t kernel = small ? 3 : 7, stride = small ? 1 : 2;
  add("conv1", nn::Conv2d(3, channels, kernel,
                          {.stride = stride, .padding = kernel / 2, .bias = false, .start = options.start}, generator));
  add("bn1", nn::BatchNorm2d(channels));
  add("relu", nn::Relu());
  if (!small) add("maxpool", nn::MaxPool2d(3, {.stride = 2, .padding = 1}));
}

/// The same for the last layers.
template <class Add>
void add_head(const ResNet18Options& options, std::int64_t channels, Generator& generator, const Add& add) {
  add("avgpool", nn::AdaptiveAvgPool2d(1));
  add("flatten", nn::Flatten());
  add("fc", nn::Linear(channels, options.classes, {.start = last_start(options.start)}, generator));
}

/// The 1x1 convolution that brings a block's input to the shape of its output; empty if it has that shape.
inline nn::Sequential shortcut(std::int64_t in, std::int64_t out, std::int64_t stride, nn::Start start,
                               Generator& generator) {
  nn::Sequential layers;
  if (stride == 1 && in == out) return layers;
  layers.add(nn::Conv2d(in, out, 1, {.stride = stride, .bias = false, .start = start}, generator));
  layers.add(nn::BatchNorm2d(out));
  return layers;
}

}  // namespace tern::models
