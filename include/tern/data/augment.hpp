#pragma once

#include <cstdint>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

struct AugmentOptions {
  std::int64_t shift = 0;  ///< pixels by which an image is moved at most, up or down and left or right
  bool mirror = false;     ///< turn left and right around in half of the images
  double rotation = 0;     ///< degrees by which an image is rotated at most, in either direction
  // Factors drawn from [1 - x, 1 + x]. Zero is black: of images that are normalised say the mean and deviation.
  double brightness = 0;
  double contrast = 0;      ///< of the distance from the image's mean brightness
  double saturation = 0;    ///< of the distance from grey
  std::int64_t cutout = 0;  ///< side of a square that is covered, as far as it is inside of the image
  double cover = 0;         ///< what covers it
  double mix = 0;           ///< alpha of the Beta distribution of `mixed`, at most 2
  std::uint64_t seed = 0;
  /// Of images that came as (x - mean) / deviation, per channel: colours and covers are those of x. Empty: images are
  /// x.
  std::vector<double> mean = {}, deviation = {};
};

/// Images that are each a mixture of two, and what they show.
struct Mixed {
  Tensor images = {};  ///< of the images' dtype
  Tensor labels = {};  ///< float32 [n, classes]: shares, as cross_entropy takes them
};

/// Augments images for training: batches are as large and of the same kind as before. What happens to an
/// example in an epoch is a function of (seed, epoch, example), drawn on the host: the same for any batch size, order,
/// mode and number of ranks. The images are changed by operators, where they are, and in a Step too:
///
///     const data::Augment augment{{.shift = 4, .mirror = true}};
///     const Tensor order = loader.order(epoch), drawn = augment.draw(epoch, order);
///     ... step(order.slice(0, begin, end), drawn.slice(0, begin, end)) ...
///     Step step([&](const Tensor& rows, const Tensor& drawn) {
///       const Tensor x = augment(op::index_select(images, 0, rows), drawn); ...
///
class Augment {
 public:
  /// Throws ShapeError for a negative shift or square, NumericError for what else makes no sense.
  explicit Augment(const AugmentOptions& options = {});

  /// What happens to each of the examples [n] (int64, numbers of a set) in an epoch: float32 [n, numbers()].
  Tensor draw(std::int64_t epoch, const Tensor& examples) const;
  /// The images [n, channels, height, width], changed as `drawn` [n, numbers()] says: moved and mirrored, rotated,
  /// coloured, covered, in this order. Moved and rotated images are filled up by their mirrored edges; rotated ones are
  /// interpolated between four neighbours. Any dtype may be moved and mirrored; uint8 and floating ones all the rest,
  /// uint8 rounded and kept from 0 to 255. Throws ShapeError when the two do not fit, when an image is
  /// not larger than the shift, and for a saturation of other than three channels.
  Tensor operator()(const Tensor& images, const Tensor& drawn) const;
  /// Each of the images (floating) with one of the same batch, the first with the last: a share of it, and the rest of
  /// the other. Labels int64 [n] become the same shares of two classes. (Zhang, Cisse, Dauphin and Lopez-Paz, "mixup",
  /// 2018.)
  Mixed mixed(const Tensor& images, const Tensor& labels, std::int64_t classes, const Tensor& drawn) const;

  /// Columns of what `draw` gives.
  static constexpr std::int64_t numbers() { return 11; }
  const AugmentOptions& options() const { return options_; }

 private:
  void check(const Tensor& images, const Tensor& drawn) const;
  Tensor moved(const Tensor& images, const Tensor& wide) const;
  Tensor coloured(const Tensor& images, const Tensor& drawn) const;
  Tensor covered(const Tensor& images, const Tensor& drawn) const;

  AugmentOptions options_;
  Tensor mean_, deviation_;  // [1, channels, 1, 1], where they are said
};

}  // namespace tern::data
