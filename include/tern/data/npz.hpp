#pragma once

#include <string>

#include "tern/data/dataset.hpp"

namespace tern::data {

struct NpzOptions {
  std::string images = {};  ///< name of the array of examples; empty: x, images, data, inputs, features, x_train, ...
  std::string labels = {};  ///< name of the array of labels; empty: y, labels, target, targets, y_train, ...
  bool numbers = false;     ///< labels are not classes, even if they are whole numbers
};

/// Two arrays of a NumPy file (.npz) as a Dataset. Labels [n] of nonnegative whole numbers are classes, as many as the
/// largest label requires; all others are targets (no_classes). float64 examples of classes become float32. Throws
/// FileError that names the file and its arrays if one is missing or the two do not match.
Dataset read_npz(const std::string& file, const NpzOptions& options = {});

}  // namespace tern::data
