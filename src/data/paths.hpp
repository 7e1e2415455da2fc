#pragma once
// What lies at a path; what cannot be looked at is not there.

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
