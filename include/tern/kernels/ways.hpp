#pragma once
// The ways (algorithms) that a kernel may take have names: one can be forced, and who observes an operator hears which
// one ran. Forcing is modes/forced_way.hpp.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "tern/kernels/context.hpp"

namespace tern {

/// What a kernel chooses between: "conv2d", "conv2d_grad_x", "matmul", and the names of its ways. The glossary of ways
/// is in docs/profile.md. Plain pointers to texts that live as long as the process.
struct Decision {
  const char* name = nullptr;
  std::array<const char*, 8> ways{};  ///< those behind the last one are null

  using Members = MemberList<&Decision::name, &Decision::ways>;
};

/// How a kernel hears what is forced and says what it took. Plain functions: a plug-in calls them without linking tern.
/// Kernels use forced_way and took_way.
struct Ways {
  std::atomic<int> watched{0};  ///< how many Profiles live and ways are forced, in the process; 0: nobody asks
  const char* (*forced)(const char* decision) = nullptr;  ///< null: free
  void (*took)(const char* decision, const char* way) noexcept = nullptr;

  using Members = MemberList<&Ways::watched, &Ways::forced, &Ways::took>;
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

}  // namespace tern
