// Central differences of the references.

#include <map>

#include "support/case.hpp"
#include "tern/core/random.hpp"

namespace tern::testing {
namespace {

double weighted_sum(const std::vector<Array>& results, int outputs) {
  double sum = 0;
  for (std::size_t i = 0; i < results.size() && static_cast<int>(i) < outputs; ++i) {
    const Array weights = cotangent_of(results[i].shape, i, DType::float64);
    for (std::int64_t j = 0; j < results[i].size(); ++j) sum += weights[j] * results[i][j];
  }
  return sum;
}

/// The central difference of the weighted results along `direction` of argument `index`.
double difference(const Sample& sample, std::vector<Array> inputs, std::size_t index, const Array& direction,
                  double step) {
  Array& moved = inputs[index];
  const Array start = moved;
  double ends[2];
  for (const int side : {0, 1}) {
    for (std::int64_t i = 0; i < moved.size(); ++i) moved[i] = start[i] + (side ? step : -step) * direction[i];
    ends[side] = weighted_sum(sample.reference(inputs), sample.gradient_outputs);
  }
  return (ends[1] - ends[0]) / (2 * step);
}

constexpr double usual_step = 1e-5;
constexpr double short_step = 2e-7;  // where the usual one steps over a kink; the rounding of the sums shows more
constexpr std::int64_t small = 48;   // arguments up to this size are differentiated element by element

struct Difference {
  std::size_t argument;
  std::int64_t element;  ///< -1: along a direction of random signs
  std::uint64_t direction_seed;
  double value;
};

Array direction_of(const Shape& shape, std::int64_t element, std::uint64_t seed) {
  Array direction(shape);
  for (std::int64_t i = 0; i < direction.size(); ++i)
    direction[i] =
        element >= 0 ? (i == element ? 1 : 0) : (random::word(seed, 1, static_cast<std::uint64_t>(i)) & 1 ? 1 : -1);
  return direction;
}

const std::vector<Difference>& differences_of(const Case& c) {
  static std::map<std::string, std::vector<Difference>> cache;
  const std::string key = c.op.name + '/' + c.sample.name;
  const auto known = cache.find(key);
  if (known != cache.end()) return known->second;
  std::vector<Difference> differences;
  const std::vector<Array> inputs = reference_inputs(c);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!c.sample.arguments[i].differentiable || c.sample.arguments[i].dtype) continue;
    if (inputs[i].size() <= small) {
      for (std::int64_t j = 0; j < inputs[i].size(); ++j)
        differences.push_back(
            {i, j, 0, difference(c.sample, inputs, i, direction_of(inputs[i].shape, j, 0), usual_step)});
    } else {
      for (const std::uint64_t seed : {1, 2})
        differences.push_back(
            {i, -1, seed, difference(c.sample, inputs, i, direction_of(inputs[i].shape, -1, seed), usual_step)});
    }
  }
  return cache.emplace(key, std::move(differences)).first->second;
}

}  // namespace

std::string check_differences(const Case& c, const std::vector<Array>& gradients) {
  for (const Difference& expected : differences_of(c)) {
    const Array& gradient = gradients[expected.argument];
    const Array direction = direction_of(gradient.shape, expected.element, expected.direction_seed);
    double got = 0, size = 0;
    for (std::int64_t i = 0; i < gradient.size(); ++i) {
      got += gradient[i] * direction[i];
      size += std::abs(gradient[i] * direction[i]);
    }
    const auto agrees = [&](double value) { return std::abs(got - value) <= 2e-6 * (1 + size); };
    if (!agrees(expected.value) &&
        !agrees(difference(c.sample, reference_inputs(c), expected.argument, direction, short_step)))
      return message(
          "gradient of argument ", expected.argument,
          expected.element < 0 ? std::string(" along a random direction") : message(" element ", expected.element),
          ": expected ", expected.value, ", got ", got);
  }
  return {};
}

}  // namespace tern::testing
