#pragma once

#include "cuda/support.cuh"
#include "tern/kernels/activation.hpp"

namespace tern::cuda {

// Slots of kernels::Activations.
template <class T>
void softmax(Context& context, T* out, const T* in, const kernels::Axis& axis);
template <class T>
void softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const kernels::Axis& axis);
template <class T>
void log_softmax(Context& context, T* out, const T* in, const kernels::Axis& axis);
template <class T>
void log_softmax_backward(Context& context, T* grad_in, const T* grad_out, const T* out, const kernels::Axis& axis);

}  // namespace tern::cuda
