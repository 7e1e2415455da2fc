#include "vectorized/conv_winograd.hpp"

#include <algorithm>

#include "vectorized/cache.hpp"
#include "vectorized/conv_tiles.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized {
namespace {

// Elements of transformed images that stay in a second-level cache of 2 MiB.
constexpr double usual_block = 1.5 * 1024 * 1024 / sizeof(float);
// The widest panel.
constexpr std::int64_t most_panel = 64;
// Rough cycles, per frequency and vector, to transform a weight, which goes far away, or stays in the cache.
constexpr double far_weight_cycles = 28, near_weight_cycles = 14;

}  // namespace

template <class T>
WinogradForward<T>::WinogradForward(const Correlation<T>& problem, int threads)
    : problem_(problem), kernels_(winograd_kernels<T>(problem.KH)) {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t m = kernels_->outputs, frequencies = kernels_->frequencies(), width = gemm.panel_width;
  tile_rows_ = divide_up(problem.OH, m);
  tile_columns_ = divide_up(problem.OW, m);
  channels_ = round_up(problem.C, gemm.lanes);
  panels_ = divide_up(problem.O, width);

  const std::int64_t all_rows = problem.N * tile_rows_, least_blocks = divide_up(all_rows, most_rows(problem));
  const std::int64_t all_panels = problem.groups * panels_;
  own_weights_ = least_blocks == 1 && 4 * all_panels >= 3 * threads * divide_up(all_panels, threads);
  if (!own_weights_) blocks_ = blocks_for(least_blocks, all_rows, threads);
  const std::int64_t block_rows = divide_up(all_rows, blocks_), tiles = block_rows * tile_columns_;
  const std::int64_t piece_rows = std::min(block_rows, tile_rows_) * m;

  const std::int64_t fitting = cache_share(0.5) / (frequencies * width * static_cast<std::int64_t>(sizeof(T)));
  weight_channels_ = own_weights_ ? std::min(problem.C, round_up(fitting, channels_at_once())) : problem.C;

  weight_frequency_ = weight_channels_ * width + apart;
  panel_weights_ = frequencies * weight_frequency_;
  weights_ = problem.groups * panels_ * panel_weights_;
  frequency_ = tiles * channels_ + apart;
  product_frequency_ = tiles * width + apart;
  products_ = product_frequency_ * frequencies;
  window_ = round_up((piece_rows + problem.KH - 1) * (tile_columns_ * m + problem.KH - 1) * channels_, 16);
  window_ = std::max(window_, (channels_at_once() * problem.KH * problem.KW + unfolded_taps()) * width);
  tile_outputs_ = round_up(tile_columns_ * m * m * width, 16);
}

/// Blocks of which each thread gets as many, or, where there are fewer than threads, so many that their panels are
/// shared out well.
template <class T>
std::int64_t WinogradForward<T>::blocks_for(std::int64_t least, std::int64_t all_rows, int threads) const {
  if (problem_.groups * least >= threads) return std::min(all_rows, round_up(least, threads));
  std::int64_t best = least;
  double best_cost = -1;
  for (std::int64_t blocks = least; blocks <= std::min<std::int64_t>(all_rows, round_up(least, threads)); ++blocks) {
    const std::int64_t panels = divide_up(problem_.groups * blocks * panels_, threads);
    // Each thread transforms the images of the blocks that its panels lie in.
    const double transforms = transform_cycles / product_cycles / static_cast<double>(gemm_kernels<T>().panel_width);
    const double cost = static_cast<double>(divide_up(all_rows, blocks)) *
                        (static_cast<double>(panels) + transforms * static_cast<double>(divide_up(panels, panels_)));
    if (best_cost >= 0 && cost >= best_cost) continue;
    best = blocks;
    best_cost = cost;
  }
  return best;
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
  if (own_weights_) return;
  const std::int64_t C = problem_.C, items = problem_.groups * panels_ * C;
  for (std::int64_t item = team.begin(items); item < team.end(items);) {
    const std::int64_t first = item % C, count = std::min({C - first, team.end(items) - item, channels_at_once()});
    const std::int64_t panel = item / C;
    transform_weights(shared + panel * panel_weights_ + first * gemm_kernels<T>().panel_width, scratch, panel / panels_,
                      panel % panels_, first, first + count);
    item += count;
  }
}

