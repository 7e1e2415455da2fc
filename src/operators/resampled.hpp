#pragma once
// Elements between others along one dimension, in modes that have a kernel for it (Mode::resampling).

#include <functional>
#include <string>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

/// Whether the mode that runs `op` computes x so: float32, and no gradient is recorded.
bool resamples(const char* op, const Tensor& x);

/// The elements beside each place of a dimension, with their weights: [count, taps] each.
struct Taps {
  Tensor index, weight;  ///< int64 within bounds, float32
};
/// make(), which depends on what `key` says alone. A device's mode, where it would be many short kernels, keeps the
/// result for the thread's next calls.
Taps kept_taps(const std::string& key, const std::function<Taps()>& make);

/// Along `dim`, position j is the sum of weight[j, k] times the element at index[j, k] over the taps k; index
/// [count, taps] int64 within bounds, weight the same in float32, or undefined with one tap: the element itself.
/// Channels-last images of many channels stay so.
Tensor resampled(const char* op, const Tensor& x, int dim, const Tensor& index, const Tensor& weight);

}  // namespace tern::operators
