#pragma once
// The gradients of a layer's weight and bias. In mixed precision both were rounded to 16 bits for it, and their
// gradients need no rounding.

#include "operators/support.hpp"

namespace tern::operators {

/// What a layer records in the place of its weight and its bias.
struct LayerParameters {
  Tensor weight, bias;
  bool wide;  ///< they are the float32 leaves that were rounded for the layer, and so are their gradients

  LayerParameters(const Tensor& own_weight, const Tensor& own_bias)
      : weight(autograd::unrounded(own_weight)), bias(autograd::unrounded(own_bias)) {
    const auto rounded = [](const Tensor& own, const Tensor& from) { return !needs(own) || !own.is(from); };
    wide = (needs(own_weight) || needs(own_bias)) && rounded(own_weight, weight) && rounded(own_bias, bias);
    if (!wide) weight = own_weight, bias = own_bias;
  }
};

/// Gradients of a layer's parameters while a kernel computes them: in float32 if they are wide and it can.
class ParameterGradients {
 public:
  /// `dtype`: the layer's.
  ParameterGradients(const char* op, DType dtype, bool wide) : dtype_(wide ? scalar_of(dtype) : dtype), made_(dtype) {
    if (!wide) return;
    where_it_runs(op, [&] {
      with_type(op, dtype, [&]<class T>() {
        const Call<T> call;
        if (std::is_same_v<T, Scalar<T>> || call.table().wide_parameters) made_ = dtype_;
      });
    });
  }

  Tensor make(bool needed, const Shape& shape) const { return needed ? Tensor(shape, made_) : Tensor{}; }
  /// The sizes of the kernel's call.
  template <class T, class Sizes>
  Sizes sizes(Sizes of_layer) const {
    of_layer.wide_parameters = wide<T>();
    return of_layer;
  }
  /// Where the kernel writes one of them.
  template <class T>
  T* out(const Call<T>& call, Tensor& gradient) const {
    return wide<T>() ? reinterpret_cast<T*>(call.scalars_out(gradient)) : call.out(gradient);
  }
  /// One of them as backward passes it on.
  Tensor finished(const Tensor& gradient) const { return gradient.defined() ? gradient.to(dtype_) : Tensor{}; }

 private:
  template <class T>
  bool wide() const {
    return !std::is_same_v<T, Scalar<T>> && made_ == dtype_of<Scalar<T>>;
  }

  DType dtype_, made_;
};

}  // namespace tern::operators
