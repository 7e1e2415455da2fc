#pragma once
// Convolutions channels last, by cuDNN, our implicit products and matrix products, with the weights, and where it pays
// the images, packed for them.

#include <array>
#include <compare>

#include "cuda/choice.cuh"
#include "cuda/conv_packed.cuh"
#include "cuda/conv_plans.cuh"
#include "cuda/fused_rows.cuh"
#include "cuda/library.cuh"

namespace tern::cuda {

/// Everything that a choice about one of these convolutions may read: all sizes, and the arrays that it was given.
struct ConvKey {
  Half half;
  std::array<std::int64_t, 18> sizes;
  Precision precision;
  std::array<std::uint32_t, 7> arrays;  ///< alignment_of each
  auto operator<=>(const ConvKey&) const = default;
};

template <class... Arrays>
ConvKey key_of(const Context& context, const Conv2d& shape, Half half, const Arrays*... arrays) {
  // A new member of Conv2d does not compile before it is here.
  const auto& [N, C, H, W, O, KH, KW, OH, OW, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
               activation, y_channels, layout] = shape;
  static_cast<void>(layout);  // channels last
  return {half,
          {N, C, H, W, O, KH, KW, OH, OW, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups,
           static_cast<std::int64_t>(activation), y_channels},
          context.precision,
          {alignment_of(arrays)...}};
}

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
  /// Whether grad_x is a forward convolution of g with the turned weight, and which.
  bool turns() const;
  ConvProblem turned() const;
  void run(const ConvProblem& asked, void* x, void* weight, void* y, const float* bias = nullptr) {
    const ConvPlan plan = conv_plan(context, asked, x, weight, y, bias);
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
  static const char* name_of(Pass pass) {
    switch (pass) {
      case Pass::engine:
        return "finished";
      case Pass::product:
        return "product";
      case Pass::implicit:
        return "implicit";
      default:
        return library_built() ? "library" : "implicit";
    }
  }
  /// What a pass works on: the caller's arrays, or packed ones.
  struct Arrays {
    T *image, *filter;
    float* y;
    const float* bias;
  };
  bool can(Pass pass, const ConvProblem& finished, const Arrays& on);
  Pass choose_pass(const ConvProblem& finished, const ConvKey& key, const Arrays& on);
  void run_pass(Pass pass, const ConvProblem& finished, const Arrays& on);
  void in_two_passes(const Arrays& on);

  kernels::Matmul product_shape() const { return {.m = rows().count, .n = shape.O, .k = shape.C, .transpose_b = true}; }
  LibraryPlan product_plan(const Arrays& on);
};

}  // namespace tern::cuda
