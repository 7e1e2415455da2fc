// Reductions over each set of dimensions, of nothing, of one element, with ties and NaN.

#include <algorithm>
#include <limits>

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;
using op::Dims;
constexpr double infinity = std::numeric_limits<double>::infinity();

// The elements behind each element of the result, in row-major order.
std::vector<std::vector<double>> groups_of(const Array& x, const Dims& dims, bool keep_dims, Shape& shape) {
  std::vector<bool> reduced(static_cast<std::size_t>(x.shape.rank()), dims.empty());
  for (const std::int64_t dim : dims) reduced[static_cast<std::size_t>(dim < 0 ? dim + x.shape.rank() : dim)] = true;
  Shape kept;
  shape = {};
  for (int i = 0; i < x.shape.rank(); ++i) {
    const bool gone = reduced[static_cast<std::size_t>(i)];
    kept.push_back(gone ? 1 : x.shape[i]);
    if (!gone || keep_dims) shape.push_back(gone ? 1 : x.shape[i]);
  }
  const Array layout(kept);
  std::vector<std::vector<double>> groups(static_cast<std::size_t>(layout.size()));
  for_each_position(x.shape, [&](const Shape& position) {
    Shape own = position;
    for (int i = 0; i < own.rank(); ++i)
      if (kept[i] == 1) own[i] = 0;
    groups[static_cast<std::size_t>(layout.offset(own))].push_back(x.at(position));
  });
  return groups;
}

using Group = std::function<double(const std::vector<double>&)>;

Array reduced(const Array& x, const Dims& dims, bool keep_dims, const Group& function) {
  Shape shape;
  const auto groups = groups_of(x, dims, keep_dims, shape);
  Array result(shape);
  for (std::int64_t i = 0; i < result.size(); ++i) result[i] = function(groups[static_cast<std::size_t>(i)]);
  return result;
}

double sum_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum;
}
double mean_of(const std::vector<double>& values) { return sum_of(values) / static_cast<double>(values.size()); }
double var_of(const std::vector<double>& values, std::int64_t correction) {
  if (static_cast<std::int64_t>(values.size()) <= correction) return std::nan("");
  const double mean = mean_of(values);
  double sum = 0;
  for (const double value : values) sum += (value - mean) * (value - mean);
  return sum / static_cast<double>(static_cast<std::int64_t>(values.size()) - correction);
}
// The position of the first extreme; the first NaN wins.
std::size_t extreme_of(const std::vector<double>& values, double sign) {
  std::size_t best = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[best])) break;
    if (std::isnan(values[i]) || sign * values[i] > sign * values[best]) best = i;
  }
  return best;
}

struct Use {
  Shape x;
  Dims dims;
  bool keep_dims = false;
  bool large = false;
};

const std::vector<Use>& full_uses() {
  static const std::vector<Use> all{{{}, {}},
                                    {{1}, {}},
                                    {{9}, {}},
                                    {{17}, {0}},
                                    {{33}, {0}, true},
                                    {{4097}, {}},
                                    {{7, 11}, {0}},
                                    {{7, 11}, {1}},
                                    {{7, 11}, {-1}, true},
                                    {{7, 11}, {}},
                                    {{2, 3, 5}, {1}},
                                    {{2, 3, 5}, {0, 2}},
                                    {{2, 3, 5}, {2, 0}, true},
                                    {{2, 3, 5}, {0, 1, 2}},
                                    {{3, 1, 4}, {1}},
                                    {{2, 3, 4, 5}, {0, 2, 3}},
                                    {{2, 3, 4, 5}, {1, 3}, true},
                                    {{1, 1, 1}, {1}},
                                    {{33, 65}, {1}},
                                    {{65, 33}, {0}},
                                    {{4, 5, 3}, {-3}},
                                    {{2, 1031}, {1}},
                                    {{1031, 3}, {0}},
                                    {{300007}, {}, false, true},
                                    {{601, 499}, {1}, false, true},
                                    {{601, 499}, {0}, false, true},
                                    {{33, 101, 97}, {1}, true, true},
                                    // columns enough for a thread each, or for some of them
                                    {{3, 16411}, {0}, false, true},
                                    {{2, 3, 33000}, {1}, false, true}};
  return all;
}

