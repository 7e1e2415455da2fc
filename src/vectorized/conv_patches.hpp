#pragma once
// Convolutions of channels-first images whose lanes are output positions: products of the weights with patches that are
// cut out of the images. For any stride and dilation, and for few channels.

#include <algorithm>

#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/patches.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized {

using kernels::Activation;
using kernels::Conv2d;

// Elements of a packed block that streams from the second-level cache, and rows of it that multiply at a time.
inline constexpr std::int64_t block_elements = 64 * 1024, block_depth = 512;
// A weight gradient of fewer patch rows is not cut along them alone, but also into at most so many chunks of images.
inline constexpr std::int64_t few_rows = 64, most_chunks = 16;
// Elements behind a buffer that a vector may touch.
inline constexpr std::int64_t slack = 64;

/// What follows from the shape, per group.
struct Sizes {
  explicit Sizes(const Conv2d& shape)
      : C(shape.C / shape.groups),
        O(shape.O / shape.groups),
        taps(shape.KH * shape.KW),
        K(C * taps),
        positions(shape.OH * shape.OW),
        plane(shape.H * shape.W) {}
  std::int64_t C, O, taps, K, positions, plane;
};

/// The images of x with their padding: x itself where there is none, else (and where a vector may read past the end of
/// x) a copy of the image in use.
template <class T>
class Padded {
 public:
  Padded(const T* x, const Conv2d& shape, T* scratch)
      : x_(x), shape_(shape), sizes_(shape), scratch_(scratch), pads_(shape.pad_h > 0 || shape.pad_w > 0) {}
  static std::int64_t scratch(const Conv2d& shape) {
    return Sizes(shape).C * (shape.H + 2 * shape.pad_h) * (shape.W + 2 * shape.pad_w) + slack;
  }
  Patches<T> image(std::int64_t n, std::int64_t group) {
    const T* from = x_ + (n * shape_.C + group * sizes_.C) * sizes_.plane;
    Patches<T> patches{.image = from,
                       .height = shape_.H + 2 * shape_.pad_h,
                       .width = shape_.W + 2 * shape_.pad_w,
                       .KH = shape_.KH,
                       .KW = shape_.KW,
                       .OW = shape_.OW,
                       .stride_h = shape_.stride_h,
                       .stride_w = shape_.stride_w,
                       .dilation_h = shape_.dilation_h,
                       .dilation_w = shape_.dilation_w};
    const std::int64_t behind = ((shape_.N - n) * shape_.C - (group + 1) * sizes_.C) * sizes_.plane;
    if (!pads_ && behind >= slack) return patches;
    if (from != copied_) copy(from, patches);
    copied_ = from;
    patches.image = scratch_;
    return patches;
  }

 private:
  void copy(const T* from, const Patches<T>& patches) {
    T* to = scratch_;
    for (std::int64_t c = 0; c < sizes_.C; ++c) {
      to = std::fill_n(to, shape_.pad_h * patches.width, T{0});
      for (std::int64_t h = 0; h < shape_.H; ++h, from += shape_.W) {
        to = std::fill_n(to, shape_.pad_w, T{0});
        to = std::copy_n(from, shape_.W, to);
        to = std::fill_n(to, shape_.pad_w, T{0});
      }
      to = std::fill_n(to, shape_.pad_h * patches.width, T{0});
    }
    std::fill_n(to, slack, T{0});
  }

  const T* x_;
  const Conv2d& shape_;
  Sizes sizes_;
  T* scratch_;
  bool pads_;
  const T* copied_ = nullptr;
};

// ---- forward -------------------------------------------------------------------------------------------------------

