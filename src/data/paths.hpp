#pragma once
// What exists at a path; a path that cannot be examined counts as missing.

#include <filesystem>
#include <string>

namespace tern::data {

inline bool is_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored);
}

inline bool is_folder(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored);
}

}  // namespace tern::data
