#pragma once

#include <span>
#include <string>
#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::data {

/// For Dataset::classes: the labels are not classes but targets to predict, such as prices, masks or boxes.
inline constexpr std::int64_t no_classes = -1;

/// Examples in memory with their labels: classes or, with `no_classes`, any tensor. Tensors are handles, so copying a
/// Dataset copies no elements.
struct Dataset {
  Tensor images = {};        ///< [n, ...]: uint8 or float32; of any dtype with no_classes
  Tensor labels = {};        ///< int64 [n], each in [0, classes); of any dtype [n, ...] with no_classes
  std::int64_t classes = 0;  ///< number of different labels, or no_classes
  std::string source = {};   ///< where the examples come from, for messages: "MNIST training set in data/MNIST/raw"
  bool synthetic = false;    ///< generated, not read from a file

  std::int64_t size() const { return labels.defined() ? labels.size(0) : 0; }
  /// The first `n` examples (all if there are fewer), as views.
  Dataset take(std::int64_t n) const;
  /// Copies of the examples at `rows` (int64 [n], each in [0, size())), in that order.
  Dataset select(const Tensor& rows) const;
  /// Throws DTypeError or ShapeError if the tensors do not match each other, and NumericError with source and position
  /// for a label outside [0, classes).
  void check() const;
};

/// Positions of examples in two subsets, each in the original order.
struct SplitRows {
  std::vector<std::int64_t> train, validation;
};
/// Holds out `share` (in [0, 1)) of every class for validation, drawn by `seed`: the same rows every time and in every
/// mode. Each class keeps at least one training example. `labels` are in [0, classes).
SplitRows split_rows(std::span<const std::int64_t> labels, std::int64_t classes, double share, std::uint64_t seed);

/// The same for cross-validation: `folds` parts of equal size (2 up to the number of examples), stratified by class.
/// The part number `fold`, counted from 0, is held out. Each example is held out once.
SplitRows fold_rows(std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t folds, std::int64_t fold,
                    std::uint64_t seed);

/// A dataset in two subsets.
struct Split {
  Dataset train, validation;
};
/// Copies of the subsets of split_rows. With no_classes the share is a share of all examples.
Split split(const Dataset& dataset, double share, std::uint64_t seed);
/// Copies of the subsets of fold_rows.
Split fold(const Dataset& dataset, std::int64_t folds, std::int64_t fold, std::uint64_t seed);

/// float32 with the shape of `images`: uint8 becomes (x / 255 - mean) / deviation; float32 is returned as is.
Tensor to_float(const Tensor& images, double mean = 0, double deviation = 1);

}  // namespace tern::data
