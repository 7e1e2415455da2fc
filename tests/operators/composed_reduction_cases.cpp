// Reductions that are composed of other operators.

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

// The shape of a reduction with the reduced dimensions kept.
Shape kept_shape(const Shape& shape, const Dims& dims) {
  Shape kept = dims.empty() ? Shape::filled(shape.rank(), 1) : shape;
  for (const std::int64_t dim : dims) kept[normalize_dim("reference", dim, shape.rank())] = 1;
  return kept;
}

Shape reduced_shape(const Shape& shape, const Dims& dims, bool keep_dims) {
  const Shape kept = kept_shape(shape, dims);
  if (keep_dims) return kept;
  Shape reduced;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool gone = dims.empty() || std::ranges::any_of(dims, [&](std::int64_t dim) {
                        return normalize_dim("reference", dim, shape.rank()) == i;
                      });
    if (!gone) reduced.push_back(shape[i]);
  }
  return reduced;
}

struct Use {
  Shape x;
  Dims dims;
  bool keep_dims = false;
};

using Logic = Tensor (*)(const Tensor&, const Dims&, bool);

Operator logic(const char* name, Logic call, bool is_all) {
  Operator op{.name = name};
  const auto add = [&](const char* label, const Use& use, Argument argument, const std::vector<DType>& dtypes) {
    op.samples.push_back(
        {.name = message(use.x, " over ", use.dims.size(), use.keep_dims ? " kept" : "", label),
         .arguments = {std::move(argument)},
         .call = [call,
                  use](const std::vector<Tensor>& in) { return std::vector{call(in[0], use.dims, use.keep_dims)}; },
         .reference =
             [use, is_all](const std::vector<Array>& in) {
               Array out(kept_shape(use.x, use.dims), is_all ? 1 : 0, DType::boolean);
               for_each_position(use.x, [&](Shape position) {
                 const bool holds = in[0].at(position) != 0;
                 for (int i = 0; i < position.rank(); ++i)
                   if (out.shape[i] == 1) position[i] = 0;
                 if (holds != is_all) out.at(position) = holds ? 1 : 0;
               });
               out.shape = reduced_shape(use.x, use.dims, use.keep_dims);
               return std::vector{out};
             },
         .dtypes = dtypes,
         .gradient = false,
         .exact = true});
  };
  // Mostly what decides nothing, so that both answers come.
  std::vector<double> elements(23, is_all ? 1 : 0);
  elements[7] = 1 - elements[7];
  for (const Use& use : {Use{{}, {}}, Use{{5}, {}}, Use{{17}, {0}}, Use{{9, 7}, {1}}, Use{{9, 7}, {0}, true},
                         Use{{2, 3, 5}, {0, 2}}, Use{{4, 6}, {}, true}, Use{{0}, {}}, Use{{3, 0}, {1}}})
    add("", use, listed(use.x, elements), all_dtypes);
  add(" special values", {{14, 1}, {1}}, listed({14, 1}, special_values()), compute_dtypes);
  op.refuses("a dimension outside", Kind::shape, {"2"}, [call] { call(ones({2, 3}), {2}, false); });
  op.refuses("nothing", Kind::any, {"undefined"}, [call] { call(Tensor(), {}, false); });
  return op;
}

using Reduction = std::function<Tensor(const Tensor&, const Dims&, bool)>;
using Group = std::function<double(const std::vector<double>&)>;

