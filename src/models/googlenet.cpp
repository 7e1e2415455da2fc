#include "tern/models/googlenet.hpp"

#include "models/widths.hpp"
#include "tern/nn/activation.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/nn/pooling.hpp"
#include "tern/nn/shape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/loss.hpp"

namespace tern::models {

GoogLeNet::AuxiliaryHead::AuxiliaryHead(std::int64_t in, std::int64_t side, const GoogLeNetOptions& options,
                                        Generator& generator) {
  const Widths width("GoogLeNet", options.width_divisor);
  const auto add = [this](const std::string& name, const auto& layer) { layers_.add(name, module(name, layer)); };
  const std::int64_t channels = width(128), hidden = width(1024), pooled = (side - 5 + 2) / 3 + 1;
  add("pool", nn::AvgPool2d(5, {.stride = 3, .ceil_mode = true}));
  add("conv", ConvRelu(in, channels, 1, {.start = options.start}, generator));
  add("flatten", nn::Flatten());
  add("fc1", nn::Linear(channels * pooled * pooled, hidden, {.start = options.start}, generator));
  add("relu", nn::Relu());
  if (options.auxiliary_dropout > 0) add("dropout", nn::Dropout(options.auxiliary_dropout));
  add("fc2", nn::Linear(hidden, options.classes, {.start = last_start(options.start)}, generator));
}

Tensor GoogLeNet::AuxiliaryHead::forward(const Tensor& x) const { return layers_.forward(x); }

GoogLeNet::GoogLeNet(const GoogLeNetOptions& options, std::uint64_t seed)
    : ImageClassifier("GoogLeNet", options.classes, options.image_size, options.auxiliary ? 79 : 47) {
  Generator generator(seed);
  const Widths width("GoogLeNet", options.width_divisor);
  const nn::Start start = options.start;
  // A layer belongs to the network, under torchvision's name, and to the stage that runs it.
  const auto add = [this](nn::Sequential& stage, const std::string& name, const auto& layer) {
    stage.add(name, module(name, layer));
  };
  std::int64_t channels = 3;
  const auto conv = [&](std::int64_t out, std::int64_t kernel, std::int64_t stride) {
    const std::int64_t in = channels;
    channels = width(out);
    return ConvRelu(in, channels, kernel, {.stride = stride, .padding = kernel / 2, .start = start}, generator);
  };
  const auto inception = [&](std::int64_t conv1x1, std::int64_t reduce3x3, std::int64_t conv3x3, std::int64_t reduce5x5,
                             std::int64_t conv5x5, std::int64_t pool) {
    const InceptionChannels sizes{.in = channels,
                                  .conv1x1 = width(conv1x1),
                                  .reduce3x3 = width(reduce3x3),
                                  .conv3x3 = width(conv3x3),
                                  .reduce5x5 = width(reduce5x5),
                                  .conv5x5 = width(conv5x5),
                                  .pool = width(pool)};
    channels = sizes.out();
    return Inception(sizes, start, generator);
  };
  const nn::MaxPool2d pool(3, {.stride = 2, .ceil_mode = true});

  add(to_first_head_, "conv1", conv(64, 7, 2));
  add(to_first_head_, "maxpool1", pool);
  add(to_first_head_, "norm1", nn::LocalResponseNorm());
  add(to_first_head_, "conv2", conv(64, 1, 1));
  add(to_first_head_, "conv3", conv(192, 3, 1));
  add(to_first_head_, "norm2", nn::LocalResponseNorm());
  add(to_first_head_, "maxpool2", pool);
  add(to_first_head_, "inception3a", inception(64, 96, 128, 16, 32, 32));
  add(to_first_head_, "inception3b", inception(128, 128, 192, 32, 96, 64));
  add(to_first_head_, "maxpool3", pool);
  add(to_first_head_, "inception4a", inception(192, 96, 208, 16, 48, 64));
  const std::int64_t first_channels = channels;
  add(to_second_head_, "inception4b", inception(160, 112, 224, 24, 64, 64));
  add(to_second_head_, "inception4c", inception(128, 128, 256, 24, 64, 64));
  add(to_second_head_, "inception4d", inception(112, 144, 288, 32, 64, 64));
  const std::int64_t second_channels = channels;
  add(to_logits_, "inception4e", inception(256, 160, 320, 32, 128, 128));
  add(to_logits_, "maxpool4", pool);
  add(to_logits_, "inception5a", inception(256, 160, 320, 32, 128, 128));
  add(to_logits_, "inception5b", inception(384, 192, 384, 48, 128, 128));
  add(to_logits_, "avgpool", nn::AdaptiveAvgPool2d(1));
  add(to_logits_, "flatten", nn::Flatten());
  if (options.dropout > 0) add(to_logits_, "dropout", nn::Dropout(options.dropout));
  add(to_logits_, "fc", nn::Linear(channels, options.classes, {.start = last_start(start)}, generator));

  if (!options.auxiliary) return;
  // The first convolution halves the side, rounding up; a pool that rounds up halves it, rounding down.
  const std::int64_t side = (options.image_size + 1) / 2 / 8;
  first_head_ = module("aux1", AuxiliaryHead(first_channels, side, options, generator));
  second_head_ = module("aux2", AuxiliaryHead(second_channels, side, options, generator));
}

// The stages run through `forward`: their children belong to this network.
Tensor GoogLeNet::logits(const Tensor& images) const {
  return to_logits_.forward(to_second_head_.forward(to_first_head_.forward(images)));
}

Tensor GoogLeNet::loss(const Tensor& images, const Tensor& labels) const {
  if (!first_head_ || !training()) return ImageClassifier::loss(images, labels);
  check_images(images);
  const Tensor first = to_first_head_.forward(images);
  const Tensor second = to_second_head_.forward(first);
  return operators::cross_entropy(to_logits_.forward(second), labels) +
         operators::cross_entropy((*first_head_)(first), labels) * auxiliary_weight +
         operators::cross_entropy((*second_head_)(second), labels) * auxiliary_weight;
}

}  // namespace tern::models
