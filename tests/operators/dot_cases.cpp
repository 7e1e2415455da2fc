// Matrix products: ranks, transposes, batches that broadcast, empty factors, and linear with its activations.

#include <algorithm>

#include "support/activated.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Array with_last_two_swapped(const Array& x) {
  Shape shape = x.shape;
  std::swap(shape[shape.rank() - 1], shape[shape.rank() - 2]);
  Array result(shape);
  for_each_position(x.shape, [&](const Shape& position) {
    Shape other = position;
    std::swap(other[other.rank() - 1], other[other.rank() - 2]);
    result.at(other) = x.at(position);
  });
  return result;
}

Shape without(const Shape& shape, int dim) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != dim) result.push_back(shape[i]);
  return result;
}

Array product(Array a, Array b, bool transpose_a, bool transpose_b) {
  const bool row = a.shape.rank() == 1, column = b.shape.rank() == 1;
  if (row) a.shape = Shape{1, a.shape[0]};
  if (column) b.shape = Shape{b.shape[0], 1};
  if (transpose_a) a = with_last_two_swapped(a);
  if (transpose_b) b = with_last_two_swapped(b);
  const Shape batch =
      broadcast("matmul", Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
  const std::int64_t m = a.shape[a.shape.rank() - 2], k = a.shape.back(), n = b.shape.back();
  Shape shape = batch;
  shape.push_back(m);
  shape.push_back(n);
  Array result(shape);
  const auto matrix_at = [&](const Array& x, const Shape& position) {
    Shape own;
    const int extra = batch.rank() - (x.shape.rank() - 2);
    for (int i = 0; i < x.shape.rank() - 2; ++i) own.push_back(x.shape[i] == 1 ? 0 : position[i + extra]);
    own.push_back(0);
    own.push_back(0);
    return x.offset(own);
  };
  std::int64_t out = 0;
  if (element_count(shape) > 0)
    for_each_position(batch, [&](const Shape& position) {
      const std::int64_t from_a = k > 0 ? matrix_at(a, position) : 0, from_b = k > 0 ? matrix_at(b, position) : 0;
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t p = 0; p < k; ++p)
          for (std::int64_t j = 0; j < n; ++j) result[out + i * n + j] += a[from_a + i * k + p] * b[from_b + p * n + j];
      out += m * n;
    });
  if (column) result.shape = without(result.shape, result.shape.rank() - 1);
  if (row) result.shape = without(result.shape, result.shape.rank() - (column ? 1 : 2));
  return result;
}

struct Use {
  Shape a, b;
  bool transpose_a = false, transpose_b = false;
};

Sample matmul_sample(const Use& use, bool exact, bool large) {
  const std::int64_t k = use.a.rank() == 1 || !use.transpose_a ? use.a.back() : use.a[use.a.rank() - 2];
  const auto longest = static_cast<double>(*std::max_element(use.a.begin(), use.a.end()));
  const auto longest_b = static_cast<double>(*std::max_element(use.b.begin(), use.b.end()));
  return {.name = message(use.a, use.transpose_a ? "^T " : " ", use.b, use.transpose_b ? "^T" : "",
                          exact ? " integers" : ""),
          .arguments = exact ? std::vector{integers(use.a, -4, 4), integers(use.b, -4, 4)}
                             : std::vector{uniform(use.a), uniform(use.b)},
          .call =
              [use](const std::vector<Tensor>& in) {
                return std::vector{
                    op::matmul(in[0], in[1], {.transpose_a = use.transpose_a, .transpose_b = use.transpose_b})};
              },
          .reference =
              [use](const std::vector<Array>& in) {
                return std::vector{product(in[0], in[1], use.transpose_a, use.transpose_b)};
              },
          .gradient = !exact,
          .exact = exact,
          .terms = std::max(1.0, static_cast<double>(k)),
          .gradient_terms = std::max({1.0, longest, longest_b}) * 3,
          .large = large};
}

