#pragma once

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// Windows over `planes` planes [H, W] (planes = N * C); outputs are [OH, OW]. With channels > 1 the arrays are
/// channels last: [planes / channels, H, W, channels]. With `ceil_mode` the caller has rounded OH and OW up and dropped
/// windows that would start in the right or bottom padding.
struct Pool2d {
  std::int64_t planes = 0, H = 0, W = 0, OH = 0, OW = 0;
  std::int64_t KH = 1, KW = 1, stride_h = 1, stride_w = 1, pad_h = 0, pad_w = 0, dilation_h = 1, dilation_w = 1;
  bool count_include_pad = true;  ///< average only
  std::int64_t channels = 1;      ///< 1: planes are stored one after another

  using Members = MemberList<&Pool2d::planes, &Pool2d::H, &Pool2d::W, &Pool2d::OH, &Pool2d::OW, &Pool2d::KH,
                             &Pool2d::KW, &Pool2d::stride_h, &Pool2d::stride_w, &Pool2d::pad_h, &Pool2d::pad_w,
                             &Pool2d::dilation_h, &Pool2d::dilation_w, &Pool2d::count_include_pad, &Pool2d::channels>;
};

/// Adaptive average: output i covers rows [floor(i H / OH), ceil((i + 1) H / OH)); columns likewise.
struct AdaptivePool2d {
  std::int64_t planes = 0, H = 0, W = 0, OH = 0, OW = 0;
  std::int64_t channels = 1;  ///< as in Pool2d

  using Members = MemberList<&AdaptivePool2d::planes, &AdaptivePool2d::H, &AdaptivePool2d::W, &AdaptivePool2d::OH,
                             &AdaptivePool2d::OW, &AdaptivePool2d::channels>;
};

/// Pooling.
template <class T>
struct Pooling {
  /// Pads with -infinity. The first maximum in row order wins; the first NaN wins over everything. `index` receives the
  /// winner's position kh * KW + kw in its window, one byte (KH * KW <= 256). It is null when no gradient will be
  /// requested.
  Kernel<void(Context&, T* out, std::uint8_t* index, const T* in, const Pool2d&)> max_pool2d;
  /// Overwrites grad_in: each grad_out goes to its winner; overlapping windows add up.
  Kernel<void(Context&, T* grad_in, const T* grad_out, const std::uint8_t* index, const Pool2d&)> max_pool2d_backward;

  /// The sum of the window divided by KH * KW clipped to the padded plane (count_include_pad), or by the number of
  /// elements inside the plane. Dilation is 1.
  Kernel<void(Context&, T* out, const T* in, const Pool2d&)> avg_pool2d;
  Kernel<void(Context&, T* grad_in, const T* grad_out, const Pool2d&)> avg_pool2d_backward;

  Kernel<void(Context&, T* out, const T* in, const AdaptivePool2d&)> adaptive_avg_pool2d;
  Kernel<void(Context&, T* grad_in, const T* grad_out, const AdaptivePool2d&)> adaptive_avg_pool2d_backward;

  using Members =
      MemberList<&Pooling::max_pool2d, &Pooling::max_pool2d_backward, &Pooling::avg_pool2d,
                 &Pooling::avg_pool2d_backward, &Pooling::adaptive_avg_pool2d, &Pooling::adaptive_avg_pool2d_backward>;
};

}  // namespace tern::kernels
