#pragma once
// The ways to convolve, and what they share. Gradients arrive here already taken through the activation.

#include "cuda/elementwise.cuh"
#include "tern/kernels/conv.hpp"

namespace tern::cuda {

using kernels::Conv2d;

// The weight's gradient is summed in `slices` of the images (or positions): each gives one partial gradient of the
// weight followed by one of the bias, and sum_slices adds them in order.

// ---- any shape: implicit matrix products (conv_general.cu) ----

template <class T>
void general_conv2d(const Context& context, T* y, const T* x, const T* weight, const T* bias, const Conv2d& shape);
template <class T>
void general_grad_x(const Context& context, cudaStream_t stream, T* grad_x, const T* g, const T* weight,
                    const Conv2d& shape);
std::int64_t general_slices(const Conv2d& shape);
template <class T>
void general_grad_weight(const Context& context, T* partials, const T* g, const T* x, std::int64_t slices,
                         const Conv2d& shape);

// ---- small planes, stride 1: whole planes in shared memory (conv_direct.cu) ----

bool direct_conv2d_fits(const Conv2d& shape);
void direct_conv2d(const Context& context, float* y, const float* x, const float* weight, const float* bias,
                   const Conv2d& shape);
bool direct_grad_x_fits(const Conv2d& shape);
void direct_grad_x(const Context& context, cudaStream_t stream, float* grad_x, const float* g, const float* weight,
                   const Conv2d& shape);
bool direct_grad_weight_fits(const Conv2d& shape);
std::int64_t direct_slices(const Conv2d& shape);
void direct_grad_weight(const Context& context, float* partials, const float* g, const float* x, std::int64_t slices,
                        const Conv2d& shape);

// ---- wide layers in channels last: cuDNN, where the build found it (conv_library.cu) ----

bool library_conv2d_fits(const Conv2d& shape);
void library_conv2d(Context& context, float* y, const float* x, const float* weight, const float* bias,
                    const Conv2d& shape);
void library_conv2d_backward(Context& context, float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y,
                             const float* x, const float* weight, const float* y, const Conv2d& shape);

}  // namespace tern::cuda
