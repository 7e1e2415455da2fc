#include "vectorized/conv_winograd.hpp"

#include <algorithm>
#include <cmath>

#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/rows.hpp"
#include "vectorized/sums.hpp"

namespace tern::vectorized {
namespace {

// Elements between the frequencies' arrays, so that equal places in them do not meet in the cache.
constexpr std::int64_t apart = 16;
// Tiles that are multiplied at a time, and channels whose weights are transformed at a time.
constexpr std::int64_t most_tiles = 128, some_channels = 8;
// Elements of transformed images that stay in a second-level cache of 2 MiB.
constexpr double usual_block = 1.5 * 1024 * 1024 / sizeof(float);
// The widest panel.
constexpr std::int64_t most_panel = 64;

/// Calls body(image, first tile row in the image, tile rows, number of the first tile) for the images' parts of tile
/// rows [first, last), which count through all images.
template <class Body>
void for_pieces(std::int64_t first, std::int64_t last, std::int64_t tile_rows, std::int64_t tile_columns,
                const Body& body) {
  for (std::int64_t item = first; item < last;) {
    const std::int64_t row = item % tile_rows, count = std::min(tile_rows - row, last - item);
    body(item / tile_rows, row, count, (item - first) * tile_columns);
    item += count;
  }
}

// Rough cycles, per frequency and vector: to cut out and transform an element of a tile, or a weight, which goes far
// away, or stays in the cache; and of a product with a number. To fetch and store a sum, in products.
constexpr double transform_cycles = 9, weight_cycles = 28, near_weight_cycles = 14, product_cycles = 0.58,
                 sum_cycles = 10;

}  // namespace

// ---- forward, and the gradient of x --------------------------------------------------------------------------------

template <class T>
WinogradForward<T>::WinogradForward(const Correlation<T>& problem, int threads)
    : problem_(problem), kernels_(winograd_kernels<T>(problem.KH)) {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t m = kernels_->outputs, frequencies = kernels_->frequencies(), width = gemm.panel_width;
  tile_rows_ = divide_up(problem.OH, m);
  tile_columns_ = divide_up(problem.OW, m);
  channels_ = round_up(problem.C, gemm.lanes);
  panels_ = divide_up(problem.O, width);

  const std::int64_t rows = most_rows(problem), all_rows = problem.N * tile_rows_;
  by_panels_ = all_rows <= rows && problem.groups * panels_ >= threads;
  blocks_ = by_panels_ ? 1 : std::min(all_rows, round_up(divide_up(all_rows, rows), threads));
  const std::int64_t block_rows = divide_up(all_rows, blocks_), tiles = block_rows * tile_columns_;
  const std::int64_t piece_rows = std::min(block_rows, tile_rows_) * m;

  weight_frequency_ = problem.C * width + apart;
  panel_weights_ = frequencies * weight_frequency_;
  weights_ = problem.groups * panels_ * panel_weights_;
  frequency_ = tiles * channels_ + apart;
  product_frequency_ = tiles * width + apart;
  products_ = product_frequency_ * frequencies;
  window_ = round_up((piece_rows + problem.KH - 1) * (tile_columns_ * m + problem.KH - 1) * channels_, 16);
  window_ = std::max(window_, some_channels * problem.KH * problem.KH * width);
  tile_outputs_ = round_up(tile_columns_ * m * m * width, 16);
}

/// The most rows of tiles of a block, so that they stay in the cache.
template <class T>
std::int64_t WinogradForward<T>::most_rows(const Correlation<T>& problem) {
  const auto* kernels = winograd_kernels<T>(problem.KH);
  const std::int64_t channels = round_up(problem.C, gemm_kernels<T>().lanes);
  const std::int64_t fitting =
      cache_share(1.5) / (kernels->frequencies() * channels * static_cast<std::int64_t>(sizeof(T)));
  return std::max<std::int64_t>(1, std::min(fitting, most_tiles) / divide_up(problem.OW, kernels->outputs));
}

template <class T>
void WinogradForward<T>::prepare(const Team& team, T* shared, T* scratch) const {
  if (by_panels_) return;
  const std::int64_t C = problem_.C, items = problem_.groups * panels_ * C;
  for (std::int64_t item = team.begin(items); item < team.end(items);) {
    const std::int64_t first = item % C, count = std::min({C - first, team.end(items) - item, some_channels});
    const std::int64_t panel = item / C;
    transform_weights(shared + panel * panel_weights_, scratch, panel / panels_, panel % panels_, first, first + count);
    item += count;
  }
}

template <class T>
void WinogradForward<T>::transform_weights(T* weights, T* taps, std::int64_t group, std::int64_t panel,
                                           std::int64_t first, std::int64_t last) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t width = gemm.panel_width, r = problem_.KH, C = problem_.C, O = problem_.O;
  const std::int64_t output = panel * width, outputs = std::min(width, O - output);
  if (!problem_.backward)
    gemm.pack_transposed(taps, problem_.weight + ((group * O + output) * C + first) * r * r, C * r * r,
                         (last - first) * r * r, outputs);
  for (std::int64_t c = first; c < last; ++c) {
    const Squares<T> out{weights + c * width, kernels_->size() * weight_frequency_, weight_frequency_};
    if (problem_.backward) {
      gemm.pack_transposed(taps, problem_.weight + ((group * C + c) * O + output) * r * r, r * r, r * r, outputs);
      kernels_->weight({.out = out, .in = {taps + (r * r - 1) * width, -r * width, -width}, .channels = width});
    } else {
      kernels_->weight({.out = out, .in = {taps + (c - first) * r * r * width, r * width, width}, .channels = width});
    }
  }
}

