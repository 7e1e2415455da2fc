// One kernel per channel: a row of the padded image is copied for each row of outputs that needs it, and the taps are
// pointers into those rows.

#include <algorithm>
#include <cstring>
#include <vector>

#include "vectorized/cache.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/quantized/convolution.hpp"
#include "vectorized/quantized/kernels.hpp"

namespace tern::vectorized::int8 {

namespace {

using kernels::Conv2d;

/// [O, KH, KW, 1] as [group of 4 taps][O][4], zeros behind the last tap.
void pack(std::int8_t* out, const std::int8_t* weight, std::int64_t channels, std::int64_t taps) {
  std::memset(out, 0, static_cast<std::size_t>(round_up(taps, 4) * channels));
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t tap = 0; tap < taps; ++tap) out[(tap / 4 * channels + c) * 4 + tap % 4] = weight[c * taps + tap];
}

/// Rows of an image with its padding; each lies in the slot of its number.
class PaddedRows {
 public:
  PaddedRows(const Conv2d& s, const std::uint8_t* image, std::uint8_t zero, std::uint8_t* memory, std::int64_t slots)
      : s_(s), image_(image), zero_(zero), memory_(memory), held_(static_cast<std::size_t>(slots), none) {}
  std::int64_t bytes() const { return (s_.W + 2 * s_.pad_w) * s_.C; }

  /// Row h of the image, which may lie in the padding above or below.
  const std::uint8_t* row(std::int64_t h) {
    const auto slots = static_cast<std::int64_t>(held_.size());
    const std::int64_t slot = (h + s_.pad_h) % slots;
    std::uint8_t* const to = memory_ + slot * bytes();
    if (std::exchange(held_[static_cast<std::size_t>(slot)], h) == h) return to;
    const bool inside = h >= 0 && h < s_.H;
    const std::int64_t side = inside ? s_.pad_w * s_.C : bytes();
    std::memset(to, zero_, static_cast<std::size_t>(side));
    if (!inside) return to;
    std::memcpy(to + side, image_ + h * s_.W * s_.C, static_cast<std::size_t>(s_.W * s_.C));
    std::memset(to + side + s_.W * s_.C, zero_, static_cast<std::size_t>(side));
    return to;
  }

 private:
  static constexpr std::int64_t none = -(std::int64_t{1} << 62);
  const Conv2d& s_;
  const std::uint8_t* image_;
  std::uint8_t zero_;
  std::uint8_t* memory_;
  std::vector<std::int64_t> held_;
};

/// Output rows [begin, end) of all images.
void run_rows(const DepthwiseArrays& arrays, const Conv2d& s, const kernels::Rescale& rescale,
              const std::int8_t* weight, std::uint8_t* memory, std::int64_t slots, std::int64_t begin,
              std::int64_t end) {
  const std::int64_t pitch = s.y_channels == 0 ? s.O : s.y_channels;
  std::vector<const std::uint8_t*> taps(static_cast<std::size_t>(s.KH * s.KW));
  DepthwiseRow row{.x = taps.data(),
                   .taps = s.KH * s.KW,
                   .step = s.stride_w * s.C,
                   .positions = s.OW,
                   .channels = s.C,
                   .weight = weight,
                   .bias = arrays.bias,
                   .scale = arrays.scale,
                   .pitch = pitch,
                   .rescale = rescale};
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t n = at / s.OH, last = std::min(end, (n + 1) * s.OH);
    PaddedRows rows(s, arrays.x + n * s.H * s.W * s.C, static_cast<std::uint8_t>(rescale.x_zero), memory, slots);
    for (; at < last; ++at) {
      for (std::int64_t kh = 0; kh < s.KH; ++kh) {
        const std::uint8_t* const from = rows.row(at % s.OH * s.stride_h - s.pad_h + kh * s.dilation_h);
        for (std::int64_t kw = 0; kw < s.KW; ++kw)
          taps[static_cast<std::size_t>(kh * s.KW + kw)] = from + kw * s.dilation_w * s.C;
      }
      const std::int64_t place = at * s.OW * pitch;
      row.y = arrays.y == nullptr ? nullptr : arrays.y + place;
      row.real = arrays.real == nullptr ? nullptr : arrays.real + place;
      row.other = arrays.other == nullptr ? nullptr : arrays.other + place;
      kernels().depthwise(row);
    }
  }
}

}  // namespace

void run_depthwise(Context& context, const DepthwiseArrays& arrays, const Conv2d& s, const kernels::Rescale& rescale) {
  const std::int64_t taps = s.KH * s.KW, rows = s.N * s.OH;
  const std::int64_t slots = s.dilation_h * (s.KH - 1) + 1;
  const std::int64_t packed = round_up(round_up(taps, 4) * s.C, 64);
  const std::int64_t own = round_up(slots * (s.W + 2 * s.pad_w) * s.C, 64);
  const double nanoseconds = 0.03 * static_cast<double>(rows * s.OW) * static_cast<double>(s.C * taps);
  const int threads = useful_threads(context, nanoseconds);
  const Scratch scratch(context, static_cast<std::size_t>(packed + own * threads));
  pack(scratch.as<std::int8_t>(), arrays.weight, s.C, taps);
  parallel(threads, [&](const Team& team) {
    run_rows(arrays, s, rescale, scratch.as<std::int8_t>(), scratch.as<std::uint8_t>() + packed + own * team.index,
             slots, team.begin(rows), team.end(rows));
  });
}

}  // namespace tern::vectorized::int8
