// The vectorized mode: threads over the cores, SIMD within them. The instruction set is chosen when the program starts.

#include "device/cores.hpp"
#include "vectorized/gemm.hpp"
#include "vectorized/vectorized.hpp"

namespace tern::vectorized {
namespace {

std::string description() {
  const int threads = default_threads();
  return std::to_string(threads) + (threads == 1 ? " thread, " : " threads, ") + gemm_target();
}

constexpr Decision decisions[]{
    {"conv2d", {"patches", "rows", "tiles"}},
    {"conv2d_grad_x", {"patches", "rows", "tiles"}},
    {"conv2d_grad_weight", {"patches", "rows", "tiles"}},
    {"matmul", {"panels", "turned", "dots"}},
    {"linear", {"panels", "turned", "dots"}},
    {"linear_grad_x", {"panels", "turned"}},
    {"linear_grad_weight", {"panels", "turned"}},
};

}  // namespace

const Mode& mode() {
  static const Mode mode{.name = "vectorized",
                         .description = description(),
                         .memory = &host_memory(),
                         .operators = operators<float>(),
                         .operators_double = operators<double>(),
                         .movement = movement(),
                         .decisions = decisions};
  return mode;
}

}  // namespace tern::vectorized
