#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/kernels/ways.hpp"

namespace tern {

/// Forces a way in the mode of the calling thread's scope and in copies of that mode, to the end of the block:
///
///     const Device device{"vectorized"};
///     const ForcedWay tiles{"conv2d", "tiles"};
///
/// Where it does not fit a problem, the kernel chooses as if nothing were forced. Nests (the innermost one of a
/// decision counts), restores, and stands before the environment's TERN_WAY=conv2d:tiles,matmul:turned, which forces
/// for the whole process (`vectorized.conv2d:tiles` only in that mode). Throws Error with the names there are when the
/// mode does not know the decision or the way; for TERN_WAY the Device does. A mode without decisions passes over
/// TERN_WAY.
class [[nodiscard]] ForcedWay {
 public:
  ForcedWay(std::string_view decision, std::string_view way);
  ForcedWay(const ForcedWay&) = delete;
  ForcedWay& operator=(const ForcedWay&) = delete;
  ~ForcedWay();

  /// How often the decision took this way meanwhile, on this thread.
  std::int64_t taken() const { return taken_; }
  /// How often it took another one, because this one did not fit.
  std::int64_t missed() const { return missed_; }

 private:
  friend struct WayBook;
  const Decision* decisions_;  // of the mode and of every copy of it
  const char *decision_, *way_;
  std::int64_t taken_ = 0, missed_ = 0;
  ForcedWay* outer_;
};

/// What is forced for the calling thread in its mode now, such as "conv2d:tiles,matmul:dots"; empty: nothing. Whoever
/// remembers what kernels did remembers it with this.
std::string forced_ways();

}  // namespace tern
