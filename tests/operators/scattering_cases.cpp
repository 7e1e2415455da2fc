// Gathering and scattering by whole positions, several elements for one place, and what waits for the elements.

#include <algorithm>
#include <map>

#include "operators/integers.hpp"
#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"
#include "tern/operators/scattering.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using op::Scatter;

// Whole numbers of [-size, size) as int64: both ways to name an element.
Argument either_end(const Shape& shape, std::int64_t size) {
  Argument result = integers(shape, static_cast<double>(-size), static_cast<double>(size - 1));
  result.dtype = DType::int64;
  result.differentiable = false;
  return result;
}

Tensor whole(std::vector<std::int64_t> numbers, const Shape& shape) { return tensor(numbers, shape); }

struct Place {
  Shape x, index;
  int batch = 0;
};

std::int64_t smallest(const Place& use) {
  std::int64_t size = 1000;
  for (std::int64_t k = 0; k < use.index.back(); ++k) size = std::min(size, use.x[use.batch + static_cast<int>(k)]);
  return size;
}

// The position in x that row `row` of the index names, and `rest` within it.
Shape named(const Place& use, const Array& index, const Shape& row, const Shape& rest) {
  Shape position(row.begin(), row.begin() + use.batch);
  for (std::int64_t k = 0; k < use.index.back(); ++k) {
    Shape at = row;
    at.push_back(k);
    const auto given = static_cast<std::int64_t>(index.at(at));
    position.push_back(given < 0 ? given + use.x[use.batch + static_cast<int>(k)] : given);
  }
  for (const std::int64_t i : rest) position.push_back(i);
  return position;
}

// The shape of what the index names, after that of its rows.
Shape rest_of(const Place& use) { return Shape(use.x.begin() + use.batch + use.index.back(), use.x.end()); }
Shape rows_of(const Place& use) { return Shape(use.index.begin(), use.index.end() - 1); }
Shape joined(Shape a, const Shape& b) {
  for (const std::int64_t size : b) a.push_back(size);
  return a;
}

Operator gather_nd() {
  Operator op = movement("gather_nd");
  for (const Place& use :
       {Place{{5}, {3, 1}}, Place{{3, 4}, {5, 2}}, Place{{3, 4}, {5, 1}}, Place{{3, 4, 2}, {2, 3, 2}},
        Place{{3, 4, 2}, {6, 3}}, Place{{2, 4, 5}, {2, 3, 1}, 1}, Place{{2, 3, 4, 2}, {2, 3, 5, 1}, 2},
        Place{{2, 3, 4}, {2, 2}, 1}, Place{{3, 4}, {2}}, Place{{3, 4}, {0, 2}}})
    op.samples.push_back(moving(
        message(use.x, " by ", use.index), {any_values(use.x), either_end(use.index, smallest(use))},
        [use](const std::vector<Tensor>& in) { return std::vector{op::gather_nd(in[0], in[1], use.batch)}; },
        [use](const std::vector<Array>& in) {
          const Shape rows = rows_of(use), rest = rest_of(use);
          Array out(joined(rows, rest));
          for_each_position(rows, [&](const Shape& row) {
            for_each_position(rest, [&](const Shape& inside) {
              out.at(joined(row, inside)) = in[0].at(named(use, in[1], row, inside));
            });
          });
          return std::vector{out};
        }));
  for (Sample& sample : op.samples) sample.gradient_terms = 24;
  op.refuses("an index too large", Kind::numeric, {"4"}, [] {
    op::gather_nd(ones({3, 4}), whole({1, 4}, {1, 2})).values();
  });
  op.refuses("an index too small", Kind::numeric, {"-1"}, [] {
    op::gather_nd(ones({3, 4}), whole({-4, 0}, {1, 2})).values();
  });
  op.refuses("more columns than dimensions", Kind::shape, {"[1,3]", "[3,4]"}, [] {
    op::gather_nd(ones({3, 4}), whole({0, 0, 0}, {1, 3}));
  });
  op.refuses("an index of numbers", Kind::dtype, {"float32"}, [] { op::gather_nd(ones({3, 4}), zeros({1, 2})); });
  return op;
}

