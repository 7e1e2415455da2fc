#include "vectorized/conv_rows.hpp"

namespace tern::vectorized {
namespace {

// Elements of k that multiply at a time, and channels whose weights are packed at a time.
constexpr std::int64_t most_depth = 512, some_channels = 16;

}  // namespace

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
  share_out(divide_up(problem.N * positions_, tile), threads);
  weights_ = round_up(problem.groups * panels_ * K_ * width, 16);
  patches_ = plain_ && problem.saved == nullptr ? 0 : round_up(block_ * patch_row(), 16);
  if (!plain_ && problem.saved != nullptr)
    image_ = round_up(problem.H * problem.W * round_up(problem.C, gemm_kernels<T>().lanes), 16);
  patches_ = std::max(patches_, some_channels * problem.KH * problem.KW * width);
}

/// Threads share out positions, of which there are so many tiles, and where these are few, outputs as well.
template <class T>
void RowsForward<T>::share_out(std::int64_t tiles, int threads) {
  row_parts_ = std::min<std::int64_t>(threads, tiles);
  if (tiles >= 4 * threads) return;
  // In products of a tile and a panel: to cut patches out, and to fetch a panel.
  const double gather = plain_ ? 0 : 0.15, fetch = 0.3;
  double best = -1;
  for (std::int64_t row_parts = std::min<std::int64_t>(threads, tiles); row_parts > 0; --row_parts) {
    const std::int64_t column_parts = std::min(threads / row_parts, panels_);
    const auto rounds = static_cast<double>(divide_up(problem_.groups * row_parts * column_parts, threads));
    const auto rows = static_cast<double>(divide_up(tiles, row_parts));
    const auto panels = static_cast<double>(divide_up(panels_, column_parts));
    const double cost = rounds * (rows * (panels + gather) + fetch * panels);
    if (best >= 0 && cost >= best) continue;
    best = cost;
    row_parts_ = row_parts;
    column_parts_ = column_parts;
  }
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

template class RowsForward<float>;
template class RowsForward<double>;

}  // namespace tern::vectorized
