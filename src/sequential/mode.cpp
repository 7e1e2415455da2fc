// The sequential mode: plain loops on one thread. It is the reference for all other modes and is never tuned.

#include "sequential.hpp"

namespace tern::sequential {

const Mode& mode() {
  static const Mode mode{.name = "sequential",
                         .description = "plain loops on one thread",
                         .memory = &host_memory(),
                         .operators = operators<float>(),
                         .float64 = operators<double>(),
                         .bfloat16 = operators<BFloat16>(),
                         .float16 = operators<Float16>(),
                         .int32 = integer_operators<std::int32_t>(),
                         .int64 = integer_operators<std::int64_t>(),
                         .uint8 = integer_operators<std::uint8_t>(),
                         .boolean = integer_operators<bool>(),
                         .movement = movement(),
                         .quantized = quantized()};
  return mode;
}

}  // namespace tern::sequential
