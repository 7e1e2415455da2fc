#pragma once

#include "study.hpp"

namespace tern::study {

/// The processor, the available modes and a name made of them; `name` replaces that name.
Machine describe_machine(const std::string& name, int threads);

/// Measures, unless known, the rate of a large product and of a large copy in the cell's mode and precision: what no
/// operator can beat. Modes on the host share a processor and are all measured in `vectorized`.
void add_roofline(Machine& machine, const CellKey& key, int threads);

/// The current time, as "2026-11-21 14:05 UTC".
std::string present_date();

}  // namespace tern::study
