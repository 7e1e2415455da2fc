#pragma once
// Cases of an operator on each element, whatever its family.

#include "support/catalogue.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {

struct Elementwise {
  double low = -4, high = 4;  ///< where its numbers are drawn
  double far = 90;            ///< another draw is from -far to far; none when 0
  double ulps = 6;
  bool gradient = true;
};

inline Operator elementwise(const char* name, std::function<Tensor(const Tensor&)> call,
                            std::function<double(double)> function, const Elementwise& options = {}) {
  Operator op{.name = name, .ulps = options.ulps};
  const auto add = [&](std::string label, Argument argument, bool gradient, bool large = false) {
    op.samples.push_back({.name = std::move(label),
                          .arguments = {std::move(argument)},
                          .call = [call](const std::vector<Tensor>& in) { return std::vector{call(in[0])}; },
                          .reference = each(function),
                          .gradient = gradient && options.gradient,
                          .large = large});
  };
  for (const Shape& shape : {Shape{}, Shape{0}, Shape{17}, Shape{7, 11}, Shape{3, 0, 2}, Shape{2, 3, 5, 1}})
    add(message(shape), uniform(shape, options.low, options.high), true);
  Argument view = expanded({3, 1}, {3, 7});
  view.low = options.low;
  view.high = options.high;
  add("expanded view", view, true);
  if (options.far > 0) add("far from 0", uniform({67}, -options.far, options.far), true);
  add("special values", listed({28}, special_values()), false);
  add("large", uniform({100003}, options.low, options.high), true, true);
  op.refuses("bools", Invalid::Kind::dtype, {"bool"}, [call] { call(ones({3}, DType::boolean)); });
  op.refuses("nothing", Invalid::Kind::any, {"undefined"}, [call] { call(Tensor()); });
  return op;
}

}  // namespace tern::testing
