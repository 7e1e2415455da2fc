// Winograd's method for channels-last images, over blocks of tiles (see winograd_kernels.hpp). A stride becomes
// channels (space-to-depth). With a dilation of d, every d-th row and column is an image of its own.

#include "vectorized/convolution/winograd.hpp"

#include <algorithm>
#include <atomic>

#include "vectorized/cache.hpp"
#include "vectorized/gemm.hpp"

namespace tern::vectorized::convolution {
namespace {

// Elements of transformed images that stay in a second-level cache of 2 MiB.
constexpr double usual_block = 1.5 * 1024 * 1024 / sizeof(float);
// The widest panel.
constexpr std::int64_t most_panel = 64;
// Rough cycles, per frequency, to transform a weight that is written to memory, or stays in the cache.
constexpr double far_weight_cycles = 1.75, near_weight_cycles = 0.875;
// Fewer channels than a vector leave lanes of transformed tiles empty.
constexpr std::int64_t least_channels = 12;
// Space-to-depth is for first layers: each part of the gradient of weight cuts out all of its channels.
constexpr std::int64_t most_space_to_depth_channels = 64;

/// A problem of dilated kernels whose images are the phases of its own ones. All have the size of the largest.
Problem undilated(const Problem& problem) {
  Problem result = problem;
  const std::int64_t h = problem.dilation_h, w = problem.dilation_w;
  result.N *= h * w;
  result.H = divide_up(problem.H, h);
  result.OH = divide_up(problem.OH, h);
  result.W = divide_up(problem.W, w);
  result.OW = divide_up(problem.OW, w);
  result.pad_h /= h;
  result.pad_w /= w;
  result.dilation_h = result.dilation_w = 1;
  return result;
}

/// The rows or columns of a phase of an axis.
std::int64_t count_of(std::int64_t size, std::int64_t phase, std::int64_t dilation) {
  return size <= phase ? 0 : divide_up(size - phase, dilation);
}

/// The forward pass, and the gradient of x, flipped: blocks of tiles through all channels, panel of outputs by panel.
/// The team transforms the weights first. If the tiles of all images form one block, and there are panels for most
/// threads, each thread transforms its own weights, some channels at a time, which then stay in its cache.
///
/// The transforms add neighbours: values near the end of T's range overflow, and an infinity or NaN reaches all outputs
/// of its tiles. If an output is not finite, another algorithm computes the outputs.
template <class T>
class Winograd : public Plan<T> {
 public:
  Winograd(const Problem& problem, const Arrays<T>& arrays)
      : strided_(problem),
        whole_(flipped(problem)),
        problem_(undilated(space_to_depth(whole_))),
        arrays_(arrays),
        flipped_(problem.pass == Pass::grad_x),
        kernels_(winograd_kernels<T>(problem_.KH)) {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t m = kernels_->outputs, frequencies = kernels_->frequencies(), width = gemm.panel_width;
    tile_rows_ = divide_up(problem_.OH, m);
    tile_columns_ = divide_up(problem_.OW, m);
    channels_ = round_up(problem_.C, gemm.lanes);
    panels_ = divide_up(problem_.O, width);

    const std::int64_t all_rows = problem_.N * tile_rows_, least_blocks = divide_up(all_rows, most_rows());
    const std::int64_t all_panels = problem_.groups * panels_, threads = problem_.threads;
    own_weights_ = !arrays.keeps && least_blocks == 1 && 4 * all_panels >= 3 * threads * divide_up(all_panels, threads);
    if (!own_weights_) blocks_ = blocks_for(least_blocks, all_rows);
    const std::int64_t block_rows = divide_up(all_rows, blocks_), tiles = block_rows * tile_columns_;
    const std::int64_t piece_rows = std::min(block_rows, tile_rows_) * m;

    const std::int64_t fitting = cache_share(0.5) / (frequencies * width * static_cast<std::int64_t>(sizeof(T)));
    weight_channels_ = own_weights_ ? std::min(problem_.C, round_up(fitting, channels_at_once())) : problem_.C;

    weight_frequency_ = weight_channels_ * width + apart;
    panel_weights_ = frequencies * weight_frequency_;
    weights_ = problem_.groups * panels_ * panel_weights_;
    frequency_ = tiles * channels_ + apart;
    product_frequency_ = tiles * width + apart;
    products_ = product_frequency_ * frequencies;
    window_ = round_up((piece_rows + problem_.KH - 1) * (tile_columns_ * m + problem_.KH - 1) * channels_, 16);
    // Or the taps of some channels, followed by those that are still to be converted by space-to-depth.
    window_ =
        std::max(window_, (channels_at_once() * problem_.taps() + (strided_.strided() ? strided_.K() : 0)) * width);
    tile_outputs_ = round_up(tile_columns_ * m * m * width, 16);
  }
  int phases() const override { return own_weights_ ? 1 : 2; }
  std::int64_t shared() const override { return own_weights_ ? 0 : weights_; }
  std::int64_t scratch() const override {
    return (own_weights_ ? panel_weights_ : 0) + frequency_ * kernels_->frequencies() + products_ + window_ +
           tile_outputs_;
  }
  void run(const Team& team, int phase, T* shared, T* scratch) const override {
    if (own_weights_)
      run_panels(team, scratch);
    else if (phase == 0)
      prepare(team, shared, scratch);
    else
      run_blocks(team, shared, scratch);
  }
  bool first_prepares_weights() const override { return !own_weights_; }
  /// Whether every output, before relu, is finite.
  bool done() const override { return finite_.load(std::memory_order_relaxed); }

