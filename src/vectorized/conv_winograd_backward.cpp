// The gradients of weight and bias by Winograd's method.

#include <algorithm>
#include <cmath>

#include "vectorized/cache.hpp"
#include "vectorized/conv_tiles.hpp"
#include "vectorized/conv_winograd.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized {
namespace {

// To fetch and store a sum, in products.
constexpr double sum_cycles = 10;

}  // namespace

template <class T>
WinogradToWeight<T>::WinogradToWeight(T* grad_weight, T* grad_bias, const T* g, const T* saved, std::int64_t g_pixel,
                                      const T* x, const kernels::Conv2d& shape, int threads)
    : grad_weight_(grad_weight),
      grad_bias_(grad_bias),
      g_(g),
      saved_(saved),
      x_(x),
      g_pixel_(g_pixel),
      unfolded_(has_stride(shape) ? &shape : nullptr),
      shape_(folded(shape)),
      kernels_(winograd_kernels<T>(shape_.KH)),
      C_(shape_.C / shape.groups),
      O_(shape.O / shape.groups),
      tile_rows_(divide_up(shape.OH, kernels_->outputs)),
      tile_columns_(divide_up(shape.OW, kernels_->outputs)) {
  const std::int64_t m = kernels_->outputs, r = kernels_->taps, frequencies = kernels_->frequencies();
  const std::int64_t lanes = gemm_kernels<T>().lanes, panel = gemm_kernels<T>().panel_width;
  const std::int64_t all_rows = shape.N * tile_rows_;
  const std::int64_t room = cache_share(1.6) / (frequencies * static_cast<std::int64_t>(sizeof(T)));
  double best = -1;
  for (std::int64_t channel_parts = 1; channel_parts <= divide_up(C_, lanes); ++channel_parts)
    for (std::int64_t output_parts = 1; output_parts <= divide_up(O_, lanes); ++output_parts) {
      const std::int64_t channels = round_up(divide_up(C_, channel_parts), lanes),
                         outputs = round_up(divide_up(O_, output_parts), lanes);
      const std::int64_t fitting = (room - channels * outputs) / (channels + outputs) / tile_columns_;
      const std::int64_t rows = std::clamp<std::int64_t>(std::min(fitting, most_tiles / tile_columns_), 1, all_rows);
      const auto rounds = static_cast<double>(divide_up(shape.groups * channel_parts * output_parts, threads));
      const double product = product_cycles * (1 + sum_cycles / static_cast<double>(rows * tile_columns_));
      const double cost = rounds * (static_cast<double>(channels + outputs) * transform_cycles +
                                    static_cast<double>(channels * outputs) * product);
      if (best >= 0 && cost >= best) continue;
      best = cost;
      channel_parts_ = channel_parts;
      output_parts_ = output_parts;
      channels_ = channels;
      outputs_ = outputs;
      block_rows_ = rows;
    }
  const std::int64_t tiles = block_rows_ * tile_columns_;
  input_frequency_ = tiles * channels_ + apart;
  gradient_frequency_ = tiles * round_up(outputs_, panel) + apart;
  sum_frequency_ = channels_ * outputs_ + apart;
  inputs_ = input_frequency_ * frequencies;
  gradients_ = gradient_frequency_ * frequencies;
  sums_ = sum_frequency_ * frequencies;
  bias_ = 2 * outputs_;
  const std::int64_t window = (std::min(block_rows_, tile_rows_) * m + r - 1) * (tile_columns_ * m + r - 1);
  window_ = round_up(std::max(window * std::max(window_channels(), outputs_), r * r * outputs_), 16);
}

template <class T>
void WinogradToWeight<T>::run(const Team& team, T* scratch) const {
  const std::int64_t parts = shape_.groups * channel_parts_ * output_parts_, lanes = gemm_kernels<T>().lanes;
  for (std::int64_t part = team.begin(parts); part < team.end(parts); ++part) {
    const std::int64_t c = part % channel_parts_, o = part / channel_parts_ % output_parts_;
    const std::int64_t channel = edge(C_, lanes, channel_parts_, c), output = edge(O_, lanes, output_parts_, o);
    run_part({part / channel_parts_ / output_parts_, channel, edge(C_, lanes, channel_parts_, c + 1) - channel, output,
              edge(O_, lanes, output_parts_, o + 1) - output},
             scratch);
  }
}

template <class T>
void WinogradToWeight<T>::run_part(const Part& part, T* scratch) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t all_rows = shape_.N * tile_rows_;
  T* const sums = scratch + inputs_ + gradients_;
  T* const bias = sums + sums_;
  std::fill_n(bias, outputs_, T{0});
  Block<T> block;
  block.m = part.channels;
  block.n = round_up(part.outputs, gemm.lanes);
  block.a_row = 1;
  block.a_column = channels_;
  block.b_row = gemm.panel_width;
  block.b_panel = block_rows_ * tile_columns_ * gemm.panel_width;
  block.c_row = outputs_;
  for (std::int64_t first = 0; first < all_rows; first += block_rows_) {
    const std::int64_t last = std::min(first + block_rows_, all_rows);
    transform(part, first, last, scratch);
    block.k = (last - first) * tile_columns_;
    block.accumulate = first > 0;
    for (std::int64_t f = 0; f < kernels_->frequencies(); ++f) {
      block.a = scratch + f * input_frequency_;
      block.b = scratch + inputs_ + f * gradient_frequency_;
      block.c = sums + f * sum_frequency_;
      gemm.multiply(block);
    }
  }
  if (grad_bias_ != nullptr && part.channel == 0)
    std::copy_n(bias, part.outputs, grad_bias_ + part.group * O_ + part.output);
  finish(part, sums, bias + bias_);
}

