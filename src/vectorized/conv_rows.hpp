#pragma once
// Convolutions of channels-last images whose lanes are channels: products of patches, which are rows of an image put
// side by side, with the weights.

#include <cstdint>
#include <utility>

#include "vectorized/correlation.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/rows.hpp"

namespace tern::vectorized {

/// y of a Correlation: positions of all images one after another are the rows of a product.
template <class T>
class RowsForward {
 public:
  RowsForward(const Correlation<T>& problem, int threads);
  std::int64_t shared() const { return weights_; }            ///< elements of scratch for the team
  std::int64_t scratch() const { return patches_ + image_; }  ///< and for each of its threads

  /// The team's weights. A barrier must follow.
  void prepare(const Team& team, T* shared, T* scratch) const;
  void run(const Team& team, const T* shared, T* scratch) const;

 private:
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
  /// After a barrier.
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
  /// The team's weights. A barrier must follow.
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
