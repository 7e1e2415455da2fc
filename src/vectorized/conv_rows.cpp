#include "vectorized/conv_rows.hpp"

#include <algorithm>

#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized {
namespace {

// Elements of k that multiply at a time, channels whose weights are packed at a time, and the most positions of a
// block.
constexpr std::int64_t most_depth = 512, some_channels = 16, most_positions_of_block = 256;

bool is_plain(std::int64_t KH, std::int64_t KW, std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h,
              std::int64_t pad_w) {
  return KH == 1 && KW == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0;
}

/// Positions of a block whose rows of `depth` elements fill a share of the cache; whole tiles.
template <class T>
std::int64_t block_of(std::int64_t depth) {
  const std::int64_t rows = gemm_kernels<T>().tile_rows;
  const std::int64_t fitting =
      cache_share(0.5) / (std::max<std::int64_t>(depth, 1) * static_cast<std::int64_t>(sizeof(T)));
  return std::clamp(fitting, rows, most_positions_of_block) / rows * rows;
}

/// Calls body(image, first position in it, count, positions before) for the images' parts of [first, last).
template <class Body>
void for_images(std::int64_t first, std::int64_t last, std::int64_t positions, const Body& body) {
  for (std::int64_t p = first; p < last;) {
    const std::int64_t at = p % positions, count = std::min(positions - at, last - p);
    body(p / positions, at, count, p - first);
    p += count;
  }
}

template <class T>
Gather<T> gather_of(const kernels::Conv2d& shape) {
  return {.image = {.pixel = shape.C, .channels = shape.C / shape.groups, .H = shape.H, .W = shape.W},
          .KW = shape.KW,
          .OW = shape.OW,
          .stride_h = shape.stride_h,
          .stride_w = shape.stride_w,
          .pad_h = shape.pad_h,
          .pad_w = shape.pad_w,
          .dilation_h = shape.dilation_h,
          .dilation_w = shape.dilation_w};
}

}  // namespace

// ---- forward, and the gradient of x where the stride is 1 -----------------------------------------------------------

template <class T>
RowsForward<T>::RowsForward(const Correlation<T>& problem, int threads)
    : problem_(problem),
      plain_(is_plain(problem.KH, problem.KW, problem.stride_h, problem.stride_w, problem.pad_h, problem.pad_w)),
      positions_(problem.OH * problem.OW),
      K_(problem.KH * problem.KW * problem.C),
      panels_(divide_up(problem.O, gemm_kernels<T>().panel_width)) {
  const std::int64_t width = gemm_kernels<T>().panel_width, tile = gemm_kernels<T>().tile_rows;
  const std::int64_t line = problem.KW * problem.C;
  depth_ = plain_ ? K_ : std::clamp<std::int64_t>(most_depth / line, 1, problem.KH) * line;
  block_depth_ = divide_up(depth_, divide_up(depth_, most_depth));
  block_ = block_of<T>(depth_);
  // Few positions: the threads share out the outputs.
  const std::int64_t all = problem.N * positions_;
  if (all >= 4 * tile * threads || panels_ < threads)
    row_parts_ = std::min<std::int64_t>(threads, divide_up(all, tile));
  else
    column_parts_ = threads;
  weights_ = round_up(problem.groups * panels_ * K_ * width, 16);
  patches_ = plain_ && problem.saved == nullptr ? 0 : round_up(block_ * patch_row(), 16);
  if (!plain_ && problem.saved != nullptr)
    image_ = round_up(problem.H * problem.W * round_up(problem.C, gemm_kernels<T>().lanes), 16);
  patches_ = std::max(patches_, some_channels * problem.KH * problem.KW * width);
}

template <class T>
void RowsForward<T>::prepare(const Team& team, T* shared, T* scratch) const {
  const std::int64_t C = problem_.C, items = problem_.groups * panels_ * C;
  for (std::int64_t item = team.begin(items); item < team.end(items);) {
    const std::int64_t first = item % C, chunk = plain_ ? C : some_channels;
    const std::int64_t count = std::min({C - first, team.end(items) - item, chunk});
    const std::int64_t panel = item / C;
    pack(panel / panels_, panel % panels_, first, first + count,
         shared + panel / panels_ * panels_ * K_ * gemm_kernels<T>().panel_width, scratch);
    item += count;
  }
}

template <class T>
std::pair<std::int64_t, std::int64_t> RowsForward<T>::block_of_k(std::int64_t k) const {
  const std::int64_t gathered = k / depth_ * depth_, begin = gathered + (k - gathered) / block_depth_ * block_depth_;
  return {begin, std::min({block_depth_, gathered + depth_ - begin, K_ - begin})};
}

