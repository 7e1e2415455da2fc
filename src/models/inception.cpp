#include "tern/models/inception.hpp"

#include "tern/run/branches.hpp"

namespace tern::models {
namespace {

nn::Conv2dOptions with_relu(nn::Conv2dOptions options) {
  options.activation = Activation::relu;
  return options;
}

}  // namespace

ConvRelu::ConvRelu(std::int64_t in, std::int64_t out, Pair kernel, nn::Conv2dOptions options, Generator& generator)
    : conv_(module("conv", nn::Conv2d(in, out, kernel, with_relu(options), generator))) {}

Inception::Inception(const InceptionChannels& c, nn::Start start, Generator& generator)
    : conv1x1_(c.in, c.conv1x1, 1, {.start = start}, generator),
      reduce3x3_(c.in, c.reduce3x3, 1, {.start = start}, generator),
      conv3x3_(c.reduce3x3, c.conv3x3, 3, {.padding = 1, .start = start}, generator),
      reduce5x5_(c.in, c.reduce5x5, 1, {.start = start}, generator),
      conv5x5_(c.reduce5x5, c.conv5x5, 5, {.padding = 2, .start = start}, generator),
      pool_(3, {.stride = 1, .padding = 1}),
      project_(c.in, c.pool, 1, {.start = start}, generator) {
  module("branch1", conv1x1_);
  module("branch2", nn::Sequential(reduce3x3_, conv3x3_));
  module("branch3", nn::Sequential(reduce5x5_, conv5x5_));
  module("branch4", nn::Sequential(pool_, project_));
}

Tensor Inception::forward(const Tensor& x) const {
  const std::vector<Tensor> to =
      branches({[&] { return reduce3x3_(x); }, [&] { return reduce5x5_(x); }, [&] { return pool_(x); }});
  return nn::cat({{conv1x1_.conv(), x}, {conv3x3_.conv(), to[0]}, {conv5x5_.conv(), to[1]}, {project_.conv(), to[2]}});
}

}  // namespace tern::models
