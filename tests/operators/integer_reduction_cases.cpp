// Integers and bools: sums, products, extremes, truths along dimensions, against whole numbers, which doubles hold
// exactly.

#include <algorithm>
#include <numeric>

#include "operators/integers.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Use {
  Shape x;
  Dims dims;
  bool keep_dims = false, large = false;
};

const std::vector<Use>& uses() {
  static const std::vector<Use> all{{{}, {}},
                                    {{1}, {0}},
                                    {{17}, {0}, true},
                                    {{4097}, {}},
                                    {{7, 11}, {1}},
                                    {{7, 11}, {0}, true},
                                    {{33, 65}, {-1}},
                                    {{65, 33}, {0}},
                                    {{2, 3, 5}, {1}},
                                    {{2, 3, 5}, {0, 2}},
                                    {{5, 1, 3}, {1}},
                                    {{128, 10}, {1}},
                                    {{0, 3}, {1}},
                                    {{40009, 3}, {0}, false, true},
                                    {{2, 20011}, {1}, false, true},
                                    {{100003}, {}, false, true},
                                    {{601, 499}, {0}, false, true}};
  return all;
}

using Group = double (*)(const std::vector<double>&);

// A reduction to `result`; where `of_nothing` there is one of no elements.
Operator reduction(const char* name, std::function<Tensor(const Tensor&, const Dims&, bool)> call, Group group,
                   std::optional<DType> result, const std::vector<Numbers>& all_numbers, bool of_nothing,
                   bool one_dim = false) {
  Operator op{.name = name};
  const auto add = [&](const Use& use, const Numbers& numbers) {
    const auto reference = [use, group, result](const std::vector<Array>& in) {
      std::vector<bool> reduces(static_cast<std::size_t>(use.x.rank()), use.dims.empty());
      for (const std::int64_t dim : use.dims)
        reduces[static_cast<std::size_t>(dim < 0 ? dim + use.x.rank() : dim)] = true;
      Shape kept, left;
      for (int i = 0; i < use.x.rank(); ++i) {
        const bool gone = reduces[static_cast<std::size_t>(i)];
        kept.push_back(gone ? 1 : use.x[i]);
        if (!gone || use.keep_dims) left.push_back(kept[i]);
      }
      Array out(kept, 0, result);
      std::vector<std::vector<double>> groups(static_cast<std::size_t>(out.size()));
      for_each_position(use.x, [&](Shape position) {
        const double value = in[0].at(position);
        for (int i = 0; i < position.rank(); ++i)
          if (kept[i] == 1) position[i] = 0;
        groups[static_cast<std::size_t>(out.offset(position))].push_back(value);
      });
      for (std::int64_t i = 0; i < out.size(); ++i) out[i] = group(groups[static_cast<std::size_t>(i)]);
      out.shape = left;
      return std::vector{out};
    };
    op.samples.push_back(
        {.name = message(use.x, " over ", Shape(use.dims.begin(), use.dims.end()), use.keep_dims ? " kept" : "", " of ",
                         numbers.dtypes[0]),
         .arguments = {integers(use.x, numbers.a_low, numbers.a_high)},
         .call = [use,
                  call](const std::vector<Tensor>& in) { return std::vector{call(in[0], use.dims, use.keep_dims)}; },
         .reference = reference,
         .dtypes = use.large ? std::vector{numbers.dtypes[0]} : numbers.dtypes,
         .gradient = false,
         .exact = true,
         .large = use.large});
  };
  for (const Numbers& numbers : all_numbers) {
    for (const Use& use : uses())
      if (!one_dim || use.dims.size() == 1) add(use, numbers);
    if (of_nothing)
      for (const Use& use : {Use{{0}, {}}, Use{{3, 0}, {1}}, Use{{3, 0, 2}, {0, 1}, true}}) add(use, numbers);
  }
  op.refuses("a dimension outside", Kind::shape, {"2"}, [call] { call(ones({2, 3}, DType::int32), {2}, false); });
  if (!of_nothing)
    op.refuses("no elements", Kind::shape, {"[3,0]"}, [call] { call(ones({3, 0}, DType::int64), {1}, false); });
  return op;
}

