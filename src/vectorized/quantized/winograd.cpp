// Winograd's convolution of stored numbers (see winograd.hpp): some tiles are transformed, multiplied with the weights
// of each panel at each frequency, and finished while they are in the cache.

#include "vectorized/quantized/winograd.hpp"

#include <algorithm>
#include <cstring>

#include "vectorized/cache.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/quantized/convolution.hpp"
#include "vectorized/quantized/kept_bytes.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::int8 {

namespace {

using kernels::Conv2d;

constexpr std::int64_t slack = 64;

/// How one convolution is cut.
struct Plan {
  std::int64_t channels, panels;
  std::int64_t image_rows, image_columns;  ///< tiles of an image
  std::int64_t tiles, together;            ///< of all images; which pass through the cache together

  explicit Plan(const Conv2d& s)
      : channels(round_up(s.C, transformed_unit)),
        panels(divide_up(s.O, panel_columns)),
        image_rows(divide_up(s.OH, tile_size)),
        image_columns(divide_up(s.OW, tile_size)),
        tiles(s.N * image_rows * image_columns) {
    // Weights that are large beside the caches are read for many tiles each time.
    const std::int64_t least = weight_bytes() > 32 * cache_share(1) ? 36 : 12;
    together = std::min(tiles, std::clamp<std::int64_t>(cache_share(1) / number_bytes(1), least, 48));
  }
  std::int64_t number_bytes(std::int64_t count) const { return frequencies * count * channels * 2; }
  std::int64_t panel_numbers() const { return frequencies * channels * panel_columns; }
  std::int64_t weight_bytes() const { return panels * panel_numbers() * 2; }
};

/// Whether 255 times the weights of one sign are below 2^25 for each output.
bool within_bounds(const std::int8_t* weight, const Conv2d& s) {
  const std::int64_t count = s.C * s.KH * s.KW;
  for (std::int64_t o = 0; o < s.O; ++o, weight += count) {
    std::int64_t all = 0, size = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      all += weight[i];
      size += weight[i] < 0 ? -weight[i] : weight[i];
    }
    if (255 * ((size + std::abs(all)) / 2) >= std::int64_t{1} << 25) return false;
  }
  return true;
}

void transform_three(std::int32_t* out, std::int64_t apart, std::int32_t a, std::int32_t b, std::int32_t c) {
  out[0] = a;
  out[apart] = a + b + c;
  out[2 * apart] = a - b + c;
  out[3 * apart] = a + 2 * b + 4 * c;
  out[4 * apart] = a - 2 * b + 4 * c;
  out[5 * apart] = c;
}

/// From [O, 3, 3, C] to [panel][frequency][pair of channels][16][2].
void transform_weights(std::int16_t* out, const std::int8_t* weight, const Conv2d& s, const Plan& plan) {
  std::memset(out, 0, static_cast<std::size_t>(plan.weight_bytes()));
  for (std::int64_t o = 0; o < s.O; ++o)
    for (std::int64_t c = 0; c < s.C; ++c) {
      std::int32_t half[patch_size * 3], whole[frequencies];
      const std::int8_t* const own = weight + o * 9 * s.C + c;
      for (std::int64_t kw = 0; kw < 3; ++kw)
        transform_three(half + kw, 3, own[kw * s.C], own[(3 + kw) * s.C], own[(6 + kw) * s.C]);
      for (std::int64_t i = 0; i < patch_size; ++i)
        transform_three(whole + i * patch_size, 1, half[3 * i], half[3 * i + 1], half[3 * i + 2]);
      std::int16_t* const to =
          out + o / panel_columns * plan.panel_numbers() + (c / 2 * panel_columns + o % panel_columns) * 2 + c % 2;
      for (std::int64_t f = 0; f < frequencies; ++f)
        to[f * plan.channels * panel_columns] = static_cast<std::int16_t>(whole[f]);
    }
}

/// 6 x 6 pixels from a place that may be outside of the image.
void copy_patch(std::uint8_t* out, const std::uint8_t* image, std::int64_t h, std::int64_t w, std::uint8_t zero,
                const Conv2d& s) {
  const std::int64_t left = std::clamp<std::int64_t>(-w, 0, patch_size);
  const std::int64_t right = std::clamp<std::int64_t>(s.W - w, 0, patch_size);
  const auto bytes = [&](std::int64_t pixels) { return static_cast<std::size_t>(pixels * s.C); };
  for (std::int64_t i = 0; i < patch_size; ++i, ++h, out += patch_size * s.C) {
    std::memset(out, zero, bytes(patch_size));
    if (h >= 0 && h < s.H && left < right)
      std::memcpy(out + left * s.C, image + (h * s.W + w + left) * s.C, bytes(right - left));
  }
}

/// Memory of one thread.
struct Room {
  Tile* tile;
  std::int16_t* number;
  std::int32_t* sums;
  std::uint8_t* patch;

  static std::int64_t bytes(const Plan& plan, const Conv2d& s) {
    return round_up(plan.together * static_cast<std::int64_t>(sizeof(Tile)), 64) + plan.number_bytes(plan.together) +
           plan.together * frequencies * panel_columns * 4 + round_up(frequencies * s.C + slack, 64);
  }
  Room(std::uint8_t* memory, const Plan& plan) {
    tile = reinterpret_cast<Tile*>(memory);
    memory += round_up(plan.together * static_cast<std::int64_t>(sizeof(Tile)), 64);
    number = reinterpret_cast<std::int16_t*>(memory);
    memory += plan.number_bytes(plan.together);
    sums = reinterpret_cast<std::int32_t*>(memory);
    patch = memory + plan.together * frequencies * panel_columns * 4;
  }
};

