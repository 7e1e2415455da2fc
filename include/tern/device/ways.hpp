#pragma once
// The ways (algorithms) that a kernel may take have names. A test or the environment can force one, and a Profile tells
// which one ran.

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "tern/device/context.hpp"

namespace tern {

/// What a kernel chooses between: "conv2d", "conv2d_grad_x", "matmul", and the names of its ways. The glossary of ways
/// is in docs/profile.md. Plain pointers to texts that live as long as the process.
struct Decision {
  const char* name = nullptr;
  std::array<const char*, 8> ways{};  ///< those behind the last one are null
};

/// How a kernel hears what is forced and says what it took. Plain functions: a plug-in calls them without linking tern.
/// Kernels use forced_way and took_way.
struct Ways {
  std::atomic<int> watched{0};  ///< how many Profiles live and ways are forced, in the process; 0: nobody asks
  const char* (*forced)(const char* decision) = nullptr;  ///< null: free
  void (*took)(const char* decision, const char* way) noexcept = nullptr;
};

/// The way that `decision` must take where it fits the problem; empty: the kernel chooses.
inline std::string_view forced_way(const Context& context, const char* decision) {
  if (context.ways == nullptr || context.ways->watched.load(std::memory_order_relaxed) == 0) [[likely]]
    return {};
  const char* const way = context.ways->forced(decision);
  return way == nullptr ? std::string_view() : way;
}

/// Says which way a decision took, once per call of the kernel, on the thread that called it. Both texts live as long
/// as the process.
inline void took_way(const Context& context, const char* decision, const char* way) noexcept {
  if (context.ways == nullptr || context.ways->watched.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  context.ways->took(decision, way);
}

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
