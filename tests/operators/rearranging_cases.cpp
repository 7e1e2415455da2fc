// Rearrangements: repeat, tile, roll, meshgrid, diag; forms of flatten, squeeze, pad and cat.

#include <algorithm>
#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

Operator repeat(const char* name, Tensor (*call)(const Tensor&, const Shape&), bool fewer) {
  Operator op = movement(name);
  struct Use {
    Shape x, times;
  };
  std::vector<Use> uses{
      {{3}, {2}}, {{3}, {1}},       {{2, 3}, {2, 1}}, {{2, 3}, {1, 3}},       {{2, 3}, {3, 2, 2}},   {{}, {4}},
      {{}, {}},   {{2, 3}, {0, 2}}, {{0, 3}, {2, 2}}, {{2, 1, 3}, {2, 3, 1}}, {{2, 3}, {2, 1, 1, 2}}};
  if (fewer) uses.insert(uses.end(), {{{2, 3}, {2}}, {{2, 3}, {}}});
  for (const auto& [x, times] : uses)
    op.samples.push_back(moving(
        message(x, " times ", times), {any_values(x)},
        [call, times = times](const std::vector<Tensor>& in) { return std::vector{call(in[0], times)}; },
        [x = x, times = times](const std::vector<Array>& in) {
          const int rank = std::max(x.rank(), times.rank());
          Shape shape = Shape::filled(rank, 1);
          for (int i = 0; i < x.rank(); ++i) shape[rank - x.rank() + i] *= x[i];
          for (int i = 0; i < times.rank(); ++i) shape[rank - times.rank() + i] *= times[i];
          return std::vector{picked(in[0], shape, [&](const Shape& at) {
            Shape from;
            for (int i = 0; i < x.rank(); ++i) from.push_back(at[rank - x.rank() + i] % x[i]);
            return from;
          })};
        }));
  op.refuses("a negative number", Kind::shape, {"[-1]"}, [call] { call(ones({3}), {-1}); });
  op.refuses("nothing", Kind::any, {"undefined"}, [call] { call(Tensor(), {1}); });
  if (!fewer) op.refuses("too few numbers", Kind::shape, {"[2]", "[2,3]"}, [call] { call(ones({2, 3}), {2}); });
  return op;
}

Operator roll() {
  Operator op = movement("roll");
  struct Use {
    Shape x;
    std::vector<std::int64_t> shifts;
    op::Dims dims;
  };
  for (const Use& use :
       {Use{{5}, {2}, 0}, Use{{5}, {-1}, 0}, Use{{5}, {13}, 0}, Use{{5}, {0}, 0}, Use{{3, 4}, {1}, 1},
        Use{{3, 4}, {1, -2}, {0, 1}}, Use{{2, 3, 4}, {2, 1}, {-1, 0}}, Use{{3, 4}, {1, 1}, {0, 0}}, Use{{0, 3}, {1}, 0},
        Use{{}, {1}, 0}, Use{{3, 4}, {5}, {}}, Use{{}, {5}, {}}, Use{{0}, {5}, {}}})
    op.samples.push_back(moving(
        message(use.x, " by ", Shape(use.shifts.begin(), use.shifts.end()), " along ", use.dims.size(), ' ',
                use.dims.empty() ? 0 : *use.dims.begin()),
        {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return std::vector{op::roll(in[0], use.shifts, use.dims)}; },
        [use](const std::vector<Array>& in) {
          const auto behind = [](std::int64_t at, std::int64_t shift, std::int64_t size) {
            return ((at - shift) % size + size) % size;
          };
          Array out = in[0];
          if (use.dims.empty())
            for (std::int64_t i = 0; i < out.size(); ++i) out[i] = in[0][behind(i, use.shifts[0], out.size())];
          std::size_t k = 0;
          for (const std::int64_t dim : use.dims) {
            const std::int64_t shift = use.shifts[k++];
            if (use.x.rank() == 0) continue;
            const int place = normalize_dim("reference", dim, use.x.rank());
            out = picked(out, use.x, [&](Shape at) {
              at[place] = behind(at[place], shift, use.x[place]);
              return at;
            });
          }
          return std::vector{out};
        }));
  op.refuses("two shifts without dimensions", Kind::shape, {"2 shifts"}, [] { op::roll(ones({3}), {1, 2}); });
  op.refuses("fewer dimensions than shifts", Kind::shape, {"2 shifts", "1"}, [] { op::roll(ones({3}), {1, 2}, 0); });
  op.refuses("a dimension outside", Kind::shape, {"1"}, [] { op::roll(ones({3}), {1}, 1); });
  return op;
}

