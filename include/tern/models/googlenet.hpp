#pragma once

#include <optional>

#include "tern/models/image_classifier.hpp"
#include "tern/models/inception.hpp"

namespace tern::models {

struct GoogLeNetOptions {
  std::int64_t classes = 1000;
  std::int64_t image_size = 224;   ///< at least 79, without the auxiliary heads 47
  bool auxiliary = true;           ///< with the two auxiliary heads
  double dropout = 0.4;            ///< before the last layer; 0: none
  double auxiliary_dropout = 0.7;  ///< before the last layer of each auxiliary head; 0: none
  std::int64_t width_divisor = 1;  ///< divides channels and hidden sizes: small nets for small data
  nn::Start start = nn::Start::kaiming;
};

/// Caffe's bvlc_googlenet, the first Inception network: 22 layers, local response normalisation, nine inception
/// modules, pooling that rounds up. 6,998,552 parameters, with the two auxiliary heads 13,378,280. The names are those
/// of torchvision's googlenet, which has batch normalisation instead of biases.
class GoogLeNet : public ImageClassifier {
 public:
  /// Weight of an auxiliary head's loss in training.
  static constexpr double auxiliary_weight = 0.3;

  explicit GoogLeNet(const GoogLeNetOptions& options = {}, std::uint64_t seed = 0);
  /// In training, adds the mean cross-entropy of each auxiliary head times auxiliary_weight.
  Tensor loss(const Tensor& images, const Tensor& labels) const override;

 private:
  /// Logits from the features of an inner inception module.
  class AuxiliaryHead : public nn::Module {
   public:
    AuxiliaryHead(std::int64_t in, std::int64_t side, const GoogLeNetOptions& options, Generator& generator);
    Tensor forward(const Tensor& x) const override;
    std::string describe() const override { return "AuxiliaryHead"; }

   private:
    nn::Sequential layers_;
  };

  Tensor logits(const Tensor& images) const override;

  nn::Sequential to_first_head_, to_second_head_, to_logits_;
  std::optional<AuxiliaryHead> first_head_, second_head_;
};

}  // namespace tern::models