/// Blocks of k, one after another; in each of them panels; in each of these, rows of a panel's width.
template <class T>
void RowsForward<T>::pack(std::int64_t group, std::int64_t panel, std::int64_t first, std::int64_t last, T* weights,
                          T* taps) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t width = gemm.panel_width, C = problem_.C, O = problem_.O, all_taps = problem_.KH * problem_.KW;
  const std::int64_t output = panel * width, outputs = std::min(width, O - output);
  const auto row_of = [&](std::int64_t k) {
    const auto [begin, size] = block_of_k(k);
    return weights + begin * panels_ * width + panel * size * width + (k - begin) * width;
  };
  if (plain_) {
    for (std::int64_t c = first; c < last;) {
      const auto [begin, size] = block_of_k(c);
      const std::int64_t count = std::min(last, begin + size) - c;
      if (problem_.backward)
        gemm.pack(row_of(c), problem_.weight + (group * C + c) * O + output, O, count, outputs);
      else
        gemm.pack_transposed(row_of(c), problem_.weight + (group * O + output) * C + c, C, count, outputs);
      c += count;
    }
    return;
  }
  if (!problem_.backward)
    gemm.pack_transposed(taps, problem_.weight + ((group * O + output) * C + first) * all_taps, C * all_taps,
                         (last - first) * all_taps, outputs);
  for (std::int64_t c = first; c < last; ++c) {
    if (problem_.backward)
      gemm.pack_transposed(taps, problem_.weight + ((group * C + c) * O + output) * all_taps, all_taps, all_taps,
                           outputs);
    for (std::int64_t tap = 0; tap < all_taps; ++tap) {
      const std::int64_t from = problem_.backward ? all_taps - 1 - tap : (c - first) * all_taps + tap;
      std::copy_n(taps + from * width, width, row_of(tap * C + c));
    }
  }
}

template <class T>
void RowsForward<T>::run(const Team& team, const T* shared, T* scratch) const {
  const std::int64_t all = problem_.N * positions_, tile = gemm_kernels<T>().tile_rows;
  const std::int64_t width = gemm_kernels<T>().panel_width, parts = problem_.groups * row_parts_ * column_parts_;
  const T* masked = nullptr;
  for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
    const std::int64_t column = part % column_parts_, row = part / column_parts_ % row_parts_;
    const std::int64_t group = part / column_parts_ / row_parts_;
    const std::int64_t output = edge(problem_.O, width, column_parts_, column);
    const std::int64_t outputs = edge(problem_.O, width, column_parts_, column + 1) - output;
    const std::int64_t begin = edge(all, tile, row_parts_, row), end = edge(all, tile, row_parts_, row + 1);
    if (outputs <= 0) continue;
    for (std::int64_t first = begin; first < end; first += block_)
      run_block(group, first, std::min(first + block_, end), output, outputs, shared + group * panels_ * K_ * width,
                scratch, masked);
  }
}

template <class T>
void RowsForward<T>::run_block(std::int64_t group, std::int64_t first, std::int64_t last, std::int64_t output,
                               std::int64_t outputs, const T* weights, T* scratch, const T*& masked) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t width = gemm.panel_width;
  const bool in_place = plain_ && problem_.saved == nullptr;
  Block<T> block;
  block.m = last - first;
  block.n = outputs;
  block.a_row = in_place ? problem_.x_pixel : patch_row();
  block.a_column = 1;
  block.b_row = width;
  block.c = problem_.y + first * problem_.y_pixel + group * problem_.O + output;
  block.c_row = problem_.y_pixel;
  if (problem_.bias != nullptr) block.column_bias = problem_.bias + group * problem_.O + output;
  for (std::int64_t k = 0; k < K_; k += block.k) {
    if (!in_place && k % depth_ == 0) gather(group, first, last, k, scratch, masked);
    block.k = block_of_k(k).second;
    block.a = in_place ? problem_.x + first * problem_.x_pixel + group * problem_.C + k : scratch + k % depth_;
    block.b = weights + k * panels_ * width + output / width * block.k * width;
    block.b_panel = block.k * width;
    block.accumulate = k > 0;
    block.relu = problem_.relu && k + block.k >= K_;
    gemm.multiply(block);
  }
}

