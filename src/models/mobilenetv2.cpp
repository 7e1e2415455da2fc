#include "tern/models/mobilenetv2.hpp"

#include "models/widths.hpp"
#include "tern/nn/activation.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/nn/shape.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/pooling.hpp"

namespace tern::models {

namespace {

struct Convolution {
  std::int64_t in, out, kernel = 1, stride = 1, groups = 1;
};

nn::Conv2d plain(const Convolution& c, nn::Start start, Generator& generator) {
  return nn::Conv2d(c.in, c.out, c.kernel,
                    {.stride = c.stride, .padding = c.kernel / 2, .groups = c.groups, .bias = false, .start = start},
                    generator);
}

nn::Sequential activated(const Convolution& c, nn::Start start, Generator& generator) {
  return nn::Sequential(plain(c, start, generator), nn::BatchNorm2d(c.out), nn::Relu6());
}

class InvertedResidual : public nn::Module {
 public:
  InvertedResidual(std::int64_t in, std::int64_t out, std::int64_t stride, std::int64_t expansion, nn::Start start,
                   Generator& generator)
      : adds_(stride == 1 && in == out) {
    const std::int64_t wide = in * expansion;
    if (expansion > 1) conv_.add(activated({.in = in, .out = wide}, start, generator));
    conv_.add(activated({.in = wide, .out = wide, .kernel = 3, .stride = stride, .groups = wide}, start, generator));
    conv_.add(plain({.in = wide, .out = out}, start, generator)).add(nn::BatchNorm2d(out));
    module("conv", conv_);
  }
  Tensor forward(const Tensor& x) const override { return adds_ ? x + conv_(x) : conv_(x); }
  std::string describe() const override { return "InvertedResidual"; }

 private:
  nn::Sequential conv_;
  bool adds_;
};

}  // namespace

MobileNetV2::MobileNetV2(const MobileNetV2Options& options, std::uint64_t seed)
    : ImageClassifier("MobileNetV2", options.classes, options.image_size, 1) {
  Generator generator(seed);
  const Widths width("MobileNetV2", options.width_divisor);
  constexpr struct {
    std::int64_t expansion, channels, blocks, stride;
  } stages[]{{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2}, {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  std::int64_t channels = width(32);
  features_.add(activated({.in = 3, .out = channels, .kernel = 3, .stride = 2}, options.start, generator));
  for (const auto& stage : stages)
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      const std::int64_t out = width(stage.channels);
      features_.add(
          InvertedResidual(channels, out, i == 0 ? stage.stride : 1, stage.expansion, options.start, generator));
      channels = out;
    }
  const std::int64_t last = width(1280);
  features_.add(activated({.in = channels, .out = last}, options.start, generator));
  classifier_.add("0", nn::Dropout(options.dropout));
  classifier_.add("1", nn::Linear(last, options.classes, {.start = last_start(options.start)}, generator));
  module("features", features_);
  module("classifier", classifier_);
}

Tensor MobileNetV2::logits(const Tensor& images) const {
  return classifier_(operators::global_avg_pool2d(features_(images)).flatten(1));
}

}  // namespace tern::models