Operator matmul() {
  Operator op{.name = "matmul"};
  for (const Use& use : {Use{{1, 1}, {1, 1}},
                         Use{{3}, {3}},
                         Use{{5}, {5, 7}},
                         Use{{7, 5}, {5}},
                         Use{{2, 7, 5}, {5}},
                         Use{{5}, {3, 5, 2}},
                         Use{{0, 5}, {5, 3}},
                         Use{{4, 5}, {5, 0}},
                         Use{{4, 0}, {0, 3}},
                         Use{{0}, {0}},
                         Use{{1, 17}, {17, 1}},
                         Use{{9, 1}, {1, 9}},
                         Use{{2, 3, 4}, {2, 4, 5}},
                         Use{{2, 3, 4}, {4, 5}},
                         Use{{3, 4}, {2, 4, 5}},
                         Use{{1, 3, 4}, {6, 4, 2}},
                         Use{{2, 1, 3, 4}, {1, 5, 4, 2}},
                         Use{{0, 3, 4}, {0, 4, 5}},
                         Use{{2, 3, 0}, {2, 0, 5}},
                         Use{{64, 64}, {64, 64}},
                         Use{{65, 129}, {129, 33}},
                         Use{{13, 300}, {300, 17}},
                         Use{{2, 31, 37}, {2, 37, 41}},
                         Use{{3, 257}, {257, 97}}})
    op.samples.push_back(matmul_sample(use, false, false));
  for (const auto& [m, k, n] : {std::array<std::int64_t, 3>{5, 7, 3}, {1, 9, 17}, {33, 16, 9}, {17, 65, 31}})
    for (const bool exact : {false, true})
      for (const int transposed : {0, 1, 2, 3}) {
        const bool ta = transposed & 1, tb = transposed & 2;
        op.samples.push_back(
            matmul_sample({ta ? Shape{k, m} : Shape{m, k}, tb ? Shape{n, k} : Shape{k, n}, ta, tb}, exact, false));
      }
  op.samples.push_back(matmul_sample({{3, 7, 5}, {3, 4, 5}, false, true}, false, false));
  op.samples.push_back(matmul_sample({{3, 5, 7}, {5, 4}, true, false}, false, false));
  op.samples.push_back(matmul_sample({{2, 5, 7}, {2, 4, 5}, true, true}, false, false));
  // Few elements, long sums: slices of them are added at the end. Integers show a lost slice or a bias twice.
  op.samples.push_back(matmul_sample({{3, 8200}, {8200, 5}}, true, false));
  op.samples.push_back(matmul_sample({{2, 12300}, {7, 12300}, false, true}, true, false));
  op.samples.push_back(matmul_sample({{9001, 3}, {9001, 4}, true, false}, true, false));
  op.samples.push_back(matmul_sample({{193, 211}, {211, 199}}, false, true));
  op.samples.push_back(matmul_sample({{128, 784}, {196, 784}, false, true}, true, true));
  op.samples.push_back(matmul_sample({{7, 1040}, {1040, 1003}}, true, true));  // few rows, a matrix beyond the cache
  op.samples.push_back(matmul_sample({{37, 19, 23}, {37, 23, 31}}, false, true));
  op.samples.push_back(
      {.name = "NaN and infinity",
       .arguments = {listed({3, 2}, {std::nan(""), 1, INFINITY, 0, 2, 3}), listed({2, 2}, {0, 1, 2, 3})},
       .call = [](const std::vector<Tensor>& in) { return std::vector{op::matmul(in[0], in[1])}; },
       .reference = [](const std::vector<Array>& in) { return std::vector{product(in[0], in[1], false, false)}; },
       .gradient = false});
  op.refuses("inner sizes differ", Kind::shape, {"[2,3]", "[4,5]"}, [] { op::matmul(ones({2, 3}), ones({4, 5})); });
  op.refuses("transposed sizes differ", Kind::shape, {"[2,3]", "[3,5]"}, [] {
    op::matmul(ones({2, 3}), ones({3, 5}), {.transpose_a = true});
  });
  op.refuses("batches do not broadcast", Kind::shape, {"[2]", "[3]"}, [] {
    op::matmul(ones({2, 4, 5}), ones({3, 5, 6}));
  });
  op.refuses("a number as a factor", Kind::shape, {"[]"}, [] { op::matmul(ones({}), ones({3})); });
  op.refuses("a transposed vector", Kind::shape, {"vector"}, [] {
    op::matmul(ones({3}), ones({3, 2}), {.transpose_a = true});
  });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"}, [] {
    op::matmul(ones({2, 2}), ones({2, 2}, DType::float64));
  });
  op.refuses("integers", Kind::dtype, {"int32"}, [] {
    op::matmul(ones({2, 2}, DType::int32), ones({2, 2}, DType::int32));
  });
  return op;
}

