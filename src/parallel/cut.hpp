#pragma once
// Where a net is cut into stages.

#include <cstddef>
#include <vector>

#include "tern/nn/sequential.hpp"

namespace tern::parallel {

/// The first module of each stage, and behind them the number of modules: the dearest stage is as cheap as it can be,
/// and no activation is parted from the layer that computes it. Throws ShapeError where there are fewer pieces than
/// stages, and for costs that are not one number, 0 or more, for each module; empty ones are alike.
std::vector<std::size_t> cut_stages(const nn::Sequential& net, std::vector<double> costs, std::size_t stages);

}  // namespace tern::parallel
