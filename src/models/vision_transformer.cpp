#include "tern/models/vision_transformer.hpp"

#include <cmath>
#include <utility>

#include "tern/nn/activation.hpp"
#include "tern/nn/attention.hpp"
#include "tern/nn/linear.hpp"
#include "tern/operators/arithmetic.hpp"
#include "tern/operators/shape.hpp"

namespace tern::models {

namespace {

constexpr double epsilon = 1e-6, deviation = 0.02;  // of the normalisations; of random initial values

nn::Linear linear(std::int64_t in, std::int64_t out, Generator& generator) {
  nn::Linear layer(in, out, {.start = nn::Start::none}, generator);
  nn::init::xavier_uniform_(layer.weight(), generator);
  nn::init::constant_(layer.bias(), 0);
  return layer;
}

class EncoderBlock : public nn::Module {
 public:
  EncoderBlock(const VisionTransformerOptions& options, Generator& generator)
      : ln_1_(module("ln_1", nn::LayerNorm({options.width}, {.epsilon = epsilon}))),
        self_attention_(module("self_attention", nn::MultiheadAttention(options.width, options.heads, {}, generator))),
        ln_2_(module("ln_2", nn::LayerNorm({options.width}, {.epsilon = epsilon}))) {
    mlp_.add("0", linear(options.width, options.hidden, generator)).add("1", nn::Gelu());
    mlp_.add("3", linear(options.hidden, options.width, generator));
    module("mlp", mlp_);
  }
  Tensor forward(const Tensor& x) const override {
    const Tensor y = x + self_attention_(ln_1_(x));
    return y + mlp_(ln_2_(y));
  }
  std::string describe() const override { return "EncoderBlock"; }

 private:
  nn::LayerNorm ln_1_;
  nn::MultiheadAttention self_attention_;
  nn::LayerNorm ln_2_;
  nn::Sequential mlp_;
};

const VisionTransformerOptions& checked(const VisionTransformerOptions& options) {
  expects<ShapeError>(options.patch >= 1 && options.width >= 1 && options.layers >= 0 && options.hidden >= 1,
                      "VisionTransformer: patches of ", options.patch, ", a width of ", options.width, ", ",
                      options.layers, " layers and ", options.hidden, " hidden values; expected at least one each");
  expects<ShapeError>(options.image_size % options.patch == 0, "VisionTransformer: patches of ", options.patch,
                      " pixels do not divide images of ", options.image_size);
  return options;
}

std::int64_t tokens(const VisionTransformerOptions& options) {
  const std::int64_t side = options.image_size / options.patch;
  return side * side + 1;
}

nn::Conv2d patches(const VisionTransformerOptions& options, Generator& generator) {
  nn::Conv2d layer(3, options.width, options.patch, {.stride = options.patch, .start = nn::Start::none}, generator);
  const auto inputs = static_cast<double>(nn::init::fan_in(layer.weight()));
  nn::init::normal_(layer.weight(), generator, 0, std::sqrt(1 / inputs));
  nn::init::constant_(layer.bias(), 0);
  return layer;
}

}  // namespace

VisionTransformer::Encoder::Encoder(const VisionTransformerOptions& options, Generator& generator)
    : pos_embedding_(parameter(
          "pos_embedding", nn::init::normal_(Tensor({1, tokens(options), options.width}), generator, 0, deviation))),
      ln_(module("ln", nn::LayerNorm({options.width}, {.epsilon = epsilon}))) {
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers_.add(message("encoder_layer_", i), EncoderBlock(options, generator));
  module("layers", layers_);
}

Tensor VisionTransformer::Encoder::forward(const Tensor& x) const { return ln_(layers_(x + pos_embedding_)); }

VisionTransformer::VisionTransformer(const VisionTransformerOptions& options, std::uint64_t seed)
    : VisionTransformer(checked(options), Generator(seed)) {}

VisionTransformer::VisionTransformer(const VisionTransformerOptions& options, Generator generator)
    : ImageClassifier("VisionTransformer", options.classes, options.image_size, options.patch),
      conv_proj_(module("conv_proj", patches(options, generator))),
      class_token_(parameter("class_token", zeros({1, 1, options.width}))),
      encoder_(module("encoder", Encoder(options, generator))) {
  heads_.add("head", linear(options.width, options.classes, generator));
  module("heads", heads_);
}

Tensor VisionTransformer::logits(const Tensor& images) const {
  const Tensor each = conv_proj_(images).flatten(2).transpose(1, 2);  // [N, patches, width]
  const Tensor token = class_token_->expand({images.size(0), 1, each.size(2)});
  const Tensor seen = encoder_(operators::cat({token, each}, 1));
  return heads_(seen.slice(1, 0, 1).reshape({images.size(0), seen.size(2)}));
}

}  // namespace tern::models