template <class T>
void WinogradForward<T>::run(const Team& team, const T* shared, T* scratch) const {
  const std::int64_t all_rows = problem_.N * tile_rows_, C = problem_.C;
  if (by_panels_) {
    T* const weights = scratch;
    scratch += panel_weights_;
    T* const taps = scratch + frequency_ * kernels_->frequencies() + products_;
    const std::int64_t items = problem_.groups * panels_, begin = team.begin(items), end = team.end(items);
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t group = item / panels_, panel = item % panels_;
      if (item == begin || panel == 0) transform_images(group, 0, all_rows, scratch);
      for (std::int64_t c = 0; c < C; c += some_channels)
        transform_weights(weights, taps, group, panel, c, std::min(c + some_channels, C));
      multiply_panel(group, panel, 0, all_rows, weights, false, scratch);
    }
    return;
  }
  const std::int64_t items = problem_.groups * blocks_;
  for (std::int64_t item = team.begin(items); item < team.end(items); ++item) {
    const std::int64_t group = item / blocks_, block = item % blocks_;
    const std::int64_t first = all_rows * block / blocks_, last = all_rows * (block + 1) / blocks_;
    transform_images(group, first, last, scratch);
    for (std::int64_t panel = 0; panel < panels_; ++panel)
      multiply_panel(group, panel, first, last, shared + (group * panels_ + panel) * panel_weights_,
                     panel + 1 < panels_, scratch);
  }
}

template <class T>
void WinogradForward<T>::transform_images(std::int64_t group, std::int64_t first, std::int64_t last, T* scratch) const {
  const std::int64_t m = kernels_->outputs, size = kernels_->size(), C = problem_.C;
  T* const window = scratch + frequency_ * kernels_->frequencies() + products_;
  for_pieces(first, last, tile_rows_, tile_columns_,
             [&](std::int64_t n, std::int64_t row, std::int64_t rows, std::int64_t tile) {
               const std::int64_t at = n * problem_.H * problem_.W * problem_.x_pixel + group * C;
               const Window<T> in{window,
                                  row * m - problem_.pad_h,
                                  -problem_.pad_w,
                                  rows * m + problem_.KH - 1,
                                  tile_columns_ * m + problem_.KW - 1,
                                  channels_};
               in.fill({problem_.x + at, problem_.saved == nullptr ? nullptr : problem_.saved + at, problem_.x_pixel, C,
                        problem_.H, problem_.W});
               for (std::int64_t i = 0; i < rows; ++i)
                 kernels_->input({.out = {scratch + (tile + i * tile_columns_) * channels_, size * frequency_,
                                          frequency_, channels_},
                                  .in = in.squares(i * m, m),
                                  .count = tile_columns_,
                                  .channels = channels_});
             });
}

