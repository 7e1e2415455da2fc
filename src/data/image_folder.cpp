#include "tern/data/image_folder.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

#include "data/image_codecs.hpp"
#include "data/resize.hpp"

namespace tern::data {

namespace {

namespace fs = std::filesystem;

bool hidden(const fs::path& path) { return path.filename().native().starts_with('.'); }

bool named_as_image(const fs::path& path) {
  std::string ending = path.extension().native();
  std::ranges::transform(ending, ending.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

[[noreturn]] void cannot_list(const std::string& folder, const std::error_code& error) {
  throw FileError(message(folder, ": cannot be listed: ", error.message(), "; check the name and the permissions"));
}

/// The class folders, sorted by name.
std::vector<std::string> list_classes(const std::string& root) {
  std::error_code error;
  fs::directory_iterator entries(root, error);
  if (error) cannot_list(root, error);
  std::vector<std::string> names;
  std::int64_t images = 0;
  for (const auto end = fs::directory_iterator(); entries != end; entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    std::error_code ignored;
    if (hidden(entry.path())) continue;
    if (entry.is_directory(ignored)) names.push_back(entry.path().filename().native());
    images += named_as_image(entry.path()) && entry.is_regular_file(ignored);
    if (error) break;
  }
  if (error) cannot_list(root, error);
  if (names.empty())
    throw FileError(message(root, ": holds no class folders",
                            images > 0 ? message(", but ", images, " images; move them into a folder per class")
                                       : std::string("; expected FOLDER/CLASS/IMAGE.jpg")));
  std::ranges::sort(names);
  return names;
}

/// The images of a class, as paths below the class folder, sorted by name.
std::vector<std::string> list_images(const std::string& folder) {
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error);
  if (error) cannot_list(folder, error);
  std::vector<std::string> files;
  std::string other;
  for (const auto end = fs::recursive_directory_iterator(); entries != end; entries.increment(error)) {
    const fs::path& path = entries->path();
    std::error_code ignored;
    if (hidden(path)) {
      entries.disable_recursion_pending();
    } else if (entries->is_regular_file(ignored)) {
      if (named_as_image(path))
        files.push_back(path.native().substr(folder.size() + 1));
      else
        other = path.filename().native();
    }
  }
  if (error) cannot_list(folder, error);
  if (files.empty())
    throw FileError(message(folder, ": the class folder holds no file named .jpg, .jpeg or .png",
                            other.empty() ? "" : ", only such as " + other, "; put images in, or remove the folder"));
  std::ranges::sort(files);
  return files;
}

void check(const ImageFolderOptions& options) {
  expects<ShapeError>(options.size >= 1, "ImageFolder: expected a size of 1 pixel or more, found ", options.size);
  expects<ShapeError>(options.short_side >= options.size && options.short_side <= 65535,
                      "ImageFolder: expected a short_side from the size, ", options.size, ", to 65535, found ",
                      options.short_side, "; a crop cannot be larger than the image");
  expects<ShapeError>(options.limit >= 1, "ImageFolder: expected a limit of 1 pixel or more, found ", options.limit);
  for (std::size_t channel = 0; channel < 3; ++channel) {
    expects<NumericError>(std::isfinite(options.mean[channel]), "ImageFolder: the mean of channel ", channel, " is ",
                          options.mean[channel]);
    expects<NumericError>(std::isfinite(options.deviation[channel]) && options.deviation[channel] > 0,
                          "ImageFolder: expected a deviation above 0 for channel ", channel, ", found ",
                          options.deviation[channel]);
  }
}

/// Half of a difference, halves rounded to even, as torchvision's center crop.
std::int64_t middle(std::int64_t difference) { return difference / 2 + (difference % 4 == 3); }

std::int64_t below(std::int64_t count, std::uint32_t word) {
  return static_cast<std::int64_t>((static_cast<std::uint64_t>(count) * word) >> 32);
}

void prepare_image(const std::string& file, const ImageFolderOptions& options, Crop crop, bool mirror,
                   const random::Words& draw, std::span<float> to) {
  const DecodedImage image = decode_image_file(file, {.limit = options.limit, .short_side = options.short_side});
  View view{.whole = resized(image.height, image.width, options.short_side), .size = options.size};
  const std::int64_t rows = view.whole.height - options.size, columns = view.whole.width - options.size;
  view.top = crop == Crop::random ? below(rows + 1, draw.word[0]) : middle(rows);
  view.left = crop == Crop::random ? below(columns + 1, draw.word[1]) : middle(columns);
  view.mirrored = mirror && draw.word[2] >> 31 != 0;
  for (std::size_t channel = 0; channel < 3; ++channel) {
    view.scale[channel] = 1 / (255 * options.deviation[channel]);
    view.shift[channel] = -options.mean[channel] / options.deviation[channel];
  }
  resample(image, view, to);
}

}  // namespace

struct ImageFolder::State {
  std::string root;
  ImageFolderOptions options;
  std::vector<std::string> classes;
  std::vector<std::string> files;          // below the class folder
  std::vector<std::int64_t> class_begins;  // first file of each class, and the end
  std::mutex marking;
  std::set<std::int64_t> corrupt;

