#include "operators/linalg_host.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tern::operators::host {

namespace {

// The row from `column` on with the largest element there.
std::int64_t pivot_of(const Matrix& a, std::int64_t column) {
  std::int64_t best = column;
  for (std::int64_t i = column + 1; i < a.rows; ++i)
    if (std::abs(a(i, column)) > std::abs(a(best, column))) best = i;
  return best;
}

void swap_rows(Matrix& a, std::int64_t i, std::int64_t j) {
  if (i == j) return;
  for (std::int64_t k = 0; k < a.columns; ++k) std::swap(a(i, k), a(j, k));
}

Matrix transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) result(j, i) = a(i, j);
  return result;
}

// The largest element of a column from a row on: what is divided by it has squares within the range.
double top_of(const Matrix& a, std::int64_t column, std::int64_t from = 0) {
  double top = 0;
  for (std::int64_t i = from; i < a.rows; ++i) top = std::max(top, std::abs(a(i, column)));
  return top;
}

}  // namespace

double determinant(Matrix a) {
  double result = 1;
  for (std::int64_t k = 0; k < a.rows; ++k) {
    const std::int64_t best = pivot_of(a, k);
    if (a(best, k) == 0) return 0;
    if (best != k) result = -result;
    swap_rows(a, k, best);
    result *= a(k, k);
    for (std::int64_t i = k + 1; i < a.rows; ++i) {
      const double factor = a(i, k) / a(k, k);
      for (std::int64_t j = k; j < a.rows; ++j) a(i, j) -= factor * a(k, j);
    }
  }
  return result;
}

Matrix cofactors(const Matrix& a) {
  // det(U V^T) U diag(product of the other singular values) V^T: as accurate where a is nearly singular.
  const std::int64_t n = a.rows;
  Matrix u(0, 0), s(0, 0), v(0, 0), result(n, n);
  decomposed(a, u, s, v);
  const double sign = std::round(determinant(u) * determinant(v));
  for (std::int64_t k = 0; k < n; ++k) {
    double others = sign;
    for (std::int64_t i = 0; i < n; ++i)
      if (i != k) others *= s(0, i);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) result(i, j) += others * u(i, k) * v(k, j);
  }
  return result;
}

bool inverted(Matrix a, Matrix& inverse) {
  inverse = Matrix(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) inverse(i, i) = 1;
  for (std::int64_t k = 0; k < a.rows; ++k) {
    const std::int64_t best = pivot_of(a, k);
    if (a(best, k) == 0) return false;
    swap_rows(a, k, best);
    swap_rows(inverse, k, best);
    const double pivot = a(k, k);
    for (std::int64_t j = 0; j < a.rows; ++j) a(k, j) /= pivot, inverse(k, j) /= pivot;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      const double factor = a(i, k);
      if (i == k || factor == 0) continue;
      for (std::int64_t j = 0; j < a.rows; ++j) {
        a(i, j) -= factor * a(k, j);
        inverse(i, j) -= factor * inverse(k, j);
      }
    }
  }
  return true;
}

bool factored(const Matrix& a, Matrix& lower) {
  lower = Matrix(a.rows, a.rows);
  for (std::int64_t j = 0; j < a.rows; ++j) {
    double square = a(j, j);
    for (std::int64_t k = 0; k < j; ++k) square -= lower(j, k) * lower(j, k);
    if (std::isnan(square) || square <= 0) return false;
    lower(j, j) = std::sqrt(square);
    for (std::int64_t i = j + 1; i < a.rows; ++i) {
      double sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= lower(i, k) * lower(j, k);
      lower(i, j) = sum / lower(j, j);
    }
  }
  return true;
}

void orthogonalised(const Matrix& a, Matrix& q, Matrix& r) {
  const std::int64_t m = a.rows, n = a.columns, count = std::min(m, n);
  Matrix work = a;
  std::vector<std::vector<double>> reflections;
  for (std::int64_t k = 0; k < count; ++k) {
    std::vector<double> v(static_cast<std::size_t>(m), 0);
    double rest = 0;
    const double top = top_of(work, k, k);
    for (std::int64_t i = k; i < m; ++i) v[static_cast<std::size_t>(i)] = top > 0 ? work(i, k) / top : work(i, k);
    const double first = v[static_cast<std::size_t>(k)];
    for (std::int64_t i = k + 1; i < m; ++i) rest += v[static_cast<std::size_t>(i)] * v[static_cast<std::size_t>(i)];
    if (rest == 0) std::ranges::fill(v, 0);  // the column is done, and keeps its sign, as in LAPACK
    if (rest > 0) {
      const double size = std::sqrt(rest + first * first);
      v[static_cast<std::size_t>(k)] += first < 0 ? -size : size;
      double square = 0;
      for (const double each : v) square += each * each;
      for (double& each : v) each *= std::sqrt(2 / square);
      for (std::int64_t j = k; j < n; ++j) {
        double dot = 0;
        for (std::int64_t i = k; i < m; ++i) dot += v[static_cast<std::size_t>(i)] * work(i, j);
        for (std::int64_t i = k; i < m; ++i) work(i, j) -= dot * v[static_cast<std::size_t>(i)];
      }
    }
    reflections.push_back(std::move(v));
  }
  r = Matrix(count, n);
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = i; j < n; ++j) r(i, j) = work(i, j);
  q = Matrix(m, count);
  for (std::int64_t i = 0; i < count; ++i) q(i, i) = 1;
  for (std::int64_t k = count; k-- > 0;)
    for (std::int64_t j = 0; j < count; ++j) {
      const std::vector<double>& v = reflections[static_cast<std::size_t>(k)];
      double dot = 0;
      for (std::int64_t i = k; i < m; ++i) dot += v[static_cast<std::size_t>(i)] * q(i, j);
      for (std::int64_t i = k; i < m; ++i) q(i, j) -= dot * v[static_cast<std::size_t>(i)];
    }
}

