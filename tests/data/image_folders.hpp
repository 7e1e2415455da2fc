#pragma once
// Folders of images and what a loader makes of them, for tests.

#include <filesystem>
#include <string>
#include <vector>

#include "data/pictures.hpp"
#include "support/files.hpp"
#include "tern/data/image_folder.hpp"
#include "tern/data/loader.hpp"

namespace tern::testing {

/// As small as it goes, without mean and deviation, so that pixels are x / 255.
inline data::ImageFolderOptions plain(std::int64_t size, std::int64_t short_side) {
  return {.size = size, .short_side = short_side, .mean = {0, 0, 0}, .deviation = {1, 1, 1}};
}

inline void write_file(const std::string& file, const std::string& bytes) {
  std::filesystem::create_directories(std::filesystem::path(file).parent_path());
  write_bytes(file, bytes);
}

inline std::vector<std::vector<float>> examples_of(const data::DataLoader& loader, std::int64_t epoch) {
  std::vector<std::vector<float>> all;
  for (const data::Batch& batch : loader.epoch(epoch))
    for (std::int64_t i = 0; i < batch.size; ++i) {
      all.push_back(batch.images.slice(0, i, i + 1).to_vector<float>());
      all.back().push_back(static_cast<float>(batch.labels.read<std::int64_t>()[static_cast<std::size_t>(i)]));
    }
  return all;
}

}  // namespace tern::testing