/// The outputs of one panel in rows [first, last) of tiles. `more`: the next panel's weights lie behind these.
template <class T>
void WinogradForward<T>::multiply_panel(std::int64_t group, std::int64_t panel, std::int64_t first, std::int64_t last,
                                        const T* weights, bool more, T* scratch) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t frequencies = kernels_->frequencies(), C = problem_.C, width = gemm.panel_width;
  const std::int64_t output = panel * width, count = std::min(width, problem_.O - output);
  T* const products = scratch + frequency_ * frequencies;
  T* const outputs = products + products_ + window_;
  Block<T> block;
  block.m = (last - first) * tile_columns_;
  block.n = round_up(count, gemm.lanes);
  block.k = C;
  block.a_row = channels_;
  block.a_column = 1;
  block.b_row = width;
  block.b_panel = C * width;
  block.c_row = width;
  for (std::int64_t f = 0; f < frequencies; ++f) {
    block.a = scratch + f * frequency_;
    block.b = weights + f * weight_frequency_;
    block.b_next = f + 1 < frequencies || more ? block.b + weight_frequency_ : nullptr;
    block.c = products + f * product_frequency_;
    gemm.multiply(block);
  }
  T bias[most_panel] = {};
  if (problem_.bias != nullptr) std::copy_n(problem_.bias + group * problem_.O + output, count, bias);
  for (std::int64_t row = first; row < last; ++row)
    store(row / tile_rows_, row % tile_rows_, group * problem_.O + output, count,
          products + (row - first) * tile_columns_ * width, problem_.bias == nullptr ? nullptr : bias, outputs);
}

/// One row of tiles: whole tiles go to y, those that hang over an edge, or whose channels fill no vector, by a copy.
template <class T>
void WinogradForward<T>::store(std::int64_t image, std::int64_t row, std::int64_t channel, std::int64_t channels,
                               const T* products, const T* bias, T* outputs) const {
  const std::int64_t m = kernels_->outputs, size = kernels_->size(), pixel = problem_.y_pixel;
  const std::int64_t width = gemm_kernels<T>().panel_width, lanes = gemm_kernels<T>().lanes;
  const std::int64_t rows = std::min(m, problem_.OH - row * m);
  const std::int64_t whole = rows == m && channels % lanes == 0 ? problem_.OW / m : 0;
  T* const y = problem_.y + (image * problem_.OH + row * m) * problem_.OW * pixel + channel;
  Transform<T> work{.out = {y, problem_.OW * pixel, pixel, m * pixel},
                    .in = {products, size * product_frequency_, product_frequency_, width},
                    .count = whole,
                    .channels = round_up(channels, lanes),
                    .bias = bias,
                    .relu = problem_.relu};
  kernels_->output(work);
  if (whole == tile_columns_) return;
  const std::int64_t columns = (tile_columns_ - whole) * m;
  work.out = {outputs, columns * width, width, m * width};
  work.in.data += whole * width;
  work.count = tile_columns_ - whole;
  kernels_->output(work);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < problem_.OW - whole * m; ++j)
      std::copy_n(outputs + (i * columns + j) * width, channels, y + (i * problem_.OW + whole * m + j) * pixel);
}

