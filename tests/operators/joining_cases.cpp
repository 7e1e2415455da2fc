// Tensors joined and divided: cat, stack and split, of every dtype.

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Array joined(const std::vector<Array>& parts, int dim) {
  Shape shape = parts[0].shape;
  shape[dim] = 0;
  for (const Array& part : parts) shape[dim] += part.shape[dim];
  Array result(shape);
  std::int64_t start = 0;
  for (const Array& part : parts) {
    for_each_position(part.shape, [&](Shape position) {
      const double value = part.at(position);
      position[dim] += start;
      result.at(position) = value;
    });
    start += part.shape[dim];
  }
  return result;
}

Operator cat() {
  Operator op = movement("cat");
  struct Use {
    std::vector<Shape> parts;
    std::int64_t dim;
    bool large = false;
  };
  for (const Use& use : {Use{{{3}}, 0}, Use{{{3}, {4}}, 0}, Use{{{2, 3}, {2, 5}, {2, 1}}, 1}, Use{{{2, 3}, {5, 3}}, 0},
                         Use{{{2, 3}, {2, 0}}, -1}, Use{{{2, 3, 4}, {2, 1, 4}}, 1}, Use{{{0, 3}, {0, 2}}, 1},
                         Use{{{1, 2, 3, 3}, {1, 5, 3, 3}, {1, 1, 3, 3}}, 1}, Use{{{500, 301}, {500, 299}}, 1, true}}) {
    std::vector<Argument> arguments;
    for (const Shape& part : use.parts) arguments.push_back(any_values(part));
    const int dim = static_cast<int>(use.dim < 0 ? use.dim + use.parts[0].rank() : use.dim);
    op.samples.push_back(moving(
        message(use.parts.size(), " from ", use.parts[0], " along ", use.dim), arguments,
        [dim = use.dim](const std::vector<Tensor>& in) { return std::vector{op::cat(in, dim)}; },
        [dim](const std::vector<Array>& in) { return std::vector{joined(in, dim)}; }, use.large));
  }
  op.refuses("nothing", Kind::shape, {}, [] { op::cat({}, 0); });
  op.refuses("sizes that differ", Kind::shape, {"[2,3]", "[4,5]"}, [] { op::cat({ones({2, 3}), ones({4, 5})}, 0); });
  op.refuses("ranks that differ", Kind::shape, {"[2,3]", "[2]"}, [] { op::cat({ones({2, 3}), ones({2})}, 0); });
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::cat({ones({2, 3})}, 2); });
  op.refuses("two dtypes", Kind::dtype, {"float32", "int32"}, [] { op::cat({ones({2}), ones({2}, DType::int32)}, 0); });
  return op;
}

Operator stack() {
  Operator op = movement("stack");
  struct Use {
    Shape part;
    int count;
    std::int64_t dim;
  };
  for (const Use& use : {Use{{3}, 1, 0}, Use{{3}, 2, 0}, Use{{3}, 4, 1}, Use{{2, 5}, 3, 1}, Use{{2, 5}, 3, -1},
                         Use{{}, 3, 0}, Use{{0, 2}, 2, 0}}) {
    const std::vector<Argument> arguments(static_cast<std::size_t>(use.count), any_values(use.part));
    const int dim = static_cast<int>(use.dim < 0 ? use.dim + use.part.rank() + 1 : use.dim);
    op.samples.push_back(moving(
        message(use.count, " of ", use.part, " along ", use.dim), arguments,
        [dim = use.dim](const std::vector<Tensor>& in) { return std::vector{op::stack(in, dim)}; },
        [dim](std::vector<Array> in) {
          Shape one;
          for (int i = 0; i <= in[0].shape.rank(); ++i) {
            if (i == dim) one.push_back(1);
            if (i < in[0].shape.rank()) one.push_back(in[0].shape[i]);
          }
          for (Array& part : in) part.shape = one;
          return std::vector{joined(in, dim)};
        }));
  }
  op.refuses("nothing", Kind::shape, {}, [] { op::stack({}, 0); });
  op.refuses("shapes that differ", Kind::shape, {"[2]", "[3]"}, [] { op::stack({ones({2}), ones({3})}, 0); });
  return op;
}

/// The part [start, start + shape[dim]) of x.
Array part_of(const Array& x, const Shape& shape, int dim, std::int64_t start) {
  return picked(x, shape, [&](Shape position) {
    position[dim] += start;
    return position;
  });
}

