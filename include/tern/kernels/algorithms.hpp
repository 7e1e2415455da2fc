#pragma once
// The algorithms of a kernel have names. A caller can force one (modes/forced_algorithm.hpp), and observers learn which
// one ran.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "tern/kernels/context.hpp"

namespace tern {

/// A choice that a kernel makes ("conv2d", "conv2d_grad_x", "matmul") and the names of its algorithms. docs/profile.md
/// explains the algorithms. Plain pointers to texts that live as long as the process.
struct Decision {
  const char* name = nullptr;
  std::array<const char*, 16> algorithms{};  ///< null after the last one

  using Members = MemberList<&Decision::name, &Decision::algorithms>;
};

/// How a kernel learns which algorithm is forced and reports the one it took. Plain functions, so that a plug-in calls
/// them without linking tern. Kernels use forced_algorithm and took_algorithm.
struct Algorithms {
  std::atomic<int> watched{0};  ///< number of live Profiles and forced algorithms in the process; 0: no observer
  const char* (*forced)(const char* decision) = nullptr;  ///< null: nothing is forced
  void (*took)(const char* decision, const char* algorithm) noexcept = nullptr;

  using Members = MemberList<&Algorithms::watched, &Algorithms::forced, &Algorithms::took>;
};

/// The algorithm that `decision` must take if it fits the problem. Empty: the kernel chooses.
inline std::string_view forced_algorithm(const Context& context, const char* decision) {
  if (context.algorithms == nullptr || context.algorithms->watched.load(std::memory_order_relaxed) == 0) [[likely]]
    return {};
  const char* const algorithm = context.algorithms->forced(decision);
  return algorithm == nullptr ? std::string_view() : algorithm;
}

/// Reports which algorithm a decision took, once per kernel call, on the calling thread. Both texts live as long as the
/// process.
inline void took_algorithm(const Context& context, const char* decision, const char* algorithm) noexcept {
  if (context.algorithms == nullptr || context.algorithms->watched.load(std::memory_order_relaxed) == 0) [[likely]]
    return;
  context.algorithms->took(decision, algorithm);
}

}  // namespace tern
