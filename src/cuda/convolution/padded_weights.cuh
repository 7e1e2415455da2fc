#pragma once
// Weights of padded.cu: copies between the caller's [groups outputs, inputs, taps] and those with other channels, which
// have zeros behind the channels of each group. Elements may be converted.

#include "cuda/convolution/problem.cuh"

namespace tern::cuda::convolution {

/// `to` has the channels of one problem, `from` those of the other.
template <class To, class From>
void copy_weight(const Context& context, To* to, const From* from, const Problem& one, const Problem& other);

/// Whether the following copies run: to and from the order of engines.
bool orders_weight(const Problem& lanes);
/// [outputs, taps, inputs] in lanes from the caller's, and back for a gradient.
template <class To, class From>
void order_weight(const Context& context, To* to, const From* weight, const Problem& p, const Problem& lanes);
template <class To, class From>
void restore_weight(const Context& context, To* weight, const From* from, const Problem& p, const Problem& lanes);
/// [inputs, taps backwards, outputs] in lanes from the caller's, without groups.
template <class To, class From>
void flip_weight(const Context& context, To* to, const From* weight, const Problem& p, const Problem& lanes);

}  // namespace tern::cuda::convolution
