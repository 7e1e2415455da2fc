// Convolutions of stored numbers. Images are channels last, so the activations that a sum reads in one row of the
// kernel are adjacent: a row of the first factor is a few runs of the padded image, and nothing else is copied.

#include "vectorized/quantized/convolution.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/kernels/algorithms.hpp"
#include "vectorized/cache.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/quantized/kept_bytes.hpp"
#include "vectorized/quantized/kernels.hpp"
#include "vectorized/quantized/space_to_depth.hpp"

namespace tern::vectorized::int8 {

namespace {

using kernels::Conv2d;

constexpr std::int64_t slack = 128;

/// How one convolution is cut.
struct Plan {
  Conv2d s;       ///< after space-to-depth, if the convolution takes it
  Conv2d origin;  ///< before that
  const Kernels& kernels;
  std::int64_t inputs, outputs;       ///< channels per group
  std::int64_t runs, length, groups;  ///< of a row; numbers and groups of 4 of a run
  std::int64_t panels, panel;         ///< of a group of channels; bytes of a panel
  std::int64_t width, height;         ///< of the padded image
  std::int64_t lines, line, longer;   ///< strips come from lines of so many positions; some have one less
  std::int64_t line_strips, rows;     ///< strips of a line, rows of a strip
  bool to_depth;                      ///< the convolution takes space-to-depth
  bool joined;                        ///< a strip has two lines, if they lie next to each other
  bool merged = false;                ///< the runs of each row are copied side by side and are one
  bool copies;                        ///< the image is copied into a padded one
  bool flat;                          ///< a line is one of many positions of a product

  Plan(const Conv2d& sizes, const Kernels& own, int threads)
      : s(sizes), origin(sizes), kernels(own), to_depth(own.groups_multiple > 1 && takes_space_to_depth(sizes)) {
    if (to_depth) s = space_to_depth(sizes);
    inputs = s.C / s.groups;
    outputs = s.O / s.groups;
    const bool adjacent = s.groups == 1 && s.dilation_w == 1;
    runs = adjacent ? s.KH : s.KH * s.KW;
    length = adjacent ? s.KW * s.C : inputs;
    const std::int64_t unit = kernels.groups_multiple * kernels.group_numbers();
    const bool one_tap = s.KH == 1 && s.KW == 1 && s.pad_h == 0 && s.pad_w == 0;
    const bool in_place = one_tap && !to_depth && s.stride_h == 1 && s.stride_w == 1;
    // Strips of short lines are cut badly, and copying is cheap where numbers are widened anyway.
    const bool short_lines = kernels.widen != nullptr && !in_place && s.OW < kernels.rows && s.O >= 2 * panel_columns;
    const bool short_runs = runs > 1 && 4 * runs * round_up(length, unit) > 5 * round_up(runs * length, unit);
    if (!to_depth && s.groups == 1 && (short_lines || short_runs)) {
      merged = true;
      length *= runs;
      runs = 1;
    }
    groups = round_up(length, unit) / kernels.group_numbers();
    panels = divide_up(outputs, panel_columns);
    panel = runs * groups * group_bytes;
    width = s.W + 2 * s.pad_w;
    height = s.H + 2 * s.pad_h;
    flat = merged || in_place;
    copies = merged || to_depth || s.pad_h > 0 || s.pad_w > 0 || kernels.widen != nullptr ||
             groups * kernels.group_numbers() != length;
    const std::int64_t positions = s.N * s.OH * s.OW;
    lines = flat ? flat_lines(positions, kernels.rows, longest_line(), threads) : s.N * s.OH;
    line = divide_up(positions, lines);
    longer = positions - lines * (positions / lines);
    rows = divide_up(line, divide_up(line, kernels.rows));
    if (longer > 0) rows = std::min(rows, line - 1);  // the shorter lines are one strip at least
    line_strips = divide_up(line, rows);
    // Between the two are positions of padding.
    joined = kernels.groups_multiple > 1 && !flat && copies && s.stride_h == 1 && s.stride_w == 1 &&
             line + width <= kernels.rows;
    if (joined) rows = line + width;
  }

  /// Positions of a product's line: its numbers stay in the cache where they are widened.
  std::int64_t longest_line() const {
    constexpr std::int64_t most = 256;
    if (kernels.widen == nullptr) return most;
    return std::clamp(cache_share(0.5) / std::max<std::int64_t>(row_bytes(), 1), 2 * kernels.rows, most);
  }

