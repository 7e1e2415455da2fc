#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tern/kernels/algorithms.hpp"

namespace tern {

/// Forces an algorithm in the mode of the calling thread's scope and in copies of that mode, to the end of the block:
///
///     const Device device{"vectorized"};
///     const ForcedAlgorithm winograd{"conv2d", "winograd"};
///
/// If it does not fit a problem, the kernel chooses as if nothing were forced. Scopes nest (the innermost one of a
/// decision counts) and take precedence over the environment's TERN_ALGORITHM=conv2d:winograd,matmul:transposed, which
/// forces for the whole process (`vectorized.conv2d:winograd` only in that mode). Throws Error with the known names
/// when the mode does not know the decision or the algorithm; for TERN_ALGORITHM the Device throws it. A mode without
/// decisions ignores TERN_ALGORITHM.
class [[nodiscard]] ForcedAlgorithm {
 public:
  ForcedAlgorithm(std::string_view decision, std::string_view algorithm);
  ForcedAlgorithm(const ForcedAlgorithm&) = delete;
  ForcedAlgorithm& operator=(const ForcedAlgorithm&) = delete;
  ~ForcedAlgorithm();

  /// How often the decision took this algorithm so far, on this thread.
  std::int64_t taken() const { return taken_; }
  /// How often it took another one because this one did not fit.
  std::int64_t missed() const { return missed_; }

 private:
  friend struct AlgorithmBook;
  const Decision* decisions_;  // of the mode and of every copy of it
  const char *decision_, *algorithm_;
  std::int64_t taken_ = 0, missed_ = 0;
  ForcedAlgorithm* outer_;
};

/// What is forced for the calling thread in its mode, such as "conv2d:winograd,matmul:dots"; empty: nothing. Part of
/// the cache key of everything that depends on what kernels did.
std::string forced_algorithms();

}  // namespace tern
