// Indexing by positions, and order.

#include <algorithm>
#include <numeric>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Use {
  Shape x, index;
  int dim;
};
const std::vector<Use>& uses() {
  static const std::vector<Use> all{{{9}, {5}, 0},
                                    {{4, 6}, {7, 6}, 0},
                                    {{4, 6}, {4, 3}, 1},
                                    {{4, 6}, {2, 9}, -1},
                                    {{3, 5, 4}, {3, 8, 4}, 1},
                                    {{3, 5, 4}, {2, 5, 11}, 2},
                                    {{3, 5, 4}, {6, 1, 1}, 0},
                                    {{2, 3}, {2, 0}, 1}};
  return all;
}

std::int64_t size_along(const Use& use) { return use.x[use.dim < 0 ? use.dim + use.x.rank() : use.dim]; }

// Where the element that the index names stands, for the element of the index at `position`.
Shape named(const Use& use, const Array& index, Shape position) {
  const std::int64_t row = static_cast<std::int64_t>(index.at(position));
  position[use.dim < 0 ? use.dim + use.x.rank() : use.dim] = row;
  return position;
}

void add_mistakes(Operator& op,
                  const std::function<void(const Tensor& x, std::int64_t dim, const Tensor& index)>& call) {
  const auto at = [](std::vector<std::int64_t> rows, const Shape& shape) { return tensor(rows, shape); };
  op.refuses("an index too large", Kind::numeric, {"4", "position 1"}, [=] {
    call(ones({2, 4}), 1, at({0, 4}, {1, 2}));
  });
  op.refuses("a negative index", Kind::numeric, {"-1"}, [=] { call(ones({2, 4}), 1, at({0, -1}, {1, 2})); });
  op.refuses("an index of another rank", Kind::shape, {"[2]", "[2,4]"}, [=] {
    call(ones({2, 4}), 1, at({0, 1}, {2}));
  });
  op.refuses("an index that is larger", Kind::shape, {"[3,1]", "[2,4]"}, [=] {
    call(ones({2, 4}), 1, at({0, 1, 2}, {3, 1}));
  });
  op.refuses("a dimension outside", Kind::shape, {"2"}, [=] { call(ones({2, 4}), 2, at({0, 1}, {1, 2})); });
  op.refuses("an index of numbers", Kind::dtype, {"float32", "int32"}, [=] { call(ones({2, 4}), 1, zeros({1, 2})); });
}

Operator gather() {
  Operator op = movement("gather");
  for (const Use& use : uses())
    op.samples.push_back(moving(
        message(use.x, " by ", use.index, " along ", use.dim), {any_values(use.x), labels(use.index, size_along(use))},
        [use](const std::vector<Tensor>& in) { return std::vector{op::gather(in[0], use.dim, in[1])}; },
        [use](const std::vector<Array>& in) {
          return std::vector{
              picked(in[0], use.index, [&](const Shape& position) { return named(use, in[1], position); })};
        }));
  add_mistakes(op, [](const Tensor& x, std::int64_t dim, const Tensor& index) { op::gather(x, dim, index).values(); });
  return op;
}

Array scattered(const Use& use, bool adds, const std::vector<Array>& in) {
  Array out = in[0];
  for_each_position(use.index, [&](const Shape& position) {
    double& place = out.at(named(use, in[1], position));
    place = (adds ? place : 0) + in[2].at(position);
    if (out.dtype == DType::boolean) place = std::min(place, 1.0);
  });
  return out;
}

Operator scatter_add_integers() {
  Operator op{.name = "scatter_add/integers"};
  for (const Use& use : uses())
    op.samples.push_back(
        {.name = message(use.x, " by ", use.index, " along ", use.dim),
         .arguments = {integers(use.x, 0, 9), labels(use.index, size_along(use)), integers(use.index, 0, 9)},
         .call =
             [use](const std::vector<Tensor>& in) {
               return std::vector{op::scatter_add(in[0], use.dim, in[1], in[2])};
             },
         .reference = [use](const std::vector<Array>& in) { return std::vector{scattered(use, true, in)}; },
         .dtypes = {DType::int32, DType::int64, DType::uint8, DType::boolean},
         .exact = true});
  return op;
}