  /// Lines of at most so many positions, as many for each thread unless they are few, in which strips waste the fewest
  /// rows.
  static std::int64_t flat_lines(std::int64_t positions, std::int64_t most_rows, std::int64_t longest, int threads) {
    const bool few = positions < 256;
    const std::int64_t step = few ? 1 : std::max(threads, 1), least = round_up(divide_up(positions, longest), step);
    std::int64_t best = least, best_rows = std::numeric_limits<std::int64_t>::max();
    for (std::int64_t count = least; count <= std::min(2 * least, positions); count += step) {
      const std::int64_t each = divide_up(positions, count), strips = divide_up(each, most_rows);
      const std::int64_t all = count * strips * (divide_up(each, strips) + 1);  // and about a row's time for each strip
      if (all < best_rows) {
        best = count;
        best_rows = all;
      }
    }
    return std::min(best, positions);
  }

  /// The first position of a line: all have the same number of them, or some one less.
  std::int64_t line_begin(std::int64_t at) const {
    return longer == 0 ? at * line : at * (line - 1) + std::min(at, longer);
  }

  std::int64_t row_bytes() const {
    return merged ? groups * group_size : (flat ? s.C : s.stride_w * s.C) * kernels.number();
  }
  /// Bytes of activations of a line, about.
  std::int64_t line_bytes() const {
    if (flat) return line * row_bytes();
    return s.stride_h * width * s.C * kernels.number();
  }
  /// Panels that strips meet one after the other, so that memory sees whole lines of the result and the strips stay in
  /// the first-level cache: all, if they leave room in the second-level cache, else as many as fit beside the strips.
  std::int64_t panels_together() const {
    if (s.groups == 1 && weight_bytes() <= cache_share(0.5)) return round_up(panels, 2);
    return std::max<std::int64_t>(2, (32 << 10) / std::max<std::int64_t>(panel, 1) / 2 * 2);
  }
  std::int64_t weight_bytes() const { return s.groups * panels * panel; }
  double nanoseconds() const {
    const double products = static_cast<double>(s.N * s.OH * s.OW) * static_cast<double>(s.O * inputs * s.KH * s.KW);
    return products / kernels.products + static_cast<double>(s.N * s.OH * s.OW * s.O) * 0.1;
  }
};

/// Number is that of the kernels.
template <class Number>
void pack_panels(std::int8_t* out, const std::int8_t* weight, const Plan& plan, std::int64_t begin, std::int64_t end) {
  const std::int64_t sum = plan.runs * plan.length, group_numbers = plan.kernels.group_numbers();
  for (std::int64_t at = begin; at < end; ++at) {
    const std::int64_t group = at / plan.panels, first = at % plan.panels * panel_columns;
    auto* const panel = reinterpret_cast<Number*>(out + at * plan.panel);
    std::memset(panel, 0, static_cast<std::size_t>(plan.panel));
    for (std::int64_t j = 0; j < std::min(panel_columns, plan.outputs - first); ++j) {
      const std::int8_t* from = weight + (group * plan.outputs + first + j) * sum;
      for (std::int64_t run = 0; run < plan.runs; ++run)
        for (std::int64_t k = 0; k < plan.length; ++k)
          panel[((run * plan.groups + k / group_numbers) * panel_columns + j) * group_numbers + k % group_numbers] =
              *from++;
    }
  }
}

/// The activations of some lines, as strips read them.
class Lines {
 public:
  Lines(const Plan& plan, const std::uint8_t* x, std::int32_t zero, std::uint8_t* copy)
      : plan_(plan), x_(x), zero_(static_cast<std::uint8_t>(zero)), copy_(copy) {}

