#pragma once
// The patches of channels-last images in bfloat16. Of a block of positions a window of each image is rounded, zeros
// around it, and patches are cut out of that.

#include "vectorized/bfloat16/kernels.hpp"
#include "vectorized/convolution/algorithm.hpp"

namespace tern::vectorized::convolution {

class Bfloat16Im2col {
 public:
  /// Of at most `block` positions at a time. The problem is a forward pass, or what has its patches.
  Bfloat16Im2col(const Problem& problem, const Arrays<float>& arrays, const bfloat16::Kernels& kernels,
                 std::int64_t block);

  /// Numbers of the scratch that cut() needs.
  std::int64_t window() const { return window_; }
  /// Rows [first_row, last_row) of the kernel at positions [first, last) of all images: a patch in a row of `out`, the
  /// kernel's rows side by side in it, each [KW, C]. What lies behind a patch stays as it is.
  void cut(std::uint16_t* out, std::int64_t out_row, std::uint16_t* window, std::int64_t group, std::int64_t first,
           std::int64_t last, std::int64_t first_row, std::int64_t last_row) const;

 private:
  void cut_image(std::uint16_t* out, std::int64_t out_row, std::uint16_t* window, std::int64_t group, std::int64_t n,
                 std::int64_t at, std::int64_t count, std::int64_t first_row, std::int64_t last_row) const;
  void round_row(std::uint16_t* out, std::int64_t group, std::int64_t n, std::int64_t h) const;

  Problem problem_;
  const float *in_, *mask_;
  const bfloat16::Kernels& kernels_;
  std::int64_t width_ = 0, window_ = 0;  ///< of a window: columns, numbers
};

/// The gradients of weight and bias.
PlanPointer<float> bfloat16_grad_weight(const Problem& problem, const Arrays<float>& arrays,
                                        const bfloat16::Kernels& kernels);

/// A row of so many numbers in scratch, in whole steps; not a length whose rows meet in the cache.
std::int64_t bfloat16_row(std::int64_t numbers);

/// Numbers in scratch, whose elements are floats: so many of them, on whole cache lines.
constexpr std::int64_t floats_of(std::int64_t numbers) { return (numbers + 31) / 32 * 16; }
inline std::uint16_t* numbers_at(float* scratch) { return reinterpret_cast<std::uint16_t*>(scratch); }

}  // namespace tern::vectorized::convolution