double joins(Scatter how, double a, double b) {
  switch (how) {
    case Scatter::add:
      return a + b;
    case Scatter::mul:
      return a * b;
    case Scatter::max:
      return std::max(a, b);
    case Scatter::min:
      return std::min(a, b);
    default:
      return b;
  }
}

constexpr std::pair<Scatter, const char*> hows[]{{Scatter::none, "none"},
                                                 {Scatter::add, "add"},
                                                 {Scatter::mul, "mul"},
                                                 {Scatter::max, "max"},
                                                 {Scatter::min, "min"}};

// Ones that are all different have no ties for the extremes; the products stay near 1.
Argument values_for(Scatter how, const Shape& shape, double start) {
  if (how == Scatter::mul) return uniform(shape, 0.5, 1.5);
  if (how != Scatter::max && how != Scatter::min) return uniform(shape);
  std::vector<double> elements;
  for (std::int64_t i = 0; i < std::max<std::int64_t>(element_count(shape), 1); ++i)
    elements.push_back(start + static_cast<double>(i * 37 % 101) / 16);
  return listed(shape, elements);
}

Operator scatter_nd() {
  Operator op{.name = "scatter_nd"};
  for (const auto& [how, name] : hows)
    for (const Place& use : {Place{{5}, {3, 1}}, Place{{3, 4}, {7, 2}}, Place{{3, 4}, {5, 1}},
                             Place{{3, 4, 2}, {2, 3, 2}}, Place{{2, 2, 3}, {9, 3}}, Place{{3, 4}, {0, 1}}}) {
      const Shape source = joined(rows_of(use), rest_of(use));
      const auto call = [how = how](const std::vector<Tensor>& in) {
        return std::vector{op::scatter_nd(in[0], in[1], in[2], how)};
      };
      const auto reference = [use, how = how](const std::vector<Array>& in) {
        Array out = in[0];
        for_each_position(rows_of(use), [&](const Shape& row) {
          for_each_position(rest_of(use), [&](const Shape& inside) {
            double& place = out.at(named(use, in[1], row, inside));
            place = joins(how, place, in[2].at(joined(row, inside)));
          });
        });
        return std::vector{out};
      };
      const double terms = static_cast<double>(std::max<std::int64_t>(element_count(source), 1));
      op.samples.push_back({.name = message(use.x, " by ", use.index, ' ', name),
                            .arguments = {values_for(how, use.x, 0), either_end(use.index, smallest(use)),
                                          values_for(how, source, 1.0 / 64)},
                            .call = call,
                            .reference = reference,
                            .exact = how == Scatter::none,
                            .terms = how == Scatter::none ? 1 : terms,
                            .gradient_terms = terms});
      op.samples.push_back(
          {.name = message(use.x, " by ", use.index, ' ', name, " of integers"),
           .arguments = {integers(use.x, 0, 3), either_end(use.index, smallest(use)), integers(source, 0, 2)},
           .call = call,
           .reference = reference,
           .dtypes = number_dtypes,
           .gradient = false,
           .exact = true});
      if (element_count(source) > 8 && how == Scatter::mul) op.samples.back().dtypes = signed_dtypes;
    }
  op.refuses("a source of another shape", Kind::shape, {"[3]", "expected [2]"}, [] {
    op::scatter_nd(ones({3, 4}), whole({0, 1, 1, 2}, {2, 2}), ones({3}));
  });
  op.refuses("two dtypes", Kind::dtype, {"float64"}, [] {
    op::scatter_nd(ones({3}), whole({0}, {1, 1}), ones({1}, DType::float64));
  });
  op.refuses("an index of numbers", Kind::dtype, {"float32"}, [] {
    op::scatter_nd(ones({3}), zeros({1, 1}), ones({1}));
  });
  return op;
}

struct Along {
  Shape x, index;
  int dim;
};