 private:
  /// Channels whose weights are transformed at a time. With space-to-depth, whose channels are few, all: their taps are
  /// packed together.
  std::int64_t channels_at_once() const { return strided_.strided() ? problem_.C : 8; }

  /// The number of blocks: equally many per thread or, if there are fewer than threads, such that their panels divide
  /// well.
  std::int64_t blocks_for(std::int64_t least, std::int64_t all_rows) const {
    const std::int64_t threads = problem_.threads;
    if (problem_.groups * least >= threads) return std::min(all_rows, round_up(least, threads));
    std::int64_t best = least;
    double best_cost = -1;
    for (std::int64_t blocks = least; blocks <= std::min(all_rows, round_up(least, threads)); ++blocks) {
      const std::int64_t panels = divide_up(problem_.groups * blocks * panels_, threads);
      // Each thread transforms the images of the blocks that contain its panels.
      const double transforms = transform_cycles / product_cycles / static_cast<double>(gemm_kernels<T>().panel_width);
      const double cost = static_cast<double>(divide_up(all_rows, blocks)) *
                          (static_cast<double>(panels) + transforms * static_cast<double>(divide_up(panels, panels_)));
      if (best_cost >= 0 && cost >= best_cost) continue;
      best = blocks;
      best_cost = cost;
    }
    return best;
  }

  /// The most rows of tiles of a block that stay in the cache.
  std::int64_t most_rows() const {
    const std::int64_t fitting =
        cache_share(1.5) / (kernels_->frequencies() * channels_ * static_cast<std::int64_t>(sizeof(T)));
    return std::max<std::int64_t>(1, std::min(fitting, most_tiles) / tile_columns_);
  }

  void prepare(const Team& team, T* weights, T* scratch) const {
    const std::int64_t C = problem_.C, items = problem_.groups * panels_ * C;
    for (std::int64_t item = team.begin(items); item < team.end(items);) {
      const std::int64_t first = item % C, count = std::min({C - first, team.end(items) - item, channels_at_once()});
      const std::int64_t panel = item / C;
      transform_weights(weights + panel * panel_weights_ + first * gemm_kernels<T>().panel_width, scratch,
                        panel / panels_, panel % panels_, first, first + count);
      item += count;
    }
  }

  /// Channels [first, last) of a panel; the first goes to `weights`.
  void transform_weights(T* weights, T* taps, std::int64_t group, std::int64_t panel, std::int64_t first,
                         std::int64_t last) const {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t width = gemm.panel_width, r = problem_.KH, C = problem_.C, O = problem_.O;
    const std::int64_t output = panel * width, outputs = std::min(width, O - output);
    if (strided_.strided())
      space_to_depth_weights(taps, panel, first, last);
    else if (!flipped_)
      gemm.pack_transposed(taps, arrays_.weight + ((group * O + output) * C + first) * r * r, C * r * r,
                           (last - first) * r * r, outputs);
    for (std::int64_t c = first; c < last; ++c) {
      const Squares<T> out{weights + (c - first) * width, kernels_->size() * weight_frequency_, weight_frequency_};
      if (flipped_) {
        gemm.pack_transposed(taps, arrays_.weight + ((group * C + c) * O + output) * r * r, r * r, r * r, outputs);
        kernels_->weight({.out = out, .in = {taps + (r * r - 1) * width, -r * width, -width}, .channels = width});
      } else {
        kernels_->weight({.out = out, .in = {taps + (c - first) * r * r * width, r * width, width}, .channels = width});
      }
    }
  }

