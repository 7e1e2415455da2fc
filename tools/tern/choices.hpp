#pragma once
// Which algorithms the kernels of the modes know, and which they take in a net.

#include <cstdint>
#include <string>

#include "settings.hpp"

namespace tern::tool {

/// For each mode that is here, or settings.mode alone where it names one: its decisions with the names of their
/// algorithms, and what they took in a training step and an inference of `net`, one of benchmarks::nets(), by operator
/// and sizes.
std::string describe_choices(const std::string& net, std::int64_t batch, const Settings& settings);

}  // namespace tern::tool
