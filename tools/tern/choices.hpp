#pragma once
// Lists the algorithms that the modes' kernels have, and those that they take in a net.

#include <cstdint>
#include <string>

#include "settings.hpp"

namespace tern::tool {

/// For each available mode, or only settings.mode if set: its decisions with the names of their algorithms, and those
/// that they took in a training step and an inference of `net`, one of benchmarks::nets(), by operator and sizes.
std::string describe_choices(const std::string& net, std::int64_t batch, const Settings& settings);

}  // namespace tern::tool
