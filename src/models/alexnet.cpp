#include "tern/models/alexnet.hpp"

#include "models/widths.hpp"
#include "tern/nn/activation.hpp"
#include "tern/nn/conv.hpp"
#include "tern/nn/linear.hpp"
#include "tern/nn/normalization.hpp"
#include "tern/nn/pooling.hpp"
#include "tern/nn/shape.hpp"
#include "tern/parallel/split.hpp"

namespace tern::models {

AlexNet::AlexNet(const AlexNetOptions& options, std::uint64_t seed)
    : ImageClassifier("AlexNet", options.classes, options.image_size, 67) {
  Generator generator(seed);
  const Widths width("AlexNet", options.width_divisor);
  const nn::Start start = options.start;
  const auto conv = [&](std::int64_t in, std::int64_t out, std::int64_t kernel, nn::Conv2dOptions layer) {
    layer.start = start;
    return nn::Conv2d(in, out, kernel, layer, generator);
  };
  const std::int64_t first = width(96, 2), second = width(256, 2), third = width(384, 2), fourth = width(384, 2),
                     fifth = width(256, 2), hidden = width(4096);
  const nn::MaxPool2d pool(3, {.stride = 2});

  features_.add("0", conv(3, first, 11, {.stride = 4})).add("1", nn::Relu());
  features_.add("norm1", nn::LocalResponseNorm()).add("2", pool);
  features_.add("3", conv(first, second, 5, {.padding = 2, .groups = 2})).add("4", nn::Relu());
  features_.add("norm2", nn::LocalResponseNorm()).add("5", pool);
  features_.add("6", conv(second, third, 3, {.padding = 1})).add("7", nn::Relu());
  features_.add("8", conv(third, fourth, 3, {.padding = 1, .groups = 2})).add("9", nn::Relu());
  features_.add("10", conv(fourth, fifth, 3, {.padding = 1, .groups = 2})).add("11", nn::Relu());
  features_.add("12", pool);

  const auto pooled = [](std::int64_t side) { return (side - 3) / 2 + 1; };
  const std::int64_t side = pooled(pooled(pooled((options.image_size - 11) / 4 + 1)));
  const std::int64_t flat = fifth * side * side;
  const auto add_classifier = [&](const auto& first_layer, const auto& middle, const auto& last, const auto& dropout) {
    classifier_.add("flatten", nn::Flatten());
    classifier_.add("1", first_layer()).add("2", nn::Relu());
    if (options.dropout > 0) classifier_.add("dropout1", dropout());
    classifier_.add("4", middle()).add("5", nn::Relu());
    if (options.dropout > 0) classifier_.add("dropout2", dropout());
    classifier_.add("6", last());
  };
  if (!options.classifier_ranks) {
    add_classifier([&] { return nn::Linear(flat, hidden, {.start = start}, generator); },
                   [&] { return nn::Linear(hidden, hidden, {.start = start}, generator); },
                   [&] { return nn::Linear(hidden, options.classes, {.start = last_start(start)}, generator); },
                   [&] { return nn::Dropout(options.dropout); });
  } else {
    using parallel::Layout;
    const parallel::Group group = parallel::on_devices(*options.classifier_ranks);
    add_classifier(
        [&] { return parallel::ColumnLinear(group, flat, hidden, {.start = start, .input = Layout::rows}, generator); },
        [&] {
          return parallel::ColumnLinear(group, hidden, hidden, {.start = start, .input = Layout::features}, generator);
        },
        [&] {
          return parallel::RowLinear(group, hidden, options.classes,
                                     {.start = last_start(start), .output = Layout::rows}, generator);
        },
        [&] { return parallel::Dropout(group, options.dropout); });
  }

  module("features", features_);
  module("classifier", classifier_);
}

Tensor AlexNet::logits(const Tensor& images) const { return classifier_(features_(images)); }

}  // namespace tern::models
