#pragma once

#include <span>
#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

/// For Dataset::classes: the labels are no classes but numbers to be met, such as prices, masks or boxes.
inline constexpr std::int64_t no_classes = -1;

/// Examples in memory with what belongs to each: its class, or with `no_classes` anything. Tensors are handles, so
/// copying a Dataset copies no elements.
struct Dataset {
  Tensor images = {};        ///< [n, ...]: uint8 or float32; of any dtype with no_classes
  Tensor labels = {};        ///< int64 [n], each in [0, classes); of any dtype [n, ...] with no_classes
  std::int64_t classes = 0;  ///< how many different labels there are, or no_classes
  std::string source = {};   ///< where the examples come from, for messages: "MNIST training set in data/MNIST/raw"
  bool synthetic = false;    ///< drawn by a generator, not read from a file

  std::int64_t size() const { return labels.defined() ? labels.size(0) : 0; }
  /// The first `n` examples (all of them when there are fewer), as views.
  Dataset take(std::int64_t n) const;
  /// The examples at `rows` (int64 [n], each in [0, size())), copied, in that order.
  Dataset select(const Tensor& rows) const;
  /// Throws DTypeError or ShapeError when the tensors do not fit each other, and NumericError with the source and the
  /// position for a label outside [0, classes).
  void check() const;
};

/// Positions of examples in two parts, each in the order of the whole.
struct SplitRows {
  std::vector<std::int64_t> train, validation;
};
/// Holds `share` (in [0, 1)) of every class out for validation, drawn by `seed`: the same rows every time and in every
/// mode. A class keeps at least one example to train on. `labels` are in [0, classes).
SplitRows split_rows(std::span<const std::int64_t> labels, std::int64_t classes, double share, std::uint64_t seed);

/// The same for cross-validation: of `folds` parts of equal size (2 to as many as there are examples), in which every
/// class has its share, the one with the number `fold`, from 0, is held out. Each example is held out once.
SplitRows fold_rows(std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t folds, std::int64_t fold,
                    std::uint64_t seed);

/// A dataset in two parts.
struct Split {
  Dataset train, validation;
};
/// The parts that split_rows says, copied. With no_classes the share is one of all examples.
Split split(const Dataset& dataset, double share, std::uint64_t seed);
/// The parts that fold_rows says, likewise.
Split fold(const Dataset& dataset, std::int64_t folds, std::int64_t fold, std::uint64_t seed);

/// float32 of the shape of `images`: uint8 becomes (x / 255 - mean) / deviation, float32 is itself.
Tensor to_float(const Tensor& images, double mean = 0, double deviation = 1);

}  // namespace tern::data