Operator dot() {
  Operator op{.name = "dot"};
  for (const Use& use : {Use{{3}, {3}}, Use{{4097}, {4097}}, Use{{7, 5}, {5, 3}}, Use{{2, 3}, {3}}, Use{{0}, {0}}})
    op.samples.push_back(
        {.name = message(use.a, " ", use.b),
         .arguments = {uniform(use.a), uniform(use.b)},
         .call = [](const std::vector<Tensor>& in) { return std::vector{op::dot(in[0], in[1])}; },
         .reference = [](const std::vector<Array>& in) { return std::vector{product(in[0], in[1], false, false)}; },
         .terms = std::max(1.0, static_cast<double>(use.a.back())),
         .gradient_terms = 8});
  op.refuses(
      "inner sizes differ", Kind::shape, {"3 and 4"}, [] { op::dot(ones({3}), ones({4})); }, "matmul");
  return op;
}

Sample linear_sample(const Shape& x, std::int64_t out, bool with_bias, Activation activation, const char* name,
                     bool large) {
  const std::int64_t in = x.back();
  const double most = activation == Activation::relu6 ? 6 : 1;  // so that sums leave its range
  std::vector<Argument> arguments{uniform(x, -most, most), uniform({out, in})};
  if (with_bias) arguments.push_back(uniform({out}));
  const double rows = static_cast<double>(in > 0 ? element_count(x) / in : 1);
  return {
      .name = message(x, " to ", out, with_bias ? " with bias" : "", " ", name),
      .arguments = arguments,
      .call =
          [activation](const std::vector<Tensor>& inputs) {
            return std::vector{op::linear(inputs[0], inputs[1], inputs.size() > 2 ? inputs[2] : Tensor{}, activation)};
          },
      .reference =
          [activation](const std::vector<Array>& inputs) {
            Array result = product(inputs[0], inputs[1], false, true);
            const std::int64_t columns = inputs[1].shape[0];
            for (std::int64_t i = 0; i < result.size(); ++i)
              result[i] = activated(activation, result[i] + (inputs.size() > 2 ? inputs[2][i % columns] : 0));
            return std::vector{result};
          },
      .terms = std::max(1.0, most * static_cast<double>(in)),
      .gradient_terms = std::max({1.0, rows, static_cast<double>(out), static_cast<double>(in)}) * 2 * most,
      .large = large,
      .roundings = kernels::by_output(activation) ? 1 : 2};  // 16 bits: then the activation's own
}

