#pragma once

#include <cstdint>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

struct AugmentOptions {
  std::int64_t shift = 0;  ///< largest random shift in pixels, vertically and horizontally
  bool mirror = false;     ///< flip half of the images horizontally
  double rotation = 0;     ///< largest random rotation in degrees, in either direction
  // Factors drawn from [1 - x, 1 + x]. Zero is black: for normalised images set mean and deviation.
  double brightness = 0;
  double contrast = 0;      ///< factor of the distance from the image's mean brightness
  double saturation = 0;    ///< factor of the distance from grey
  std::int64_t cutout = 0;  ///< side of a square that is covered where it lies inside the image
  double cover = 0;         ///< the value that covers it
  double mix = 0;           ///< alpha of `mixed`'s Beta distribution, at most 2
  std::uint64_t seed = 0;
  /// For images stored as (x - mean) / deviation, per channel: colours and covers then apply to x. Empty: images are x.
  std::vector<double> mean = {}, deviation = {};
};

/// Mixtures of two images each, and their labels.
struct Mixed {
  Tensor images = {};  ///< of the images' dtype
  Tensor labels = {};  ///< float32 [n, classes]: class probabilities, as cross_entropy takes them
};

/// Augments images for training; the size and form of a batch stay the same. The change of an example is a function of
/// (seed, epoch, example), drawn on the host: the same for any batch size, order, mode and number of ranks. Operators
/// change the images on their device, in a Step too:
///
///     const data::Augment augment{{.shift = 4, .mirror = true}};
///     const Tensor order = loader.order(epoch), drawn = augment.draw(epoch, order);
///     ... step(order.slice(0, begin, end), drawn.slice(0, begin, end)) ...
///     Step step([&](const Tensor& rows, const Tensor& drawn) {
///       const Tensor x = augment(op::index_select(images, 0, rows), drawn); ...
///
class Augment {
 public:
  /// Throws ShapeError for a negative shift or square, NumericError for other invalid options.
  explicit Augment(const AugmentOptions& options = {});

  /// The random changes of the examples [n] (int64 indices into a set) in an epoch: float32 [n, numbers()].
  Tensor draw(std::int64_t epoch, const Tensor& examples) const;
  /// Applies `drawn` [n, numbers()] to the images [n, channels, height, width]: shift and flip, rotation, colour,
  /// cutout, in this order. Shifted and rotated images are filled with their mirrored edges; rotation interpolates
  /// bilinearly. Any dtype may be shifted and flipped; the rest needs uint8 (rounded and clamped to 0 to 255) or a
  /// floating dtype. Throws ShapeError if the two do not match, if an image is not larger than the shift, and for
  /// saturation unless there are three channels.
  Tensor operator()(const Tensor& images, const Tensor& drawn) const;
  /// Mixes each floating image with another of the same batch, the first with the last. Labels int64 [n] become the
  /// same mixtures of two classes. (Zhang, Cisse, Dauphin and Lopez-Paz, "mixup", 2018.)
  Mixed mixed(const Tensor& images, const Tensor& labels, std::int64_t classes, const Tensor& drawn) const;

  /// Number of columns that `draw` returns.
  static constexpr std::int64_t numbers() { return 11; }
  const AugmentOptions& options() const { return options_; }

 private:
  void check(const Tensor& images, const Tensor& drawn) const;
  Tensor moved(const Tensor& images, const Tensor& wide) const;
  Tensor coloured(const Tensor& images, const Tensor& drawn) const;
  Tensor covered(const Tensor& images, const Tensor& drawn) const;

  AugmentOptions options_;
  Tensor mean_, deviation_;  // [1, channels, 1, 1], if set
};

}  // namespace tern::data
