#include "vectorized/conv_rows.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized {
namespace {

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
    const auto columns = static_cast<double>(divide_up(divide_up(K_, tile), column_parts) * tile);
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

template class RowsToWeight<float>;
template class RowsToWeight<double>;
template class RowsToX<float>;
template class RowsToX<double>;
template void rows_bias_gradient(const Team&, float*, const float*, const float*, std::int64_t, std::int64_t,
                                 std::int64_t, float*);
template void rows_bias_gradient(const Team&, double*, const double*, const double*, std::int64_t, std::int64_t,
                                 std::int64_t, double*);

}  // namespace tern::vectorized