  /// The result of pack_transposed for the weights after space-to-depth.
  void space_to_depth_weights(T* taps, std::int64_t panel, std::int64_t first, std::int64_t last) const {
    const std::int64_t width = gemm_kernels<T>().panel_width, output = panel * width;
    const std::int64_t side = strided_.stride_h, C = strided_.C, KH = strided_.KH, KW = strided_.KW, K = strided_.K();
    T* const all = taps + channels_at_once() * problem_.taps() * width;
    gemm_kernels<T>().pack_transposed(all, arrays_.weight + output * K, K, K, std::min(width, problem_.O - output));
    for (std::int64_t channel = first; channel < last; ++channel) {
      const std::int64_t c = channel % C, w = channel / C % side, h = channel / C / side;
      for (std::int64_t i = h; i < problem_.KH * side; i += side)
        for (std::int64_t j = w; j < problem_.KW * side; j += side, taps += width)
          if (i < KH && j < KW)
            std::copy_n(all + ((c * KH + i) * KW + j) * width, width, taps);
          else
            std::fill_n(taps, width, T{0});
    }
  }

  void run_panels(const Team& team, T* scratch) const {
    const std::int64_t all_rows = problem_.N * tile_rows_, C = problem_.C, width = gemm_kernels<T>().panel_width;
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
        multiply(panel, {c, last}, all_rows, weights, false, scratch);
      }
      store_panel(group, panel, 0, all_rows, scratch);
    }
  }

  /// Whole blocks if every thread gets equally many, else their panels.
  void run_blocks(const Team& team, const T* weights, T* scratch) const {
    const std::int64_t all_rows = problem_.N * tile_rows_, items = problem_.groups * blocks_ * panels_;
    const std::int64_t unit = problem_.groups * blocks_ % team.size == 0 ? panels_ : 1;
    const std::int64_t begin = team.begin(items, unit), end = team.end(items, unit);
    for (std::int64_t item = begin; item < end; ++item) {
      const std::int64_t panel = item % panels_, block = item / panels_ % blocks_, group = item / panels_ / blocks_;
      const std::int64_t first = all_rows * block / blocks_, last = all_rows * (block + 1) / blocks_;
      if (item == begin || panel == 0) transform_images(group, first, last, scratch);
      multiply(panel, {0, problem_.C}, last - first, weights + (group * panels_ + panel) * panel_weights_,
               panel + 1 < panels_, scratch);
      store_panel(group, panel, first, last, scratch);
    }
  }

