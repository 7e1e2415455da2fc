#include "data/resize.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

namespace tern::data {

namespace {

/// One vector register, with elementwise arithmetic.
using Four [[gnu::vector_size(16)]] = float;

/// Which pixels of a line contribute to one pixel of the resized line, with their weights.
struct Taps {
  std::int64_t first = 0;
  std::vector<float> weights;
};

/// For pixels [begin, begin + count) of a line of `to` pixels, resized from `declared` pixels; every `reduction` of
/// them are one of the `from` available pixels.
std::vector<Taps> taps_of(std::int64_t declared, int reduction, std::int64_t from, std::int64_t to, std::int64_t begin,
                          std::int64_t count) {
  const double scale = static_cast<double>(declared) / (static_cast<double>(to) * reduction);
  const double reach = std::max(scale, 1.0);
  std::vector<Taps> all(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Taps& taps = all[static_cast<std::size_t>(i)];
    const double center = (static_cast<double>(begin + i) + 0.5) * scale;
    taps.first = std::clamp<std::int64_t>(std::lround(center - reach), 0, from - 1);
    const std::int64_t end = std::clamp<std::int64_t>(std::lround(center + reach), taps.first + 1, from);
    double sum = 0;
    const auto weight = [&](std::int64_t pixel) {
      return std::max(0.0, 1 - std::abs(static_cast<double>(pixel) + 0.5 - center) / reach);
    };
    for (std::int64_t pixel = taps.first; pixel < end; ++pixel) sum += weight(pixel);
    for (std::int64_t pixel = taps.first; pixel < end; ++pixel)
      taps.weights.push_back(sum > 0 ? static_cast<float>(weight(pixel) / sum) : 1.f);
  }
  return all;
}

/// The square of an image that already has the right size: the result of `resample`, by a table of the 256 values.
void copy_square(const DecodedImage& image, const View& view, float* to) {
  std::array<std::array<float, 256>, 3> values;
  for (std::size_t channel = 0; channel < 3; ++channel)
    for (std::size_t i = 0; i < 256; ++i)
      values[channel][i] = static_cast<float>(i) * view.scale[channel] + view.shift[channel];
  const std::int64_t size = view.size, step = view.mirrored ? -1 : 1;
  const std::uint8_t* const source = image.pixels.read<std::uint8_t>().data();
  for (std::int64_t y = 0; y < size; ++y) {
    const std::uint8_t* from = source + 3 * ((view.top + y) * view.whole.width + view.left);
    float* out = to + y * size + (view.mirrored ? size - 1 : 0);
    for (std::int64_t x = 0; x < size; ++x, from += 3, out += step) {
      out[0] = values[0][from[0]];
      out[size * size] = values[1][from[1]];
      out[2 * size * size] = values[2][from[2]];
    }
  }
}

}  // namespace

Extent resized(std::int64_t height, std::int64_t width, std::int64_t short_side) {
  return height <= width ? Extent{short_side, short_side * width / height}
                         : Extent{short_side * height / width, short_side};
}

void resample(const DecodedImage& image, const View& view, std::span<float> to) {
  const std::int64_t height = image.pixels.size(0), width = image.pixels.size(1), size = view.size;
  if (height == view.whole.height && width == view.whole.width) return copy_square(image, view, to.data());
  const std::uint8_t* const pixels = image.pixels.read<std::uint8_t>().data();
  const auto rows = taps_of(image.height, image.reduction, height, view.whole.height, view.top, size);
  const auto columns = taps_of(image.width, image.reduction, width, view.whole.width, view.left, size);
  const std::int64_t begin = columns.front().first;
  const std::int64_t end = columns.back().first + static_cast<std::int64_t>(columns.back().weights.size());

  const Four scale = {view.scale[0], view.scale[1], view.scale[2], 0};
  const Four shift = {view.shift[0], view.shift[1], view.shift[2], 0};
  // One extra float, because four are read for a pixel of three.
  const auto line_count = static_cast<std::size_t>(3 * (end - begin));
  std::vector<float> line(line_count + 1);
  for (std::int64_t y = 0; y < size; ++y) {
    // Vertically first: whole lines, contiguous in memory.
    const Taps& row = rows[static_cast<std::size_t>(y)];
    const std::uint8_t* from = pixels + 3 * (row.first * width + begin);
    for (std::size_t i = 0; i < line_count; ++i) line[i] = row.weights[0] * static_cast<float>(from[i]);
    for (std::size_t tap = 1; tap < row.weights.size(); ++tap) {
      from += 3 * width;
      const float weight = row.weights[tap];
      for (std::size_t i = 0; i < line_count; ++i) line[i] += weight * static_cast<float>(from[i]);
    }
    // Then horizontally, three channels and a fourth that is dropped.
    float* const out = to.data() + y * size + (view.mirrored ? size - 1 : 0);
    const std::int64_t step = view.mirrored ? -1 : 1;
    for (std::int64_t x = 0; x < size; ++x) {
      const Taps& column = columns[static_cast<std::size_t>(x)];
      const float* pixel = line.data() + 3 * (column.first - begin);
      Four sum{};
      for (const float weight : column.weights) {
        Four channels;
        std::memcpy(&channels, pixel, sizeof(channels));
        sum += weight * channels;
        pixel += 3;
      }
      sum = sum * scale + shift;
      out[x * step] = sum[0];
      out[x * step + size * size] = sum[1];
      out[x * step + 2 * size * size] = sum[2];
    }
  }
}

}  // namespace tern::data
