#pragma once

#include <optional>

#include "tern/models/image_classifier.hpp"
#include "tern/nn/init.hpp"
#include "tern/nn/sequential.hpp"
#include "tern/parallel/group.hpp"

namespace tern::models {

struct AlexNetOptions {
  std::int64_t classes = 1000;
  std::int64_t image_size = 227;   ///< at least 67; the first linear layer adapts to it
  double dropout = 0.5;            ///< after each of the two hidden linear layers; 0: none
  std::int64_t width_divisor = 1;  ///< divides channels and hidden sizes: small nets for small data
  nn::Start start = nn::Start::kaiming;
  /// The ranks among which the three linear layers are split; each has its own rows of the batch, equally many. Put the
  /// convolutions in a DataParallel over the same ranks. Activations of the batch travel instead of the gradients of 58
  /// of the 61 million parameters. Unset: the layers are not split.
  std::optional<parallel::Group> classifier_ranks = {};
};

/// Caffe's bvlc_alexnet: five convolutions, the second, fourth and fifth in two groups, local response normalisation
/// after the first two, overlapping max pooling, and three linear layers. 60,965,224 parameters. The names are those of
/// torchvision's AlexNet (features.0, 3, 6, 8, 10 and classifier.1, 4, 6), which has other sizes, no groups and no
/// normalisation.
class AlexNet : public ImageClassifier {
 public:
  explicit AlexNet(const AlexNetOptions& options = {}, std::uint64_t seed = 0);

 private:
  Tensor logits(const Tensor& images) const override;

  nn::Sequential features_, classifier_;
};

}  // namespace tern::models
