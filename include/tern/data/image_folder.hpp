#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tern/data/example_source.hpp"

namespace tern::data {

/// Mean and deviation of ImageNet's training images in [0, 1]: red, green, blue.
inline constexpr std::array<float, 3> imagenet_mean{0.485f, 0.456f, 0.406f};
inline constexpr std::array<float, 3> imagenet_deviation{0.229f, 0.224f, 0.225f};

/// Which crop of the resized image is taken.
enum class Crop : std::uint8_t {
  center,  ///< the centre: for tests
  random   ///< another crop in each epoch: for training
};

/// What happens to an image that cannot be read.
enum class OnCorrupt : std::uint8_t {
  error,  ///< FileError that names the file, thrown where the batch is requested
  skip    ///< counted and left out: its batch is smaller by one, or `Replacing` substitutes another image
};

struct ImageFolderOptions {
  std::int64_t size = 224;        ///< height and width of the result
  std::int64_t short_side = 256;  ///< the shorter side is resized to this many pixels before the crop
  Crop crop = Crop::center;
  bool mirror = false;                        ///< flip half of the images horizontally, drawn per image and epoch
  std::array<float, 3> mean = imagenet_mean;  ///< per channel, for pixels in [0, 1]
  std::array<float, 3> deviation = imagenet_deviation;
  OnCorrupt corrupt = OnCorrupt::error;
  std::int64_t limit = 100'000'000;  ///< the largest number of pixels that a file may declare
};

/// An image file as float32 [1, 3, size, size], prepared like the examples of a folder with these options, with a
/// centre crop and no flip: for predictions. Throws FileError.
Tensor prepare_image(const std::string& file, const ImageFolderOptions& options = {});

/// A folder with a folder per class: FOLDER/CLASS/IMAGE.jpg, also in folders below CLASS. Classes are numbered in the
/// order of their names, byte by byte, and so are the images of a class. An image is a file whose name ends in .jpg,
/// .jpeg or .png, in any case; other files, and names that begin with a dot, are ignored. The format is determined by
/// the bytes, not the name.
///
/// An example is float32 [3, size, size]: the image in RGB (see read_image), its shorter side resized to `short_side`
/// by bilinear interpolation with antialiasing, cropped, possibly flipped, and normalised to (x / 255 - mean) /
/// deviation. A JPEG at least four times as large as needed is decoded at a half, a quarter or an eighth of its size.
/// An image is refused if decoding it would take more than 64 MiB plus twice its file size.
///
/// Copies share everything, including the list of images that could not be read.
class ImageFolder final : public ExampleSource {
 public:
  /// Lists the files and opens none. Throws FileError if a folder is missing or holds no class folder, if a class
  /// folder holds no image, and in a build that reads no images; ShapeError or NumericError for invalid options.
  explicit ImageFolder(const std::string& folder, const ImageFolderOptions& options = {});

  std::int64_t size() const override;
  std::int64_t classes() const override;
  Shape shape() const override;
  std::int64_t label(std::int64_t index) const override;
  std::string name() const override;
  std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw, std::span<float> to) const override;

  const std::vector<std::string>& class_names() const;
  /// The file of an example.
  std::string file(std::int64_t index) const;
  const ImageFolderOptions& options() const;

  /// The number of images that could not be read when last requested (with OnCorrupt::skip), and their files.
  std::int64_t corrupt() const;
  std::vector<std::string> corrupt_files() const;

  /// prepare_image with the options of this folder.
  Tensor prepare(const std::string& file) const { return prepare_image(file, options()); }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tern::data
