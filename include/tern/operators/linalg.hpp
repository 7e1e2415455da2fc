#pragma once

#include <vector>

#include "tern/tensor/tensor.hpp"

namespace tern::operators {

// Small matrices x [..., n, n], each on its own, as torch.linalg. They are computed on the host in float64 and rounded
// once, in every mode; so they wait for the device. Floating dtypes.

/// The determinant of each: [...]. The gradient of singular matrices is that of their cofactors.
Tensor det(const Tensor& x);
/// The inverse of each. Throws NumericError for a singular one.
Tensor inverse(const Tensor& x);
/// The X with a X = b: a [..., n, n] and b [..., n, k], or [n] for one matrix; the others broadcast. Throws
/// NumericError for a singular a.
Tensor solve(const Tensor& a, const Tensor& b);
/// The lower triangular L with L L^T = x for symmetric, positive definite x, of which the lower half is read. Throws
/// NumericError if it is none.
Tensor cholesky(const Tensor& x);
/// {Q, R} with Q R = x [..., m, n], Q [..., m, k] orthogonal, R [..., k, n] upper triangular, k = min(m, n), by
/// Householder's reflections with LAPACK's signs. The gradient needs m >= n and a full rank.
std::vector<Tensor> qr(const Tensor& x);
/// {U, S, V^T} with U diag(S) V^T = x [..., m, n], singular values S [..., k] from the largest on. Only S has a
/// gradient: U and V are known up to signs alone. By Jacobi's rotations.
std::vector<Tensor> svd(const Tensor& x);

}  // namespace tern::operators
