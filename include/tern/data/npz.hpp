#pragma once

#include <string>

#include "tern/data/dataset.hpp"

namespace tern::data {

struct NpzOptions {
  std::string images = {};  ///< name of the array of examples; empty: x, images, data, inputs, features, x_train, ...
  std::string labels = {};  ///< name of the array of labels; empty: y, labels, target, targets, y_train, ...
  bool numbers = false;     ///< labels are no classes, even where they are whole numbers
};

/// Two arrays of a NumPy file (.npz) as a Dataset: labels of whole numbers [n], none below 0, are classes, as many as
/// the largest one asks for; all others are numbers to be met (no_classes). float64 examples of classes become float32.
/// Throws FileError that names the file and its arrays when one is not there or the two do not fit.
Dataset read_npz(const std::string& file, const NpzOptions& options = {});

}  // namespace tern::data