Operator linear() {
  Operator op{.name = "linear"};
  struct Kinds {
    Activation activation;
    const char* name;
  };
  for (const Kinds& kind :
       {Kinds{Activation::none, "none"}, Kinds{Activation::relu, "relu"}, Kinds{Activation::sigmoid, "sigmoid"},
        Kinds{Activation::tanh, "tanh"}, Kinds{Activation::relu6, "relu6"}, Kinds{Activation::gelu, "gelu"},
        Kinds{Activation::silu, "silu"}, Kinds{Activation::hardswish, "hardswish"}})
    for (const bool bias : {true, false})
      for (const auto& [x, out] :
           {std::pair<Shape, std::int64_t>{{1, 1}, 1}, {{3, 5}, 7}, {{17, 33}, 9}, {{5}, 4}, {{2, 3, 5}, 8}})
        op.samples.push_back(linear_sample(x, out, bias, kind.activation, kind.name, false));
  for (const auto& [x, out] :
       {std::pair<Shape, std::int64_t>{{0, 5}, 3}, {{4, 5}, 0}, {{31, 65}, 129}, {{1, 300}, 10}, {{64, 64}, 64}})
    op.samples.push_back(linear_sample(x, out, true, Activation::relu, "relu", false));
  // Sums in slices, with the bias once.
  op.samples.push_back(linear_sample({1, 8200}, 10, true, Activation::none, "none", false));
  op.samples.push_back(linear_sample({2, 12300}, 7, true, Activation::relu, "relu", false));
  // A few rows of whole 16 bytes: one and several rounds of what a thread reads at once, in both directions.
  op.samples.push_back(linear_sample({1, 196}, 10, true, Activation::none, "none", false));
  op.samples.push_back(linear_sample({1, 1300}, 36, true, Activation::sigmoid, "sigmoid", false));
  op.samples.push_back(linear_sample({2, 36}, 300, true, Activation::tanh, "tanh", false));
  op.samples.push_back(linear_sample({3, 784}, 70, false, Activation::tanh, "tanh", false));
  op.samples.push_back(linear_sample({4, 40}, 600, true, Activation::sigmoid, "sigmoid", false));
  op.samples.push_back(linear_sample({4, 0}, 3, true, Activation::none, "none", false));
  // Slices: sums of several rounds, rows and outputs that end inside a tile, gradients in packs and in single elements.
  op.samples.push_back(linear_sample({9, 1100}, 12, true, Activation::sigmoid, "sigmoid", false));
  op.samples.push_back(linear_sample({70, 300}, 36, true, Activation::relu, "relu", false));
  op.samples.push_back(linear_sample({130, 196}, 10, true, Activation::tanh, "tanh", true));
  op.samples.push_back(linear_sample({40, 784}, 196, false, Activation::relu, "relu", true));
  op.samples.push_back(linear_sample({40, 784}, 196, true, Activation::relu6, "relu6", true));
  op.samples.push_back(linear_sample({197, 192}, 256, true, Activation::gelu, "gelu", true));
  op.samples.push_back(linear_sample({128, 300}, 196, true, Activation::relu, "relu", true));
  op.samples.push_back(linear_sample({500, 61}, 67, true, Activation::tanh, "tanh", true));
  op.refuses("features differ", Kind::shape, {"[2,3]", "[5,4]"}, [] { op::linear(ones({2, 3}), ones({5, 4})); });
  op.refuses("bias of another size", Kind::shape, {"[4]", "[5,3]"}, [] {
    op::linear(ones({2, 3}), ones({5, 3}), ones({4}));
  });
  op.refuses("weight of one dimension", Kind::shape, {"[3]"}, [] { op::linear(ones({2, 3}), ones({3})); });
  op.refuses("two dtypes", Kind::dtype, {"float32", "float64"}, [] {
    op::linear(ones({2, 3}), ones({5, 3}, DType::float64));
  });
  op.refuses("bias of another dtype", Kind::dtype, {"float32", "float64"}, [] {
    op::linear(ones({2, 3}), ones({5, 3}), ones({5}, DType::float64));
  });
  return op;
}

}  // namespace

std::vector<Operator> dot_cases() {
  std::vector<Operator> all;
  all.push_back(matmul());
  all.push_back(dot());
  all.push_back(linear());
  return all;
}

}  // namespace tern::testing
