#pragma once

#include "study.hpp"

namespace tern::study {

/// The processor, the modes there are and a name made of them; `name` replaces that name.
Machine describe_machine(const std::string& name, int threads);

/// The rate of a large product and of a large copy in a mode and precision: what no operator can beat. Modes on the
/// host are all measured in `vectorized`, because they share a processor.
Roofline measure_roofline(const std::string& mode, const std::string& precision, int threads);

/// The moment, as "2026-11-21 14:05 UTC".
std::string present_date();

}  // namespace tern::study
