#pragma once
// The patches of channels-last images in bfloat16. For a block of positions, a window of each image is rounded, with
// zeros around it, and patches are cut out of it.

#include "vectorized/bfloat16/kernels.hpp"
#include "vectorized/convolution/algorithm.hpp"
#include "vectorized/ranges.hpp"

namespace tern::vectorized::convolution {

class Bfloat16Im2col {
 public:
  /// For at most `block` positions at a time. The problem is a forward pass, or a pass with the same patches.
  Bfloat16Im2col(const Problem& problem, const Arrays<float>& arrays, const bfloat16::Kernels& kernels,
                 std::int64_t block);

  /// Numbers of scratch that cut() needs.
  std::int64_t window() const { return window_; }
  /// `rows` of the kernel at some positions of all images: one patch per row of `out`, with the kernel's rows adjacent
  /// in it, each [KW, C]. The rest of a row is unchanged.
  void cut(Pitched<std::uint16_t> out, std::uint16_t* window, std::int64_t group, Range positions, Range rows) const;

 private:
  void cut_image(Pitched<std::uint16_t> out, std::uint16_t* window, std::int64_t group, std::int64_t n, Range positions,
                 Range rows) const;
  void round_row(std::uint16_t* out, std::int64_t group, std::int64_t n, std::int64_t h) const;

  Problem problem_;
  const float *in_, *mask_;
  const bfloat16::Kernels& kernels_;
  std::int64_t width_ = 0, window_ = 0;  ///< of a window: columns, numbers
};

/// The gradients of weight and bias.
PlanPointer<float> bfloat16_grad_weight(const Problem& problem, const Arrays<float>& arrays,
                                        const bfloat16::Kernels& kernels);

/// The length of a row in scratch for this many numbers, in whole steps; avoids lengths whose rows collide in the
/// cache.
std::int64_t bfloat16_row(std::int64_t numbers);

/// The floats that this many bfloat16 numbers occupy in scratch, on whole cache lines.
constexpr std::int64_t floats_of(std::int64_t numbers) { return (numbers + 31) / 32 * 16; }
inline std::uint16_t* numbers_at(float* scratch) { return reinterpret_cast<std::uint16_t*>(scratch); }

}  // namespace tern::vectorized::convolution