/// Channels [first, last) of a panel, of which the first comes to `weights`.
template <class T>
void WinogradForward<T>::transform_weights(T* weights, T* taps, std::int64_t group, std::int64_t panel,
                                           std::int64_t first, std::int64_t last) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t width = gemm.panel_width, r = problem_.KH, C = problem_.C, O = problem_.O;
  const std::int64_t output = panel * width, outputs = std::min(width, O - output);
  if (problem_.unfolded != nullptr)
    fold_weights(taps, panel, first, last);
  else if (!problem_.backward)
    gemm.pack_transposed(taps, problem_.weight + ((group * O + output) * C + first) * r * r, C * r * r,
                         (last - first) * r * r, outputs);
  for (std::int64_t c = first; c < last; ++c) {
    const Squares<T> out{weights + (c - first) * width, kernels_->size() * weight_frequency_, weight_frequency_};
    if (problem_.backward) {
      gemm.pack_transposed(taps, problem_.weight + ((group * C + c) * O + output) * r * r, r * r, r * r, outputs);
      kernels_->weight({.out = out, .in = {taps + (r * r - 1) * width, -r * width, -width}, .channels = width});
    } else {
      kernels_->weight({.out = out, .in = {taps + (c - first) * r * r * width, r * width, width}, .channels = width});
    }
  }
}

/// What pack_transposed of the folded weights would give.
template <class T>
void WinogradForward<T>::fold_weights(T* taps, std::int64_t panel, std::int64_t first, std::int64_t last) const {
  const kernels::Conv2d& unfolded = *problem_.unfolded;
  const std::int64_t width = gemm_kernels<T>().panel_width, side = unfolded.stride_h, output = panel * width;
  T* const all = taps + channels_at_once() * problem_.KH * problem_.KW * width;
  gemm_kernels<T>().pack_transposed(all, problem_.weight + output * unfolded_taps(), unfolded_taps(), unfolded_taps(),
                                    std::min(width, problem_.O - output));
  for (std::int64_t channel = first; channel < last; ++channel) {
    const std::int64_t c = channel % unfolded.C, w = channel / unfolded.C % side, h = channel / unfolded.C / side;
    for (std::int64_t i = h; i < problem_.KH * side; i += side)
      for (std::int64_t j = w; j < problem_.KW * side; j += side, taps += width)
        if (i < unfolded.KH && j < unfolded.KW)
          std::copy_n(all + ((c * unfolded.KH + i) * unfolded.KW + j) * width, width, taps);
        else
          std::fill_n(taps, width, T{0});
  }
}

template <class T>
void WinogradForward<T>::run(const Team& team, const T* shared, T* scratch) const {
  const std::int64_t all_rows = problem_.N * tile_rows_, C = problem_.C, width = gemm_kernels<T>().panel_width;
  if (own_weights_) {
    T* const weights = scratch;
    scratch += panel_weights_;
    T* const taps = scratch + frequency_ * kernels_->frequencies() + products_;
    const std::int64_t items = problem_.groups * panels_, begin = team.begin(items), end = team.end(items);
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t group = item / panels_, panel = item % panels_;
      if (item == begin || panel == 0) transform_images(group, 0, all_rows, scratch);
      for (std::int64_t c = 0; c < C; c += weight_channels_) {
        const std::int64_t last = std::min(c + weight_channels_, C);
        for (std::int64_t some = c; some < last; some += channels_at_once())
          transform_weights(weights + (some - c) * width, taps, group, panel, some,
                            std::min(some + channels_at_once(), last));
        multiply(panel, c, last, all_rows, weights, false, scratch);
      }
      store_panel(group, panel, 0, all_rows, scratch);
    }
    return;
  }
  // Whole blocks where every thread gets as many, else their panels.
  const std::int64_t items = problem_.groups * blocks_ * panels_;
  const std::int64_t unit = problem_.groups * blocks_ % team.size == 0 ? panels_ : 1;
  const std::int64_t begin = team.begin(items, unit), end = team.end(items, unit);
  for (std::int64_t item = begin; item < end; ++item) {
    const std::int64_t panel = item % panels_, block = item / panels_ % blocks_, group = item / panels_ / blocks_;
    const std::int64_t first = all_rows * block / blocks_, last = all_rows * (block + 1) / blocks_;
    if (item == begin || panel == 0) transform_images(group, first, last, scratch);
    multiply(panel, 0, C, last - first, shared + (group * panels_ + panel) * panel_weights_, panel + 1 < panels_,
             scratch);
    store_panel(group, panel, first, last, scratch);
  }
}

