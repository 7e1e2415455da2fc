#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tern/data/example_source.hpp"

namespace tern::data {

struct SyntheticImagesOptions {
  std::int64_t count = 1024;
  std::int64_t size = 224;  ///< height and width
  std::int64_t classes = 1000;
  std::uint64_t seed = 1;
  std::int64_t first = 0;  ///< number of the first image: ranges that do not overlap share no image
  float noise = 0.5f;      ///< deviation of the noise on a pixel; the patterns have deviation about 1
};

/// Generated images of any number and size, float32 [3, size, size] of mean about 0 and deviation about 1: stripes in
/// three colours whose directions, widths and tints depend on the class, slightly shifted per image, with noise. Each
/// image is made when it is read, faster than a JPEG, and not kept. Image i of a seed is the same on every machine, and
/// each run of `classes` images holds every label once. They replace photographs to measure time or try out a training
/// loop.
class SyntheticImages final : public ExampleSource {
 public:
  /// Throws ShapeError for negative counts, or a size or number of classes below 1.
  explicit SyntheticImages(const SyntheticImagesOptions& options = {});

  std::int64_t size() const override { return options_.count; }
  std::int64_t classes() const override { return options_.classes; }
  Shape shape() const override { return {3, options_.size, options_.size}; }
  std::int64_t label(std::int64_t index) const override { return (options_.first + index) % options_.classes; }
  std::string name() const override;
  std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw, std::span<float> to) const override;

  const SyntheticImagesOptions& options() const { return options_; }

 private:
  SyntheticImagesOptions options_;
};

}  // namespace tern::data
