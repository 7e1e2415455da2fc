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

/// Which part of the resized image is taken.
enum class Crop : std::uint8_t {
  center,  ///< the middle: for tests
  random   ///< another part in each epoch: for training
};

/// What becomes of an image that cannot be read.
enum class OnCorrupt : std::uint8_t {
  error,  ///< FileError that names the file, thrown where the batch is requested
  skip    ///< counted and left out: its batch is smaller by one, or `Replacing` puts another in its place
};

struct ImageFolderOptions {
  std::int64_t size = 224;        ///< height and width of what comes out
  std::int64_t short_side = 256;  ///< the shorter side is resized to this many pixels before the crop
  Crop crop = Crop::center;
  bool mirror = false;  ///< turn left and right around in half of the images, drawn per image and epoch
  std::array<float, 3> mean = imagenet_mean;  ///< per channel, of pixels in [0, 1]
  std::array<float, 3> deviation = imagenet_deviation;
  OnCorrupt corrupt = OnCorrupt::error;
  std::int64_t limit = 100'000'000;  ///< the most pixels that a file may declare
};

/// An image file as float32 [1, 3, size, size], as the examples of a folder with these options are, from its middle and
/// not mirrored: for predictions. Throws FileError.
Tensor prepare_image(const std::string& file, const ImageFolderOptions& options = {});

/// A folder with a folder per class: FOLDER/CLASS/IMAGE.jpg, also in folders below CLASS. Classes are numbered in the
/// order of their names, byte by byte, and so are the images of a class. An image is a file whose name ends in .jpg,
/// .jpeg or .png, in any case; other files, and names that begin with a dot, are passed over. What an image is its
/// bytes say, not its name.
///
/// An example is float32 [3, size, size]: the image in RGB (see read_image), its shorter side resized to `short_side`
/// by bilinear interpolation with antialiasing, cropped, perhaps mirrored, and (x / 255 - mean) / deviation. Where a
/// JPEG is at least four times as large as needed, it is decoded at a half, a quarter or an eighth of its size. An
/// image whose decoding would take more than 64 MiB and twice its file is refused.
///
/// Copies share everything, also the list of images that could not be read.
class ImageFolder final : public ExampleSource {
 public:
  /// Lists the files; opens none. Throws FileError for a folder that is missing or holds no class folder, for a
  /// class folder without an image, and in a build that reads no images; ShapeError or NumericError for options that
  /// make no sense.
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

  /// How many images could not be read when they were last requested (with OnCorrupt::skip), and which.
  std::int64_t corrupt() const;
  std::vector<std::string> corrupt_files() const;

  /// prepare_image with the options of this folder.
  Tensor prepare(const std::string& file) const { return prepare_image(file, options()); }

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tern::data