template <class T>
double WinogradForward<T>::cycles(const Correlation<T>& problem) {
  const auto* kernels = winograd_kernels<T>(problem.KH);
  const double C = static_cast<double>(problem.C), O = static_cast<double>(problem.O);
  const auto tiles = static_cast<double>(problem.N * divide_up(problem.OH, kernels->outputs) *
                                         divide_up(problem.OW, kernels->outputs));
  // As in the constructor, but by a cache of a usual size: the choice of the way must not depend on the machine.
  const bool one_block = tiles <= most_tiles && static_cast<double>(kernels->frequencies()) * C * tiles <= usual_block;
  const double vectors = tiles * (C + O) * transform_cycles +
                         C * O * ((one_block ? near_weight_cycles : weight_cycles) + tiles * product_cycles);
  return static_cast<double>(problem.groups * kernels->frequencies()) * vectors /
         static_cast<double>(gemm_kernels<T>().lanes);
}

// ---- the gradient of weight ----------------------------------------------------------------------------------------

template <class T>
WinogradToWeight<T>::WinogradToWeight(T* grad_weight, T* grad_bias, const T* g, const T* saved, std::int64_t g_pixel,
                                      const T* x, const kernels::Conv2d& shape, int threads)
    : grad_weight_(grad_weight),
      grad_bias_(grad_bias),
      g_(g),
      saved_(saved),
      x_(x),
      g_pixel_(g_pixel),
      shape_(shape),
      kernels_(winograd_kernels<T>(shape.KH)),
      C_(shape.C / shape.groups),
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
  window_ = round_up(std::max(window * std::max(channels_, outputs_), r * r * outputs_), 16);
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
        const std::int64_t from = n * shape_.H * shape_.W * shape_.C + part.group * C_ + part.channel;
        const Window<T> in{window,
                           row * m - shape_.pad_h,
                           -shape_.pad_w,
                           rows * m + shape_.KH - 1,
                           tile_columns_ * m + shape_.KW - 1,
                           channels_};
        in.fill({x_ + from, nullptr, shape_.C, part.channels, shape_.H, shape_.W});
        for (std::int64_t i = 0; i < rows; ++i)
          kernels_->input({.out = {scratch + (tile + i * tile_columns_) * channels_, size * input_frequency_,
                                   input_frequency_, channels_},
                           .in = in.squares(i * m, m),
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
  for (std::int64_t c = 0; c < part.channels; ++c) {
    kernels_->weight_gradient({.out = {taps, r * outputs_, outputs_},
                               .in = {sums + c * outputs_, kernels_->size() * sum_frequency_, sum_frequency_},
                               .channels = round_up(part.outputs, gemm_kernels<T>().lanes)});
    gemm_kernels<T>().transpose(grad_weight_ + ((part.group * O_ + part.output) * C_ + part.channel + c) * r * r,
                                C_ * r * r, taps, outputs_, nullptr, r * r, part.outputs);
  }
}

template <class T>
double WinogradToWeight<T>::cycles(const kernels::Conv2d& shape) {
  const auto* kernels = winograd_kernels<T>(shape.KH);
  const auto C = static_cast<double>(shape.C / shape.groups), O = static_cast<double>(shape.O / shape.groups);
  const auto tiles =
      static_cast<double>(shape.N * divide_up(shape.OH, kernels->outputs) * divide_up(shape.OW, kernels->outputs));
  // Blocks of tiles of a usual size; channels are transformed for every block of outputs, and the other way round.
  const double blocks = std::ceil(tiles / 48), repeats = 2;
  const double vectors = tiles * (C + O) * transform_cycles * repeats +
                         C * O * (transform_cycles + (tiles + sum_cycles * blocks) * product_cycles);
  return static_cast<double>(shape.groups * kernels->frequencies()) * vectors /
         static_cast<double>(gemm_kernels<T>().lanes);
}

template class WinogradForward<float>;
template class WinogradForward<double>;
template class WinogradToWeight<float>;
template class WinogradToWeight<double>;

}  // namespace tern::vectorized
