#pragma once

#include <cstdint>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

struct AugmentOptions {
  std::int64_t shift = 0;  ///< pixels by which an image is moved at most, up or down and left or right
  bool mirror = false;     ///< turn left and right around in half of the images
  std::uint64_t seed = 0;
};

/// Changes images by chance, for training: batches are as large and of the same kind as before. What happens to an
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
  /// Throws ShapeError for a negative shift.
  explicit Augment(const AugmentOptions& options = {});

  /// What happens to each of the examples [n] (int64, numbers of a set) in an epoch: float32 [n, numbers()].
  Tensor draw(std::int64_t epoch, const Tensor& examples) const;
  /// The images [n, channels, height, width] of any dtype, changed as `drawn` [n, numbers()] says. Moved images are
  /// filled up by their mirrored edges. Throws ShapeError when the two do not fit, and when an image is not larger than
  /// the shift.
  Tensor operator()(const Tensor& images, const Tensor& drawn) const;

  /// Columns of what `draw` gives.
  static constexpr std::int64_t numbers() { return 3; }
  const AugmentOptions& options() const { return options_; }

 private:
  AugmentOptions options_;
};

}  // namespace tern::data