template <class T>
class PatchForward {
 public:
  PatchForward(T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape, int threads)
      : y_(y), x_(x), weight_(weight), bias_(bias), shape_(shape), sizes_(shape) {
    const std::int64_t width = gemm_kernels<T>().panel_width;
    depth_ =
        divide_up(std::max<std::int64_t>(sizes_.K, 1), divide_up(std::max<std::int64_t>(sizes_.K, 1), block_depth));
    columns_ =
        std::min(std::max<std::int64_t>(1, block_elements / depth_ / width) * width, round_up(sizes_.positions, width));
    const std::int64_t images = shape.N * shape.groups;
    if (images < 8 * threads) {
      const std::int64_t panels = divide_up(sizes_.positions, width);
      column_parts_ = std::min<std::int64_t>(threads, panels);
      row_parts_ = std::clamp<std::int64_t>(threads / std::max<std::int64_t>(1, images * column_parts_), 1,
                                            std::max<std::int64_t>(1, sizes_.O));
    }
    packed_ = round_up(depth_ * columns_, 16) + slack;
  }
  std::int64_t scratch() const { return round_up(packed_ + Padded<T>::scratch(shape_), 16); }

  void run(const Team& team, T* scratch) const {
    Padded<T> padded(x_, shape_, scratch + packed_);
    const std::int64_t parts = shape_.N * shape_.groups * row_parts_ * column_parts_;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) run_part(part, padded, scratch);
  }

 private:
  void run_part(std::int64_t part, Padded<T>& padded, T* packed) const {
    const auto& kernels = gemm_kernels<T>();
    const auto& cut = patch_kernels<T>().cut;
    const std::int64_t width = kernels.panel_width;
    const std::int64_t column_part = part % column_parts_;
    part /= column_parts_;
    const std::int64_t row_part = part % row_parts_;
    part /= row_parts_;
    const std::int64_t group = part % shape_.groups, n = part / shape_.groups;
    const std::int64_t panels = divide_up(sizes_.positions, width);
    const std::int64_t begin = panels * column_part / column_parts_ * width;
    const std::int64_t end = std::min(sizes_.positions, panels * (column_part + 1) / column_parts_ * width);
    const std::int64_t row = sizes_.O * row_part / row_parts_, last_row = sizes_.O * (row_part + 1) / row_parts_;
    const Patches<T> patches = padded.image(n, group);
    Block<T> block;
    block.m = last_row - row;
    block.a_row = sizes_.K;
    block.a_column = 1;
    block.b = packed;
    block.b_row = width;
    block.c_row = sizes_.positions;
    if (bias_ != nullptr) block.row_bias = bias_ + group * sizes_.O + row;
    for (std::int64_t first = begin; first < end; first += columns_) {
      block.n = std::min(columns_, end - first);
      block.c = y_ + (n * shape_.O + group * sizes_.O + row) * sizes_.positions + first;
      for (std::int64_t k = 0; k == 0 || k < sizes_.K; k += depth_) {
        block.k = std::min(depth_, sizes_.K - k);
        block.a = weight_ + (group * sizes_.O + row) * sizes_.K + k;
        block.b_panel = block.k * width;
        block.accumulate = k > 0;
        block.relu = shape_.activation == Activation::relu && k + depth_ >= sizes_.K;
        for (std::int64_t column = 0; column < block.n; column += width) {
          T* const panel = packed + column / width * block.b_panel;
          const std::int64_t count = std::min(width, block.n - column);
          cut(panel, width, patches, k, block.k, first + column, count);
          if (count < width)
            for (std::int64_t p = 0; p < block.k; ++p)
              std::fill(panel + p * width + count, panel + (p + 1) * width, T{0});
        }
        kernels.multiply(block);
      }
    }
  }

  T* y_;
  const T *x_, *weight_, *bias_;
  const Conv2d& shape_;
  Sizes sizes_;
  std::int64_t depth_ = 1, columns_ = 1, row_parts_ = 1, column_parts_ = 1, packed_ = 0;
};

// ---- the gradient of x ---------------------------------------------------------------------------------------------

