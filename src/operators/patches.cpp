// Windows as columns and back, and blocks of pixels as channels and back.

#include "tern/operators/patches.hpp"

#include "operators/composed.hpp"
#include "operators/spread.hpp"
#include "operators/traced.hpp"
#include "operators/window.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

// The number of windows along both sides.
Pair windows_of(const char* op, Pair size, Pair kernel, const UnfoldOptions& options) {
  return window_counts(op, size,
                       {.kernel = kernel,
                        .stride = options.stride,
                        .start = options.padding,
                        .end = options.padding,
                        .dilation = options.dilation});
}

}  // namespace

Tensor unfold(const Tensor& x, Pair kernel, const UnfoldOptions& options) {
  if (traces()) return traced("unfold", x, kernel, options);
  return in_batch(x, 4, [&](const Tensor& images) {
    check_rank("unfold", "the input", images, 4);
    const Pair count = windows_of("unfold", {images.size(2), images.size(3)}, kernel, options);
    const Tensor padded = pad_planes(images, options.padding, options.padding, 0);
    const auto along = [&](const Tensor& from, int dim, std::int64_t first, std::int64_t windows, std::int64_t stride) {
      return slice(from, dim, first, first + (windows - 1) * stride + 1, stride);
    };
    std::vector<Tensor> taps;
    for (std::int64_t i = 0; i < kernel.h; ++i) {
      const Tensor rows = along(padded, 2, i * options.dilation.h, count.h, options.stride.h);
      for (std::int64_t j = 0; j < kernel.w; ++j)
        taps.push_back(along(rows, 3, j * options.dilation.w, count.w, options.stride.w));
    }
    return stack(taps, 2).reshape({images.size(0), images.size(1) * kernel.h * kernel.w, count.h * count.w});
  });
}

Tensor fold(const Tensor& x, Pair output, Pair kernel, const UnfoldOptions& options) {
  if (traces()) return traced("fold", x, output, kernel, options);
  return in_batch(x, 3, [&](const Tensor& columns) {
    constexpr const char* op = "fold";
    check_rank(op, "the input", columns, 3);
    const Pair count = windows_of(op, output, kernel, options);
    const std::int64_t taps = kernel.h * kernel.w;
    expects<ShapeError>(columns.size(1) % taps == 0 && columns.size(2) == count.h * count.w, op, ": input ",
                        columns.shape(), " for an output of ", output.h, 'x', output.w, ", expected [N, C * ", taps,
                        ", ", count.h * count.w, "]");
    return compose(op, columns, [&](const Tensor& wide) {
      const std::int64_t channels = columns.size(1) / taps;
      const Tensor parts = wide.reshape({columns.size(0), channels, taps, count.h, count.w});
      const Pair whole{output.h + 2 * options.padding.h, output.w + 2 * options.padding.w};
      Tensor image;
      for (std::int64_t i = 0; i < kernel.h; ++i) {
        Tensor rows;
        for (std::int64_t j = 0; j < kernel.w; ++j) {
          const std::int64_t tap = i * kernel.w + j;
          const Tensor part = spread_along(slice(parts, 2, tap, tap + 1).squeeze(2), 3, options.stride.w,
                                           j * options.dilation.w, whole.w);
          rows = rows.defined() ? add(rows, part) : part;
        }
        const Tensor placed = spread_along(rows, 2, options.stride.h, i * options.dilation.h, whole.h);
        image = image.defined() ? add(image, placed) : placed;
      }
      const auto inside = [](const Tensor& of, int dim, std::int64_t padding) {
        return slice(of, dim, padding, of.size(dim) - padding);
      };
      return inside(inside(image, 2, options.padding.h), 3, options.padding.w);
    });
  });
}

namespace {

void check_blocks(const char* op, const Tensor& x, std::int64_t block) {
  check_defined(op, "the input", x);
  expects<ShapeError>(x.rank() >= 3 && x.rank() <= 6, op, ": input ", x.shape(), ", expected [..., C, H, W]");
  expects<ShapeError>(block >= 1 && block < (1 << 15), op, ": a block of ", block, ", expected at least 1");
}

// Whether a channel's blocks follow one another (channels_outside), or each pixel of a block has all channels.
Tensor to_blocks(const char* op, const Tensor& x, std::int64_t block, bool channels_outside) {
  check_blocks(op, x, block);
  const std::int64_t channels = x.size(-3), h = x.size(-2), w = x.size(-1), squares = block * block;
  expects<ShapeError>(channels % squares == 0, op, ": ", channels, " channels of ", x.shape(), " are no multiple of ",
                      squares);
  Shape shape(x.shape().begin(), x.shape().end() - 3);
  const std::int64_t batch = element_count(shape), out = channels / squares;
  shape.push_back(out), shape.push_back(h * block), shape.push_back(w * block);
  if (channels_outside) return permute(x.reshape({batch, out, block, block, h, w}), {0, 1, 4, 2, 5, 3}).reshape(shape);
  return permute(x.reshape({batch, block, block, out, h, w}), {0, 3, 4, 1, 5, 2}).reshape(shape);
}

Tensor from_blocks(const char* op, const Tensor& x, std::int64_t block, bool channels_outside) {
  check_blocks(op, x, block);
  const std::int64_t channels = x.size(-3), h = x.size(-2), w = x.size(-1);
  expects<ShapeError>(h % block == 0 && w % block == 0, op, ": ", h, 'x', w, " pixels of ", x.shape(),
                      " are no multiple of ", block);
  Shape shape(x.shape().begin(), x.shape().end() - 3);
  const std::int64_t batch = element_count(shape);
  shape.push_back(channels * block * block), shape.push_back(h / block), shape.push_back(w / block);
  const Tensor split = x.reshape({batch, channels, h / block, block, w / block, block});
  return permute(split, channels_outside ? std::vector<std::int64_t>{0, 1, 3, 5, 2, 4}
                                         : std::vector<std::int64_t>{0, 3, 5, 1, 2, 4})
      .reshape(shape);
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, std::int64_t factor) {
  if (traces()) return traced("pixel_shuffle", x, factor);
  return to_blocks("pixel_shuffle", x, factor, true);
}
Tensor pixel_unshuffle(const Tensor& x, std::int64_t factor) {
  if (traces()) return traced("pixel_unshuffle", x, factor);
  return from_blocks("pixel_unshuffle", x, factor, true);
}
Tensor depth_to_space(const Tensor& x, std::int64_t block) {
  if (traces()) return traced("depth_to_space", x, block);
  return to_blocks("depth_to_space", x, block, false);
}
Tensor space_to_depth(const Tensor& x, std::int64_t block) {
  if (traces()) return traced("space_to_depth", x, block);
  return from_blocks("space_to_depth", x, block, false);
}

}  // namespace tern::operators