template <class T>
void WinogradToWeight<T>::transform(const Part& part, std::int64_t first, std::int64_t last, T* scratch) const {
  const std::int64_t m = kernels_->outputs, size = kernels_->size(), panel = gemm_kernels<T>().panel_width;
  const std::int64_t outputs = round_up(part.outputs, gemm_kernels<T>().lanes);
  T* const gradients = scratch + inputs_;
  T* const bias = gradients + gradients_ + sums_;
  T* const window = bias + bias_;
  for_pieces(
      first, last, tile_rows_, tile_columns_,
      [&](std::int64_t n, std::int64_t row, std::int64_t rows, std::int64_t tile) {
        const Window<T> in{window,
                           row * m - shape_.pad_h,
                           -shape_.pad_w,
                           rows * m + shape_.KH - 1,
                           tile_columns_ * m + shape_.KW - 1,
                           window_channels()};
        if (unfolded_ != nullptr) {
          fill_folded(in, x_, n, *unfolded_);
        } else {
          const std::int64_t from = n * shape_.H * shape_.W * shape_.C + part.group * C_ + part.channel;
          in.fill({x_ + from, nullptr, shape_.C, part.channels, shape_.H, shape_.W});
        }
        for (std::int64_t i = 0; i < rows; ++i)
          kernels_->input({.out = {scratch + (tile + i * tile_columns_) * channels_, size * input_frequency_,
                                   input_frequency_, channels_},
                           .in = in.squares(i * m, m, unfolded_ == nullptr ? 0 : part.channel),
                           .count = tile_columns_,
                           .channels = channels_});

        const std::int64_t at = n * shape_.OH * shape_.OW * g_pixel_ + part.group * O_ + part.output;
        const Window<T> g{window, row * m, 0, rows * m, tile_columns_ * m, outputs};
        g.fill({g_ + at, saved_ == nullptr ? nullptr : saved_ + at, g_pixel_, part.outputs, shape_.OH, shape_.OW});
        if (grad_bias_ != nullptr && part.channel == 0)
          for (std::int64_t i = 0; i < rows; ++i) {  // in an order that does not depend on the cut
            sum_kernels<T>().column_sums(bias + outputs_, window + i * m * g.width * outputs, outputs, m * g.width,
                                         outputs);
            for (std::int64_t o = 0; o < outputs; ++o) bias[o] += bias[outputs_ + o];
          }
        for (std::int64_t o = 0; o < outputs; o += panel)
          for (std::int64_t i = 0; i < rows; ++i)
            kernels_->gradient(
                {.out = {gradients + o * block_rows_ * tile_columns_ + (tile + i * tile_columns_) * panel,
                         size * gradient_frequency_, gradient_frequency_, panel},
                 .in = g.squares(i * m, m, o),
                 .count = tile_columns_,
                 .channels = std::min(panel, outputs - o)});
      });
}

template <class T>
void WinogradToWeight<T>::finish(const Part& part, const T* sums, T* taps) const {
  const std::int64_t r = kernels_->taps;
  bool finite = true;
  for (std::int64_t c = 0; c < part.channels; ++c) {
    finite &= kernels_->weight_gradient({.out = {taps, r * outputs_, outputs_},
                                         .in = {sums + c * outputs_, kernels_->size() * sum_frequency_, sum_frequency_},
                                         .channels = round_up(part.outputs, gemm_kernels<T>().lanes)});
    if (unfolded_ != nullptr) {
      unfold(part, part.channel + c, taps);
      continue;
    }
    gemm_kernels<T>().transpose(grad_weight_ + ((part.group * O_ + part.output) * C_ + part.channel + c) * r * r,
                                C_ * r * r, taps, outputs_, nullptr, r * r, part.outputs);
  }
  if (!finite) finite_.store(false, std::memory_order_relaxed);
}

/// The taps [r, r, outputs] of a folded channel to their places.
template <class T>
void WinogradToWeight<T>::unfold(const Part& part, std::int64_t channel, const T* taps) const {
  const std::int64_t C = unfolded_->C, KH = unfolded_->KH, KW = unfolded_->KW, side = unfolded_->stride_h;
  const std::int64_t c = channel % C, w = channel / C % side, h = channel / C / side;
  for (std::int64_t i = h; i < kernels_->taps * side; i += side)
    for (std::int64_t j = w; j < kernels_->taps * side; j += side, taps += outputs_)
      if (i < KH && j < KW)
        for (std::int64_t o = 0; o < part.outputs; ++o)
          grad_weight_[(((part.output + o) * C + c) * KH + i) * KW + j] = taps[o];
}

template <class T>
double WinogradToWeight<T>::cycles(const kernels::Conv2d& shape) {
  const auto* kernels = winograd_kernels<T>(shape.KH);
  const auto C = static_cast<double>(shape.C / shape.groups), O = static_cast<double>(shape.O / shape.groups);
  const auto tiles =
      static_cast<double>(shape.N * divide_up(shape.OH, kernels->outputs) * divide_up(shape.OW, kernels->outputs));
  // Blocks of tiles of a usual size; channels are transformed for every block of outputs, and, unless they are few, the
  // other way round.
  const double blocks = std::ceil(tiles / 48), repeats = 2, few_channels = 16;
  const double vectors = tiles * (C * repeats + O * (C <= few_channels ? 1 : repeats)) * transform_cycles +
                         C * O * (transform_cycles + (tiles + sum_cycles * blocks) * product_cycles);
  return static_cast<double>(shape.groups * kernels->frequencies()) * vectors /
         static_cast<double>(gemm_kernels<T>().lanes);
}

template class WinogradToWeight<float>;
template class WinogradToWeight<double>;

}  // namespace tern::vectorized