template <class T>
void RowsForward<T>::gather(std::int64_t group, std::int64_t first, std::int64_t last, std::int64_t k, T* scratch,
                            const T*& masked) const {
  const auto& kernels = row_kernels<T>();
  if (plain_) {
    const std::int64_t at = first * problem_.x_pixel + group * problem_.C;
    kernels.copy(scratch, patch_row(), problem_.x + at, problem_.saved + at, problem_.x_pixel, last - first,
                 problem_.C);
    return;
  }
  const std::int64_t plane = problem_.H * problem_.W, line = problem_.KW * problem_.C;
  const std::int64_t row = k / line, last_row = std::min(row + depth_ / line, problem_.KH);
  Gather<T> patches{.image = {.pixel = problem_.x_pixel, .channels = problem_.C, .H = problem_.H, .W = problem_.W},
                    .KW = problem_.KW,
                    .OW = problem_.OW,
                    .stride_h = problem_.stride_h,
                    .stride_w = problem_.stride_w,
                    .pad_h = problem_.pad_h,
                    .pad_w = problem_.pad_w,
                    .dilation_h = problem_.dilation_h,
                    .dilation_w = problem_.dilation_w};
  for_images(first, last, positions_, [&](std::int64_t n, std::int64_t at, std::int64_t count, std::int64_t before) {
    const std::int64_t from = n * plane * problem_.x_pixel + group * problem_.C;
    patches.image.data = problem_.x + from;
    if (problem_.saved != nullptr) {
      T* const image = scratch + patches_;
      patches.image.pixel = round_up(problem_.C, gemm_kernels<T>().lanes);
      if (masked != patches.image.data)
        kernels.copy(image, patches.image.pixel, problem_.x + from, problem_.saved + from, problem_.x_pixel, plane,
                     problem_.C);
      masked = problem_.x + from;
      patches.image.data = image;
    }
    kernels.gather(scratch + before * patch_row(), patch_row(), patches, row, last_row, at, count);
  });
}

// ---- the gradient of weight ----------------------------------------------------------------------------------------

template <class T>
RowsToWeight<T>::RowsToWeight(T* grad_weight, T* grad_bias, const T* g, const T* saved, std::int64_t g_pixel,
                              const T* x, const kernels::Conv2d& shape, int threads)
    : grad_weight_(grad_weight),
      grad_bias_(grad_bias),
      g_(g),
      saved_(saved),
      x_(x),
      g_pixel_(g_pixel),
      shape_(shape),
      plain_(is_plain(shape.KH, shape.KW, shape.stride_h, shape.stride_w, shape.pad_h, shape.pad_w)),
      C_(shape.C / shape.groups),
      O_(shape.O / shape.groups),
      K_(C_ * shape.KH * shape.KW),
      outputs_(round_up(O_, gemm_kernels<T>().lanes)),
      positions_(shape.OH * shape.OW) {
  const std::int64_t lanes = gemm_kernels<T>().lanes, tile = gemm_kernels<T>().tile_rows;
  block_ = block_of<T>(plain_ ? O_ : K_ + O_);
  // Vectors of products, of patches to gather and of gradients to copy, in rough cycles.
  double best = -1;
  for (std::int64_t column_parts = 1; column_parts <= threads; ++column_parts) {
    const std::int64_t output_parts = std::min(divide_up(threads, column_parts), divide_up(O_, lanes));
    const auto columns = static_cast<double>(edge(K_, tile, column_parts, 1));
    const auto vectors = static_cast<double>(divide_up(divide_up(O_, lanes), output_parts));
    const auto rounds = static_cast<double>(divide_up(shape.groups * column_parts * output_parts, threads));
    const double cost = rounds * (columns * vectors * 0.6 + (plain_ ? 0 : 0.2 * columns) + 4 * vectors);
    if (best >= 0 && cost >= best) continue;
    best = cost;
    column_parts_ = column_parts;
    output_parts_ = output_parts;
  }
  const std::int64_t width = gemm_kernels<T>().panel_width;
  patches_ = plain_ ? 0 : round_up(block_ * (round_up(K_, 16) + 16), 16);
  gradients_ = round_up(block_ * round_up(O_, width) + O_ + 2 * width, 16);
}

template <class T>
void RowsToWeight<T>::run(const Team& team, T* shared, T* scratch) const {
  const std::int64_t lanes = gemm_kernels<T>().lanes, tile = gemm_kernels<T>().tile_rows;
  const std::int64_t parts = shape_.groups * column_parts_ * output_parts_;
  for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
    const std::int64_t column = part % column_parts_, output = part / column_parts_ % output_parts_;
    const std::int64_t first = edge(O_, lanes, output_parts_, output);
    const Part work{part / column_parts_ / output_parts_, edge(K_, tile, column_parts_, column),
                    edge(K_, tile, column_parts_, column + 1), first,
                    edge(O_, lanes, output_parts_, output + 1) - first};
    if (work.last > work.first && work.outputs > 0) run_part(work, shared + work.group * K_ * outputs_, scratch);
  }
}