Operator split() {
  Operator op = movement("split");
  struct Use {
    Shape x;
    std::vector<std::int64_t> sizes;
    std::int64_t dim;
  };
  for (const Use& use : {Use{{9}, {4, 5}, 0}, Use{{9}, {9}, 0}, Use{{3, 7}, {1, 2, 4}, 1}, Use{{3, 7}, {2, 1}, 0},
                         Use{{3, 7}, {0, 7}, -1}, Use{{2, 6, 3}, {3, 3}, 1}, Use{{0, 4}, {2, 2}, 1}})
    op.samples.push_back(moving(
        message(use.x, " in ", use.sizes.size(), " along ", use.dim), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return op::split(in[0], use.sizes, use.dim); },
        [use](const std::vector<Array>& in) {
          std::vector<Array> parts;
          const int dim = static_cast<int>(use.dim < 0 ? use.dim + use.x.rank() : use.dim);
          std::int64_t start = 0;
          for (const std::int64_t size : use.sizes) {
            Shape shape = use.x;
            shape[dim] = size;
            parts.push_back(part_of(in[0], shape, dim, start));
            start += size;
          }
          return parts;
        }));
  op.refuses("sizes that do not add up", Kind::shape, {"9", "8"}, [] { op::split(ones({9}), {4, 4}, 0); });
  op.refuses("a negative size", Kind::shape, {"-1"}, [] { op::split(ones({3}), {4, -1}, 0); });
  op.refuses("a dimension outside", Kind::shape, {"1"}, [] { op::split(ones({9}), {9}, 1); });
  return op;
}

Operator chunk() {
  Operator op = movement("chunk");
  struct Use {
    Shape x;
    std::int64_t count, dim;
    std::vector<std::int64_t> sizes;
  };
  for (const Use& use : {Use{{9}, 2, 0, {5, 4}}, Use{{7}, 5, 0, {2, 2, 2, 1}}, Use{{3, 7}, 3, 1, {3, 3, 1}},
                         Use{{3, 4}, 8, -2, {1, 1, 1}}, Use{{2, 0}, 3, 1, {0}}, Use{{5, 0}, 1, 0, {5}}})
    op.samples.push_back(moving(
        message(use.x, " in ", use.count, " along ", use.dim), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return op::chunk(in[0], use.count, use.dim); },
        [use](const std::vector<Array>& in) {
          std::vector<Array> parts;
          const int dim = static_cast<int>(use.dim < 0 ? use.dim + use.x.rank() : use.dim);
          std::int64_t start = 0;
          for (const std::int64_t size : use.sizes) {
            Shape shape = use.x;
            shape[dim] = size;
            parts.push_back(part_of(in[0], shape, dim, start));
            start += size;
          }
          return parts;
        }));
  op.refuses("no parts", Kind::shape, {"0", "1"}, [] { op::chunk(ones({3}), 0); });
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::chunk(ones({3}), 2, 2); });
  return op;
}

Operator unbind() {
  Operator op = movement("unbind");
  struct Use {
    Shape x;
    std::int64_t dim;
  };
  for (const Use& use : {Use{{5}, 0}, Use{{3, 7}, 0}, Use{{3, 7}, -1}, Use{{2, 3, 4}, 1}, Use{{2, 0}, 0}})
    op.samples.push_back(moving(
        message(use.x, " along ", use.dim), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return op::unbind(in[0], use.dim); },
        [use](const std::vector<Array>& in) {
          std::vector<Array> parts;
          const int dim = static_cast<int>(use.dim < 0 ? use.dim + use.x.rank() : use.dim);
          Shape one = use.x, without;
          one[dim] = 1;
          for (int i = 0; i < use.x.rank(); ++i)
            if (i != dim) without.push_back(use.x[i]);
          for (std::int64_t i = 0; i < use.x[dim]; ++i) {
            parts.push_back(part_of(in[0], one, dim, i));
            parts.back().shape = without;
          }
          return parts;
        }));
  op.refuses("a number", Kind::shape, {"number"}, [] { op::unbind(ones({})); });
  op.refuses("a dimension outside", Kind::shape, {"1"}, [] { op::unbind(ones({3}), 1); });
  return op;
}

}  // namespace

std::vector<Operator> joining_cases() { return {cat(), stack(), split(), chunk(), unbind()}; }

}  // namespace tern::testing
