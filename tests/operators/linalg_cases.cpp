// Small matrices, each beside what it must solve: products for factors, sums over permutations for determinants.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/catalogue.hpp"
#include "tern/operators/linalg.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

// Leibniz' sum over permutations.
double determinant(const std::function<double(std::int64_t, std::int64_t)>& at, std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  double sum = 0;
  do {
    double product = 1;
    for (std::int64_t i = 0; i < n; ++i) {
      product *= at(i, order[static_cast<std::size_t>(i)]);
      for (std::int64_t j = 0; j < i; ++j)
        if (order[static_cast<std::size_t>(j)] > order[static_cast<std::size_t>(i)]) product = -product;
    }
    sum += product;
  } while (std::ranges::next_permutation(order).found);
  return sum;
}

double determinant_of(const Array& x, std::int64_t matrix, std::int64_t n) {
  return determinant([&](std::int64_t i, std::int64_t j) { return x[(matrix * n + i) * n + j]; }, n);
}

// By cofactors: Cramer's rule.
Array inverted(const Array& x) {
  const std::int64_t n = x.shape.back();
  Array out(x.shape);
  for (std::int64_t m = 0; m < x.size() / (n * n); ++m) {
    const double whole = determinant_of(x, m, n);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        out[(m * n + j) * n + i] =
            ((i + j) % 2 == 0 ? 1 : -1) / whole *
            determinant([&](std::int64_t p, std::int64_t q) { return x[(m * n + p + (p >= i)) * n + q + (q >= j)]; },
                        n - 1);
  }
  return out;
}

// tanh(x) and a multiple of the identity: far from singular, whatever special values x has.
Tensor tamed(const Tensor& x, double diagonal) {
  const Tensor one = eye(x.size(-2), x.size(-1), x.dtype());
  return op::add(op::tanh(op::nan_to_num(x, 0, 1, -1)), op::mul(one, diagonal));
}
Array tamed(const Array& x, double diagonal) {
  Array out = x;
  for_each_position(x.shape, [&](const Shape& at) {
    const bool is_diagonal = at[at.rank() - 1] == at[at.rank() - 2];
    out.at(at) = std::tanh(x.at(at)) + (is_diagonal ? diagonal : 0);
  });
  return out;
}

// Numbers around a diagonal that keeps the matrices far from singular.
Argument matrices(const Shape& shape, double diagonal) {
  std::vector<double> elements;
  const std::int64_t n = shape.back();
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    elements.push_back(static_cast<double>(i * 29 % 31 - 15) / 16 + (i % (n * n) % (n + 1) == 0 ? diagonal : 0));
  return listed(shape, elements);
}

Sample sample(std::string name, std::vector<Argument> arguments, Call call, Reference reference) {
  return {.name = std::move(name),
          .arguments = std::move(arguments),
          .call = std::move(call),
          .reference = std::move(reference),
          .terms = 32,
          .gradient_terms = 256,
          .large_arguments = 0};
}

void add_mistakes(Operator& op, const std::function<void(const Tensor&)>& call) {
  op.refuses("no square", Kind::shape, {"[2,3]"}, [call] { call(ones({2, 3})); });
  op.refuses("one dimension", Kind::shape, {"[4]"}, [call] { call(ones({4})); });
  op.refuses("integers", Kind::dtype, {"int32"}, [call] { call(ones({2, 2}, DType::int32)); });
}

Operator det() {
  Operator op{.name = "det", .ulps = 16};
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 2}, Shape{4, 4}, Shape{3, 3, 3}, Shape{2, 2, 2, 2}, Shape{0, 3, 3}})
    op.samples.push_back(sample(
        message(shape), {matrices(shape, 1.5)},
        [](const std::vector<Tensor>& in) { return std::vector{op::det(in[0])}; },
        [](const std::vector<Array>& in) {
          Array out(Shape(in[0].shape.begin(), in[0].shape.end() - 2));
          for (std::int64_t m = 0; m < out.size(); ++m) out[m] = determinant_of(in[0], m, in[0].shape.back());
          return std::vector{out};
        }));
  op.samples.push_back(op.samples[3]);
  op.samples.back().name = "singular";
  op.samples.back().arguments[0] = listed({3, 3, 3}, {1, 2, 3});
  add_mistakes(op, [](const Tensor& x) { op::det(x); });
  return op;
}