template <class Better>
double first_of(const std::vector<double>& values, Better better) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < values.size(); ++i)
    if (better(values[i], values[best])) best = i;
  return static_cast<double>(best);
}

Operator cumsum() {
  Operator op{.name = "cumsum/integers"};
  for (const Shape& shape : {Shape{1}, Shape{17}, Shape{33, 5}, Shape{0, 3}})
    op.samples.push_back({.name = message(shape),
                          .arguments = {integers(shape, 0, 100)},
                          .call = [](const std::vector<Tensor>& in) { return std::vector{op::cumsum(in[0], 0)}; },
                          .reference =
                              [](const std::vector<Array>& in) {
                                Array out(in[0].shape, 0, DType::int64);
                                const std::int64_t inner = in[0].shape.rank() == 2 ? in[0].shape[1] : 1;
                                for (std::int64_t i = 0; i < out.size(); ++i)
                                  out[i] = in[0][i] + (i >= inner ? out[i - inner] : 0);
                                return std::vector{out};
                              },
                          .dtypes = integer_dtypes,
                          .gradient = false,
                          .exact = true});
  return op;
}

}  // namespace

std::vector<Operator> integer_reduction_cases() {
  std::vector<Operator> all;
  const std::vector<Numbers> small{{signed_dtypes, -50, 50, 0, 0}, {{DType::uint8}, 0, 255, 0, 0}, of_bool};
  all.push_back(reduction(
      "sum/integers", [](const Tensor& x, const op::Dims& dims, bool keep) { return op::sum(x, dims, keep); },
      [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); }, DType::int64, small,
      true));
  // Of ones and minus ones, mostly: the product of many stays small.
  all.push_back(reduction(
      "prod/integers", [](const Tensor& x, const op::Dims& dims, bool keep) { return op::prod(x, dims, keep); },
      [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 1.0, std::multiplies()); },
      DType::int64, {{signed_dtypes, -1, 1, 0, 0}, {{DType::uint8}, 1, 1, 0, 0}, of_bool}, true));
  all.back().samples.push_back({.name = "factors",
                                .arguments = {listed({3, 4}, {2, 3, 5, 7, 11, 13, 2, 3, 1, 9, 0, 4})},
                                .call = [](const std::vector<Tensor>& in) { return std::vector{op::prod(in[0], {1})}; },
                                .reference =
                                    [](const std::vector<Array>&) {
                                      Array out({3}, std::vector<double>{210, 858, 0});
                                      out.dtype = DType::int64;
                                      return std::vector{out};
                                    },
                                .dtypes = number_dtypes,
                                .gradient = false,
                                .exact = true});
  all.push_back(reduction(
      "max/integers", op::max, [](const std::vector<double>& v) { return *std::ranges::max_element(v); }, {}, small,
      false));
  all.push_back(reduction(
      "min/integers", op::min, [](const std::vector<double>& v) { return *std::ranges::min_element(v); }, {}, small,
      false));
  const auto along = [](Tensor (*call)(const Tensor&, std::int64_t, bool)) {
    return [call](const Tensor& x, const Dims& dims, bool keep) { return call(x, *dims.begin(), keep); };
  };
  all.push_back(reduction(
      "argmax/integers", along(op::argmax), [](const std::vector<double>& v) { return first_of(v, std::greater()); },
      DType::int64, small, false, true));
  all.push_back(reduction(
      "argmin/integers", along(op::argmin), [](const std::vector<double>& v) { return first_of(v, std::less()); },
      DType::int64, small, false, true));
  const std::vector<Numbers> truths{{signed_dtypes, -1, 1, 0, 0}, {{DType::uint8}, 0, 1, 0, 0}, of_bool};
  all.push_back(reduction(
      "any/integers", op::any,
      [](const std::vector<double>& v) { return std::ranges::any_of(v, [](double x) { return x != 0; }) ? 1.0 : 0.0; },
      DType::boolean, truths, true));
  all.push_back(reduction(
      "all/integers", op::all,
      [](const std::vector<double>& v) { return std::ranges::all_of(v, [](double x) { return x != 0; }) ? 1.0 : 0.0; },
      DType::boolean, truths, true));
  all.push_back(cumsum());
  return all;
}

}  // namespace tern::testing