double longest(const Use& use) {
  double length = 1;
  for (int i = 0; i < use.x.rank(); ++i)
    if (use.dims.empty() || std::find(use.dims.begin(), use.dims.end(), i) != use.dims.end() ||
        std::find(use.dims.begin(), use.dims.end(), i - use.x.rank()) != use.dims.end())
      length *= static_cast<double>(use.x[i]);
  return std::max(length, 1.0);
}

std::string name_of(const Use& use) {
  std::string dims;
  for (const std::int64_t dim : use.dims) dims += message(dims.empty() ? "" : ",", dim);
  return message(use.x, " over {", dims, use.keep_dims ? "} kept" : "}");
}

using Reduction = std::function<Tensor(const Tensor&, const Dims&, bool)>;

Sample sample(const Use& use, Argument argument, const Reduction& call, const Group& function) {
  return {
      .name = name_of(use),
      .arguments = {std::move(argument)},
      .call = [use, call](const std::vector<Tensor>& in) { return std::vector{call(in[0], use.dims, use.keep_dims)}; },
      .reference =
          [use, function](const std::vector<Array>& in) {
            return std::vector{reduced(in[0], use.dims, use.keep_dims, function)};
          },
      .terms = longest(use),
      .large = use.large};
}

void add_common_mistakes(Operator& op, const Reduction& call) {
  op.refuses("a dimension outside", Kind::shape, {"2"}, [call] { call(ones({2, 3}), {2}, false); });
  op.refuses("a negative dimension outside", Kind::shape, {"-3"}, [call] { call(ones({2, 3}), {-3}, false); });
  op.refuses("a dimension twice", Kind::shape, {"twice"}, [call] { call(ones({2, 3}), {1, -1}, false); });
}

Operator additive(const char* name, const Reduction& call, const Group& function, bool sums) {
  Operator op{.name = name, .ulps = 3};
  for (const Use& use : full_uses()) op.samples.push_back(sample(use, uniform(use.x), call, function));
  for (const Use& use :
       {Use{{0}, {}}, Use{{0}, {0}, true}, Use{{3, 0}, {1}}, Use{{3, 0, 2}, {0, 1}}, Use{{0, 3}, {1}}}) {
    op.samples.push_back(sample(use, uniform(use.x), call, function));
    op.samples.back().gradient = sums;
  }
  if (sums)
    for (const Use& use : {Use{{4097}, {}}, Use{{65, 33}, {0}}, Use{{33, 65}, {1}}, Use{{300007}, {}, false, true}}) {
      op.samples.push_back(sample(use, integers(use.x), call, function));
      op.samples.back().name += " integers";
      op.samples.back().exact = true;
      op.samples.back().gradient = false;
    }
  op.samples.push_back(sample({{2, 14}, {1}}, listed({2, 14}, special_values()), call, function));
  op.samples.back().gradient = false;
  op.samples.push_back(sample({{9, 3}, {0}}, listed({9, 3}, {1, infinity, -infinity, 2, 3, 4}), call, function));
  op.samples.back().gradient = false;
  op.samples.push_back(sample({{3, 4, 7}, {1}}, expanded({3, 1, 7}, {3, 4, 7}), call, function));
  op.samples.back().name += " expanded";
  add_common_mistakes(op, call);
  return op;
}