template <class T>
void RowsToWeight<T>::run_part(const Part& part, T* sums, T* scratch) const {
  const auto& gemm = gemm_kernels<T>();
  const auto& kernels = row_kernels<T>();
  const std::int64_t all = shape_.N * positions_, width = gemm.panel_width, line = shape_.KW * C_;
  const std::int64_t first_row = part.first / line, last_row = divide_up(part.last, line);
  const std::int64_t padded = round_up(part.outputs, width);
  T* const gradients = scratch + patches_;
  T* const bias = gradients + block_ * padded;
  const bool sums_bias = grad_bias_ != nullptr && part.first == 0;
  Gather<T> patches = gather_of<T>(shape_);
  Block<T> block;
  block.m = part.last - part.first;
  block.n = round_up(part.outputs, gemm.lanes);
  block.a_row = 1;
  block.b = gradients;
  block.b_row = width;
  block.b_panel = block_ * width;
  block.c = sums + part.first * outputs_ + part.output;
  block.c_row = outputs_;
  for (std::int64_t first = 0; first < all; first += block_) {
    block.k = std::min(block_, all - first);
    const std::int64_t at = first * g_pixel_ + part.group * O_ + part.output;
    kernels.copy_panels(gradients, width, block.b_panel, g_ + at, saved_ == nullptr ? nullptr : saved_ + at, g_pixel_,
                        block.k, part.outputs);
    if (sums_bias)
      for (std::int64_t o = 0; o < part.outputs; o += width) {
        const std::int64_t count = std::min(width, part.outputs - o);
        T* const total = grad_bias_ + part.group * O_ + part.output + o;
        sum_kernels<T>().column_sums(bias, gradients + o * block_, width, block.k, count);
        for (std::int64_t i = 0; i < count; ++i) total[i] = first == 0 ? bias[i] : total[i] + bias[i];
      }
    if (plain_) {
      block.a = x_ + first * shape_.C + part.group * C_ + part.first;
      block.a_column = shape_.C;
    } else {
      const std::int64_t stride = round_up((last_row - first_row) * line, 16) + 16;
      for_images(first, first + block.k, positions_,
                 [&](std::int64_t n, std::int64_t position, std::int64_t count, std::int64_t before) {
                   patches.image.data = x_ + n * shape_.H * shape_.W * shape_.C + part.group * C_;
                   kernels.gather(scratch + before * stride, stride, patches, first_row, last_row, position, count);
                 });
      block.a = scratch + part.first - first_row * line;
      block.a_column = stride;
    }
    block.accumulate = first > 0;
    gemm.multiply(block);
  }
}

template <class T>
void RowsToWeight<T>::finish(const Team& team, const T* shared) const {
  const auto& transpose = gemm_kernels<T>().transpose;
  const std::int64_t taps = shape_.KH * shape_.KW;
  for (std::int64_t group = 0; group < shape_.groups; ++group) {
    const T* const sums = shared + group * K_ * outputs_;
    T* const out = grad_weight_ + group * O_ * K_;
    const std::int64_t begin = team.begin(C_, 16), end = team.end(C_, 16);
    if (taps == 1) {
      if (begin < end) transpose(out + begin, C_, sums + begin * outputs_, outputs_, nullptr, end - begin, O_);
    } else {
      for (std::int64_t c = begin; c < end; ++c)
        transpose(out + c * taps, K_, sums + c * outputs_, C_ * outputs_, nullptr, taps, O_);
    }
  }
}

// ---- the gradient of x for any stride ------------------------------------------------------------------------------

template <class T>
RowsToX<T>::RowsToX(T* grad_x, const T* g, const T* saved, std::int64_t g_pixel, const T* weight,
                    const kernels::Conv2d& shape, int threads)
    : grad_x_(grad_x),
      g_(g),
      saved_(saved),
      g_pixel_(g_pixel),
      weight_(weight),
      shape_(shape),
      C_(shape.C / shape.groups),
      O_(shape.O / shape.groups),
      taps_(shape.KH * shape.KW) {
  const std::int64_t images = shape.N * shape.groups;
  if (images < 4 * threads) channel_parts_ = std::clamp<std::int64_t>(C_ / gemm_kernels<T>().lanes, 1, threads);
  columns_ = round_up(divide_up(C_, channel_parts_) * taps_, gemm_kernels<T>().panel_width);
  block_ = block_of<T>(columns_ + O_);
  gradients_ = round_up(block_ * (round_up(O_, 16) + 16), 16);
  patches_ = round_up(std::max(block_ * (columns_ + 16), columns_), 16);
}

