// Linear algebra of small matrices: values on the host, gradients by products.

#include "tern/operators/linalg.hpp"

#include "operators/composed.hpp"
#include "operators/linalg_host.hpp"
#include "operators/traced.hpp"
#include "tern/operators/dot.hpp"
#include "tern/operators/reduction.hpp"
#include "tern/operators/shape.hpp"

namespace tern::operators {

namespace {

using host::Matrix;

void check_matrices(const char* op, const Tensor& x, bool square) {
  check_floating(op, "the input", x);
  expects<ShapeError>(x.rank() >= 2 && (!square || x.size(-1) == x.size(-2)), op, ": input ", x.shape(),
                      square ? ", expected square matrices [..., n, n]" : ", expected [..., m, n]");
}

// The matrices of x, one after the other.
std::vector<Matrix> matrices_of(const Tensor& x) {
  const std::vector<double> elements = x.detach().to(DType::float64).to_vector<double>();
  const std::int64_t each = x.size(-1) * x.size(-2), count = each == 0 ? 0 : x.numel() / each;
  std::vector<Matrix> all;
  for (std::int64_t i = 0; i < count; ++i) {
    Matrix one(x.size(-2), x.size(-1));
    std::copy_n(elements.begin() + i * each, each, one.elements.begin());
    all.push_back(std::move(one));
  }
  return all;
}

// [..., shape] of x's leading dimensions and of what each matrix became.
Tensor joined(const Tensor& x, const std::vector<Matrix>& results, const Shape& each) {
  Shape shape(x.shape().begin(), x.shape().end() - 2);
  for (const std::int64_t size : each) shape.push_back(size);
  std::vector<double> elements;
  for (const Matrix& one : results) elements.insert(elements.end(), one.elements.begin(), one.elements.end());
  elements.resize(static_cast<std::size_t>(element_count(shape)), 0);
  return tensor(elements, shape).to(x.dtype());
}

Tensor flipped(const Tensor& x) { return transpose(x, -1, -2); }

Tensor inverse_of(const char* op, const Tensor& x) {
  std::vector<Matrix> results = matrices_of(x);
  for (std::size_t i = 0; i < results.size(); ++i)
    expects<NumericError>(host::inverted(Matrix(results[i]), results[i]), op, ": matrix ", i, " of ", x.shape(),
                          " is singular");
  return joined(x, results, {x.size(-2), x.size(-1)});
}

}  // namespace

Tensor det(const Tensor& x) {
  if (traces()) return traced("det", x);
  check_matrices("det", x, true);
  return in_scalars("det", x, [&](const Tensor& wide) {
    std::vector<Matrix> results;
    for (const Matrix& one : matrices_of(wide)) {
      results.emplace_back(1, 1);
      results.back()(0, 0) = host::determinant(one);
    }
    Tensor out = joined(wide, results, {});
    if (wide.size(-1) == 0) out.fill_(1);
    if (recording(wide))
      record("det", out, {wide}, [x = Saved(wide)](const Tensor& grad) {
        std::vector<Matrix> all = matrices_of(x.get());
        for (Matrix& one : all) one = host::cofactors(one);
        const std::int64_t n = x.get().size(-1);
        return Gradients{mul(joined(x.get(), all, {n, n}), grad.unsqueeze(-1).unsqueeze(-1))};
      });
    return out;
  });
}

Tensor inverse(const Tensor& x) {
  if (traces()) return traced("inverse", x);
  check_matrices("inverse", x, true);
  return in_scalars("inverse", x, [](const Tensor& wide) {
    Tensor out = inverse_of("inverse", wide);
    if (recording(wide))
      record("inverse", out, {wide}, [out = Saved(out)](const Tensor& grad) {
        const Tensor turned = flipped(out.get());
        return Gradients{neg(matmul(matmul(turned, grad), turned))};
      });
    return out;
  });
}

Tensor solve(const Tensor& a, const Tensor& b) {
  if (traces()) return traced("solve", a, b);
  check_dtypes("solve", a, b);
  check_matrices("solve", a, true);
  const bool vector = b.rank() == 1;
  expects<ShapeError>(b.rank() >= 1 && (vector ? a.rank() == 2 && b.size(0) == a.size(-1) : b.size(-2) == a.size(-1)),
                      "solve: b ", b.shape(), " for matrices ", a.shape(), ", expected [..., ", a.size(-1), ", k]");
  return in_scalars("solve", a, b, [&](const Tensor& wide, const Tensor& right) {
    const Unshortened unshortened(a.dtype());
    Tensor left = inverse_of("solve", wide);
    if (recording(wide))
      record("solve", left, {wide}, [out = Saved(left)](const Tensor& grad) {
        const Tensor turned = flipped(out.get());
        return Gradients{neg(matmul(matmul(turned, grad), turned))};
      });
    return matmul(left, right);
  });
}

Tensor cholesky(const Tensor& x) {
  if (traces()) return traced("cholesky", x);
  check_matrices("cholesky", x, true);
  return in_scalars("cholesky", x, [](const Tensor& wide) {
    std::vector<Matrix> results = matrices_of(wide);
    for (std::size_t i = 0; i < results.size(); ++i)
      expects<NumericError>(host::factored(Matrix(results[i]), results[i]), "cholesky: matrix ", i, " of ",
                            wide.shape(), " is not positive definite");
    Tensor out = joined(wide, results, {wide.size(-1), wide.size(-1)});
    if (recording(wide))
      record("cholesky", out, {wide}, [out = Saved(out)](const Tensor& grad) {
        // L^-T P(L^T grad) L^-1, where P keeps the lower triangle and half of the diagonal; symmetric, as x is.
        const Tensor lower = out.get(), inner = tril(matmul(flipped(lower), grad));
        const Tensor half = sub(inner, mul(sub(inner, tril(inner, -1)), 0.5));
        const Tensor back = inverse_of("cholesky", lower);
        const Tensor whole = matmul(matmul(flipped(back), half), back);
        return Gradients{mul(add(whole, flipped(whole)), 0.5)};
      });
    return out;
  });
}

std::vector<Tensor> qr(const Tensor& x) {
  if (traces()) return traced<std::vector<Tensor>>("qr", x);
  check_matrices("qr", x, false);
  const Tensor wide = x.to(scalar_of(x.dtype()));
  const std::int64_t m = x.size(-2), n = x.size(-1), count = std::min(m, n);
  std::vector<Matrix> left, right;
  for (const Matrix& one : matrices_of(wide)) {
    left.emplace_back(m, count);
    right.emplace_back(count, n);
    host::orthogonalised(one, left.back(), right.back());
  }
  std::vector<Tensor> outs{joined(wide, left, {m, count}), joined(wide, right, {count, n})};
  if (recording(wide))
    autograd::record_all("qr", outs, wide, [m, n, q = Saved(outs[0]), r = Saved(outs[1])](const Gradients& grads) {
      expects<AutogradError>(m >= n, "qr: a gradient of ", m, 'x', n, " matrices; they need as many rows as columns");
      // (dQ + Q S) R^-T with S = M where M is lower, mirrored, M = R dR^T - dQ^T Q.
      const Tensor zero = number_like(q.get(), 0);
      const Tensor from_q = grads[0].defined() ? grads[0] : zero.expand(q.get().shape()),
                   from_r = grads[1].defined() ? grads[1] : zero.expand(r.get().shape());
      const Tensor middle = sub(matmul(r.get(), flipped(from_r)), matmul(flipped(from_q), q.get()));
      const Tensor symmetric = add(tril(middle), flipped(tril(middle, -1)));
      const Tensor inner = add(from_q, matmul(q.get(), symmetric));
      return matmul(inner, flipped(inverse_of("qr", r.get())));
    });
  for (Tensor& out : outs) out = out.to(x.dtype());
  return outs;
}

std::vector<Tensor> svd(const Tensor& x) {
  if (traces()) return traced<std::vector<Tensor>>("svd", x);
  check_matrices("svd", x, false);
  const Tensor wide = x.to(scalar_of(x.dtype()));
  const std::int64_t m = x.size(-2), n = x.size(-1), count = std::min(m, n);
  std::vector<Matrix> left, values, right;
  for (const Matrix& one : matrices_of(wide)) {
    left.emplace_back(m, count);
    values.emplace_back(1, count);
    right.emplace_back(count, n);
    host::decomposed(one, left.back(), values.back(), right.back());
  }
  std::vector<Tensor> outs{joined(wide, left, {m, count}), joined(wide, values, {count}),
                           joined(wide, right, {count, n})};
  if (recording(wide))
    autograd::record_all("svd", outs, wide, [u = Saved(outs[0]), v = Saved(outs[2])](const Gradients& grads) {
      expects<AutogradError>(!grads[0].defined() && !grads[2].defined(),
                             "svd: only the singular values have a gradient; detach U and V^T");
      return matmul(mul(u.get(), grads[1].unsqueeze(-2)), v.get());
    });
  for (Tensor& out : outs) out = out.to(x.dtype());
  return outs;
}

}  // namespace tern::operators
