#pragma once
// Small dense matrices on the host, row by row.

#include <cstdint>
#include <vector>

namespace tern::operators::host {

struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> elements = {};

  Matrix(std::int64_t m, std::int64_t n) : rows(m), columns(n), elements(static_cast<std::size_t>(m * n), 0) {}
  double& operator()(std::int64_t i, std::int64_t j) { return elements[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>(i * columns + j)];
  }
};

double determinant(Matrix a);
/// The matrix of the cofactors, also of a singular one.
Matrix cofactors(const Matrix& a);
/// False if it is singular.
bool inverted(Matrix a, Matrix& inverse);
/// False if it is not positive definite; the lower triangle.
bool factored(const Matrix& a, Matrix& lower);
/// Q [m, k] and R [k, n].
void orthogonalised(const Matrix& a, Matrix& q, Matrix& r);
/// U [m, k], S [1, k] and V^T [k, n].
void decomposed(const Matrix& a, Matrix& u, Matrix& s, Matrix& v);

}  // namespace tern::operators::host
