#pragma once
// Divides a net into stages.

#include <cstddef>
#include <vector>

#include "tern/nn/sequential.hpp"

namespace tern::parallel {

/// The first module of each stage, followed by the number of modules. The most expensive stage is as cheap as possible,
/// and an activation stays with the layer that computes it. Throws ShapeError for fewer pieces than stages, and unless
/// costs are one number, 0 or more, per module; empty costs are all equal.
std::vector<std::size_t> cut_stages(const nn::Sequential& net, std::vector<double> costs, std::size_t stages);

}  // namespace tern::parallel