void decomposed(const Matrix& a, Matrix& u, Matrix& s, Matrix& v) {
  if (a.rows < a.columns) {
    Matrix left(0, 0), right(0, 0);
    decomposed(transposed(a), left, s, right);
    u = transposed(right);
    v = transposed(left);
    return;
  }
  // Rotates pairs of columns until all are orthogonal; then their sizes are the singular values.
  const std::int64_t m = a.rows, n = a.columns;
  Matrix work = a, turned(n, n);
  for (std::int64_t i = 0; i < n; ++i) turned(i, i) = 1;
  bool done = false;
  for (int sweep = 0; sweep < 60 && !done; ++sweep) {
    done = true;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        double first = 0, second = 0, common = 0;
        const double left_top = top_of(work, p), right_top = top_of(work, q);
        if (left_top == 0 || right_top == 0) continue;
        for (std::int64_t i = 0; i < m; ++i) {
          const double left = work(i, p) / left_top, right = work(i, q) / right_top;
          first += left * left;
          second += right * right;
          common += left * right;
        }
        if (!(std::abs(common) > 1e-15 * std::sqrt(first * second))) continue;
        done = false;
        const double ratio = right_top / left_top;
        const double zeta = (second * ratio - first / ratio) / (2 * common);
        const double t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::sqrt(1 + zeta * zeta));
        const double cosine = 1 / std::sqrt(1 + t * t), sine = cosine * t;
        const auto rotate = [&](Matrix& of, std::int64_t rows) {
          for (std::int64_t i = 0; i < rows; ++i) {
            const double left = of(i, p), right = of(i, q);
            of(i, p) = cosine * left - sine * right;
            of(i, q) = sine * left + cosine * right;
          }
        };
        rotate(work, m);
        rotate(turned, n);
      }
  }
  std::vector<double> sizes(static_cast<std::size_t>(n), 0);
  for (std::int64_t j = 0; j < n; ++j) {
    double& size = sizes[static_cast<std::size_t>(j)];
    const double top = top_of(work, j);
    for (std::int64_t i = 0; i < m; ++i) size += top > 0 ? work(i, j) / top * (work(i, j) / top) : work(i, j);
    size = std::sqrt(size) * (top > 0 ? top : 1);
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](std::int64_t i, std::int64_t j) {
    return sizes[static_cast<std::size_t>(i)] > sizes[static_cast<std::size_t>(j)];
  });
  u = Matrix(m, n), s = Matrix(1, n), v = Matrix(n, n);
  for (std::int64_t j = 0; j < n; ++j) {
    const std::int64_t from = order[static_cast<std::size_t>(j)];
    const double size = sizes[static_cast<std::size_t>(from)];
    s(0, j) = size;
    for (std::int64_t i = 0; i < m; ++i) u(i, j) = size > 0 ? work(i, from) / size : 0;
    for (std::int64_t i = 0; i < n; ++i) v(j, i) = turned(i, from);
  }
  // Columns of U for singular values of 0: what is left of the unit vectors beside the others.
  for (std::int64_t j = 0; j < n; ++j) {
    if (s(0, j) > 0) continue;
    for (std::int64_t unit = 0; unit < m; ++unit) {
      std::vector<double> column(static_cast<std::size_t>(m), 0);
      column[static_cast<std::size_t>(unit)] = 1;
      for (int again = 0; again < 2; ++again)
        for (std::int64_t k = 0; k < n; ++k) {
          if (k >= j && s(0, k) == 0) continue;
          double dot = 0;
          for (std::int64_t i = 0; i < m; ++i) dot += u(i, k) * column[static_cast<std::size_t>(i)];
          for (std::int64_t i = 0; i < m; ++i) column[static_cast<std::size_t>(i)] -= dot * u(i, k);
        }
      double square = 0;
      for (const double each : column) square += each * each;
      if (square < 0.5 / static_cast<double>(m)) continue;
      for (std::int64_t i = 0; i < m; ++i) u(i, j) = column[static_cast<std::size_t>(i)] / std::sqrt(square);
      break;
    }
  }
}

}  // namespace tern::operators::host
