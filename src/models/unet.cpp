#include "tern/models/unet.hpp"

#include "models/widths.hpp"
#include "tern/nn/activation.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/operators/loss.hpp"
#include "tern/operators/pooling.hpp"
#include "tern/operators/shape.hpp"

namespace tern::models {

namespace {

constexpr std::int64_t levels = 4;

nn::Sequential twice(std::int64_t in, std::int64_t out, nn::Start start, Generator& generator) {
  nn::Sequential layers;
  for (const std::int64_t channels : {in, out})
    layers.add(nn::Conv2d(channels, out, 3, {.padding = 1, .bias = false, .start = start}, generator))
        .add(nn::BatchNorm2d(out))
        .add(nn::Relu());
  return layers;
}

}  // namespace

UNet::UNet(const UNetOptions& options, std::uint64_t seed) : channels_(options.channels) {
  expects<ShapeError>(options.channels >= 1 && options.classes >= 1, "UNet: ", options.channels, " channels and ",
                      options.classes, " classes, expected at least one each");
  Generator generator(seed);
  const Widths width("UNet", options.width_divisor);
  std::int64_t channels = options.channels;
  for (std::int64_t level = 0; level <= levels; ++level) {
    const std::int64_t out = width(64 << level, 2);
    down_.push_back(module(message("down", level), twice(channels, out, options.start, generator)));
    channels = out;
  }
  for (std::int64_t level = levels - 1; level >= 0; --level) {
    const std::int64_t out = width(64 << level, 2);
    raise_.push_back(module(message("raise", level), nn::ConvTranspose2d(channels, out, 2, {.stride = 2}, generator)));
    join_.push_back(module(message("join", level), twice(2 * out, out, options.start, generator)));
    channels = out;
  }
  out_.add(nn::Conv2d(channels, options.classes, 1, {.start = last_start(options.start)}, generator));
  module("out", out_);
}

Tensor UNet::forward(const Tensor& images) const {
  constexpr std::int64_t multiple = 1 << levels;
  expects<ShapeError>(images.defined() && images.rank() == 4 && images.size(1) == channels_ &&
                          images.size(2) % multiple == 0 && images.size(3) % multiple == 0,
                      "UNet: input ", images.defined() ? message(images.shape()) : "undefined", ", expected [N,",
                      channels_, ",H,W] with H and W multiples of ", multiple, "; pad or resize the images");
  std::vector<Tensor> seen{down_[0](images)};
  for (std::size_t level = 1; level < down_.size(); ++level)
    seen.push_back(down_[level](operators::max_pool2d(seen.back(), 2)));
  Tensor x = seen.back();
  for (std::size_t i = 0; i < raise_.size(); ++i) {
    seen.pop_back();
    x = join_[i](operators::cat({seen.back(), raise_[i](x)}, 1));
  }
  return out_(x);
}

Tensor UNet::loss(const Tensor& images, const Tensor& labels) const {
  return operators::cross_entropy((*this)(images), labels);
}

}  // namespace tern::models