  /// Strips of the lines from `begin` on; `out` has room for all.
  std::int64_t strips(Strip* out, std::int64_t begin, std::int64_t end) {
    const Plan& p = plan_;
    std::int64_t count = 0;
    std::uint8_t* free = copy_;
    std::int64_t image = -1, first_row = 0;
    const std::uint8_t* base = nullptr;
    for (std::int64_t at = begin; at < end; ++at) {
      const std::uint8_t* from = nullptr;
      const std::int64_t y = p.line_begin(at), length = p.line_begin(at + 1) - y;
      if (p.flat) {
        from = p.merged ? merge(free, y, length) : p.copies ? copy_positions(free, y, length) : x_ + y * p.s.C;
      } else {
        const std::int64_t n = at / p.s.OH, oh = at % p.s.OH;
        if (n != image) {
          image = n;
          first_row = oh * p.s.stride_h;
          const std::int64_t last = std::min(p.s.OH - 1, end - 1 - n * p.s.OH);
          const std::int64_t rows = (last - oh) * p.s.stride_h + p.s.dilation_h * (p.s.KH - 1) + 1;
          base = p.copies ? pad(free, n, first_row, rows) : x_ + (n * p.s.H + first_row) * p.s.W * p.s.C;
        }
        from = base + (oh * p.s.stride_h - first_row) * p.width * p.s.C * p.kernels.number();
      }
      if (p.joined) {
        const bool two = at + 1 < end && (at + 1) % p.s.OH != 0;
        out[count++] = {from, y, 0, length, two ? p.width : 0};
        if (two) ++at;
        continue;
      }
      for (std::int64_t strip = 0; strip * p.rows < length; ++strip) {
        // The last strip begins earlier if fewer rows are left, so that all have the same number.
        const std::int64_t wanted = strip * p.rows, place = std::min(wanted, length - p.rows);
        out[count++] = {from + place * p.row_bytes(), y + place, wanted - place, p.rows};
      }
    }
    return count;
  }

 private:
  /// `count` numbers, as the kernels read them; returns where others follow.
  std::uint8_t* put(std::uint8_t* out, const std::uint8_t* in, std::int64_t count) const {
    if (plan_.kernels.widen == nullptr)
      std::memcpy(out, in, static_cast<std::size_t>(count));
    else
      plan_.kernels.widen(reinterpret_cast<std::uint16_t*>(out), in, count);
    return out + count * plan_.kernels.number();
  }
  /// As many of padding.
  std::uint8_t* fill(std::uint8_t* out, std::int64_t count) const {
    if (plan_.kernels.widen == nullptr)
      std::memset(out, zero_, static_cast<std::size_t>(count));
    else
      std::fill_n(reinterpret_cast<std::uint16_t*>(out), count, zero_);
    return out + count * plan_.kernels.number();
  }

  const std::uint8_t* copy_positions(std::uint8_t*& free, std::int64_t y, std::int64_t count) {
    return std::exchange(free, put(free, x_ + y * plan_.s.C, count * plan_.s.C));
  }

  /// Rows of image n from `first` on, padded or after space-to-depth.
  const std::uint8_t* pad(std::uint8_t*& free, std::int64_t n, std::int64_t first, std::int64_t rows) {
    const Conv2d& s = plan_.s;
    std::uint8_t* const to = free;
    const std::int64_t line = plan_.width * s.C, side = s.pad_w * s.C;
    if (plan_.to_depth) {
      rows_to_depth(to, x_, zero_, plan_.origin, n, {first, first + rows});
      free += rows * line;
      return to;
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t h = first + row - s.pad_h;
      if (h < 0 || h >= s.H) {
        free = fill(free, line);
        continue;
      }
      free = put(fill(free, side), x_ + (n * s.H + h) * s.W * s.C, s.W * s.C);
      free = fill(free, side);
    }
    return to;
  }

  /// The patches of `count` positions, one per row.
  const std::uint8_t* merge(std::uint8_t*& free, std::int64_t y, std::int64_t count) {
    const Conv2d& s = plan_.s;
    std::uint8_t* const to = free;
    for (std::int64_t i = y; i < y + count; ++i, free += plan_.row_bytes()) {
      const std::int64_t n = i / (s.OH * s.OW), oh = i / s.OW % s.OH, ow = i % s.OW;
      std::uint8_t* out = free;
      for (std::int64_t kh = 0; kh < s.KH; ++kh) {
        const std::int64_t h = oh * s.stride_h - s.pad_h + kh * s.dilation_h, w = ow * s.stride_w - s.pad_w;
        const bool inside = h >= 0 && h < s.H;
        const std::uint8_t* const row = x_ + ((n * s.H + h) * s.W + w) * s.C;
        if (s.dilation_w == 1 && inside && w >= 0 && w + s.KW <= s.W) {
          out = put(out, row, s.KW * s.C);
          continue;
        }
        for (std::int64_t kw = 0; kw < s.KW; ++kw) {
          const std::int64_t at = w + kw * s.dilation_w;
          out = inside && at >= 0 && at < s.W ? put(out, row + kw * s.dilation_w * s.C, s.C) : fill(out, s.C);
        }
      }
    }
    return to;
  }

