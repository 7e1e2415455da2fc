#pragma once
// The algorithms (algorithms) that a kernel may take have names: one can be forced, and who observes an operator hears
// which one ran. Forcing is modes/forced_algorithm.hpp.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "tern/kernels/context.hpp"

namespace tern {

/// What a kernel chooses between: "conv2d", "conv2d_grad_x", "matmul", and the names of its algorithms. The glossary of
/// algorithms is in docs/profile.md. Plain pointers to texts that live as long as the process.
struct Decision {
  const char* name = nullptr;
  std::array<const char*, 10> algorithms{};  ///< those behind the last one are null

  using Members = MemberList<&Decision::name, &Decision::algorithms>;
};

/// How a kernel hears what is forced and says what it took. Plain functions: a plug-in calls them without linking tern.
/// Kernels use forced_algorithm and took_algorithm.
struct Algorithms {
  std::atomic<int> watched{0};  ///< how many Profiles live and algorithms are forced, in the process; 0: nobody asks
  const char* (*forced)(const char* decision) = nullptr;  ///< null: free
  void (*took)(const char* decision, const char* algorithm) noexcept = nullptr;

  using Members = MemberList<&Algorithms::watched, &Algorithms::forced, &Algorithms::took>;
};

/// The algorithm that `decision` must take where it fits the problem; empty: the kernel chooses.
inline std::string_view forced_algorithm(const Context& context, const char* decision) {
  if (context.algorithms == nullptr || context.algorithms->watched.load(std::memory_order_relaxed) == 0) [[likely]]
    return {};
  const char* const algorithm = context.algorithms->forced(decision);
  return algorithm == nullptr ? std::string_view() : algorithm;
}

/// Says which algorithm a decision took, once per call of the kernel, on the thread that called it. Both texts live as
/// long as the process.
inline void took_algorithm(const Context& context, const char* decision, const char* algorithm) noexcept {
  if (context.algorithms == nullptr || context.algorithms->watched.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  context.algorithms->took(decision, algorithm);
}

}  // namespace tern
