#pragma once

#include "tern/kernels/activation.hpp"
#include "tern/kernels/arithmetic.hpp"
#include "tern/kernels/conv.hpp"
#include "tern/kernels/dot.hpp"
#include "tern/kernels/loss.hpp"
#include "tern/kernels/movement.hpp"
#include "tern/kernels/normalization.hpp"
#include "tern/kernels/pooling.hpp"
#include "tern/kernels/reduction.hpp"
#include "tern/kernels/shape.hpp"
#include "tern/kernels/update.hpp"

namespace tern::kernels {

/// The dispatch table of one compute dtype: one member per family.
template <class T>
struct Operators {
  Arithmetic<T> arithmetic;
  Dot<T> dot;
  Conv<T> conv;
  Activations<T> activation;
  Pooling<T> pooling;
  Reduction<T> reduction;
  Loss<T> loss;
  Normalization<T> normalization;
  Shape<T> shape;
  Update<T> update;
  /// Whether Conv, Pooling and Normalization take channels-last arrays; others are converted by the caller.
  bool channels_last = false;
};

}  // namespace tern::kernels
