// One kernel per channel: a row of the padded image is copied for each row of outputs that needs it, and the taps are
// pointers into those rows.

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "vectorized/cache.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/quantized/convolution.hpp"
#include "vectorized/quantized/kept_bytes.hpp"
#include "vectorized/quantized/kernels.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::int8 {

namespace {

using kernels::Conv2d;

/// Bytes of the packed weights (see DepthwiseForm).
std::int64_t weight_bytes(const Conv2d& s, const DepthwiseForm& form) {
  return round_up(s.C, form.block) * form.steps(s.KH, s.KW) * group_size;
}

/// From [O, KH, KW, 1].
void pack_weights(std::int8_t* out, const std::int8_t* weight, const Conv2d& s, const DepthwiseForm& form) {
  const std::int64_t groups = divide_up(s.KH, 4), steps = form.steps(s.KH, s.KW);
  std::memset(out, 0, static_cast<std::size_t>(weight_bytes(s, form)));
  for (std::int64_t c = 0; c < s.C; ++c)
    for (std::int64_t tap = 0; tap < s.KH * s.KW; ++tap) {
      const std::int64_t kh = tap / s.KW, kw = tap % s.KW, step = form.words ? tap / 2 : kw * groups + kh / 4;
      const std::int64_t place = (c / form.block * steps + step) * form.block + form.place(c % form.block);
      std::int8_t* const to = out + place * group_size;
      if (form.words)
        reinterpret_cast<std::int16_t*>(to)[tap % 2] = weight[c * s.KH * s.KW + tap];
      else
        to[kh % 4] = weight[c * s.KH * s.KW + tap];
    }
}

/// Numbers of channels in the order of the kernels; what lies behind the last channel is not used.
template <class T>
void reorder(T* out, const T* in, std::int64_t channels, const DepthwiseForm& form) {
  std::memset(out, 0, static_cast<std::size_t>(round_up(channels, form.block)) * sizeof(T));
  for (std::int64_t c = 0; c < channels; ++c) out[form.place(c)] = in[c];
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

/// What a kernel reads beside the image, and memory for `slots` padded rows.
struct Prepared {
  const Kernels& kernels;
  const std::int8_t* weight;
  const std::int32_t* bias;
  const float* scale;
  std::uint8_t* memory;
  std::int64_t slots;
};

/// Some output rows of all images.
void run_rows(const LayerArrays& arrays, const Conv2d& s, const kernels::Rescale& rescale, const Prepared& prepared,
              Range output_rows) {
  const DepthwiseForm& form = prepared.kernels.depthwise_form;
  std::vector<const std::uint8_t*> lines(static_cast<std::size_t>(s.KH)), taps;
  DepthwiseRow row;
  row.x = lines.data();
  row.KH = s.KH, row.KW = s.KW;
  row.step = s.stride_w * s.C, row.column = s.dilation_w * s.C;
  row.positions = s.OW, row.channels = s.C;
  row.weight = prepared.weight, row.bias = prepared.bias, row.scale = prepared.scale;
  row.pitch = s.y_channels == 0 ? s.O : s.y_channels;
  row.rescale = rescale;
  for (std::int64_t at = output_rows.first; at < output_rows.last;) {
    const std::int64_t n = at / s.OH, last = std::min(output_rows.last, (n + 1) * s.OH);
    PaddedRows rows(s, arrays.x + n * s.H * s.W * s.C, static_cast<std::uint8_t>(rescale.x_zero), prepared.memory,
                    prepared.slots);
    for (; at < last; ++at) {
      for (std::int64_t kh = 0; kh < s.KH; ++kh)
        lines[static_cast<std::size_t>(kh)] = rows.row(at % s.OH * s.stride_h - s.pad_h + kh * s.dilation_h);
      if (form.words) {
        taps.clear();
        for (const std::uint8_t* const line : lines)
          for (std::int64_t kw = 0; kw < s.KW; ++kw) taps.push_back(line + kw * row.column);
        if (taps.size() % 2 != 0) taps.push_back(taps.back());  // its weights are zeros
        row.taps = taps.data();
      }
      const std::int64_t place = at * s.OW * row.pitch;
      row.y = arrays.y == nullptr ? nullptr : arrays.y + place;
      row.real = arrays.real == nullptr ? nullptr : arrays.real + place;
      row.other = arrays.other == nullptr ? nullptr : arrays.other + place;
      prepared.kernels.depthwise(row);
    }
  }
}

}  // namespace

void run_depthwise(Context& context, const LayerArrays& arrays, const Conv2d& s, const kernels::Rescale& rescale) {
  const std::int64_t rows = s.N * s.OH, slots = s.dilation_h * (s.KH - 1) + 1;
  const Kernels& own_kernels = int8::kernels();
  const DepthwiseForm& form = own_kernels.depthwise_form;
  const std::int64_t channels = round_up(s.C, form.block);
  const std::int64_t own =
      round_up(slots * (s.W + 2 * s.pad_w) * s.C + form.block, 64);  // the last block is read whole
  const double nanoseconds = 0.006 * static_cast<double>(rows * s.OW) * static_cast<double>(s.C * s.KH * s.KW);
  const int threads = useful_threads(context, nanoseconds);
  const KeptBytes weights(context, weight_bytes(s, form),
                          {.groups = s.groups, .C = 1, .O = 1, .KH = s.KH, .KW = s.KW, .element = 1},
                          form.words ? "depthwise int8 words" : "depthwise int8",
                          [&](std::int8_t* out) { pack_weights(out, arrays.weight, s, form); });
  const Scratch scratch(context, static_cast<std::size_t>(8 * channels + own * threads));
  auto* const bias = scratch.as<std::int32_t>();
  auto* const scale = scratch.as<float>() + channels;
  reorder(bias, arrays.bias, s.C, form);
  reorder(scale, arrays.scale, s.C, form);
  std::uint8_t* const memory = scratch.as<std::uint8_t>() + 8 * channels;
  parallel(threads, [&](const Team& team) {
    run_rows(arrays, s, rescale, {own_kernels, weights.data(), bias, scale, memory + own * team.index, slots},
             {team.begin(rows), team.end(rows)});
  });
}

}  // namespace tern::vectorized::int8