Operator meshgrid() {
  Operator op = movement("meshgrid");
  for (const std::vector<Shape>& shapes :
       {std::vector<Shape>{{3}}, {{3}, {2}}, {{2}, {3}, {4}}, {{}, {3}}, {{0}, {2}}, {{1}, {1}, {5}, {2}}})
    for (const op::Meshgrid indexing : {op::Meshgrid::ij, op::Meshgrid::xy}) {
      const bool exchanged = indexing == op::Meshgrid::xy && shapes.size() > 1;
      std::vector<Argument> arguments;
      std::string name = exchanged ? "xy" : "ij";
      for (const Shape& shape : shapes) arguments.push_back(any_values(shape)), name += message(' ', shape);
      if (indexing == op::Meshgrid::xy && !exchanged) continue;
      op.samples.push_back(moving(
          name, arguments,
          [indexing](const std::vector<Tensor>& in) {
            std::vector<Tensor> out;
            for (const Tensor& grid : op::meshgrid(in, indexing)) out.push_back(grid.contiguous());
            return out;
          },
          [exchanged](const std::vector<Array>& in) {
            Shape grid;
            for (const Array& x : in) grid.push_back(x.size());
            if (exchanged) std::swap(grid[0], grid[1]);
            std::vector<Array> out;
            for (int k = 0; k < grid.rank(); ++k) {
              const Array& x = in[static_cast<std::size_t>(k)];
              const int along = exchanged && k < 2 ? 1 - k : k;
              out.push_back(
                  picked(x, grid, [&](const Shape& at) { return x.shape.rank() == 0 ? Shape{} : Shape{at[along]}; }));
            }
            return out;
          }));
    }
  op.refuses("nothing", Kind::shape, {"no tensors"}, [] { op::meshgrid({}); });
  op.refuses("a matrix", Kind::shape, {"[2,3]"}, [] { op::meshgrid({ones({2}), ones({2, 3})}); });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] { op::meshgrid({ones({2}), ones({2}, DType::float64)}); });
  return op;
}

Operator diag() {
  Operator op = movement("diag");
  for (const Shape& shape :
       {Shape{4}, Shape{1}, Shape{0}, Shape{3, 5}, Shape{5, 3}, Shape{4, 4}, Shape{1, 1}, Shape{0, 3}})
    for (const std::int64_t diagonal : {0, 1, -2, 9, -9})
      op.samples.push_back(moving(
          message(shape, " diagonal ", diagonal), {any_values(shape)},
          [diagonal](const std::vector<Tensor>& in) { return std::vector{op::diag(in[0], diagonal)}; },
          [diagonal](const std::vector<Array>& in) {
            const std::int64_t down = std::max<std::int64_t>(-diagonal, 0), right = std::max<std::int64_t>(diagonal, 0);
            if (in[0].shape.rank() == 1) {
              const std::int64_t size = in[0].size() + down + right;
              Array out({size, size});
              for (std::int64_t i = 0; i < in[0].size(); ++i) out.at({i + down, i + right}) = in[0][i];
              return std::vector{out};
            }
            const std::int64_t count = std::max<std::int64_t>(std::min(in[0].size(0) - down, in[0].size(1) - right), 0);
            Array out({count});
            for (std::int64_t i = 0; i < count; ++i) out[i] = in[0].at({i + down, i + right});
            return std::vector{out};
          }));
  op.refuses("a number", Kind::shape, {"[]"}, [] { op::diag(ones({})); });
  op.refuses("three dimensions", Kind::shape, {"[1,2,3]"}, [] { op::diag(ones({1, 2, 3})); });
  return op;
}

