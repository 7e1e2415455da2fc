#pragma once
// Pictures in files and folders of any structure, for `tern predict`.

#include <string>
#include <vector>

#include "examples.hpp"

namespace tern::tool {

/// A picture to predict.
struct PictureFile {
  std::string name = {};    // as entered, or as found in the folder that was entered
  std::int64_t named = -1;  // the class that a folder around it is named after; -1: none
};

/// The files themselves and, for folders, the images at any depth, sorted by name. The nearest folder with a name in
/// `classes` determines the class: around a file, up to the folder that was entered. Throws FileError for paths that do
/// not exist and folders without an image.
std::vector<PictureFile> find_pictures(const std::vector<std::string>& paths, const std::vector<std::string>& classes);

/// Read on request, in the form that the blueprint's model takes; every label is 0. With `skip` unreadable ones are
/// left out; otherwise they are a FileError.
Examples pictures(const std::vector<PictureFile>& files, const Blueprint& blueprint, bool skip);

}  // namespace tern::tool