  void transform_images(std::int64_t group, std::int64_t first, std::int64_t last, T* scratch) const {
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
                 if (strided_.strided()) {
                   in.fill_space_to_depth(arrays_.in, n, strided_);
                 } else {
                   const Phase phase = phase_of(n);
                   const std::int64_t pitch = whole_.x_pitch, pixel = (phase.image * whole_.H + phase.h) * whole_.W;
                   const std::int64_t at = (pixel + phase.w) * pitch + group * C;
                   in.fill({arrays_.in + at, arrays_.mask_at(at), whole_.dilation_w * pitch,
                            whole_.dilation_h * whole_.W * pitch, C, count_of(whole_.H, phase.h, whole_.dilation_h),
                            count_of(whole_.W, phase.w, whole_.dilation_w)});
                 }
                 for (std::int64_t i = 0; i < rows; ++i)
                   kernels_->input({.out = {scratch + (tile + i * tile_columns_) * channels_, size * frequency_,
                                            frequency_, channels_},
                                    .in = in.squares(i * m, m),
                                    .count = tile_columns_,
                                    .channels = channels_});
               });
  }

  /// Adds the products of some of a panel's channels with `rows` rows of tiles to those of the previous channels.
  /// `more`: the next panel's weights follow.
  void multiply(std::int64_t panel, Range channels, std::int64_t rows, const T* weights, bool more, T* scratch) const {
    const auto& gemm = gemm_kernels<T>();
    const std::int64_t frequencies = kernels_->frequencies(), width = gemm.panel_width;
    T* const products = scratch + frequency_ * frequencies;
    Block<T> block;
    block.m = rows * tile_columns_;
    block.n = round_up(std::min(width, problem_.O - panel * width), gemm.lanes);
    block.k = channels.count();
    block.a_row = channels_;
    block.a_column = 1;
    block.b_row = width;
    block.b_panel = block.k * width;
    block.c_row = width;
    block.accumulate = channels.first > 0;
    for (std::int64_t f = 0; f < frequencies; ++f) {
      block.a = scratch + f * frequency_ + channels.first;
      block.b = weights + f * weight_frequency_;
      block.b_next = f + 1 < frequencies || more ? block.b + weight_frequency_ : nullptr;
      block.c = products + f * product_frequency_;
      gemm.multiply(block);
    }
  }

  /// The outputs of one panel in rows [first, last) of tiles.
  void store_panel(std::int64_t group, std::int64_t panel, std::int64_t first, std::int64_t last, T* scratch) const {
    const std::int64_t width = gemm_kernels<T>().panel_width;
    const std::int64_t output = panel * width, count = std::min(width, problem_.O - output);
    T* const products = scratch + frequency_ * kernels_->frequencies();
    T* const outputs = products + products_ + window_;
    T bias[most_panel] = {};
    if (arrays_.bias != nullptr) std::copy_n(arrays_.bias + group * problem_.O + output, count, bias);
    bool finite = true;
    for (std::int64_t row = first; row < last; ++row)
      finite &=
          store(row / tile_rows_, row % tile_rows_, {group * problem_.O + output, group * problem_.O + output + count},
                products + (row - first) * tile_columns_ * width, arrays_.bias == nullptr ? nullptr : bias, outputs);
    if (!finite) finite_.store(false, std::memory_order_relaxed);
  }

  /// One row of tiles: whole tiles go to y; tiles that hang over an edge, or whose channels fill no vector, go through
  /// a copy.
  bool store(std::int64_t image, std::int64_t row, Range own, const T* products, const T* bias, T* outputs) const {
    const std::int64_t channels = own.count();
    const std::int64_t m = kernels_->outputs, size = kernels_->size();
    const std::int64_t width = gemm_kernels<T>().panel_width, lanes = gemm_kernels<T>().lanes;
    const Phase phase = phase_of(image);
    const std::int64_t dilation = whole_.dilation_h, pixel = whole_.dilation_w * whole_.y_pitch;
    const std::int64_t below = dilation * whole_.OW * whole_.y_pitch;
    const std::int64_t OH = count_of(whole_.OH, phase.h, dilation);
    const std::int64_t OW = count_of(whole_.OW, phase.w, whole_.dilation_w);
    const std::int64_t rows = std::clamp<std::int64_t>(OH - row * m, 0, m);
    const std::int64_t whole = rows == m && channels % lanes == 0 ? OW / m : 0;
    const std::int64_t corner = (phase.image * whole_.OH + phase.h + dilation * row * m) * whole_.OW + phase.w;
    T* const y = arrays_.out + corner * whole_.y_pitch + own.first;
    Transform<T> work{.out = {y, below, pixel, m * pixel},
                      .in = {products, size * product_frequency_, product_frequency_, width},
                      .count = whole,
                      .channels = round_up(channels, lanes),
                      .bias = bias,
                      .relu = clips(problem_.activation),
                      .top = top_of<T>(problem_.activation)};
    bool finite = kernels_->output(work);
    if (whole == tile_columns_) return finite;
    const std::int64_t columns = (tile_columns_ - whole) * m;
    work.out = {outputs, columns * width, width, m * width};
    work.in.data += whole * width;
    work.count = tile_columns_ - whole;
    finite &= kernels_->output(work);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < OW - whole * m; ++j)
        std::copy_n(outputs + (i * columns + j) * width, channels, y + i * below + (whole * m + j) * pixel);
    return finite;
  }

  /// What image n of `problem_` is.
  struct Phase {
    std::int64_t image, h, w;
  };
  Phase phase_of(std::int64_t n) const {
    const std::int64_t h = whole_.dilation_h, w = whole_.dilation_w;
    return {n / (h * w), n / w % h, n % w};
  }

  Problem strided_;  ///< may have a stride
  Problem whole_;    ///< may be flipped
  Problem problem_;  ///< and after space-to-depth, or without its dilation
  Arrays<T> arrays_;
  bool flipped_;
  const WinogradKernels<T>* kernels_;
  std::int64_t tile_rows_, tile_columns_;  ///< of an image
  std::int64_t channels_;                  ///< C, rounded up to whole vectors
  std::int64_t panels_;                    ///< of outputs, of a group
  std::int64_t blocks_ = 1;                ///< of all tile rows of all images
  bool own_weights_ = false;               ///< each thread transforms those of its panels
  std::int64_t weight_channels_;           ///< of a panel that are transformed before they are multiplied
  std::int64_t weight_frequency_ = 0, panel_weights_ = 0;
  std::int64_t weights_ = 0, frequency_ = 0, product_frequency_ = 0, products_ = 0, window_ = 0, tile_outputs_ = 0;
  mutable std::atomic<bool> finite_{true};  // of what all threads have stored
};