  const Plan& plan_;
  const std::uint8_t* x_;
  std::uint8_t zero_;
  std::uint8_t* copy_;
};

/// The arrays of a call.
struct Arrays {
  std::uint8_t* y;
  float* real;
  const std::uint8_t* x;
  const std::int32_t* bias;
  const float* scale;
  const std::uint8_t* other;
  Rescale rescale;
};

/// The share of a thread: all lines for some blocks of channels, or some lines for all; `chunk` lines at a time.
struct Share {
  std::int64_t line_begin, line_end, panel_begin, panel_end, chunk;
};

void multiply_lines(const Plan& plan, const Arrays& arrays, const std::int8_t* weight, const Share& share,
                    std::uint8_t* copy, Strip* strips) {
  std::vector<std::int64_t> offsets;
  const Conv2d& s = plan.s;
  const std::int64_t number = plan.kernels.number();
  const bool adjacent = s.groups == 1 && s.dilation_w == 1;
  for (std::int64_t run = 0; run < plan.runs; ++run)
    offsets.push_back(number * (plan.merged ? 0
                                : adjacent
                                    ? run * s.dilation_h * plan.width * s.C
                                    : (run / s.KW * s.dilation_h * plan.width + run % s.KW * s.dilation_w) * s.C));
  Block block;
  block.rows = plan.rows, block.row = plan.row_bytes();
  block.runs = plan.runs, block.groups = plan.groups, block.offset = offsets.data();
  block.panel = plan.panel;
  block.pitch = s.y_channels == 0 ? s.O : s.y_channels;
  block.rescale = arrays.rescale;
  const std::int64_t together = plan.panels_together();
  plan.kernels.begin(plan.rows);
  for (std::int64_t begin = share.line_begin; begin < share.line_end; begin += share.chunk) {
    Lines lines(plan, arrays.x, arrays.rescale.x_zero, copy);
    const std::int64_t count = lines.strips(strips, begin, std::min(begin + share.chunk, share.line_end));
    for (std::int64_t group = 0; group < s.groups; ++group)
      for (std::int64_t first = share.panel_begin; first < share.panel_end; first += together)
        for (std::int64_t i = 0; i < count; i += 2) {
          block.strip_count = static_cast<int>(std::min<std::int64_t>(2, count - i));
          for (int k = 0; k < block.strip_count; ++k) {
            block.strips[k] = strips[i + k];
            block.strips[k].a += group * plan.inputs * number;
          }
          for (std::int64_t panel = first; panel < std::min(first + together, share.panel_end); panel += 2) {
            const std::int64_t own = panel * panel_columns, o = group * plan.outputs + own;
            block.weight = weight + (group * plan.panels + panel) * plan.panel;
            block.columns = std::min({block_columns, plan.outputs - own, (share.panel_end - panel) * panel_columns});
            block.bias = arrays.bias + o;
            block.scale = arrays.scale + o;
            block.y = arrays.y == nullptr ? nullptr : arrays.y + o;
            block.real = arrays.real == nullptr ? nullptr : arrays.real + o;
            block.other = arrays.other == nullptr ? nullptr : arrays.other + o;
            plan.kernels.multiply(block);
          }
        }
  }
  plan.kernels.end();
}

/// Copying runs side by side takes about twenty cycles each; where that is dearer than more instructions, kernels for
/// short runs take them as they lie.
Plan plan_for(const Conv2d& s, int threads) {
  const Plan plan(s, int8::kernels(), threads);
  if (!plan.merged || plan.kernels.short_runs == nullptr) return plan;
  const Plan other(s, *plan.kernels.short_runs, threads);
  const std::int64_t copied = 20 * s.KH + plan.panels * (plan.groups / 16);
  const std::int64_t in_place = other.runs * other.groups * other.panels / 2;
  return copied < in_place ? plan : other;
}

/// From [O, KH, KW, C / groups].
void pack_weights(std::int8_t* out, const std::int8_t* weight, const Plan& plan) {
  std::vector<std::int8_t> own;
  if (plan.to_depth) {
    own.resize(static_cast<std::size_t>(plan.s.O * plan.runs * plan.length));
    weights_to_depth(own.data(), weight, plan.origin);
    weight = own.data();
  }
  const auto pack = plan.kernels.widen == nullptr ? pack_panels<std::int8_t> : pack_panels<std::int16_t>;
  pack(out, weight, plan, 0, plan.s.groups * plan.panels);
}

void run_products(Context& context, const std::int8_t* weight, const Conv2d& sizes, const Arrays& arrays) {
  const Plan plan = plan_for(sizes, context.threads);
  const Conv2d& s = plan.s;
  const convolution::Problem key{.groups = s.groups,
                                 .C = plan.inputs,
                                 .O = plan.outputs,
                                 .KH = s.KH,
                                 .KW = s.KW,
                                 .dilation_w = plan.merged ? 0 : s.dilation_w,
                                 .element = 1};
  const KeptBytes packed(context, plan.weight_bytes(), key, plan.kernels.name,
                         [&](std::int8_t* out) { pack_weights(out, weight, plan); });
  const int threads = useful_threads(context, plan.nanoseconds());
  const std::int64_t activations = plan.lines * plan.line_bytes();
  const bool by_channels = plan.panels >= 2 * threads && plan.weight_bytes() > activations;
  const std::int64_t lines_each = by_channels ? plan.lines : divide_up(plan.lines, threads);
  const std::int64_t chunk =
      std::clamp<std::int64_t>(cache_share(0.5) / std::max<std::int64_t>(plan.line_bytes(), 1), 1, lines_each);
  // A chunk may meet several images, each with the rows that its last outputs read.
  const std::int64_t images = plan.flat ? 1 : std::min(plan.s.N, chunk / plan.s.OH + 2);
  std::int64_t extra =
      plan.flat ? 0 : images * (s.dilation_h * (s.KH - 1) + s.stride_h) * plan.width * s.C * plan.kernels.number();
  if (plan.joined) extra += plan.kernels.rows * s.C;  // a line alone reads that far
  const std::int64_t copy = round_up(plan.copies ? chunk * plan.line_bytes() + extra + slack : 0, 64);
  const std::int64_t strips = round_up(chunk * plan.line_strips * static_cast<std::int64_t>(sizeof(Strip)), 64);
  const Scratch scratch(context, static_cast<std::size_t>((copy + strips) * threads));
  parallel(threads, [&](const Team& team) {
    auto* const own = scratch.as<std::uint8_t>() + (copy + strips) * team.index;
    Share share{0, plan.lines, 0, plan.panels, chunk};
    if (by_channels) {
      share.panel_begin = team.begin(plan.panels, 2);
      share.panel_end = team.end(plan.panels, 2);
    } else {
      share.line_begin = team.begin(plan.lines);
      share.line_end = team.end(plan.lines);
    }
    if (share.line_begin < share.line_end && share.panel_begin < share.panel_end)
      multiply_lines(plan, arrays, packed.data(), share, own + strips, reinterpret_cast<Strip*>(own));
  });
}

bool winograd_is_faster(const Conv2d& s) {
  const Kernels& own = int8::kernels();
  return own.winograd != nullptr && winograd_nanoseconds(s) < Plan(s, own, 1).nanoseconds();
}

void run(Context& context, const LayerArrays& arrays, const Conv2d& s, const Rescale& rescale) {
  constexpr const char* decision = "quantized_conv2d";
  if (s.N * s.OH * s.OW * s.O == 0) return;
  const std::string_view forced = forced_algorithm(context, decision);
  if (forced != "general" && s.groups > 1 && s.groups == s.C && s.groups == s.O) {
    run_depthwise(context, arrays, s, rescale);
    return took_algorithm(context, decision, "depthwise");
  }
  const WinogradKernels* const winograd = winograd_kernels();
  if (winograd != nullptr && takes_winograd(s) && (forced.empty() ? winograd_is_faster(s) : forced == "winograd") &&
      run_winograd(context, arrays, s, rescale, *winograd))
    return took_algorithm(context, decision, "winograd");
  run_products(context, arrays.weight, s,
               {arrays.y, arrays.real, arrays.x, arrays.bias, arrays.scale, arrays.other, rescale});
  took_algorithm(context, decision, "general");
}

}  // namespace

void conv2d(Context& context, std::uint8_t* y, const std::uint8_t* x, const std::int8_t* weight,
            const std::int32_t* bias, const float* scale, const std::uint8_t* other, const Conv2d& sizes,
            const Rescale& rescale) {
  run(context, {y, nullptr, x, weight, bias, scale, other}, sizes, rescale);
}

void conv2d_float(Context& context, float* y, const std::uint8_t* x, const std::int8_t* weight,
                  const std::int32_t* bias, const float* scale, const Conv2d& sizes, const Rescale& rescale) {
  run(context, {nullptr, y, x, weight, bias, scale, nullptr}, sizes, rescale);
}

}  // namespace tern::vectorized::int8
