#include "picture_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "errors.hpp"
#include "image_folders.hpp"
#include "text.hpp"

namespace tern::tool {

namespace {

namespace fs = std::filesystem;

class PictureSource final : public data::ExampleSource {
 public:
  PictureSource(std::vector<PictureFile> files, const Blueprint& blueprint, bool skip)
      : files_(std::move(files)),
        input_(blueprint.input),
        classes_(blueprint.class_count()),
        scaling_(blueprint.scaling),
        skip_(skip),
        options_(options_for(blueprint.input[1], false, "error")) {
    if (grey()) {
      options_.short_side = options_.size;
      options_.mean = {0, 0, 0};
      options_.deviation = {1, 1, 1};
    }
  }

  std::int64_t size() const override { return static_cast<std::int64_t>(files_.size()); }
  std::int64_t classes() const override { return classes_; }
  Shape shape() const override { return input_; }
  std::int64_t label(std::int64_t) const override { return 0; }
  std::string name() const override { return counted(size(), "picture"); }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words&, std::span<float> to) const override {
    try {
      const Tensor image = data::prepare_image(files_[static_cast<std::size_t>(index)].name, options_);
      const auto from = image.read<float>();
      if (grey())
        take_grey(from, to);
      else
        std::copy(from.begin(), from.end(), to.begin());
    } catch (const FileError&) {
      if (!skip_) throw;
      return std::nullopt;
    }
    return 0;
  }

 private:
  bool grey() const { return input_[0] != 3; }
  // The luma of ITU-R BT.601.
  void take_grey(std::span<const float> colours, std::span<float> to) const {
    const auto mean = static_cast<float>(scaling_.mean[0]), deviation = static_cast<float>(scaling_.deviation[0]);
    const std::size_t pixels = to.size();
    for (std::size_t i = 0; i < pixels; ++i) {
      const float grey = 0.299f * colours[i] + 0.587f * colours[pixels + i] + 0.114f * colours[2 * pixels + i];
      to[i] = (grey - mean) / deviation;
    }
  }

  std::vector<PictureFile> files_;
  Shape input_;
  std::int64_t classes_;
  data::Scaling scaling_;
  bool skip_;
  data::ImageFolderOptions options_;
};

bool is_picture(const fs::path& file) {
  static const std::array<std::string, 3> endings{".jpg", ".jpeg", ".png"};
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(endings.begin(), endings.end(), ending) != endings.end();
}

// Names that begin with a dot are ignored, with everything in such a folder.
std::vector<std::string> images_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (entry->path().filename().string().starts_with(".")) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (entry->is_regular_file(ignored) && is_picture(entry->path())) files.push_back(entry->path().string());
  }
  expects<FileError>(!failed, folder, ": ", failed.message());
  expects<FileError>(!files.empty(), folder, ": found no image in it, expected files named .jpg, .jpeg or .png");
  std::sort(files.begin(), files.end());
  return files;
}

std::int64_t class_named_by(const fs::path& file, const fs::path& last, const std::vector<std::string>& classes) {
  for (fs::path folder = file.parent_path();; folder = folder.parent_path()) {
    const auto found = std::find(classes.begin(), classes.end(), folder.filename().string());
    if (found != classes.end()) return found - classes.begin();
    if (folder == last || !folder.has_relative_path()) return -1;
  }
}

// Without a trailing slash, which would be an empty name.
fs::path whole_path(const std::string& name) {
  const fs::path path = fs::absolute(name).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

}  // namespace

std::vector<PictureFile> find_pictures(const std::vector<std::string>& paths, const std::vector<std::string>& classes) {
  std::vector<PictureFile> files;
  for (const std::string& path : paths) {
    std::error_code ignored;
    const bool folder = fs::is_directory(path, ignored);
    expects<FileError>(folder || fs::exists(path, ignored), path, ": there is no such file or folder");
    const fs::path last = folder ? whole_path(path) : whole_path(path).parent_path();
    for (const std::string& file : folder ? images_below(path) : std::vector<std::string>{path})
      files.push_back({file, class_named_by(whole_path(file), last, classes)});
  }
  return files;
}

Examples pictures(const std::vector<PictureFile>& files, const Blueprint& blueprint, bool skip) {
  return {.source = std::make_shared<const PictureSource>(files, blueprint, skip)};
}

}  // namespace tern::tool
