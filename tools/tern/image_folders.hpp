#pragma once
// Folders with a folder of images per class, and single image files.

#include "data_sets.hpp"

namespace tern::tool {

/// A folder of class folders, or one that holds such folders as "train" and "val" (or "validation", or "test").
TrainingData load_folder_to_train(const Settings& settings);
Examples load_folder_to_test(const Settings& settings, const Blueprint& blueprint, Part part);
/// Image files as float32 [n, ...] of the model's input, scaled.
Tensor load_image_files(const std::vector<std::string>& files, const Blueprint& blueprint);

}  // namespace tern::tool