Operator var() {
  Operator op{.name = "var", .ulps = 6};
  for (const std::int64_t correction : {1, 0, 2}) {
    const Reduction call = [correction](const Tensor& x, const Dims& dims, bool keep) {
      return op::var(x, dims, correction, keep);
    };
    const Group function = [correction](const std::vector<double>& values) { return var_of(values, correction); };
    for (const Use& use : full_uses()) {
      if (correction != 1 && use.large) continue;
      op.samples.push_back(sample(use, uniform(use.x), call, function));
      op.samples.back().name += message(" correction ", correction);
      op.samples.back().gradient = longest(use) > static_cast<double>(correction) + 0.5;
    }
  }
  const Reduction call = [](const Tensor& x, const Dims& dims, bool keep) { return op::var(x, dims, 1, keep); };
  const Group function = [](const std::vector<double>& values) { return var_of(values, 1); };
  op.samples.push_back(sample({{3, 0}, {1}}, uniform({3, 0}), call, function));
  op.samples.back().gradient = false;
  op.samples.push_back(sample({{3, 65}, {1}}, uniform({3, 65}, 1000, 1001), call, function));
  op.samples.back().name += " far from 0";
  op.samples.back().terms = 4000;
  op.samples.back().gradient = false;
  // The mean is rounded by as much as the deviation, which must not show.
  for (const auto& [shape, dim] : {std::pair<Shape, std::int64_t>{{20000, 3}, 0}, {{3, 2000}, 1}, {{2, 20000}, 1}}) {
    op.samples.push_back(sample({shape, {dim}}, integers(shape, 1e7, 1e7 + 3), call, function));
    op.samples.back().name += " integers far from 0";
    op.samples.back().terms = 100;
    op.samples.back().gradient = false;
    op.samples.back().dtypes = {DType::float32};
  }
  add_common_mistakes(op, call);
  return op;
}

Operator extreme(const char* name, const Reduction& call, double sign) {
  Operator op{.name = name};
  const Group function = [sign](const std::vector<double>& values) { return values[extreme_of(values, sign)]; };
  const auto add = [&](const Use& use, Argument argument, const char* label, bool gradient) {
    op.samples.push_back(sample(use, std::move(argument), call, function));
    op.samples.back().name += label;
    op.samples.back().gradient = gradient;
    op.samples.back().exact = true;
  };
  for (const Use& use : full_uses()) add(use, distinct(use.x), "", true);
  add({{2, 14}, {1}}, listed({2, 14}, special_values()), " special values", false);
  add({{14, 3}, {0}}, listed({14, 3}, special_values()), " special values", false);
  add({{13, 17}, {1}}, integers({13, 17}, 0, 3), " ties", false);
  add({{3, 9}, {1}}, listed({3, 9}, {-infinity}), " all -infinity", false);
  add({{0, 3}, {1}}, uniform({0, 3}), "", true);
  add_common_mistakes(op, call);
  op.refuses("no elements", Kind::shape, {"[3,0]"}, [call] { call(ones({3, 0}), {1}, false); });
  op.refuses("no elements at all", Kind::shape, {"[0]"}, [call] { call(ones({0}), {}, false); });
  return op;
}

Operator position(const char* name, Tensor (*call)(const Tensor&, std::int64_t, bool), double sign) {
  Operator op{.name = name};
  const auto add = [&](const Shape& shape, std::int64_t dim, bool keep_dims, Argument argument, const char* label,
                       bool large = false) {
    op.samples.push_back(
        {.name = message(shape, " along ", dim, keep_dims ? " kept" : "", label),
         .arguments = {std::move(argument)},
         .call = [call, dim,
                  keep_dims](const std::vector<Tensor>& in) { return std::vector{call(in[0], dim, keep_dims)}; },
         .reference =
             [dim, keep_dims, sign](const std::vector<Array>& in) {
               Array result = reduced(in[0], {dim}, keep_dims, [sign](const std::vector<double>& values) {
                 return static_cast<double>(extreme_of(values, sign));
               });
               result.dtype = DType::int64;
               return std::vector{result};
             },
         .gradient = false,
         .exact = true,
         .large = large});
  };
  for (const auto& [shape, dim] : {std::pair<Shape, std::int64_t>{{1}, 0},
                                   {{9}, 0},
                                   {{17}, -1},
                                   {{4097}, 0},
                                   {{7, 11}, 0},
                                   {{7, 11}, 1},
                                   {{2, 3, 5}, 1},
                                   {{5, 1, 3}, 1},
                                   {{33, 65}, -1},
                                   {{65, 33}, 0},
                                   {{2, 3, 4, 5}, -2},
                                   {{0, 3}, 1},
                                   {{128, 10}, 1}}) {
    add(shape, dim, false, distinct(shape), "");
    add(shape, dim, true, integers(shape, 0, 3), " ties");
  }
  add({2, 14}, 1, false, listed({2, 14}, special_values()), " special values");
  add({14, 2}, 0, false, listed({14, 2}, special_values()), " special values");
  add({601, 499}, 1, false, integers({601, 499}, 0, 300), " large", true);
  add({499, 601}, 0, false, integers({499, 601}, 0, 300), " large", true);
  op.refuses("a dimension outside", Kind::shape, {"2"}, [call] { call(ones({2, 3}), 2, false); });
  op.refuses("no elements", Kind::shape, {"[3,0]"}, [call] { call(ones({3, 0}), 1, false); });
  return op;
}