Operator inverse() {
  Operator op{.name = "inverse", .ulps = 16};
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 2}, Shape{4, 4}, Shape{3, 3, 3}, Shape{0, 3, 3}})
    op.samples.push_back(sample(
        message(shape), {uniform(shape)},
        [](const std::vector<Tensor>& in) { return std::vector{op::inverse(tamed(in[0], 3))}; },
        [](const std::vector<Array>& in) { return std::vector{inverted(tamed(in[0], 3))}; }));
  for (Sample& each : op.samples) each.roundings = 4;
  add_mistakes(op, [](const Tensor& x) { op::inverse(x); });
  op.refuses("singular", Kind::numeric, {"matrix 0", "singular"}, [] { op::inverse(ones({2, 2})); });
  return op;
}

Operator solve() {
  Operator op{.name = "solve", .ulps = 16};
  struct Use {
    Shape a, b;
  };
  for (const Use& use : {Use{{1, 1}, {1, 1}}, Use{{3, 3}, {3, 2}}, Use{{3, 3}, {3}}, Use{{2, 3, 3}, {2, 3, 4}},
                         Use{{3, 3}, {2, 3, 1}}, Use{{2, 2, 2}, {2, 3}}})
    op.samples.push_back(sample(
        message(use.a, " for ", use.b), {uniform(use.a), uniform(use.b)},
        [](const std::vector<Tensor>& in) { return std::vector{op::solve(tamed(in[0], 4), in[1])}; },
        [use](const std::vector<Array>& in) {
          const Array left = inverted(tamed(in[0], 4));
          const std::int64_t n = use.a.back(), k = use.b.rank() == 1 ? 1 : use.b.back(),
                             systems = std::max(left.size() / (n * n), in[1].size() / (n * k));
          Shape shape = use.b;
          if (use.b.rank() < use.a.rank() && use.b.rank() > 1) shape = {use.a[0], n, k};
          Array out(shape);
          for (std::int64_t s = 0; s < systems; ++s)
            for (std::int64_t i = 0; i < n; ++i)
              for (std::int64_t j = 0; j < k; ++j)
                for (std::int64_t p = 0; p < n; ++p)
                  out[(s * n + i) * k + j] +=
                      left[(s * n + i) * n % left.size() + p] * in[1][((s * n + p) * k + j) % in[1].size()];
          return std::vector{out};
        }));
  for (Sample& each : op.samples) each.roundings = 4;
  add_mistakes(op, [](const Tensor& x) { op::solve(x, x); });
  op.refuses("another size", Kind::shape, {"[3,1]", "[2,2]"}, [] { op::solve(ones({2, 2}), ones({3, 1})); });
  op.refuses("singular", Kind::numeric, {"singular"}, [] { op::solve(ones({2, 2}), ones({2, 1})); });
  return op;
}

Operator cholesky() {
  Operator op{.name = "cholesky", .ulps = 16};
  // L of a lower triangle with a positive diagonal, from L L^T.
  const auto lower = [](const Array& x) {
    Array out = x;
    for_each_position(out.shape, [&](const Shape& at) {
      const std::int64_t i = at[at.rank() - 2], j = at[at.rank() - 1];
      if (j > i) out.at(at) = 0;
    });
    return out;
  };
  for (const Shape& shape : {Shape{1, 1}, Shape{2, 2}, Shape{5, 5}, Shape{2, 3, 3}, Shape{0, 2, 2}})
    op.samples.push_back(sample(
        message(shape), {uniform(shape)},
        [](const std::vector<Tensor>& in) {
          const Tensor triangle = op::tril(tamed(in[0], 3));
          return std::vector{op::cholesky(op::matmul(triangle, triangle, {.transpose_b = true}))};
        },
        [lower](const std::vector<Array>& in) { return std::vector{lower(tamed(in[0], 3))}; }));
  // The product is rounded to 16 bits before the factor.
  for (Sample& each : op.samples) each.roundings = 8;
  add_mistakes(op, [](const Tensor& x) { op::cholesky(x); });
  op.refuses("not positive", Kind::numeric, {"not positive definite"}, [] { op::cholesky(-ones({2, 2})); });
  return op;
}

