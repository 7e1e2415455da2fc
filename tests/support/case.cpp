#include "support/case.hpp"

#include <algorithm>
#include <cmath>

#include "support/checks.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {
namespace {

DeviceOptions device_options(int threads) {
  return {.threads = threads, .deterministic = check_options().deterministic};
}

}  // namespace

std::vector<Array> to_arrays(const std::vector<Tensor>& tensors) {
  std::vector<Array> arrays;
  for (const Tensor& tensor : tensors) arrays.push_back(array_of(tensor));
  return arrays;
}

std::vector<Array> reference_inputs(const Case& c) {
  std::vector<Array> inputs;
  for (std::size_t i = 0; i < c.sample.arguments.size(); ++i) {
    Array input = draw(c.op, c.sample, i);
    input.dtype = dtype_of(c.sample.arguments[i], c.dtype);
    for (double& value : input.values) value = stored(value, *input.dtype);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

bool differentiable(const Case& c) {
  if (c.sample.compares && (!c.sample.exact || c.special > Special::infinity)) return false;
  if (!c.sample.gradient || (c.dtype != DType::float32 && c.dtype != DType::float64)) return false;
  return std::any_of(c.sample.arguments.begin(), c.sample.arguments.end(),
                     [](const Argument& argument) { return argument.differentiable && !argument.dtype; });
}

Array cotangent_of(const Shape& shape, std::size_t index, DType dtype) {
  Array result(shape);
  random::Words words{};  // four elements share a block
  for (std::int64_t i = 0; i < result.size(); ++i) {
    if (i % 4 == 0) words = random::philox(99, static_cast<std::uint64_t>(i / 4), index);
    const std::uint32_t word = words.word[i % 4];
    result[i] = stored((word & 1 ? -1 : 1) * (0.5 + 0.5 * static_cast<double>(random::uniform(word))), dtype);
  }
  return result;
}

namespace {

/// Leaves out what Sample::thresholds says.
std::vector<Array> cotangents_of(const Case& c, const std::vector<Tensor>& results) {
  const DType dtype = c.rounded.value_or(c.dtype);
  std::vector<Array> cotangents;
  for (std::size_t i = 0; i < results.size(); ++i) cotangents.push_back(cotangent_of(results[i].shape(), i, dtype));
  if (c.sample.thresholds.empty() || size_of(dtype) != 2) return cotangents;
  const double spacing = dtype == DType::bfloat16 ? 0x1p-7 : 0x1p-10;
  const std::vector<Array> sums = c.sample.before(reference_inputs({c.op, c.sample, dtype}));
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (std::int64_t k = 0; k < sums[i].size(); ++k)
      for (const double threshold : c.sample.thresholds)
        if (std::abs(sums[i][k] - threshold) <= spacing * std::abs(threshold)) cotangents[i][k] = 0;
  return cotangents;
}

}  // namespace

std::vector<Tensor> results_of(const Case& c, const Mode& mode, Layout layout, int threads) {
  const std::vector<Tensor> inputs = make_inputs(c.op, c.sample, c.dtype, layout, c.special, c.rounded);
  const Device device(mode, device_options(threads));
  return c.sample.call(inputs);
}

std::vector<Array> gradients_of(const Case& c, const Mode& mode, Layout layout, int threads) {
  std::vector<Tensor> inputs = make_inputs(c.op, c.sample, c.dtype, layout, c.special, c.rounded);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (c.sample.arguments[i].differentiable && !c.sample.arguments[i].dtype) inputs[i].set_requires_grad();
  {
    const Device device(mode, device_options(threads));
    const std::vector<Tensor> results = c.sample.call(inputs);
    const std::vector<Array> cotangents = cotangents_of(c, results);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (static_cast<int>(i) < c.sample.gradient_outputs && results[i].requires_grad())
        results[i].backward(tensor_of(cotangents[i], results[i].dtype()), {.retain_graph = true});
  }
  std::vector<Array> gradients;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) {
      gradients.emplace_back();
    } else {
      expects(inputs[i].grad().defined(), "argument ", i, " got no gradient");
      gradients.push_back(array_of(inputs[i].grad()));
    }
  }
  return gradients;
}

}  // namespace tern::testing