template <class T>
void WinogradForward<T>::transform_images(std::int64_t group, std::int64_t first, std::int64_t last, T* scratch) const {
  const std::int64_t m = kernels_->outputs, size = kernels_->size(), C = problem_.C;
  T* const window = scratch + frequency_ * kernels_->frequencies() + products_;
  for_pieces(first, last, tile_rows_, tile_columns_,
             [&](std::int64_t n, std::int64_t row, std::int64_t rows, std::int64_t tile) {
               const Window<T> in{window,
                                  row * m - problem_.pad_h,
                                  -problem_.pad_w,
                                  rows * m + problem_.KH - 1,
                                  tile_columns_ * m + problem_.KW - 1,
                                  channels_};
               if (problem_.unfolded != nullptr) {
                 fill_folded(in, problem_.x, n, *problem_.unfolded);
               } else {
                 const std::int64_t at = n * problem_.H * problem_.W * problem_.x_pixel + group * C;
                 in.fill({problem_.x + at, problem_.saved == nullptr ? nullptr : problem_.saved + at, problem_.x_pixel,
                          C, problem_.H, problem_.W});
               }
               for (std::int64_t i = 0; i < rows; ++i)
                 kernels_->input({.out = {scratch + (tile + i * tile_columns_) * channels_, size * frequency_,
                                          frequency_, channels_},
                                  .in = in.squares(i * m, m),
                                  .count = tile_columns_,
                                  .channels = channels_});
             });
}

/// Adds the products of a panel's channels [first, last) with `rows` rows of tiles to those of the channels before.
/// `more`: the next panel's weights lie behind these.
template <class T>
void WinogradForward<T>::multiply(std::int64_t panel, std::int64_t first, std::int64_t last, std::int64_t rows,
                                  const T* weights, bool more, T* scratch) const {
  const auto& gemm = gemm_kernels<T>();
  const std::int64_t frequencies = kernels_->frequencies(), width = gemm.panel_width;
  T* const products = scratch + frequency_ * frequencies;
  Block<T> block;
  block.m = rows * tile_columns_;
  block.n = round_up(std::min(width, problem_.O - panel * width), gemm.lanes);
  block.k = last - first;
  block.a_row = channels_;
  block.a_column = 1;
  block.b_row = width;
  block.b_panel = block.k * width;
  block.c_row = width;
  block.accumulate = first > 0;
  for (std::int64_t f = 0; f < frequencies; ++f) {
    block.a = scratch + f * frequency_ + first;
    block.b = weights + f * weight_frequency_;
    block.b_next = f + 1 < frequencies || more ? block.b + weight_frequency_ : nullptr;
    block.c = products + f * product_frequency_;
    gemm.multiply(block);
  }
}

/// The outputs of one panel in rows [first, last) of tiles.
template <class T>
void WinogradForward<T>::store_panel(std::int64_t group, std::int64_t panel, std::int64_t first, std::int64_t last,
                                     T* scratch) const {
  const std::int64_t width = gemm_kernels<T>().panel_width;
  const std::int64_t output = panel * width, count = std::min(width, problem_.O - output);
  T* const products = scratch + frequency_ * kernels_->frequencies();
  T* const outputs = products + products_ + window_;
  T bias[most_panel] = {};
  if (problem_.bias != nullptr) std::copy_n(problem_.bias + group * problem_.O + output, count, bias);
  bool finite = true;
  for (std::int64_t row = first; row < last; ++row)
    finite &=
        store(row / tile_rows_, row % tile_rows_, group * problem_.O + output, count,
              products + (row - first) * tile_columns_ * width, problem_.bias == nullptr ? nullptr : bias, outputs);
  if (!finite) finite_.store(false, std::memory_order_relaxed);
}

/// One row of tiles: whole tiles go to y, those that hang over an edge, or whose channels fill no vector, by a copy.
template <class T>
bool WinogradForward<T>::store(std::int64_t image, std::int64_t row, std::int64_t channel, std::int64_t channels,
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
  bool finite = kernels_->output(work);
  if (whole == tile_columns_) return finite;
  const std::int64_t columns = (tile_columns_ - whole) * m;
  work.out = {outputs, columns * width, width, m * width};
  work.in.data += whole * width;
  work.count = tile_columns_ - whole;
  finite &= kernels_->output(work);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < problem_.OW - whole * m; ++j)
      std::copy_n(outputs + (i * columns + j) * width, channels, y + (i * problem_.OW + whole * m + j) * pixel);
  return finite;
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
                         C * O * ((one_block ? near_weight_cycles : far_weight_cycles) + tiles * product_cycles);
  return static_cast<double>(problem.groups * kernels->frequencies()) * vectors /
         static_cast<double>(gemm_kernels<T>().lanes);
}

template class WinogradForward<float>;
template class WinogradForward<double>;

}  // namespace tern::vectorized
