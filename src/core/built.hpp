#pragma once
// What this library was built for: everything, or with TERN_OPERATORS programs that answer (docs/inference.md).

namespace tern::built {

#ifdef TERN_ANSWERS
inline constexpr bool whole = false;
#else
inline constexpr bool whole = true;
#endif

}  // namespace tern::built
