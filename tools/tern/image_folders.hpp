#pragma once
// Folders with one folder of images per class, as examples.

#include "training_data.hpp"

namespace tern::tool {

/// A folder of class folders, or one that holds such folders as "train" and "val" (or "validation", or "test").
TrainingData load_folder_to_train(const Settings& settings);
Examples load_folder_to_test(const Settings& settings, const Blueprint& blueprint, Part part);
/// How images become examples of `size` pixels.
data::ImageFolderOptions options_for(std::int64_t size, bool training, const std::string& corrupt);

}  // namespace tern::tool
