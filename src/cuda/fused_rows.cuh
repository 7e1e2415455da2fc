#pragma once
// Bias, activation and their gradients in one pass over rows of channels: the rest of the work after a product or a
// channels-last convolution by a library.

#include "cuda/elements.cuh"
#include "cuda/fused.cuh"
#include "cuda/support.cuh"

namespace tern::cuda {

/// Rows of `channels` elements, `pitch` elements apart.
struct Rows {
  std::int64_t count = 0, channels = 0, pitch = 0;
};

/// y = activation(in + bias); only y has a pitch. y may be in if the pitch is `channels`. `bias` may be null. Channels
/// and pitch are multiples of 4.
template <class Out, class In>
void finish_rows(const Context& context, Out* y, const In* in, const Out* bias, const Rows& rows,
                 Activation activation);

/// g = grad_y * activation'(y), unless g is null, and its sums over the rows in `partials` [slices, channels], unless
/// null. grad_y and y have a pitch; g has rows of `g_pitch` elements (0: of `channels`), with zeros behind the
/// channels.
template <class Out, class In>
void through_rows(const Context& context, Out* g, float* partials, const In* grad_y, const In* y, const Rows& rows,
                  Activation activation, std::int64_t g_pitch = 0);
/// The largest supported number of channels: 128 per block along the second dimension of a grid.
inline constexpr std::int64_t most_through_channels = std::int64_t{128} * 65535;
std::int64_t row_slices(const Rows& rows);

/// The sums over slices [slices, weights + channels], in order; either gradient may be null.
template <class T>
void sum_slices(const Context& context, T* grad_weight, T* grad_bias, const Scalar<T>* partials, std::int64_t slices,
                std::int64_t weights, std::int64_t channels);

/// The same for a bias of 16 bits, whose gradient is an array of float32 if it is `wide`.
template <class T>
void sum_bias(const Context& context, T* grad_bias, bool wide, const float* partials, std::int64_t slices,
              std::int64_t channels) {
  if (wide)
    sum_slices<float>(context, nullptr, reinterpret_cast<float*>(grad_bias), partials, slices, 0, channels);
  else
    sum_slices<T>(context, nullptr, grad_bias, partials, slices, 0, channels);
}

}  // namespace tern::cuda
