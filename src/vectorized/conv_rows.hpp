#pragma once
// Convolutions of channels-last images whose lanes are channels: products of patches, which are rows of an image put
// side by side, with the weights.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "vectorized/cache.hpp"
#include "vectorized/correlation.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/rows.hpp"

namespace tern::vectorized {

/// Patches are positions of the image as they lie.
inline bool is_plain(std::int64_t KH, std::int64_t KW, std::int64_t stride_h, std::int64_t stride_w, std::int64_t pad_h,
                     std::int64_t pad_w) {
  return KH == 1 && KW == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0;
}

/// Positions of a block whose rows of `depth` elements fill a share of the cache; whole tiles.
template <class T>
std::int64_t block_of(std::int64_t depth) {
  const std::int64_t rows = gemm_kernels<T>().tile_rows;
  const std::int64_t fitting =
      cache_share(0.5) / (std::max<std::int64_t>(depth, 1) * static_cast<std::int64_t>(sizeof(T)));
  return std::clamp<std::int64_t>(fitting, rows, 256) / rows * rows;
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

/// y of a Correlation: positions of all images one after another are the rows of a product.
template <class T>
class RowsForward {
 public:
  RowsForward(const Correlation<T>& problem, int threads);
  std::int64_t shared() const { return weights_; }            ///< elements of scratch for the team
  std::int64_t scratch() const { return patches_ + image_; }  ///< and for each of its threads

  /// The team's weights, in a phase before the others.
  void prepare(const Team& team, T* shared, T* scratch) const;
  void run(const Team& team, const T* shared, T* scratch) const;

 private:
  void share_out(std::int64_t tiles, int threads);
  void pack(std::int64_t group, std::int64_t panel, std::int64_t first, std::int64_t last, T* weights, T* taps) const;
  /// Positions [first, last) of a group's outputs. `masked` is the image in scratch, if there is one.
  void run_block(std::int64_t group, std::int64_t first, std::int64_t last, std::int64_t output, std::int64_t outputs,
                 const T* weights, T* scratch, const T*& masked) const;
  /// Rows of k from `k` on of the patches.
  void gather(std::int64_t group, std::int64_t first, std::int64_t last, std::int64_t k, T* scratch,
              const T*& masked) const;
  /// The block of k to multiply that k lies in: its begin and its size.
  std::pair<std::int64_t, std::int64_t> block_of_k(std::int64_t k) const;
  std::int64_t patch_row() const { return (depth_ + 15) / 16 * 16 + 16; }

  Correlation<T> problem_;
  bool plain_;  ///< a kernel of one element: images are patches
  std::int64_t positions_, K_, panels_;
  std::int64_t depth_ = 1;        ///< of k that are gathered together: whole rows of the kernel, or all of a plain one
  std::int64_t block_depth_ = 1;  ///< of k that are multiplied together
  std::int64_t block_ = 1;        ///< positions
  std::int64_t row_parts_ = 1, column_parts_ = 1;
  std::int64_t weights_ = 0, patches_ = 0, image_ = 0;
};

/// The gradients of weight and bias: products of the patches' columns with the gradient, summed over all positions in
/// their order. Threads share out the columns and the outputs.
template <class T>
class RowsToWeight {
 public:
  RowsToWeight(T* grad_weight, T* grad_bias, const T* g, const T* saved, std::int64_t g_pixel, const T* x,
               const kernels::Conv2d& shape, int threads);
  std::int64_t shared() const { return shape_.groups * K_ * outputs_; }
  std::int64_t scratch() const { return patches_ + gradients_; }
  void run(const Team& team, T* shared, T* scratch) const;
  /// In the phase after run.
  void finish(const Team& team, const T* shared) const;

 private:
  struct Part {
    std::int64_t group, first, last, output, outputs;  ///< [first, last): columns of the patches
  };
  void run_part(const Part& part, T* sums, T* scratch) const;

  T *grad_weight_, *grad_bias_;
  const T *g_, *saved_, *x_;
  std::int64_t g_pixel_;
  const kernels::Conv2d& shape_;
  bool plain_;
  std::int64_t C_, O_, K_, outputs_, positions_;
  std::int64_t block_ = 1;  ///< positions that are multiplied together
  std::int64_t column_parts_ = 1, output_parts_ = 1;
  std::int64_t patches_ = 0, gradients_ = 0;
};

/// The gradient of x for any stride: the gradient of the patches, which is then added up in the images.
template <class T>
class RowsToX {
 public:
  RowsToX(T* grad_x, const T* g, const T* saved, std::int64_t g_pixel, const T* weight, const kernels::Conv2d& shape,
          int threads);
  std::int64_t shared() const { return shape_.groups * O_ * channel_parts_ * columns_; }
  std::int64_t scratch() const { return gradients_ + patches_; }
  /// The team's weights, in a phase before the others.
  void prepare(const Team& team, T* shared, T* scratch) const;
  void run(const Team& team, const T* shared, T* scratch) const;

 private:
  void run_part(std::int64_t image, std::int64_t group, std::int64_t part, const T* weights, T* scratch) const;

  T* grad_x_;
  const T *g_, *saved_;
  std::int64_t g_pixel_;
  const T* weight_;
  const kernels::Conv2d& shape_;
  std::int64_t C_, O_, taps_;
  std::int64_t channel_parts_ = 1, columns_ = 0;  ///< the most columns of the patches of a part, in whole panels
  std::int64_t block_ = 1, gradients_ = 0, patches_ = 0;
};

/// The sum of g over all positions, for a gradient of bias alone.
template <class T>
void rows_bias_gradient(const Team& team, T* grad_bias, const T* g, const T* saved, std::int64_t g_pixel,
                        std::int64_t positions, std::int64_t outputs, T* scratch);
inline constexpr std::int64_t bias_block = 256;

}  // namespace tern::vectorized
