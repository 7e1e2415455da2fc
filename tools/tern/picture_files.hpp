#pragma once
// Pictures in files and folders of any shape, for `tern predict`.

#include <string>
#include <vector>

#include "examples.hpp"

namespace tern::tool {

/// A picture to be predicted.
struct PictureFile {
  std::string name = {};    // as a person gave it, or what was found in the folder that was given
  std::int64_t named = -1;  // the class that a folder around it is named after; -1: none is
};

/// The files themselves, and of folders the images at any depth, in the order of their names. The nearest folder that
/// is named like one of `classes` names the class: the one around a file, and up to the folder that was given. Throws
/// FileError for what does not exist and for a folder without an image.
std::vector<PictureFile> find_pictures(const std::vector<std::string>& paths, const std::vector<std::string>& classes);

/// They are read when they are asked for, as the model of `blueprint` takes them; every label is 0. With `skip` those
/// that cannot be read are left out, else they are a FileError.
Examples pictures(const std::vector<PictureFile>& files, const Blueprint& blueprint, bool skip);

}  // namespace tern::tool