Operator sum_to() {
  Operator op{.name = "sum_to", .ulps = 3};
  struct Pair {
    Shape from, to;
  };
  for (const Pair& pair :
       {Pair{{3, 4}, {3, 4}}, Pair{{3, 4}, {4}}, Pair{{3, 4}, {3, 1}}, Pair{{3, 4}, {}}, Pair{{3, 4}, {1}},
        Pair{{2, 3, 5}, {3, 1}}, Pair{{2, 3, 5}, {2, 1, 5}}, Pair{{2, 3, 5}, {1, 1, 5}}, Pair{{0, 3}, {3}},
        Pair{{0, 3}, {1, 1}}, Pair{{2, 3, 4, 5}, {1, 3, 1, 1}}, Pair{{601, 499}, {499}}})
    op.samples.push_back(
        {.name = message(pair.from, " to ", pair.to),
         .arguments = {uniform(pair.from)},
         .call = [to = pair.to](const std::vector<Tensor>& in) { return std::vector{op::sum_to(in[0], to)}; },
         .reference =
             [to = pair.to](const std::vector<Array>& in) {
               Array result(to);
               for_each_position(in[0].shape, [&](const Shape& position) {
                 Shape own;
                 const int extra = position.rank() - to.rank();
                 for (int i = 0; i < to.rank(); ++i) own.push_back(to[i] == 1 ? 0 : position[i + extra]);
                 result.at(own) += in[0].at(position);
               });
               return std::vector{result};
             },
         .terms = static_cast<double>(std::max<std::int64_t>(1, element_count(pair.from))) /
                  static_cast<double>(std::max<std::int64_t>(1, element_count(pair.to))),
         .large = element_count(pair.from) > 100000});
  op.refuses("a shape that does not broadcast", Kind::shape, {"[3,4]", "[5]"}, [] { op::sum_to(ones({3, 4}), {5}); });
  op.refuses("a shape of more dimensions", Kind::shape, {"[4]", "[1,4]"}, [] { op::sum_to(ones({4}), {1, 4}); });
  return op;
}

}  // namespace

std::vector<Operator> reduction_cases() {
  std::vector<Operator> all;
  all.push_back(additive(
      "sum", [](const Tensor& x, const Dims& dims, bool keep) { return op::sum(x, dims, keep); }, sum_of, true));
  all.push_back(additive(
      "mean", [](const Tensor& x, const Dims& dims, bool keep) { return op::mean(x, dims, keep); }, mean_of, false));
  all.push_back(var());
  all.push_back(extreme("max", op::max, 1));
  all.push_back(extreme("min", op::min, -1));
  all.push_back(position("argmax", op::argmax, 1));
  all.push_back(position("argmin", op::argmin, -1));
  all.push_back(sum_to());
  return all;
}

}  // namespace tern::testing
