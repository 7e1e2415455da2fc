// 16-bit elements: a kernel computes at least in float32 and rounds each result once (docs/numbers.md).

#include <algorithm>

#include "support/case.hpp"
#include "support/checks.hpp"

namespace tern::testing {
namespace {

/// The largest distance between two neighbours of a 16-bit dtype, in units of the smaller one.
double spacing(DType dtype) { return dtype == DType::bfloat16 ? 0x1p-7 : 0x1p-10; }
double smallest(DType dtype) { return dtype == DType::bfloat16 ? 0x1p-133 : 0x1p-24; }

double largest_of(const Array& array) {
  double largest = 0;
  for (const double value : array.values)
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace

std::string check_rounded(const Case& c, const Mode& mode) {
  const std::vector<Array> expected = c.sample.reference(reference_inputs(c));
  const std::vector<Array> got = to_arrays(results_of(c, mode));
  if (got.size() != expected.size()) return message(got.size(), " results, expected ", expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const bool is_scalar = static_cast<int>(i) >= c.sample.scalars_from;
    DType dtype = expected[i].dtype.value_or(c.dtype);
    if (is_scalar) dtype = scalar_of(dtype);
    if (*got[i].dtype != dtype) return message("result ", i, " is ", *got[i].dtype, ", expected ", dtype);
    // Rounding takes the other neighbour only if float32's own error crosses the midpoint. Intermediate results may be
    // as large as any of the results.
    const double unit = c.op.ulps * 0x1p-23;
    double relative = unit * std::sqrt(c.sample.terms), absolute = unit * c.sample.terms;
    if (!is_scalar || c.sample.roundings > 1) {
      relative += c.sample.roundings * spacing(c.dtype);
      absolute += c.sample.roundings * smallest(c.dtype);
      absolute += (c.sample.roundings - 1) * spacing(c.dtype) * largest_of(expected[i]);
    }
    const bool exact = c.sample.exact || !is_floating(dtype);
    const std::string wrong = compare(got[i], expected[i], dtype, exact ? 0 : relative, exact ? 0 : absolute);
    if (!wrong.empty()) return message("result ", i, ": ", wrong);
  }
  return {};
}

std::string check_rounded_gradients(const Case& c, const Mode& mode) {
  const std::vector<Array> got = gradients_of(c, mode);
  const std::vector<Array> expected =
      gradients_of({c.op, c.sample, DType::float32, c.special, c.dtype}, tern::mode("sequential"));
  const double terms = std::max(c.sample.gradient_terms, c.sample.terms), unit = 2 * spacing(c.dtype);
  // Each mode rounds terms that cancel to float32, each up to eight times.
  const double noise = c.sample.gradient_magnitude
                           ? 8 * 0x1p-23 * std::sqrt(terms) * c.sample.gradient_magnitude(reference_inputs(c))
                           : 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double scale = std::max(largest_of(expected[i]), c.op.gradient_scale);
    const std::string wrong =
        compare(got[i], expected[i], c.dtype, unit, unit * std::sqrt(terms) * scale + noise + smallest(c.dtype));
    if (!wrong.empty()) return message("gradient of argument ", i, ": ", wrong);
  }
  return {};
}

}  // namespace tern::testing
