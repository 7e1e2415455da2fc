// The discrete Fourier transform by its sum.

#include <cmath>
#include <numbers>

#include "support/catalogue.hpp"
#include "tern/operators/fourier.hpp"
#include "tern/operators/operators.hpp"

namespace tern::testing {
namespace {

namespace op = tern::operators;
using Kind = Invalid::Kind;

struct Use {
  std::string name;
  Shape x;
  int dim;
  op::DftOptions options = {};
};

Array transformed(const Use& use, const Array& x) {
  const int place = use.dim < 0 ? use.dim + use.x.rank() : use.dim, last = use.x.rank() - 1;
  const bool to_real = use.options.inverse && use.options.onesided;
  const std::int64_t size = use.x[place], length = use.options.length.value_or(to_real ? 2 * (size - 1) : size);
  Shape shape = use.x;
  shape[place] = use.options.onesided && !use.options.inverse ? length / 2 + 1 : length;
  shape[last] = to_real ? 1 : 2;
  Array out(shape);
  // Element j of the signal; a half spectrum goes on with its conjugates.
  const auto element = [&](Shape at, std::int64_t j, std::int64_t part) {
    const bool conjugate = to_real && j > length / 2;
    at[place] = conjugate ? length - j : j;
    at[last] = part;
    if (at[place] >= size || part >= use.x[last]) return 0.0;
    return conjugate && part == 1 ? -x.at(at) : x.at(at);
  };
  for_each_position(shape, [&](const Shape& at) {
    double sum = 0;
    for (std::int64_t j = 0; j < length; ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * at[place] % length) /
                           static_cast<double>(length) * (use.options.inverse ? 1 : -1);
      const double real = element(at, j, 0), imaginary = element(at, j, 1);
      sum += at[last] == 0 ? real * std::cos(angle) - imaginary * std::sin(angle)
                           : real * std::sin(angle) + imaginary * std::cos(angle);
    }
    out.at(at) = use.options.inverse ? sum / static_cast<double>(length) : sum;
  });
  return out;
}

}  // namespace

std::vector<Operator> fourier_cases() {
  Operator op{.name = "dft", .ulps = 8};
  std::vector<Use> uses{{"of length 6", {3, 6, 1}, 1, {.length = 6}},
                        {"longer", {2, 5, 2}, 1, {.length = 8}},
                        {"shorter", {2, 9, 2}, -2, {.length = 4}},
                        {"half, shorter", {2, 9, 1}, 1, {.length = 6, .onesided = true}},
                        {"to 5 real ones", {2, 3, 2}, 1, {.length = 5, .inverse = true, .onesided = true}},
                        {"none", {0, 4, 2}, 1}};
  for (const std::int64_t n : {1, 2, 3, 4, 7, 12, 30, 64, 67, 96, 130}) {
    uses.push_back({message("complex ", n), {2, n, 2}, 1});
    uses.push_back({message("real ", n), {2, n, 1}, 1, {.onesided = true}});
    uses.push_back({message("back ", n), {2, n, 2}, 1, {.inverse = true}});
    if (n > 1) uses.push_back({message("back to real ", n), {2, n, 2}, 1, {.inverse = true, .onesided = true}});
  }
  for (const int dim : {0, 1, 2}) uses.push_back({message("along ", dim), {4, 3, 5, 2}, dim});
  for (const Use& use : uses) {
    const double terms = static_cast<double>(use.x[use.dim < 0 ? use.dim + use.x.rank() : use.dim]) * 4;
    op.samples.push_back(
        {.name = use.name,
         .arguments = {uniform(use.x)},
         .call = [use](const std::vector<Tensor>& in) { return std::vector{op::dft(in[0], use.dim, use.options)}; },
         .reference = [use](const std::vector<Array>& in) { return std::vector{transformed(use, in[0])}; },
         .terms = terms,
         .gradient_terms = terms,
         .large_arguments = 0});
  }
  op.refuses("three parts", Kind::shape, {"[4,3]"}, [] { op::dft(ones({4, 3})); });
  op.refuses("along the parts", Kind::shape, {"dimension 1"}, [] { op::dft(ones({4, 2}), 1); });
  op.refuses("a length of 0", Kind::shape, {"a length of 0"}, [] { op::dft(ones({4, 2}), 0, {.length = 0}); });
  op.refuses("integers", Kind::dtype, {"int32"}, [] { op::dft(ones({4, 2}, DType::int32)); });
  return {op};
}

}  // namespace tern::testing