// function(the elements that are reduced to one) for each element of the result.
Operator reduction(const char* name, const Reduction& call, const Group& function, bool of_nothing) {
  Operator op{.name = name, .ulps = 6};
  const auto add = [&](const char* label, const Use& use, Argument argument, bool gradient, bool large = false) {
    const auto results = static_cast<double>(element_count(kept_shape(use.x, use.dims)));
    const double length = static_cast<double>(element_count(use.x)) / std::max(results, 1.0);
    op.samples.push_back(
        {.name = message(use.x, " over ", use.dims.size(), use.keep_dims ? " kept" : "", label),
         .arguments = {std::move(argument)},
         .call = [call,
                  use](const std::vector<Tensor>& in) { return std::vector{call(in[0], use.dims, use.keep_dims)}; },
         .reference =
             [use, function](const std::vector<Array>& in) {
               Array out(kept_shape(use.x, use.dims));
               std::vector<std::vector<double>> groups(static_cast<std::size_t>(out.size()));
               for_each_position(use.x, [&](Shape position) {
                 const double value = in[0].at(position);
                 for (int i = 0; i < position.rank(); ++i)
                   if (out.shape[i] == 1) position[i] = 0;
                 groups[static_cast<std::size_t>(out.offset(position))].push_back(value);
               });
               for (std::int64_t i = 0; i < out.size(); ++i) out[i] = function(groups[static_cast<std::size_t>(i)]);
               out.shape = reduced_shape(use.x, use.dims, use.keep_dims);
               return std::vector{out};
             },
         .gradient = gradient,
         .terms = std::max(2.0, length),
         .large = large});
  };
  for (const Use& use : {Use{{5}, {}}, Use{{17}, {0}}, Use{{9, 7}, {1}}, Use{{9, 7}, {0}, true}, Use{{2, 3, 5}, {0, 2}},
                         Use{{4, 6}, {}, true}, Use{{2, 1031}, {-1}}})
    add("", use, distinct(use.x), true);
  if (of_nothing)
    for (const Use& use : {Use{{0}, {}}, Use{{3, 0}, {1}}, Use{{3, 0}, {1}, true}, Use{{0, 3}, {1}}})
      add("", use, uniform(use.x), false);
  add(" special values", {{14, 2}, {1}}, listed({14, 2}, special_values()), false);
  add(" zeros", {{3, 4}, {1}}, listed({3, 4}, {0}), false);
  add(" -infinities", {{2, 3}, {1}}, listed({2, 3}, {-infinity, -infinity, -infinity, 1, -infinity, 2}), false);
  add(" large", {{601, 499}, {1}}, distinct({601, 499}), true, true);
  op.refuses("a dimension outside", Kind::shape, {"2"}, [call] { call(ones({2, 3}), {2}, false); });
  op.refuses("nothing", Kind::any, {"undefined"}, [call] { call(Tensor(), {}, false); });
  op.refuses("integers", Kind::dtype, {"int32"}, [call] { call(ones({2}, DType::int32), {}, false); });
  return op;
}

double std_of(const std::vector<double>& values, double correction) {
  const auto count = static_cast<double>(values.size());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / count;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return count > correction ? std::sqrt(squares / (count - correction)) : std::nan("");
}

double norm_of(const std::vector<double>& values, double order) {
  if (order == 0) return static_cast<double>(std::ranges::count_if(values, [](double value) { return value != 0; }));
  double sum = 0, end = order > 0 ? 0 : infinity;
  for (const double value : values)
    end = std::isnan(value) || std::isnan(end) ? std::nan("")
          : order > 0                          ? std::max(end, std::abs(value))
                                               : std::min(end, std::abs(value));
  if (std::isinf(order)) return end;
  // The root of a number far from 1 loses digits.
  const double scale = std::isfinite(end) && end > 0 ? end : 1;
  for (const double value : values) sum += std::pow(std::abs(value) / scale, order);
  return scale * std::pow(sum, 1 / order);
}

double logsumexp_of(const std::vector<double>& values) {
  double largest = -infinity, sum = 0;
  for (const double value : values) largest = std::max(largest, value);
  if (std::isinf(largest)) largest = 0;
  for (const double value : values) sum += std::exp(value - largest);
  return std::log(sum) + largest;
}

// The gradient where the reference has a kink or an infinity, which central differences cannot see: `expected` of it.
Sample with_gradient(const char* name, std::vector<double> elements, const std::function<Tensor(const Tensor&)>& call,
                     std::vector<double> expected) {
  const Shape shape{static_cast<std::int64_t>(elements.size())};
  return {.name = name,
          .arguments = {constant(listed(shape, elements))},
          .call =
              [call](const std::vector<Tensor>& in) {
                Tensor x = in[0].clone().set_requires_grad();
                call(x).backward();
                return std::vector{x.grad()};
              },
          .reference = [shape, expected](const std::vector<Array>&) { return std::vector{Array(shape, expected)}; },
          .gradient = false};
}

Operator product() {
  Operator op = reduction(
      "prod", [](const Tensor& x, const Dims& dims, bool keep) { return op::prod(x, dims, keep); },
      [](const std::vector<double>& values) {
        double result = 1;
        for (const double value : values) result *= value;
        return result;
      },
      true);
  for (Sample& sample : op.samples) {
    Argument& x = sample.arguments[0];
    if (x.fill == Argument::Fill::distinct) x = uniform(x.shape, 0.75, 1.25);
    sample.gradient_terms = sample.terms;
  }
  op.samples.push_back(op.samples[2]);
  op.samples.back().name += " with a 0";
  op.samples.back().arguments[0] = listed({9, 7}, {1, 2, 0.5, -1, 3, 0.25, 1.5, 1, -2, 0});
  std::erase_if(op.invalid, [](const Invalid& invalid) { return invalid.name == "integers"; });
  return op;
}

