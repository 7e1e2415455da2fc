#include "tern/data/synthetic_images.hpp"

#include <array>
#include <cmath>
#include <vector>

#include "data/streams.hpp"

namespace tern::data {

namespace {

// Uses only sums and products of floats, so an image has the same bits on every machine.

float between(float low, float high, std::uint32_t word) { return low + (high - low) * random::uniform(word); }

/// A triangle-like wave of period 1, between -1 and 1. `x` is positive, so a conversion rounds it down, which compilers
/// vectorize.
float wave(float x) {
  const float part = x - static_cast<float>(static_cast<int>(x));
  return std::abs(4 * part - 2) - 1;
}

/// What the images of a class share, per channel.
struct Pattern {
  struct Channel {
    float tint, across, down, phase;  // mean, periods over width and height, phase
  };
  std::array<Channel, 3> channels;
};

Pattern pattern_of(std::uint64_t seed, std::int64_t label) {
  Pattern pattern{};
  for (std::size_t i = 0; i < 3; ++i) {
    const random::Words drawn = random::philox(seed, i, streams::image_classes + static_cast<std::uint64_t>(label));
    const auto& words = drawn.word;
    const float sign = (words[3] & 1) != 0 ? 1.f : -1.f;
    pattern.channels[i] = {between(-1.f, 1.f, words[0]), between(1.f, 12.f, words[1]),
                           sign * between(1.f, 12.f, words[2]), random::uniform(words[3])};
  }
  return pattern;
}

/// A strip of uniform noise, from which each line of an image takes a piece: fewer random numbers than pixels.
std::vector<float> noise_of(std::uint64_t seed, std::uint64_t number, float deviation, std::int64_t size) {
  std::vector<float> noise(static_cast<std::size_t>(2048 + size));
  const float unit = deviation / 73.9f;  // the deviation of a uniform byte
  for (std::size_t i = 0; i < noise.size(); i += 16) {
    const random::Words words = random::philox(seed, i / 16, streams::noise + number);
    for (std::size_t j = 0; j < 16 && i + j < noise.size(); ++j)
      noise[i + j] = unit * (static_cast<float>((words.word[j / 4] >> (8 * (j % 4))) & 255u) - 127.5f);
  }
  return noise;
}

}  // namespace

SyntheticImages::SyntheticImages(const SyntheticImagesOptions& options) : options_(options) {
  expects<ShapeError>(options.count >= 0 && options.first >= 0, "SyntheticImages: expected a number of images, found ",
                      options.count, " from ", options.first);
  expects<ShapeError>(options.size >= 1 && options.size <= 65535,
                      "SyntheticImages: expected a size from 1 to 65535 pixels, found ", options.size);
  expects<ShapeError>(options.classes >= 1, "SyntheticImages: expected 1 class or more, found ", options.classes);
  expects<NumericError>(options.noise >= 0, "SyntheticImages: expected noise of 0 or more, found ", options.noise);
}

std::string SyntheticImages::name() const { return message("synthetic images, seed ", options_.seed); }

std::optional<std::int64_t> SyntheticImages::read(std::int64_t index, const random::Words&, std::span<float> to) const {
  const auto number = static_cast<std::uint64_t>(options_.first + index);
  const Pattern pattern = pattern_of(options_.seed, label(index));
  const random::Words own = random::philox(options_.seed, number, streams::images);
  const float light = between(-0.3f, 0.3f, own.word[0]), contrast = between(0.8f, 1.4f, own.word[1]);
  // In fractions of the width: a tenth of a period of the finest stripes, so that classes stay distinct.
  const float shift_x = between(-0.008f, 0.008f, own.word[2]), shift_y = between(-0.008f, 0.008f, own.word[3]);

  const std::int64_t size = options_.size;
  const float step = 1 / static_cast<float>(size);
  const std::vector<float> noise = noise_of(options_.seed, number, options_.noise, size);
  const auto noise_starts = static_cast<std::uint64_t>(noise.size()) - static_cast<std::uint64_t>(size);
  float* line = to.data();
  std::uint32_t scatter = own.word[0];
  for (const auto& [tint, across, down, phase] : pattern.channels)
    for (std::int64_t y = 0; y < size; ++y, line += size) {
      // 32: more than the periods that a shift or a downward slope subtracts.
      const float begin = 32 + phase + across * shift_x + down * (static_cast<float>(y) * step + shift_y);
      const float slope = across * step, level = tint + light;
      scatter = scatter * 1664525u + 1013904223u;
      const float* const rough = noise.data() + ((noise_starts * scatter) >> 32);
      for (std::int64_t x = 0; x < size; ++x)
        line[x] = level + contrast * wave(begin + slope * static_cast<float>(static_cast<int>(x))) + rough[x];
    }
  return label(index);
}

}  // namespace tern::data
