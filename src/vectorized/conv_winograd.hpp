#pragma once
// Convolutions of channels-last images and their gradients by Winograd's method, over blocks of tiles (see
// winograd.hpp). A stride is folded: see correlation.hpp.

#include <atomic>
#include <cstdint>

#include "vectorized/correlation.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/winograd.hpp"

namespace tern::vectorized {

/// y of a Correlation: blocks of tiles through all channels, panel of outputs by panel. The team transforms the weights
/// first; where the tiles of all images are one block, and there are panels for most threads, each does so for its own,
/// some channels at a time, which then stay in its cache.
///
/// The transforms add up neighbours: what is near the end of T's range leaves it, and an infinity or NaN reaches all
/// outputs of its tiles. Then some output is not finite, `finite` is false, and the outputs are another way's business.
template <class T>
class WinogradForward {
 public:
  WinogradForward(const Correlation<T>& problem, int threads);
  std::int64_t shared() const { return own_weights_ ? 0 : weights_; }  ///< elements of scratch for the team
  std::int64_t scratch() const {                                       ///< and for each of its threads
    return (own_weights_ ? panel_weights_ : 0) + frequency_ * kernels_->frequencies() + products_ + window_ +
           tile_outputs_;
  }

  /// The team's weights, in a phase before the others.
  void prepare(const Team& team, T* shared, T* scratch) const;
  void run(const Team& team, const T* shared, T* scratch) const;
  /// After the run: whether every output, before relu, is finite.
  bool finite() const { return finite_.load(std::memory_order_relaxed); }

  /// A rough cost on one thread.
  static double cycles(const Correlation<T>& problem);

 private:
  static std::int64_t most_rows(const Correlation<T>& problem);
  std::int64_t blocks_for(std::int64_t least, std::int64_t all_rows, int threads) const;
  /// Channels whose weights are transformed at a time. Folded ones, which are few, all: their taps are packed together.
  std::int64_t channels_at_once() const { return problem_.unfolded == nullptr ? 8 : problem_.C; }
  /// Taps of an output before they are folded.
  std::int64_t unfolded_taps() const {
    const kernels::Conv2d* unfolded = problem_.unfolded;
    return unfolded == nullptr ? 0 : unfolded->C * unfolded->KH * unfolded->KW;
  }
  void fold_weights(T* taps, std::int64_t panel, std::int64_t first, std::int64_t last) const;
  void transform_images(std::int64_t group, std::int64_t first, std::int64_t last, T* scratch) const;
  void multiply(std::int64_t panel, std::int64_t first, std::int64_t last, std::int64_t rows, const T* weights,
                bool more, T* scratch) const;
  void store_panel(std::int64_t group, std::int64_t panel, std::int64_t first, std::int64_t last, T* scratch) const;
  bool store(std::int64_t image, std::int64_t row, std::int64_t channel, std::int64_t channels, const T* products,
             const T* bias, T* outputs) const;
  void transform_weights(T* weights, T* taps, std::int64_t group, std::int64_t panel, std::int64_t first,
                         std::int64_t last) const;

  Correlation<T> problem_;
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

/// The gradients of weight and bias: for every frequency the product of the inputs' tiles and the gradients' tiles,
/// summed over all tiles in their order. Threads share out blocks of channels and outputs, so small that the tiles and
/// the sums stay in the second-level cache. A stride is folded. `finite` is as in WinogradForward.
template <class T>
class WinogradToWeight {
 public:
  WinogradToWeight(T* grad_weight, T* grad_bias, const T* g, const T* saved, std::int64_t g_pixel, const T* x,
                   const kernels::Conv2d& shape, int threads);
  std::int64_t scratch() const { return inputs_ + gradients_ + sums_ + bias_ + window_; }
  void run(const Team& team, T* scratch) const;
  bool finite() const { return finite_.load(std::memory_order_relaxed); }

  static double cycles(const kernels::Conv2d& shape);

 private:
  /// A block of channels and outputs of one group.
  struct Part {
    std::int64_t group, channel, channels, output, outputs;
  };
  void run_part(const Part& part, T* scratch) const;
  void transform(const Part& part, std::int64_t first, std::int64_t last, T* scratch) const;
  void finish(const Part& part, const T* sums, T* taps) const;
  void unfold(const Part& part, std::int64_t channel, const T* taps) const;
  /// Channels of a window of x: those of a part, or all of a folded one.
  std::int64_t window_channels() const {
    return unfolded_ == nullptr ? channels_ : round_up(C_, gemm_kernels<T>().lanes);
  }

  T *grad_weight_, *grad_bias_;
  const T *g_, *saved_, *x_;
  std::int64_t g_pixel_;
  const kernels::Conv2d* unfolded_;  ///< as in Correlation
  kernels::Conv2d shape_;            ///< of stride 1
  const WinogradKernels<T>* kernels_;
  std::int64_t C_, O_, tile_rows_, tile_columns_;
  std::int64_t channel_parts_ = 1, output_parts_ = 1;
  std::int64_t channels_ = 0, outputs_ = 0;  ///< the most of a part; whole vectors
  std::int64_t block_rows_ = 1;              ///< tile rows that are transformed together
  std::int64_t input_frequency_ = 0, gradient_frequency_ = 0, sum_frequency_ = 0;
  std::int64_t inputs_ = 0, gradients_ = 0, sums_ = 0, bias_ = 0, window_ = 0;
  mutable std::atomic<bool> finite_{true};
};

}  // namespace tern::vectorized