// The upper half of the product of two factors, and what makes them unique.
Operator qr() {
  Operator op{.name = "qr", .ulps = 16};
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 3}, Shape{5, 3}, Shape{2, 4, 2}, Shape{0, 3, 2}, Shape{2, 3}})
    op.samples.push_back(sample(
        message(shape), {shape.rank() == 2 && shape[0] < shape[1] ? constant(uniform(shape)) : uniform(shape)},
        [](const std::vector<Tensor>& in) {
          const std::vector<Tensor> factors = op::qr(tamed(in[0], 2));
          return std::vector{op::matmul(factors[0], factors[1]), factors[1] * factors[1], factors[0] * factors[0]};
        },
        [](const std::vector<Array>& in) {
          // Gram and Schmidt; the signs drop out in the squares.
          const Array x = tamed(in[0], 2);
          const std::int64_t n = x.shape.back(), m = x.shape[x.shape.rank() - 2], k = std::min(m, n);
          Shape left = x.shape, right = x.shape;
          left[x.shape.rank() - 1] = k;
          right[x.shape.rank() - 2] = k;
          Array q(left), r(right);
          for (std::int64_t s = 0; s < (m * n == 0 ? 0 : x.size() / (m * n)); ++s)
            for (std::int64_t j = 0; j < n; ++j) {
              std::vector<double> column;
              for (std::int64_t i = 0; i < m; ++i) column.push_back(x[(s * m + i) * n + j]);
              for (std::int64_t p = 0; p < std::min(j, k); ++p) {
                double dot = 0;
                for (std::int64_t i = 0; i < m; ++i)
                  dot += q[(s * m + i) * k + p] * column[static_cast<std::size_t>(i)];
                for (std::int64_t i = 0; i < m; ++i)
                  column[static_cast<std::size_t>(i)] -= dot * q[(s * m + i) * k + p];
                r[(s * k + p) * n + j] = dot;
              }
              if (j >= k) continue;
              double square = 0;
              for (const double each : column) square += each * each;
              r[(s * k + j) * n + j] = std::sqrt(square);
              for (std::int64_t i = 0; i < m; ++i)
                q[(s * m + i) * k + j] = column[static_cast<std::size_t>(i)] / std::sqrt(square);
            }
          for (double& each : q.values) each *= each;
          for (double& each : r.values) each *= each;
          return std::vector{x, r, q};
        }));
  for (Sample& each : op.samples) each.roundings = 4;
  op.refuses("one dimension", Kind::shape, {"[4]"}, [] { op::qr(ones({4})); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::qr(ones({2, 2}, DType::int32)); });
  op.refuses("a gradient of wide ones", Kind::autograd, {"2x3"}, [] {
    Tensor x = ones({2, 3}).set_requires_grad();
    op::sum(op::qr(x)[1]).backward();
  });
  return op;
}

Operator svd() {
  Operator op{.name = "svd", .ulps = 16};
  const auto unit = [](const Tensor& x) { return op::matmul(x, x, {.transpose_a = true}); };
  for (const Shape& shape : {Shape{1, 1}, Shape{3, 3}, Shape{5, 2}, Shape{2, 6}, Shape{2, 4, 3}, Shape{0, 2, 2}})
    op.samples.push_back(sample(
        message(shape), {uniform(shape)},
        [unit](const std::vector<Tensor>& in) {
          const std::vector<Tensor> parts = op::svd(in[0]);
          const Tensor u = parts[0].detach(), v = parts[2].detach();
          // The sum of squares and of fourth powers of S, known from the matrix alone; U and V by what they are.
          const Tensor squares = parts[1] * parts[1];
          return std::vector{op::sum(squares, {-1}), op::sum(squares * squares, {-1}),
                             op::matmul(u * parts[1].detach().unsqueeze(-2), v), unit(u), unit(v.transpose(-1, -2))};
        },
        [](const std::vector<Array>& in) {
          const Array& x = in[0];
          const std::int64_t n = x.shape.back(), m = x.shape[x.shape.rank() - 2], k = std::min(m, n);
          Shape lead(x.shape.begin(), x.shape.end() - 2), square = lead;
          square.push_back(k), square.push_back(k);
          Array first(lead), second(lead), unit_matrix(square);
          for (std::int64_t s = 0; s < first.size(); ++s) {
            for (std::int64_t i = 0; i < m * n; ++i) first[s] += x[s * m * n + i] * x[s * m * n + i];
            for (std::int64_t p = 0; p < n; ++p)
              for (std::int64_t q = 0; q < n; ++q) {
                double dot = 0;
                for (std::int64_t i = 0; i < m; ++i) dot += x[(s * m + i) * n + p] * x[(s * m + i) * n + q];
                second[s] += dot * dot;
              }
            for (std::int64_t i = 0; i < k; ++i) unit_matrix[(s * k + i) * k + i] = 1;
          }
          return std::vector{first, second, x, unit_matrix, unit_matrix};
        }));
  for (Sample& each : op.samples) {
    each.gradient_outputs = 2;
    each.roundings = 6;
  }
  op.refuses("one dimension", Kind::shape, {"[4]"}, [] { op::svd(ones({4})); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::svd(ones({2, 2}, DType::int32)); });
  op.refuses("a gradient of U", Kind::autograd, {"singular values"}, [] {
    Tensor x = ones({2, 3}).set_requires_grad();
    op::sum(op::svd(x)[0]).backward();
  });
  return op;
}

}  // namespace

std::vector<Operator> linalg_cases() { return {det(), inverse(), solve(), cholesky(), qr(), svd()}; }

}  // namespace tern::testing
