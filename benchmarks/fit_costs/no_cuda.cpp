#include "tern/core/error.hpp"
#include "times.hpp"

namespace tern::benchmarks {

Times measure(double) { throw Error("fit_costs: this build has no cuda mode (TERN_CUDA=ON)"); }

}  // namespace tern::benchmarks