Operator scatter_reduce() {
  Operator op{.name = "scatter_reduce"};
  for (const auto& [how, name] : hows)
    for (const bool self : {true, false})
      for (const Along& use : {Along{{4}, {9}, 0}, Along{{4, 6}, {7, 6}, 0}, Along{{3, 5, 4}, {3, 8, 4}, 1},
                               Along{{4, 6}, {2, 9}, 1}, Along{{2, 3}, {2, 0}, 1}}) {
        const auto call = [how = how, self, use](const std::vector<Tensor>& in) {
          return std::vector{op::scatter_reduce(in[0], use.dim, in[1], in[2], {.join = how, .include_self = self})};
        };
        const auto reference = [how = how, self, use](const std::vector<Array>& in) {
          Array out = in[0], seen(use.x);
          for_each_position(use.index, [&](const Shape& at) {
            Shape to = at;
            to[use.dim] = static_cast<std::int64_t>(in[1].at(at));
            double& place = out.at(to);
            place = !self && seen.at(to) == 0 ? in[2].at(at) : joins(how, place, in[2].at(at));
            seen.at(to) = 1;
          });
          return std::vector{out};
        };
        const double terms = static_cast<double>(std::max<std::int64_t>(use.index[use.dim], 1));
        const std::string title = message(use.x, " by ", use.index, ' ', name, self ? "" : " without its own");
        op.samples.push_back({.name = title,
                              .arguments = {values_for(how, use.x, 0), labels(use.index, use.x[use.dim]),
                                            values_for(how, use.index, 1.0 / 64)},
                              .call = call,
                              .reference = reference,
                              .exact = how == Scatter::none,
                              .terms = how == Scatter::none ? 1 : terms,
                              .gradient_terms = terms});
        op.samples.push_back(
            {.name = title + " of integers",
             .arguments = {integers(use.x, -3, 3), labels(use.index, use.x[use.dim]), integers(use.index, -2, 2)},
             .call = call,
             .reference = reference,
             .dtypes = signed_dtypes,
             .gradient = false,
             .exact = true});
      }
  // Equal shares for equal elements: x's 3 and two of the source.
  op.samples.push_back(
      {.name = "the gradient of equal largest ones",
       .arguments = {constant(listed({2}, {3, 1})), constant(listed({4}, {3, 3, 2, 1}))},
       .call =
           [](const std::vector<Tensor>& in) {
             Tensor x = in[0].clone().set_requires_grad(), source = in[1].clone().set_requires_grad();
             const Tensor out = op::scatter_reduce(x, 0, whole({0, 0, 0, 1}, {4}), source, {.join = Scatter::max});
             op::sum(out * 6.0).backward();
             return std::vector{x.grad(), source.grad()};
           },
       .reference =
           [](const std::vector<Array>&) {
             return std::vector{Array({2}, {2, 3}), Array({4}, {2, 2, 0, 3})};
           },
       .gradient = false});
  op.refuses("a source of another shape", Kind::shape, {"[3]", "[2]"},
             [] { op::scatter_reduce(ones({4}), 0, zeros({2}, DType::int64), ones({3})); });
  op.refuses("a dimension outside", Kind::shape, {"1"},
             [] { op::scatter_reduce(ones({4}), 1, zeros({2}, DType::int64), ones({2})); });
  return op;
}

Operator compress() {
  Operator op = movement("compress");
  const auto add = [&](const Shape& x, std::int64_t size, std::optional<std::int64_t> dim) {
    op.samples.push_back(moving(
        message(x, " by ", size, dim ? message(" along ", *dim) : ""), {any_values(x), booleans({size})},
        [dim](const std::vector<Tensor>& in) { return std::vector{op::compress(in[0], in[1], dim)}; },
        [dim](const std::vector<Array>& in) {
          Array whole_x = in[0];
          if (!dim) whole_x.shape = {whole_x.size()};
          const int place =
              dim && *dim < 0 ? static_cast<int>(*dim) + whole_x.shape.rank() : static_cast<int>(dim.value_or(0));
          std::vector<std::int64_t> chosen;
          for (std::int64_t i = 0; i < in[1].size(); ++i)
            if (in[1][i] != 0) chosen.push_back(i);
          Shape shape = whole_x.shape;
          shape[place] = static_cast<std::int64_t>(chosen.size());
          return std::vector{picked(whole_x, shape, [&](Shape at) {
            at[place] = chosen[static_cast<std::size_t>(at[place])];
            return at;
          })};
        }));
  };
  add({9}, 9, 0);
  add({4, 6}, 6, 1);
  add({4, 6}, 3, 0);
  add({2, 3, 4}, 4, -1);
  add({4, 6}, 24, {});
  add({4, 6}, 7, {});
  add({3, 2}, 0, 0);
  op.refuses("a longer condition", Kind::shape, {"5", "[4,6]"}, [] {
    op::compress(ones({4, 6}), ones({5}, DType::boolean), 0);
  });
  op.refuses("a condition of numbers", Kind::dtype, {"float32"}, [] { op::compress(ones({4}), ones({4}), 0); });
  return op;
}

