// Views: they move nothing, of any dtype.

#include <algorithm>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Array with_shape(Array x, const Shape& shape) {
  x.shape = shape;
  return x;
}

Operator reshape() {
  Operator op = movement("reshape");
  struct Use {
    Shape from, to, result;
  };
  for (const Use& use : {Use{{6}, {2, 3}, {2, 3}}, Use{{2, 3}, {-1}, {6}}, Use{{4, 6}, {3, -1, 2}, {3, 4, 2}},
                         Use{{}, {1, 1}, {1, 1}}, Use{{1}, {}, {}}, Use{{0, 3}, {0}, {0}}, Use{{2, 0}, {5, 0}, {5, 0}},
                         Use{{7, 11}, {77}, {77}}, Use{{2, 3, 5}, {5, 3, 2}, {5, 3, 2}}, Use{{4, 3}, {4, 3}, {4, 3}}})
    op.samples.push_back(moving(
        message(use.from, " to ", use.to), {any_values(use.from)},
        [to = use.to](const std::vector<Tensor>& in) { return std::vector{op::reshape(in[0], to)}; },
        [result = use.result](const std::vector<Array>& in) { return std::vector{with_shape(in[0], result)}; }));
  op.refuses("another count", Kind::shape, {"[2,3]", "[4]"}, [] { op::reshape(ones({2, 3}), {4}); });
  op.refuses("two computed sizes", Kind::shape, {"-1"}, [] { op::reshape(ones({2, 3}), {-1, -1}); });
  op.refuses("a size that does not divide", Kind::shape, {"[2,3]", "[4,-1]"}, [] {
    op::reshape(ones({2, 3}), {4, -1});
  });
  op.refuses("a negative size", Kind::shape, {"-2"}, [] { op::reshape(ones({2, 3}), {-2, 3}); });
  op.refuses("a size that could be anything", Kind::shape, {"-1"}, [] { op::reshape(ones({0, 3}), {0, -1}); });
  return op;
}

Operator slice() {
  Operator op = movement("slice");
  struct Use {
    Shape x;
    std::int64_t dim, begin, end, step;
  };
  for (const Use& use :
       {Use{{9}, 0, 2, 7, 1}, Use{{9}, 0, 0, 9, 2}, Use{{9}, -1, 1, 9, 3}, Use{{4, 7}, 1, -3, -1, 1},
        Use{{4, 7}, 0, 1, 3, 1}, Use{{4, 7}, 1, 2, 2, 1}, Use{{3, 4, 5}, 1, 1, 4, 2}, Use{{0, 3}, 1, 0, 2, 1},
        Use{{5, 3}, -2, -5, 5, 4}, Use{{9}, 0, 3, 100, 2}, Use{{9}, 0, -100, 4, 1}, Use{{9}, 0, 7, 2, 1},
        Use{{9}, 0, 20, 30, 1}, Use{{9}, 0, -1, -100, -1}, Use{{9}, 0, 100, 1, -2}, Use{{4, 7}, 1, -2, 0, -3},
        Use{{4, 7}, 0, 1, 2, -1}, Use{{3, 0}, 1, 5, -5, -1}, Use{{3, 4, 5}, 1, 3, -9, -2}})
    op.samples.push_back(moving(
        message(use.x, " dim ", use.dim, " from ", use.begin, " to ", use.end, " by ", use.step), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) {
          return std::vector{op::slice(in[0], use.dim, use.begin, use.end, use.step)};
        },
        [use](const std::vector<Array>& in) {
          // Python's: ends are brought inside, and a negative step walks down.
          const int dim = static_cast<int>(use.dim < 0 ? use.dim + use.x.rank() : use.dim);
          const std::int64_t size = use.x[dim], least = use.step < 0 ? -1 : 0, most = use.step < 0 ? size - 1 : size;
          const auto inside = [&](std::int64_t position) {
            return std::min(std::max(position < 0 ? position + size : position, least), most);
          };
          std::vector<std::int64_t> taken;
          for (std::int64_t i = inside(use.begin); use.step < 0 ? i > inside(use.end) : i < inside(use.end);
               i += use.step)
            taken.push_back(i);
          Shape shape = use.x;
          shape[dim] = static_cast<std::int64_t>(taken.size());
          return std::vector{picked(in[0], shape, [&](Shape position) {
            position[dim] = taken[static_cast<std::size_t>(position[dim])];
            return position;
          })};
        }));
  op.refuses("a dimension outside", Kind::shape, {"1"}, [] { op::slice(ones({3}), 1, 0, 1); });
  op.refuses("step 0", Kind::shape, {"step"}, [] { op::slice(ones({3}), 0, 0, 2, 0); });
  return op;
}

Operator flip() {
  Operator op = movement("flip");
  struct Use {
    Shape x;
    op::Dims dims;
  };
  for (const Use& use : {Use{{9}, 0}, Use{{}, {}}, Use{{4, 7}, 1}, Use{{4, 7}, {}}, Use{{3, 4, 5}, {0, -1}},
                         Use{{2, 0, 3}, 2}, Use{{2, 3, 4, 5}, {1, 2}}, Use{{1, 6}, 0}})
    op.samples.push_back(moving(
        message(use.x, " along ", use.dims.size(), " from ", use.dims.empty() ? 0 : *use.dims.begin()),
        {any_values(use.x)}, [use](const std::vector<Tensor>& in) { return std::vector{op::flip(in[0], use.dims)}; },
        [use](const std::vector<Array>& in) {
          return std::vector{picked(in[0], use.x, [&](Shape position) {
            for (int i = 0; i < use.x.rank(); ++i) {
              const auto names = [&](std::int64_t dim) { return dim == i || dim + use.x.rank() == i; };
              if (use.dims.empty() || std::any_of(use.dims.begin(), use.dims.end(), names))
                position[i] = use.x[i] - 1 - position[i];
            }
            return position;
          })};
        }));
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::flip(ones({2, 3}), 2); });
  return op;
}