Operator scatter(const char* name, bool adds) {
  Operator op = adds ? Operator{.name = name} : movement(name);
  const auto compute = adds ? op::scatter_add : op::scatter;
  for (const Use& use : uses()) {
    const std::string title = message(use.x, " by ", use.index, " along ", use.dim);
    const auto call = [use, compute](const std::vector<Tensor>& in) {
      return std::vector{compute(in[0], use.dim, in[1], in[2])};
    };
    const auto reference = [use, adds](const std::vector<Array>& in) { return std::vector{scattered(use, adds, in)}; };
    if (!adds)
      op.samples.push_back(moving(title, {any_values(use.x), labels(use.index, size_along(use)), any_values(use.index)},
                                  call, reference));
    else
      op.samples.push_back({.name = title,
                            .arguments = {uniform(use.x), labels(use.index, size_along(use)), uniform(use.index)},
                            .call = call,
                            .reference = reference,
                            .terms = static_cast<double>(std::max<std::int64_t>(element_count(use.index), 1))});
  }
  add_mistakes(op, [compute](const Tensor& x, std::int64_t dim, const Tensor& index) {
    compute(x, dim, index, zeros(index.shape())).values();
  });
  // A device leaves out what is out of range; mistakes_test.cpp has the host's error.
  std::erase_if(op.invalid, [](const Invalid& invalid) { return invalid.kind == Kind::numeric; });
  op.refuses("a source of another shape", Kind::shape, {"[3]", "[2]"},
             [compute] { compute(ones({4}), 0, zeros({2}, DType::int64), ones({3})); });
  op.refuses("two dtypes", Kind::dtype, {"float64"},
             [compute] { compute(ones({4}), 0, zeros({2}, DType::int64), ones({2}, DType::float64)); });
  return op;
}

Operator masked_select() {
  Operator op = movement("masked_select");
  for (const Shape& shape : {Shape{}, Shape{17}, Shape{4, 6}, Shape{2, 3, 5}, Shape{3, 0}})
    op.samples.push_back(moving(
        message(shape), {any_values(shape), booleans(shape)},
        [](const std::vector<Tensor>& in) { return std::vector{op::masked_select(in[0], in[1])}; },
        [](const std::vector<Array>& in) {
          std::vector<double> taken;
          for (std::int64_t i = 0; i < in[0].size(); ++i)
            if (in[1][i] != 0) taken.push_back(in[0][i]);
          return std::vector{Array({static_cast<std::int64_t>(taken.size())}, taken)};
        }));
  op.refuses("a mask of numbers", Kind::dtype, {"float32"}, [] { op::masked_select(ones({2}), ones({2})); });
  op.refuses("a mask that does not broadcast", Kind::shape, {"[2]", "[3]"},
             [] { op::masked_select(ones({2}), ones({3}, DType::boolean)); });
  struct Shapes {
    Shape x, mask;
  };
  for (const auto& [x, mask] : {Shapes{{4, 6}, {6}}, Shapes{{4, 6}, {4, 1}}, Shapes{{6}, {3, 1}}, Shapes{{}, {5}}})
    op.samples.push_back(moving(
        message(x, " by ", mask), {any_values(x), booleans(mask)},
        [](const std::vector<Tensor>& in) { return std::vector{op::masked_select(in[0], in[1])}; },
        [](const std::vector<Array>& in) {
          std::vector<double> taken;
          for_each_position(broadcast("reference", in[0].shape, in[1].shape), [&](const Shape& at) {
            if (broadcast_at(in[1], at) != 0) taken.push_back(broadcast_at(in[0], at));
          });
          return std::vector{Array({static_cast<std::int64_t>(taken.size())}, taken)};
        }));
  return op;
}

Operator nonzero() {
  Operator op{.name = "nonzero"};
  const auto add = [&](std::string name, Argument x) {
    op.samples.push_back({.name = std::move(name),
                          .arguments = {std::move(x)},
                          .call = [](const std::vector<Tensor>& in) { return std::vector{op::nonzero(in[0])}; },
                          .reference =
                              [](const std::vector<Array>& in) {
                                std::vector<double> found;
                                for_each_position(in[0].shape, [&](const Shape& at) {
                                  if (in[0].at(at) == 0) return;
                                  for (const std::int64_t i : at) found.push_back(static_cast<double>(i));
                                });
                                const int rank = in[0].shape.rank();
                                const auto rows = std::count_if(in[0].values.begin(), in[0].values.end(),
                                                                [](double value) { return value != 0; });
                                Array out({rows, rank}, found);
                                out.dtype = DType::int64;
                                return std::vector{out};
                              },
                          .dtypes = all_dtypes,
                          .gradient = false,
                          .exact = true});
  };
  for (const Shape& shape : {Shape{}, Shape{17}, Shape{4, 6}, Shape{2, 3, 5}, Shape{3, 0}})
    add(message(shape), integers(shape, 0, 1));
  add("special values", listed({2, 7}, special_values()));
  op.samples.back().dtypes = compute_dtypes;
  return op;
}

// The positions that bring one line into order, by a stable sort.
std::vector<std::int64_t> order_of(const std::vector<double>& line, bool descending) {
  std::vector<std::int64_t> order(line.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t i, std::int64_t j) {
    double x = line[static_cast<std::size_t>(i)], y = line[static_cast<std::size_t>(j)];
    if (descending) std::swap(x, y);
    return std::isnan(y) ? !std::isnan(x) : x < y;
  });
  return order;
}

