#pragma once

#include <compare>

#include "tern/kernels/kernel.hpp"

namespace tern::kernels {

/// in is [outer, size, inner], out [outer, count, inner]; each position has `taps` sources.
struct Resample {
  std::int64_t outer = 1, size = 0, count = 0, inner = 1, taps = 1;
  auto operator<=>(const Resample&) const = default;

  using Members = MemberList<&Resample::outer, &Resample::size, &Resample::count, &Resample::inner, &Resample::taps>;
};

/// Elements between others along one dimension, in float32.
struct Resampling {
  /// out[o, j, i] is the sum of weight[j, k] * in[o, index[j, k], i] over the taps k in their order, each product and
  /// each sum rounded. Without `weight` there is one tap, and it is copied. Every index is in [0, size).
  Kernel<void(Context&, float* out, const float* in, const std::int64_t* index, const float* weight, const Resample&)>
      resample;

  using Members = MemberList<&Resampling::resample>;
};

}  // namespace tern::kernels