  std::int64_t size() const { return static_cast<std::int64_t>(files.size()); }
  std::int64_t label(std::int64_t index) const {
    expects<ShapeError>(index >= 0 && index < size(), root, ": image ", index, " is outside the ", size());
    return std::ranges::upper_bound(class_begins, index) - class_begins.begin() - 1;
  }
  std::string file(std::int64_t index) const {
    return root + "/" + classes[static_cast<std::size_t>(label(index))] + "/" + files[static_cast<std::size_t>(index)];
  }

  /// False if the image cannot be read; it is then listed until it can be. The cause may be temporary, such as too many
  /// open files or a network folder.
  bool read(std::int64_t index, const random::Words& draw, std::span<float> to) {
    bool readable = true;
    try {
      prepare_image(file(index), options, options.crop, options.mirror, draw, to);
    } catch (const FileError&) {
      if (options.corrupt == OnCorrupt::error) throw;
      readable = false;
    }
    const std::lock_guard lock(marking);
    if (readable)
      corrupt.erase(index);
    else
      corrupt.insert(index);
    return readable;
  }
};

ImageFolder::ImageFolder(const std::string& folder, const ImageFolderOptions& options)
    : state_(std::make_shared<State>()) {
  expect_image_libraries("ImageFolder: " + folder);
  check(options);
  state_->options = options;
  state_->root = folder;
  while (state_->root.size() > 1 && state_->root.ends_with('/')) state_->root.pop_back();
  state_->classes = list_classes(state_->root);
  for (const std::string& name : state_->classes) {
    state_->class_begins.push_back(state_->size());
    for (std::string& file : list_images(state_->root + "/" + name)) state_->files.push_back(std::move(file));
  }
  state_->class_begins.push_back(state_->size());
}

std::int64_t ImageFolder::size() const { return state_->size(); }
std::int64_t ImageFolder::classes() const { return static_cast<std::int64_t>(state_->classes.size()); }
Shape ImageFolder::shape() const { return {3, state_->options.size, state_->options.size}; }
std::int64_t ImageFolder::label(std::int64_t index) const { return state_->label(index); }
std::string ImageFolder::name() const { return "images of " + state_->root; }
const std::vector<std::string>& ImageFolder::class_names() const { return state_->classes; }
std::string ImageFolder::file(std::int64_t index) const { return state_->file(index); }
const ImageFolderOptions& ImageFolder::options() const { return state_->options; }

std::optional<std::int64_t> ImageFolder::read(std::int64_t index, const random::Words& draw,
                                              std::span<float> to) const {
  if (!state_->read(index, draw, to)) return std::nullopt;
  return label(index);
}

std::int64_t ImageFolder::corrupt() const {
  const std::lock_guard lock(state_->marking);
  return static_cast<std::int64_t>(state_->corrupt.size());
}

std::vector<std::string> ImageFolder::corrupt_files() const {
  const std::lock_guard lock(state_->marking);
  std::vector<std::string> names;
  for (const std::int64_t index : state_->corrupt) names.push_back(state_->file(index));
  return names;
}

Tensor prepare_image(const std::string& file, const ImageFolderOptions& options) {
  expect_image_libraries(file);
  check(options);
  Tensor image({1, 3, options.size, options.size});
  prepare_image(file, options, Crop::center, false, {}, image.write<float>());
  return image;
}

}  // namespace tern::data