struct Ordered {
  Array values, indices;
};
// The first `count` of each line along `dim`, in order.
Ordered ordered(const Array& x, int dim, bool descending, std::int64_t count) {
  Shape shape = x.shape, lines = x.shape;
  shape[dim] = count;
  lines[dim] = 1;
  Ordered out{Array(shape), Array(shape, 0, DType::int64)};
  for_each_position(lines, [&](Shape at) {
    std::vector<double> line;
    for (at[dim] = 0; at[dim] < x.shape[dim]; ++at[dim]) line.push_back(x.at(at));
    const std::vector<std::int64_t> order = order_of(line, descending);
    for (at[dim] = 0; at[dim] < count; ++at[dim]) {
      const std::int64_t from = order[static_cast<std::size_t>(at[dim])];
      out.indices.at(at) = static_cast<double>(from);
      out.values.at(at) = line[static_cast<std::size_t>(from)];
    }
  });
  return out;
}

struct Line {
  Shape x;
  int dim;
};
const std::vector<Line>& lines() {
  static const std::vector<Line> all{{{17}, 0},      {{1}, 0},         {{5, 33}, 1}, {{33, 5}, 0},
                                     {{3, 7, 4}, 1}, {{2, 3, 64}, -1}, {{0, 5}, 1}};
  return all;
}
int place(const Line& line) { return line.dim < 0 ? line.dim + line.x.rank() : line.dim; }

Operator argsort() {
  Operator op{.name = "argsort"};
  const auto add = [&](std::string name, Argument x, int dim, bool descending, bool large = false) {
    const int along = dim < 0 ? dim + x.shape.rank() : dim;
    op.samples.push_back(
        {.name = message(name, descending ? " descending" : ""),
         .arguments = {std::move(x)},
         .call = [dim, descending](
                     const std::vector<Tensor>& in) { return std::vector{op::argsort(in[0], dim, descending)}; },
         .reference =
             [along, descending](const std::vector<Array>& in) {
               return std::vector{ordered(in[0], along, descending, in[0].shape[along]).indices};
             },
         .gradient = false,
         .exact = true,
         .large = large});
  };
  for (const bool descending : {false, true}) {
    for (const Line& line : lines()) {
      add(message(line.x, " along ", line.dim), distinct(line.x), line.dim, descending);
      add(message(line.x, " along ", line.dim, " with equals"), integers(line.x, -2, 2), line.dim, descending);
    }
    add("special values", listed({3, 28}, special_values()), 1, descending);
    add("many lines", uniform({1201, 33}), 1, descending, true);
    add("a long line", uniform({40009}), 0, descending, true);
    add("integers", integers({4, 9}, -3, 3), 1, descending);
    op.samples.back().dtypes = all_dtypes;
  }
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::argsort(ones({2, 3}), 2); });
  return op;
}

// sort, and topk of `share` of the elements.
Operator sorted(const char* name, bool whole) {
  Operator op{.name = name};
  for (const bool descending : {false, true})
    for (const Line& line : lines()) {
      const std::int64_t size = line.x[place(line)], count = whole ? size : size / 2;
      op.samples.push_back({.name = message(line.x, " along ", line.dim, descending ? " descending" : ""),
                            .arguments = {distinct(line.x)},
                            .call =
                                [=](const std::vector<Tensor>& in) {
                                  const op::Sorted out = whole ? op::sort(in[0], line.dim, descending)
                                                               : op::topk(in[0], count, line.dim, descending);
                                  return std::vector{out.values, out.indices};
                                },
                            .reference =
                                [=](const std::vector<Array>& in) {
                                  const Ordered out = ordered(in[0], place(line), descending, count);
                                  return std::vector{out.values, out.indices};
                                },
                            .gradient_outputs = 1,
                            .exact = true});
    }
  op.refuses("a dimension outside", Kind::shape, {"2"}, [whole] {
    whole ? op::sort(ones({2, 3}), 2) : op::topk(ones({2, 3}), 1, 2);
  });
  if (whole)
    op.invalid[0].speaker = "argsort";
  else
    op.refuses("more than there are", Kind::shape, {"4", "[2,3]"}, [] { op::topk(ones({2, 3}), 4); });
  return op;
}

}  // namespace

std::vector<Operator> indexing_cases() {
  std::vector<Operator> all;
  all.push_back(gather());
  all.push_back(scatter("scatter", false));
  all.push_back(scatter("scatter_add", true));
  all.push_back(scatter_add_integers());
  all.push_back(masked_select());
  all.push_back(nonzero());
  all.push_back(argsort());
  all.push_back(sorted("sort", true));
  all.push_back(sorted("topk", false));
  return all;
}

}  // namespace tern::testing
