#pragma once
// Convolutions by cuDNN: channels last, with the weights, and where it pays the images, packed for its engines.

#include "cuda/conv_packed.cuh"
#include "cuda/conv_plans.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/library.cuh"

namespace tern::cuda {

inline bool aligned(const float* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

/// An array in the element type of the engines: the caller's own where nothing has to change, else scratch.
template <class T>
class Packed {
 public:
  Packed(Context& context, const float* own, std::int64_t count)
      : scratch_(context, own == nullptr ? static_cast<std::size_t>(count) * sizeof(T) : 0),
        data_(own == nullptr ? scratch_.template as<T>() : reinterpret_cast<T*>(const_cast<float*>(own))) {}
  T* data() const { return data_; }

 private:
  Scratch scratch_;
  T* data_;
};

/// The caller's array, or an aligned copy: views may begin anywhere.
class AlignedInput {
 public:
  AlignedInput(Context& context, const float* array, std::int64_t count)
      : copy_(context, aligned(array) ? 0 : static_cast<std::size_t>(count) * sizeof(float)),
        data_(aligned(array) ? array : copy_.as<float>()) {
    if (data_ != array)
      check(cudaMemcpyAsync(copy_.as<void>(), array, static_cast<std::size_t>(count) * sizeof(float),
                            cudaMemcpyDeviceToDevice, stream_of(context)),
            "aligning an array");
  }
  const float* data() const { return data_; }

 private:
  Scratch copy_;
  const float* data_;
};

/// One convolution with engines that read T: float (strict or TF32) or bfloat16.
template <class T>
class LibraryConv {
 public:
  LibraryConv(Context& context, const Conv2d& shape);

  void forward(float* y, const float* x, const float* weight, const float* bias);
  void backward(float* grad_x, float* grad_weight, float* grad_bias, const float* grad_y, const float* x,
                const float* weight, const float* y);

  static constexpr bool is_float = std::is_same_v<T, float>;

  Rows rows() const {
    return {shape.N * shape.OH * shape.OW, shape.O, shape.y_channels == 0 ? shape.O : shape.y_channels};
  }
  /// Whether y is part of a wider tensor.
  bool joined() const { return rows().pitch != shape.O; }
  std::int64_t outputs() const { return rows().count * shape.O; }
  std::int64_t images() const { return shape.N * packing.H * packing.W * packing.channels; }
  std::int64_t weights() const { return shape.O * packing.KH * packing.KW * (packing.channels / shape.groups); }
  /// Whether the packed array has the order of the caller's.
  bool same_image() const { return packing.block == 1 && packing.channels == shape.C; }
  bool same_weight() const { return same_image() && packing.KH * packing.KW == 1; }
  /// Whether the engines take the caller's array as it is.
  bool takes_image(const float* x) const { return is_float && same_image() && aligned(x); }
  bool takes_weight(const float* weight) const { return is_float && same_weight() && aligned(weight); }

  /// A kernel of one element that meets every position once is a matrix product over them.
  bool is_product() const {
    return same_weight() && shape.groups == 1 && shape.stride_h == 1 && shape.stride_w == 1 && shape.pad_h == 0 &&
           shape.pad_w == 0;
  }

  ConvProblem problem(Half half) const;
  void run(const ConvProblem& asked, void* x, void* weight, void* y, const float* bias = nullptr) {
    const ConvPlan& plan = conv_plan(context, asked, x, weight, y, bias);
    const Scratch workspace(context, plan.workspace);
    run_conv(plan, asked, stream_of(context), workspace.as<void>(), x, weight, y, bias);
  }

  Context& context;
  const Conv2d& shape;
  Packing packing;

 private:
  /// What computes a forward pass: an engine of cuDNN and a pass over its outputs for bias and activation, or, all at
  /// once, such an engine, a matrix product, or our implicit product.
  enum class Pass : std::uint8_t { two, engine, product, implicit };
  bool can(Pass pass, const ConvProblem& finished, T* image, T* filter, float* y, const float* bias);
  Pass choose_pass(const ConvProblem& finished, T* image, T* filter, float* y, const float* bias);
  void run_pass(Pass pass, const ConvProblem& finished, T* image, T* filter, float* y, const float* bias);
  void in_two_passes(T* image, T* filter, float* y, const float* bias);

  kernels::Matmul product_shape() const { return {.m = rows().count, .n = shape.O, .k = shape.C, .transpose_b = true}; }
  const LibraryPlan& product_plan(const T* image, const T* filter, float* y, const float* bias);
};

}  // namespace tern::cuda