Operator permute() {
  Operator op = movement("permute");
  for (const auto& [shape, order] : {std::pair<Shape, std::vector<std::int64_t>>{{3, 5}, {1, 0}},
                                     {{2, 3, 5}, {2, 0, 1}},
                                     {{2, 3, 5}, {0, 1, 2}},
                                     {{}, {}},
                                     {{2, 3, 4, 5}, {0, 2, 3, 1}},
                                     {{2, 3, 4, 5}, {-1, 0, -2, 1}},
                                     {{0, 3, 2}, {2, 1, 0}},
                                     {{1, 7, 1}, {1, 0, 2}}})
    op.samples.push_back(moving(
        message(shape, " from ", order.empty() ? 0 : order[0]), {any_values(shape)},
        [order = order](const std::vector<Tensor>& in) { return std::vector{op::permute(in[0], order)}; },
        [order = order](const std::vector<Array>& in) {
          Shape result;
          const int rank = in[0].shape.rank();
          const auto from = [&](int i) {
            const std::int64_t dim = order[static_cast<std::size_t>(i)];
            return static_cast<int>(dim < 0 ? dim + rank : dim);
          };
          for (int i = 0; i < rank; ++i) result.push_back(in[0].shape[from(i)]);
          return std::vector{picked(in[0], result, [&](const Shape& position) {
            Shape source = position;
            for (int i = 0; i < rank; ++i) source[from(i)] = position[i];
            return source;
          })};
        }));
  op.refuses("too few", Kind::shape, {"[2,3]"}, [] { op::permute(ones({2, 3}), {0}); });
  op.refuses("one twice", Kind::shape, {"twice"}, [] { op::permute(ones({2, 3}), {1, 1}); });
  op.refuses("one outside", Kind::shape, {"2"}, [] { op::permute(ones({2, 3}), {0, 2}); });
  return op;
}

Operator transpose() {
  Operator op = movement("transpose");
  struct Use {
    Shape x;
    std::int64_t a, b;
  };
  for (const Use& use : {Use{{3, 5}, 0, 1}, Use{{2, 3, 5}, 0, -1}, Use{{2, 3, 5}, 1, 1}, Use{{7}, 0, 0},
                         Use{{0, 4}, 0, 1}, Use{{33, 17}, -2, -1}})
    op.samples.push_back(moving(
        message(use.x, " ", use.a, " and ", use.b), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return std::vector{op::transpose(in[0], use.a, use.b)}; },
        [use](const std::vector<Array>& in) {
          const int rank = use.x.rank();
          const int a = static_cast<int>((use.a + rank) % rank), b = static_cast<int>((use.b + rank) % rank);
          Shape shape = use.x;
          std::swap(shape[a], shape[b]);
          return std::vector{picked(in[0], shape, [&](Shape position) {
            std::swap(position[a], position[b]);
            return position;
          })};
        }));
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::transpose(ones({2, 3}), 0, 2); });
  return op;
}

Operator expand() {
  Operator op = movement("expand");
  struct Use {
    Shape from, to;
  };
  for (const Use& use : {Use{{1}, {7}}, Use{{3, 1}, {3, 5}}, Use{{}, {2, 3}}, Use{{5}, {2, 3, 5}}, Use{{1, 3}, {0, 3}},
                         Use{{4}, {4}}, Use{{2, 1, 3}, {2, 4, 3}}})
    op.samples.push_back(moving(
        message(use.from, " to ", use.to), {any_values(use.from)},
        [to = use.to](const std::vector<Tensor>& in) { return std::vector{op::expand(in[0], to)}; },
        [to = use.to](const std::vector<Array>& in) { return std::vector{broadcast_array(in[0], to)}; }));
  op.refuses("a size that is not 1", Kind::shape, {"[3]", "[4]"}, [] { op::expand(ones({3}), {4}); });
  op.refuses("fewer dimensions", Kind::shape, {"[2,3]", "[3]"}, [] { op::expand(ones({2, 3}), {3}); });
  return op;
}

Operator simple_member(const char* name, std::function<Tensor(const Tensor&)> call, const Shape& shape,
                       const Shape& result) {
  Operator op = movement(name, true);
  op.samples.push_back(moving(
      message(shape), {any_values(shape)}, [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; },
      [result](const std::vector<Array>& in) { return std::vector{with_shape(in[0], result)}; }));
  return op;
}

}  // namespace

std::vector<Operator> view_cases() {
  std::vector<Operator> all;
  all.push_back(reshape());
  all.push_back(slice());
  all.push_back(flip());
  all.push_back(permute());
  all.push_back(transpose());
  all.push_back(expand());
  all.push_back(simple_member("flatten", [](const Tensor& x) { return x.flatten(1); }, {2, 3, 5}, {2, 15}));
  all.push_back(simple_member("squeeze", [](const Tensor& x) { return x.squeeze(1); }, {3, 1, 4}, {3, 4}));
  all.push_back(simple_member("unsqueeze", [](const Tensor& x) { return x.unsqueeze(-1); }, {3, 4}, {3, 4, 1}));
  return all;
}

}  // namespace tern::testing
