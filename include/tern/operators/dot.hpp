#pragma once

#include "tern/core/member_list.hpp"
#include "tern/operators/activation.hpp"

namespace tern::operators {

struct MatmulOptions {
  bool transpose_a = false, transpose_b = false;

  using Members = MemberList<&MatmulOptions::transpose_a, &MatmulOptions::transpose_b>;
};

/// Matrix product of [..., m, k] and [..., k, n]; leading dimensions broadcast. A 1-D factor is a row (left) or a
/// column (right), whose extra dimension is dropped from the result. A transposed factor is passed as [..., k, m] or
/// [..., n, k].
Tensor matmul(const Tensor& a, const Tensor& b, const MatmulOptions& options = {});

/// matmul under the name that the course projects use.
Tensor dot(const Tensor& a, const Tensor& b);

/// activation(x weight^T + bias) in one kernel: x [..., in], weight [out, in], bias [out] or undefined, result [...,
/// out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Activation activation = Activation::none);

}  // namespace tern::operators