Operator unique() {
  Operator op{.name = "unique"};
  const auto add = [&](const Shape& x, std::optional<std::int64_t> dim, bool sorted, const std::vector<DType>& dtypes,
                       double low) {
    op.samples.push_back(
        {.name =
             message(x, dim ? message(" along ", *dim) : "", sorted ? "" : " as they come", low < 0 ? " signed" : ""),
         .arguments = {integers(x, low, 3)},
         .call = [dim,
                  sorted](const std::vector<Tensor>& in) { return op::unique(in[0], {.dim = dim, .sorted = sorted}); },
         .reference =
             [dim, sorted](const std::vector<Array>& in) {
               Array whole_x = in[0];
               if (!dim) whole_x.shape = {whole_x.size()};
               const int place = static_cast<int>(dim.value_or(0));
               Shape slice = whole_x.shape;
               slice[place] = 1;
               std::map<std::vector<double>, std::vector<std::int64_t>> places;
               for (std::int64_t i = 0; i < whole_x.shape[place]; ++i) {
                 std::vector<double> elements;
                 for_each_position(slice, [&](Shape at) {
                   at[place] = i;
                   elements.push_back(whole_x.at(at));
                 });
                 places[elements].push_back(i);
               }
               std::vector<std::vector<std::int64_t>> groups;
               for (const auto& [elements, group] : places) groups.push_back(group);
               if (!sorted) std::sort(groups.begin(), groups.end());
               const auto n = static_cast<std::int64_t>(groups.size());
               Array first({n}, 0, DType::int64), counts({n}, 0, DType::int64),
                   inverse(dim ? Shape{whole_x.shape[place]} : in[0].shape, 0, DType::int64);
               for (std::int64_t g = 0; g < n; ++g) {
                 const auto& group = groups[static_cast<std::size_t>(g)];
                 first[g] = static_cast<double>(group[0]);
                 counts[g] = static_cast<double>(group.size());
                 for (const std::int64_t i : group) inverse[i] = static_cast<double>(g);
               }
               Shape shape = whole_x.shape;
               shape[place] = n;
               const Array values = picked(whole_x, shape, [&](Shape at) {
                 at[place] = static_cast<std::int64_t>(first[at[place]]);
                 return at;
               });
               return std::vector{values, first, inverse, counts};
             },
         .dtypes = dtypes,
         .gradient = false,
         .exact = true});
  };
  for (const bool sorted : {true, false}) {
    add({13}, {}, sorted, all_dtypes, 0);
    add({3, 5}, {}, sorted, compute_dtypes, -3);
    add({7, 2}, 0, sorted, all_dtypes, 0);
    add({2, 9}, 1, sorted, signed_dtypes, -1);
    add({3, 4, 2}, 1, sorted, all_dtypes, 2);
    add({0}, {}, sorted, compute_dtypes, 0);
  }
  op.refuses("a dimension outside", Kind::shape, {"2"}, [] { op::unique(ones({2, 3}), {.dim = 2}); });
  op.refuses("nothing", Kind::any, {"undefined"}, [] { op::unique(Tensor()); });
  return op;
}

}  // namespace

std::vector<Operator> scattering_cases() {
  std::vector<Operator> all;
  all.push_back(gather_nd());
  all.push_back(scatter_nd());
  all.push_back(scatter_reduce());
  all.push_back(compress());
  all.push_back(unique());
  return all;
}

}  // namespace tern::testing
