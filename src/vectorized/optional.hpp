#pragma once
// What this mode has beside its table (modes/optional_kernels.hpp).

#include "kernels/recurrent.hpp"
#include "kernels/resampling.hpp"

namespace tern::vectorized {

kernels::Recurrent recurrent();
kernels::Resampling resampling();

}  // namespace tern::vectorized
