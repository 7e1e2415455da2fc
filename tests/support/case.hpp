#pragma once
// One generated case: an operator with one sample and dtype, and its runs.

#include "support/catalogue.hpp"
#include "tern/modes/device.hpp"

namespace tern::testing {

/// An operator with one sample and dtype.
struct Case {
  const Operator& op;
  const Sample& sample;
  DType dtype;
  Special special = Special::none;
  std::optional<DType> rounded = {};  ///< numbers that flow in are rounded to this first
};

std::vector<Array> to_arrays(const std::vector<Tensor>& tensors);

/// The arguments with the tensors' values.
std::vector<Array> reference_inputs(const Case& c);

bool differentiable(const Case& c);

/// The gradient that flows into result `index`: fixed numbers of `dtype` between 1/2 and 1, of either sign.
Array cotangent_of(const Shape& shape, std::size_t index, DType dtype);

std::vector<Tensor> results_of(const Case& c, const Mode& mode, Layout layout = Layout::contiguous, int threads = 0);

/// The gradient of each differentiable argument; empty arrays for the others.
std::vector<Array> gradients_of(const Case& c, const Mode& mode, Layout layout = Layout::contiguous, int threads = 0);

/// The error of gradients in float64 compared with central differences of the reference, or an empty string.
std::string check_differences(const Case& c, const std::vector<Array>& gradients);

// The error of a 16-bit case, or an empty string: of its results compared with the float64 reference, of its gradients
// compared with those in float32 for the same numbers.
std::string check_rounded(const Case& c, const Mode& mode);
std::string check_rounded_gradients(const Case& c, const Mode& mode);

}  // namespace tern::testing