Operator flatten() {
  Operator op = movement("flatten/dimensions");
  struct Use {
    std::int64_t begin, end;
    Shape result;
  };
  for (const Use& use : {Use{0, 1, {6, 4, 5}}, Use{1, 2, {2, 12, 5}}, Use{-3, -2, {2, 12, 5}}, Use{2, 2, {2, 3, 4, 5}},
                         Use{0, -1, {120}}})
    op.samples.push_back(moving(
        message("from ", use.begin, " to ", use.end), {any_values({2, 3, 4, 5})},
        [use](const std::vector<Tensor>& in) { return std::vector{op::flatten(in[0], use.begin, use.end)}; },
        [use](const std::vector<Array>& in) {
          Array out = in[0];
          out.shape = use.result;
          return std::vector{out};
        }));
  op.refuses(
      "an end before its begin", Kind::shape, {"2", "1"},
      [] {
        op::flatten(ones({2, 3, 4}), 2, 1);
      },
      "flatten");
  op.refuses(
      "an end outside", Kind::shape, {"3"},
      [] {
        op::flatten(ones({2, 3, 4}), 0, 3);
      },
      "flatten");
  return op;
}

Operator squeeze() {
  Operator op = movement("squeeze/dimensions");
  struct Use {
    Shape x;
    op::Dims dims;
    Shape result;
  };
  for (const Use& use : {Use{{1, 3, 1}, {0, 2}, {3}}, Use{{1, 1, 4}, {-2, 0}, {4}}, Use{{1, 1}, {0, 1}, {}},
                         Use{{2, 1}, {}, {2, 1}}, Use{{}, {0, -1}, {}}})
    op.samples.push_back(moving(
        message(use.x, " without ", use.dims.size(), " to ", use.result), {any_values(use.x)},
        [use](const std::vector<Tensor>& in) { return std::vector{op::squeeze(in[0], use.dims)}; },
        [use](const std::vector<Array>& in) {
          Array out = in[0];
          out.shape = use.result;
          return std::vector{out};
        }));
  op.refuses(
      "another size", Kind::shape, {"size 3"},
      [] {
        op::squeeze(ones({1, 3}), {0, 1});
      },
      "squeeze");
  op.refuses(
      "a dimension twice", Kind::shape, {"twice"},
      [] {
        op::squeeze(ones({1, 1}), {0, -2});
      },
      "squeeze");
  return op;
}

Operator cropping() {
  Operator op = movement("pad/cropping");
  using Padding = std::vector<op::Padding>;
  for (const auto& [shape, padding] : {std::pair<Shape, Padding>{{5}, {{0, -2, 3}}},
                                       {{5}, {{0, 1, -5}}},
                                       {{5}, {{0, -2, -3}}},
                                       {{3, 4}, {{1, -1, -1}, {0, 2, 1}}},
                                       {{3, 4}, {{-1, 2, -3}}}})
    op.samples.push_back(moving(
        message(shape, ' ', padding[0].before, ' ', padding[0].after, ' ', padding.size()), {any_values(shape)},
        [padding = padding](const std::vector<Tensor>& in) { return std::vector{op::pad(in[0], padding, 7)}; },
        [padding = padding, shape = shape](const std::vector<Array>& in) {
          Shape size = shape, start = Shape::filled(shape.rank(), 0);
          for (const op::Padding& side : padding) {
            const int dim = normalize_dim("reference", side.dim, shape.rank());
            size[dim] += side.before + side.after;
            start[dim] = side.before;
          }
          Array out(size, 7);
          for_each_position(size, [&](const Shape& at) {
            Shape from = at;
            bool inside = true;
            for (int i = 0; i < at.rank(); ++i) {
              from[i] -= start[i];
              inside = inside && from[i] >= 0 && from[i] < shape[i];
            }
            if (inside) out.at(at) = in[0].at(from);
          });
          return std::vector{out};
        }));
  // Of bool 7 is 1.
  for (Sample& sample : op.samples) std::erase(sample.dtypes, DType::boolean);
  op.refuses(
      "more than there is", Kind::shape, {"-2", "[3]"},
      [] {
        op::pad(ones({3}), {{0, -2, -2}});
      },
      "pad");
  op.refuses(
      "a whole number of 64 bits", Kind::shape, {"-9223372036854775808"},
      [] {
        op::pad(ones({3}), {{0, std::numeric_limits<std::int64_t>::min(), 0}});
      },
      "pad");
  return op;
}

