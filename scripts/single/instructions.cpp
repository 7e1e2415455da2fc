// tern_single.hpp has the compiler's own instruction set alone, so TERN_SIMD leaves nothing to choose.

#include "vectorized/instructions.hpp"

namespace tern::vectorized {

void limit_instructions() {}

}  // namespace tern::vectorized