/// weight^T g gives the gradient of the patches, block of output rows by block; pasting them adds them up in x.
template <class T>
class PatchToX {
 public:
  PatchToX(T* grad_x, const T* g, const T* weight, const Conv2d& shape, int threads)
      : grad_x_(grad_x), g_(g), weight_(weight), shape_(shape), sizes_(shape) {
    const std::int64_t width = gemm_kernels<T>().panel_width;
    output_rows_ = std::clamp<std::int64_t>(256 / shape.OW, 1, shape.OH);
    columns_ = round_up(output_rows_ * shape.OW, width);
    channels_ =
        std::clamp<std::int64_t>(block_elements / 2 / (sizes_.taps * columns_), 1, std::max<std::int64_t>(1, sizes_.C));
    if (shape.N * shape.groups < 8 * threads) parts_ = std::clamp<std::int64_t>(sizes_.C, 1, threads);
    packed_ = sizes_.O * columns_;
  }
  std::int64_t scratch() const { return round_up(packed_ + channels_ * sizes_.taps * columns_, 16); }

  void run(const Team& team, T* scratch) const {
    const std::int64_t parts = shape_.N * shape_.groups * parts_;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) run_part(part, scratch);
  }

 private:
  void run_part(std::int64_t part, T* packed) const {
    const auto& kernels = gemm_kernels<T>();
    const auto& paste = patch_kernels<T>().paste;
    const std::int64_t image = part / parts_, group = image % shape_.groups, n = image / shape_.groups;
    const std::int64_t first_channel = sizes_.C * (part % parts_) / parts_;
    const std::int64_t last_channel = sizes_.C * (part % parts_ + 1) / parts_;
    T* const planes = grad_x_ + (n * shape_.C + group * sizes_.C) * sizes_.plane;
    std::fill(planes + first_channel * sizes_.plane, planes + last_channel * sizes_.plane, T{0});
    T* const gradient = packed + packed_;
    for (std::int64_t oh = 0; oh < shape_.OH; oh += output_rows_) {
      const std::int64_t last = std::min(oh + output_rows_, shape_.OH);
      Block<T> block;
      block.n = (last - oh) * shape_.OW;
      block.k = sizes_.O;
      block.a_row = 1;
      block.a_column = sizes_.K;
      block.b = packed;
      block.b_row = kernels.panel_width;
      block.b_panel = block.k * kernels.panel_width;
      block.c = gradient;
      block.c_row = columns_;
      kernels.pack(packed, g_ + (n * shape_.O + group * sizes_.O) * sizes_.positions + oh * shape_.OW, sizes_.positions,
                   sizes_.O, block.n);
      for (std::int64_t channel = first_channel; channel < last_channel; channel += channels_) {
        const std::int64_t channels = std::min(channels_, last_channel - channel);
        block.m = channels * sizes_.taps;
        block.a = weight_ + group * sizes_.O * sizes_.K + channel * sizes_.taps;
        kernels.multiply(block);
        for (std::int64_t c = 0; c < channels; ++c)
          paste(planes + (channel + c) * sizes_.plane, gradient + c * sizes_.taps * columns_, columns_, shape_, oh,
                last);
      }
    }
  }

  T* grad_x_;
  const T *g_, *weight_;
  const Conv2d& shape_;
  Sizes sizes_;
  std::int64_t output_rows_ = 1, columns_ = 1, channels_ = 1, parts_ = 1, packed_ = 0;
};

// ---- the gradient of weight ----------------------------------------------------------------------------------------

/// Dot products of g's rows with the patches' rows, over blocks of positions; where an image has few, a block spans
/// several images. Threads share the patches' rows; where these are few, chunks of images, which follow from the shape
/// alone, have sums of their own that are added in order at the end.
template <class T>
class PatchToWeight {
 public:
  PatchToWeight(T* grad_weight, const T* g, const T* x, const Conv2d& shape, int threads)
      : grad_weight_(grad_weight), g_(g), x_(x), shape_(shape), sizes_(shape) {
    chunks_ = sizes_.K < few_rows ? std::min(shape.N, most_chunks) : 1;
    row_parts_ =
        std::clamp<std::int64_t>(divide_up(threads, chunks_ * shape.groups), 1, std::max<std::int64_t>(1, sizes_.K));
    images_ = std::clamp<std::int64_t>(most_positions / sizes_.positions, 1, divide_up(shape.N, chunks_));
    positions_ = divide_up(sizes_.positions, divide_up(sizes_.positions, most_positions));
    // A vector more: cutting writes past the end of a row, and strides of a power of two would meet in the cache.
    stride_ = round_up(images_ * positions_, 16) + 16;
    rows_ = std::clamp<std::int64_t>(block_elements / stride_, 1,
                                     std::max<std::int64_t>(1, divide_up(sizes_.K, row_parts_)));
    gathered_ = images_ == 1 ? 0 : sizes_.O * stride_;
  }
  std::int64_t scratch() const {
    return round_up(gathered_ + rows_ * stride_ + slack + Padded<T>::scratch(shape_), 16);
  }
  std::int64_t partials() const { return chunks_ == 1 ? 0 : chunks_ * shape_.O * sizes_.K; }