template <class T>
double cycles_of(const Problem& problem) {
  const auto* kernels = winograd_kernels<T>(problem.KH);
  const double C = static_cast<double>(problem.C),
               O = static_cast<double>(round_up(problem.O, gemm_kernels<T>().lanes));
  const auto tiles = static_cast<double>(problem.N * divide_up(problem.OH, kernels->outputs) *
                                         divide_up(problem.OW, kernels->outputs));
  // As in the constructor, but with a typical cache size: the choice of the algorithm must not depend on the machine.
  const bool one_block = tiles <= most_tiles && static_cast<double>(kernels->frequencies()) * C * tiles <= usual_block;
  const double vectors = tiles * (C + O) * transform_cycles + C * O * tiles * product_cycles;
  const double weights = C * O * (one_block ? near_weight_cycles : far_weight_cycles);
  return static_cast<double>(problem.groups * kernels->frequencies()) *
         (vectors / static_cast<double>(gemm_kernels<T>().lanes) + weights);
}

}  // namespace

template <class T>
bool winograd_fits(const Problem& problem) {
  if (problem.layout != Layout::channels_last || problem.pass == Pass::grad_bias) return false;
  const bool dilated = problem.dilation_h > 1 || problem.dilation_w > 1;
  if (dilated && (problem.strided() || problem.pass == Pass::grad_weight || problem.pad_h % problem.dilation_h != 0 ||
                  problem.pad_w % problem.dilation_w != 0))
    return false;
  const Problem once = undilated(space_to_depth(problem));
  if (problem.strided() && (problem.pass == Pass::grad_x || problem.stride_h != problem.stride_w ||
                            problem.groups != 1 || once.C > most_space_to_depth_channels))
    return false;
  return once.KH == once.KW && once.pad_h < once.KH && once.pad_w < once.KW && once.C >= least_channels &&
         once.O >= least_channels && winograd_kernels<T>(once.KH) != nullptr;
}

template <class T>
double winograd_cycles(const Problem& problem) {
  if (problem.pass == Pass::grad_weight) return grad_weight_cycles<T>(space_to_depth(problem));
  return cycles_of<T>(undilated(space_to_depth(flipped(problem))));
}

template <class T>
PlanPointer<T> winograd(const Problem& problem, const Arrays<T>& arrays) {
  if (problem.of_weight()) return winograd_grad_weight(problem, arrays);
  return std::make_unique<Winograd<T>>(problem, arrays);
}

template bool winograd_fits<float>(const Problem&);
template bool winograd_fits<double>(const Problem&);
template double winograd_cycles<float>(const Problem&);
template double winograd_cycles<double>(const Problem&);
template PlanPointer<float> winograd(const Problem&, const Arrays<float>&);
template PlanPointer<double> winograd(const Problem&, const Arrays<double>&);

}  // namespace tern::vectorized::convolution
