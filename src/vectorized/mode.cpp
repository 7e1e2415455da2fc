// The vectorized mode: OpenMP over the cores, SIMD within them. The instruction set is chosen when the program starts.

#include <omp.h>

#include "vectorized/gemm.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

std::string description() {
  const int threads = omp_get_max_threads();
  return std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + gemm_target();
}

}  // namespace

const Mode& mode() {
  static const Mode mode{.name = "vectorized",
                         .description = description(),
                         .memory = &host_memory(),
                         .operators = operators<float>(),
                         .operators_double = operators<double>(),
                         .movement = movement()};
  return mode;
}

}  // namespace tern::vectorized