  void run(const Team& team, T* scratch, T* partials) const {
    const std::int64_t parts = chunks_ * shape_.groups * row_parts_;
    for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) run_part(part, scratch, partials);
  }

  /// Adds the chunks' sums, in the phase after run; only if there are partials.
  void finish(const Team& team, const T* partials) const {
    const std::int64_t n = shape_.O * sizes_.K;
    for (std::int64_t i = team.begin(n, 16); i < team.end(n, 16); ++i) {
      T total = partials[i];
      for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) total += partials[chunk * n + i];
      grad_weight_[i] = total;
    }
  }

 private:
  void run_part(std::int64_t part, T* scratch, T* partials) const {
    const std::int64_t row_part = part % row_parts_;
    part /= row_parts_;
    const std::int64_t group = part % shape_.groups, chunk = part / shape_.groups;
    const std::int64_t first_row = sizes_.K * row_part / row_parts_, last_row = sizes_.K * (row_part + 1) / row_parts_;
    T* const rows = scratch + gathered_;
    Padded<T> padded(x_, shape_, rows + rows_ * stride_ + slack);
    T* const out = (chunks_ == 1 ? grad_weight_ : partials + chunk * shape_.O * sizes_.K) + group * sizes_.O * sizes_.K;
    const std::int64_t begin = shape_.N * chunk / chunks_, end = shape_.N * (chunk + 1) / chunks_;
    for (std::int64_t n = begin; n < end; n += images_) {
      const std::int64_t images = std::min(images_, end - n);
      for (std::int64_t position = 0; position < sizes_.positions; position += positions_) {
        const std::int64_t positions = std::min(positions_, sizes_.positions - position);
        const T* g = g_ + (n * shape_.O + group * sizes_.O) * sizes_.positions + position;
        if (images > 1) {
          for (std::int64_t i = 0; i < images; ++i)
            for (std::int64_t o = 0; o < sizes_.O; ++o)
              std::copy_n(g + (i * shape_.O + o) * sizes_.positions, positions, scratch + o * stride_ + i * positions);
          g = scratch;
        }
        for (std::int64_t row = first_row; row < last_row; row += rows_) {
          const std::int64_t count = std::min(rows_, last_row - row);
          for (std::int64_t i = 0; i < images; ++i)
            patch_kernels<T>().cut(rows + i * positions, stride_, padded.image(n + i, group), row, count, position,
                                   positions);
          sum_kernels<T>().dots(out + row, sizes_.K, g, images > 1 ? stride_ : sizes_.positions, rows, stride_,
                                sizes_.O, count, images * positions, n > begin || position > 0, nullptr, false);
        }
      }
    }
  }

  T* grad_weight_;
  const T *g_, *x_;
  const Conv2d& shape_;
  Sizes sizes_;
  std::int64_t chunks_ = 1, row_parts_ = 1, images_ = 1, positions_ = 1, stride_ = 1, rows_ = 1, gathered_ = 0;
};

template <class T>
void bias_gradient(const Team& team, T* grad_bias, const T* g, const Conv2d& shape) {
  const std::int64_t positions = shape.OH * shape.OW;
  for (std::int64_t o = team.begin(shape.O); o < team.end(shape.O); ++o) {
    T total{0};
    for (std::int64_t n = 0; n < shape.N; ++n)
      total += sum_kernels<T>().sum(g + (n * shape.O + o) * positions, positions);
    grad_bias[o] = total;
  }
}

}  // namespace tern::vectorized