Operator joining_nothing() {
  Operator op = movement("cat/of nothing");
  const auto add = [&](const char* name, const std::vector<Shape>& shapes, std::int64_t dim, const Shape& result) {
    std::vector<Argument> arguments;
    for (const Shape& shape : shapes) arguments.push_back(any_values(shape));
    op.samples.push_back(moving(
        name, arguments, [dim](const std::vector<Tensor>& in) { return std::vector{op::cat(in, dim)}; },
        [result](const std::vector<Array>& in) {
          Array out(result);
          std::size_t count = 0;
          for (const Array& x : in)
            for (const double value : x.values) out.values[count++] = value;
          return std::vector{out};
        }));
    // What is left out takes no gradient.
    for (Argument& argument : op.samples.back().arguments)
      if (argument.shape == Shape{0}) argument.differentiable = false;
  };
  add("before a matrix", {{0}, {2, 3}}, 1, {2, 3});
  add("between matrices", {{2, 3}, {0}, {1, 3}}, 0, {3, 3});
  add("behind a vector", {{3}, {0}}, 0, {3});
  op.refuses(
      "of another dtype", Kind::dtype, {"float64"},
      [] {
        op::cat({ones({0}, DType::float64), ones({2, 3})});
      },
      "cat");
  return op;
}

// Weights that leave no choice but the order; drawn in every mode from one seed.
Operator multinomial() {
  Operator op{.name = "multinomial"};
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16})
    for (const bool replacement : {true, false}) {
      Argument weights = constant(listed({2, 3}, {0, 2, 0, 5, 0, 0}));
      weights.dtype = dtype;  // none of them may be negative or infinite
      const std::int64_t count = replacement ? 4 : 1;
      op.samples.push_back({.name = message(dtype, replacement ? " with replacement" : ""),
                            .arguments = {weights},
                            .call =
                                [replacement, count](const std::vector<Tensor>& in) {
                                  Generator generator(5);
                                  return std::vector{op::multinomial(in[0], count, replacement, generator)};
                                },
                            .reference =
                                [count](const std::vector<Array>&) {
                                  Array out({2, count}, 0, DType::int64);
                                  for (std::int64_t i = 0; i < count; ++i) out[i] = 1;
                                  return std::vector{out};
                                },
                            .dtypes = {DType::float32},
                            .gradient = false,
                            .exact = true});
    }
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::multinomial(ones({2}, DType::int32), 1); });
  op.refuses("three dimensions", Kind::shape, {"[1,2,3]"}, [] { op::multinomial(ones({1, 2, 3}), 1); });
  op.refuses("none", Kind::shape, {"0 positions"}, [] { op::multinomial(ones({2}), 0); });
  return op;
}

}  // namespace

std::vector<Operator> rearranging_cases() {
  return {multinomial(),
          repeat("repeat", op::repeat, false),
          repeat("tile", op::tile, true),
          roll(),
          meshgrid(),
          diag(),
          flatten(),
          squeeze(),
          cropping(),
          joining_nothing()};
}

}  // namespace tern::testing