Operator scan(const char* name, bool multiplies) {
  Operator op{.name = name};
  const auto call = multiplies ? op::cumprod : op::cumsum;
  struct Line {
    Shape x;
    int dim;
    bool large = false;
  };
  const auto add = [&](const Line& line, Argument x, const char* label, bool gradient) {
    const int place = line.dim < 0 ? line.dim + line.x.rank() : line.dim;
    op.samples.push_back(
        {.name = message(line.x, " along ", line.dim, label),
         .arguments = {std::move(x)},
         .call = [call, dim = line.dim](const std::vector<Tensor>& in) { return std::vector{call(in[0], dim, {})}; },
         .reference =
             [place, multiplies](const std::vector<Array>& in) {
               Array out = in[0];
               for_each_position(out.shape, [&](Shape at) {
                 const Shape here = at;
                 if (at[place]-- == 0) return;
                 double& value = out.at(here);
                 value = multiplies ? value * out.at(at) : value + out.at(at);
               });
               return std::vector{out};
             },
         .gradient = gradient,
         .terms = static_cast<double>(std::max<std::int64_t>(line.x[place], 1)),
         .gradient_terms = static_cast<double>(std::max<std::int64_t>(line.x[place], 1)),
         .large = line.large});
  };
  for (const Line& line : {Line{{1}, 0}, Line{{17}, 0}, Line{{5, 33}, 1}, Line{{33, 5}, 0}, Line{{3, 7, 4}, 1},
                           Line{{2, 3, 8}, -1}, Line{{3, 0}, 1}, Line{{211, 499}, 1, true}})
    add(line, multiplies ? uniform(line.x, 0.9, 1.1) : uniform(line.x), "", true);
  if (multiplies) add({{3, 6}, 1}, listed({3, 6}, {1, 2, 0.5, -1, 3, 0, 2}), " zeros", true);
  add({{4, 6}, 1}, listed({4, 6}, {1, 2, infinity, 3, -1, 2, 4, -infinity, 1, 1, infinity, 0}), " infinities", false);
  op.refuses("a dimension outside", Kind::shape, {"2"}, [call] { call(ones({2, 3}), 2, {}); });
  return op;
}

}  // namespace

std::vector<Operator> composed_reduction_cases() {
  std::vector<Operator> all;
  all.push_back(logic("any", op::any, false));
  all.push_back(logic("all", op::all, true));
  for (const std::int64_t correction : {1, 0})
    all.push_back(reduction(
        correction == 1 ? "std" : "std/of all",
        [correction](const Tensor& x, const Dims& dims, bool keep) { return op::std(x, dims, correction, keep); },
        [correction](const std::vector<double>& values) { return std_of(values, static_cast<double>(correction)); },
        false));
  all.back().samples.push_back(
      with_gradient("no deviation", {2, 2, 2}, [](const Tensor& x) { return op::std(x); }, {0, 0, 0}));
  // Their mean is rounded.
  all.back().samples.push_back(
      with_gradient("no deviation of tenths", {0.1, 0.1, 0.1}, [](const Tensor& x) { return op::std(x); }, {0, 0, 0}));
  const std::pair<const char*, double> orders[]{{"norm", 2},
                                                {"norm/sum", 1},
                                                {"norm/largest", infinity},
                                                {"norm/smallest", -infinity},
                                                {"norm/count", 0},
                                                {"norm/cubes", 3},
                                                {"norm/roots", 0.5},
                                                {"norm/inverses", -1},
                                                {"norm/inverse squares", -2}};
  for (const auto& [name, order] : orders)
    all.push_back(reduction(
        name, [order = order](const Tensor& x, const Dims& dims, bool keep) { return op::norm(x, order, dims, keep); },
        [order = order](const std::vector<double>& values) { return norm_of(values, order); }, !std::isinf(order)));
  Operator& norm = all[4];
  norm.samples.push_back(with_gradient("of zeros", {0, 0, 0}, [](const Tensor& x) { return op::norm(x); }, {0, 0, 0}));
  norm.samples.push_back(
      with_gradient("of cubes of zeros", {0, 0}, [](const Tensor& x) { return op::norm(x, 3); }, {0, 0}));
  norm.samples.push_back(
      with_gradient("of the root of a zero", {0, 4}, [](const Tensor& x) { return op::norm(x, 0.5); }, {0, 1}));
  Sample wide = with_gradient("of squares outside the range", {0x1.8p600, -0x1p601},
                              [](const Tensor& x) { return op::norm(x); }, {0.6, -0.8});
  wide.dtypes = {DType::float64};
  norm.samples.push_back(wide);
  norm.refuses("order NaN", Kind::numeric, {"NaN"}, [] { op::norm(ones({2}), std::nan("")); });
  norm.refuses("the largest of nothing", Kind::shape, {"[0]"}, [] { op::norm(ones({0}), infinity); });
  all.push_back(reduction(
      "logsumexp", [](const Tensor& x, const Dims& dims, bool keep) { return op::logsumexp(x, dims, keep); },
      logsumexp_of, true));
  all.back().samples.push_back(with_gradient("-infinities alone", {-infinity, -infinity},
                                             [](const Tensor& x) { return op::logsumexp(x); }, {0, 0}));
  all.push_back(product());
  all.push_back(scan("cumsum", false));
  all.push_back(scan("cumprod", true));
  return all;
}

}  // namespace tern::testing