/// What the threads share.
struct Work {
  const Plan& plan;
  const WinogradKernels& kernels;
  const LayerArrays& arrays;
  const Conv2d& s;
  const kernels::Rescale& rescale;
  const std::int16_t* weight;

  std::int64_t pitch() const { return s.y_channels == 0 ? s.O : s.y_channels; }

  /// Tiles [first, first + count) into the room.
  void transform(const Room& room, std::int64_t first, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t line = (first + i) / plan.image_columns, n = line / plan.image_rows;
      const std::int64_t oh = line % plan.image_rows * tile_size, ow = (first + i) % plan.image_columns * tile_size;
      const std::int64_t h = oh - s.pad_h, w = ow - s.pad_w;
      const std::uint8_t* const image = arrays.x + n * s.H * s.W * s.C;
      const bool inside = h >= 0 && w >= 0 && h + patch_size <= s.H && w + patch_size <= s.W && plan.channels == s.C;
      if (!inside) copy_patch(room.patch, image, h, w, static_cast<std::uint8_t>(rescale.x_zero), s);
      kernels.transform(room.number + i * plan.channels, count * plan.channels,
                        inside ? image + (h * s.W + w) * s.C : room.patch, (inside ? s.W : patch_size) * s.C, s.C,
                        plan.channels);
      room.tile[i] = {((n * s.OH + oh) * s.OW + ow) * pitch(), std::min(tile_size, s.OH - oh),
                      std::min(tile_size, s.OW - ow)};
    }
  }

  void run(const Room& room, Range tiles, Range panels) const {
    TileBlock block;
    block.channels = plan.channels;
    block.number = room.number, block.sums = room.sums, block.tile = room.tile;
    block.line = s.OW * pitch();
    block.out.pitch = pitch();
    block.out.rescale = rescale;
    for (std::int64_t first = tiles.first; first < tiles.last; first += plan.together) {
      block.tiles = std::min(plan.together, tiles.last - first);
      transform(room, first, block.tiles);
      for (std::int64_t panel = panels.first; panel < panels.last; ++panel) {
        const std::int64_t o = panel * panel_columns;
        block.weight = weight + panel * plan.panel_numbers();
        block.out.columns = std::min(panel_columns, s.O - o);
        block.out.bias = arrays.bias + o;
        block.out.scale = arrays.scale + o;
        block.out.y = arrays.y == nullptr ? nullptr : arrays.y + o;
        block.out.real = arrays.real == nullptr ? nullptr : arrays.real + o;
        block.out.other = arrays.other == nullptr ? nullptr : arrays.other + o;
        kernels.multiply(block);
      }
    }
  }
};

}  // namespace

bool takes_winograd(const Conv2d& s) {
  return s.groups == 1 && s.C > 0 && s.KH == 3 && s.KW == 3 && s.stride_h == 1 && s.stride_w == 1 &&
         s.dilation_h == 1 && s.dilation_w == 1;
}

double winograd_nanoseconds(const Conv2d& s) {
  // Products and bytes of weights in a nanosecond, nanoseconds of a tile for each panel and channel.
  constexpr double products = 85, bytes = 16, panel = 90, channel = 2;
  const Plan plan(s);
  const auto tiles = static_cast<double>(plan.tiles), weights = static_cast<double>(plan.weight_bytes());
  const auto passes = static_cast<double>(divide_up(plan.tiles, plan.together));
  const double beyond_cache = std::max(0.0, weights - static_cast<double>(2 * cache_share(1)));
  return tiles * (weights / 2 / products + panel * static_cast<double>(plan.panels) +
                  channel * static_cast<double>(plan.channels)) +
         passes * beyond_cache / bytes;
}

bool run_winograd(Context& context, const LayerArrays& arrays, const Conv2d& s, const kernels::Rescale& rescale,
                  const WinogradKernels& kernels) {
  const Plan plan(s);
  const std::int64_t bytes = plan.weight_bytes();
  const KeptBytes weights(context, bytes + 1, {.groups = 1, .C = s.C, .O = s.O, .KH = 3, .KW = 3, .element = 1},
                          "winograd int8", [&](std::int8_t* out) {
                            out[bytes] = within_bounds(arrays.weight, s) ? 1 : 0;
                            if (out[bytes] != 0)
                              transform_weights(reinterpret_cast<std::int16_t*>(out), arrays.weight, s, plan);
                          });
  if (weights.data()[bytes] == 0) return false;
  const int threads = useful_threads(context, winograd_nanoseconds(s));
  const std::int64_t room = Room::bytes(plan, s);
  const bool by_channels = plan.tiles < 12 * threads && plan.panels >= 2 * threads;
  const Scratch scratch(context, static_cast<std::size_t>(room * threads));
  const Work work{plan, kernels, arrays, s, rescale, reinterpret_cast<const std::int16_t*>(weights.data())};
  parallel(threads, [&](const Team& team) {
    const Room own(scratch.as<std::uint8_t>() + room * team.index, plan);
    const Range tiles = by_channels ? Range{0, plan.tiles} : Range{team.begin(plan.tiles), team.end(plan.tiles)};
    const Range panels = by_channels ? Range{team.begin(plan.panels), team.end(plan.panels)} : Range{0, plan.panels};
    if (tiles.first < tiles.last && panels.first < panels.last) work.run(own, tiles, panels);
  });
  return true;
}

}  // namespace tern::vectorized::int8
