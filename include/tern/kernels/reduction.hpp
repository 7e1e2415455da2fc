#pragma once

#include "tern/kernels/activation.hpp"

namespace tern::kernels {

/// Reductions of [outer, length, inner] along `length` into [outer, inner].
template <class T>
struct Reduction {
  /// An empty sum is 0; an empty mean is NaN.
  Kernel<void(Context&, T*out, const T*in, const Axis&)> sum, mean;
  /// sum((in - mean)^2) / (length - correction); NaN when length <= correction. It is computed around the mean, and
  /// corrected for the rounding of a mean far from 0.
  Kernel<void(Context&, T* out, const T* in, const Axis&, std::int64_t correction)> var;
  /// grad_in = grad_out * 2 (in - mean) / (length - correction).
  Kernel<void(Context&, T* grad_in, const T* grad_out, const T* in, const Axis&, std::int64_t correction)> var_backward;

  /// The first largest (smallest) element and its position along `length`; the first NaN wins. length > 0. Either
  /// output may be null.
  using Extreme = Kernel<void(Context&, T* out, std::int64_t* index, const T* in, const Axis&)>;
  Extreme max, min;
  /// grad_in is zero except for grad_out at `index`.
  Kernel<void(Context&, T* grad_in, const T* grad_out, const std::int64_t* index, const Axis&)> extreme_backward;

  using Members = MemberList<&Reduction::sum, &Reduction::mean, &Reduction::var, &Reduction::var_backward,
                             &Reduction::max, &Reduction::min, &Reduction::extreme_backward>;
};

}  // namespace tern::kernels