template <class T>
void RowsToX<T>::prepare(const Team& team, T* shared, T* scratch) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t width = gemm.panel_width, items = shape_.groups * channel_parts_ * O_;
  for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
    const std::int64_t o = item % O_, part = item / O_ % channel_parts_, group = item / O_ / channel_parts_;
    const std::int64_t first = C_ * part / channel_parts_, channels = C_ * (part + 1) / channel_parts_ - first;
    gemm.transpose(scratch, channels, weight_ + ((group * O_ + o) * C_ + first) * taps_, taps_, nullptr, channels,
                   taps_);
    std::fill(scratch + channels * taps_, scratch + columns_, T{0});
    for (std::int64_t panel = 0; panel < columns_; panel += width)
      std::copy_n(scratch + panel, width, shared + item / O_ * O_ * columns_ + panel * O_ + o * width);
  }
}

template <class T>
void RowsToX<T>::run(const Team& team, const T* shared, T* scratch) const {
  const std::int64_t items = shape_.N * shape_.groups * channel_parts_;
  for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
    const std::int64_t part = item % (shape_.groups * channel_parts_);
    run_part(item / (shape_.groups * channel_parts_), part / channel_parts_, part % channel_parts_,
             shared + part * O_ * columns_, scratch);
  }
}

template <class T>
void RowsToX<T>::run_part(std::int64_t image, std::int64_t group, std::int64_t part, const T* weights,
                          T* scratch) const {
  const auto& gemm = gemm_kernels<T>();
  const auto& kernels = row_kernels<T>();
  const std::int64_t first = C_ * part / channel_parts_, channels = C_ * (part + 1) / channel_parts_ - first;
  const std::int64_t positions = shape_.OH * shape_.OW, plane = shape_.H * shape_.W;
  T* const patches = scratch + gradients_;
  T* const to = grad_x_ + image * plane * shape_.C + group * C_ + first;
  for (std::int64_t p = 0; p < plane; ++p) std::fill_n(to + p * shape_.C, channels, T{0});
  Gather<T> sizes = gather_of<T>(shape_);
  sizes.image.channels = channels;
  Block<T> block;
  block.n = channels * taps_;
  block.k = O_;
  block.a = scratch;
  block.a_row = round_up(O_, 16) + 16;
  block.a_column = 1;
  block.b = weights;
  block.b_row = gemm.panel_width;
  block.b_panel = O_ * gemm.panel_width;
  block.c = patches;
  block.c_row = columns_ + 16;
  block.n = round_up(block.n, gemm.lanes);
  for (std::int64_t p = 0; p < positions; p += block_) {
    block.m = std::min(block_, positions - p);
    const std::int64_t at = (image * positions + p) * g_pixel_ + group * O_;
    kernels.copy(scratch, block.a_row, g_ + at, saved_ == nullptr ? nullptr : saved_ + at, g_pixel_, block.m, O_);
    gemm.multiply(block);
    kernels.scatter(to, patches, block.c_row, sizes, 0, shape_.KH, p, block.m);
  }
}

template <class T>
void rows_bias_gradient(const Team& team, T* grad_bias, const T* g, const T* saved, std::int64_t g_pixel,
                        std::int64_t positions, std::int64_t outputs, T* scratch) {
  const std::int64_t width = gemm_kernels<T>().panel_width, panels = divide_up(outputs, width);
  for (std::int64_t panel = team.begin(panels); panel < team.end(panels); ++panel) {
    const std::int64_t output = panel * width, count = std::min(width, outputs - output);
    std::fill_n(grad_bias + output, count, T{0});
    for (std::int64_t first = 0; first < positions; first += bias_block) {
      const std::int64_t rows = std::min(bias_block, positions - first), at = first * g_pixel + output;
      row_kernels<T>().copy_panels(scratch, width, 0, g + at, saved == nullptr ? nullptr : saved + at, g_pixel, rows,
                                   count);
      T* const part = scratch + bias_block * width;
      sum_kernels<T>().column_sums(part, scratch, width, rows, count);
      for (std::int64_t i = 0; i < count; ++i) grad_bias[output + i] += part[i];
    }
  }
}

template class RowsForward<float>;
template class RowsForward<double>;
template class RowsToWeight<float>;
template class RowsToWeight<double>;
template class RowsToX<float>;
template class RowsToX<double>;
template void rows_bias_gradient(const Team&, float*, const float*, const float*, std::int64_t, std::int64_t,
                                 std::int64_t, float*);
template void rows_bias_gradient(const Team&, double*, const double*, const double*, std::int64_t, std::int64_t,
                                 std::int64_t, double*);

}  // namespace tern::vectorized
