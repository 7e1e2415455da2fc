#pragma once

#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/aside.cuh"
#include "cuda/streams.cuh"
#include "tern/modes/mode.hpp"

namespace tern::cuda {

/// Copied to the card when a recording ends.
struct Upload {
  std::byte* to;
  std::vector<std::byte> bytes;
};

/// How recordings are instantiated: with the priorities of their streams; else all work would have that of the launch.
inline const unsigned long long priorities =
    std::getenv("TERN_OLD_PRIORITY") != nullptr ? 0 : cudaGraphInstantiateFlagUseNodePriority;

struct Recording {
  int device = 0;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStream_t launched_on = nullptr;
  std::shared_ptr<void> loop;                       // made by launch_loop()
  std::vector<std::shared_ptr<const void>> needed;  // by replays
  std::vector<Upload> uploads;
  std::vector<std::function<void()>> makes;
  std::exception_ptr failure;  // of delayed launches; thrown when the recording ends
  int marks = 0;
  std::size_t grown = 0;  // bytes allocated although a released block had that size
};

/// While it lives, the kernel that the calling thread runs has copies for weights, and writes copies of gradients: they
/// are made and read in order, and do not outlast its call.
class CopiedWeights {
 public:
  CopiedWeights() = default;
  CopiedWeights(const CopiedWeights&) = delete;
  CopiedWeights& operator=(const CopiedWeights&) = delete;
  ~CopiedWeights() { present_ = outer_; }
  static bool present() { return present_; }

 private:
  inline static thread_local bool present_ = false;
  const bool outer_ = std::exchange(present_, true);
};

/// Memory that holds what `make` writes there before the first replay, if the context's stream records and the weights
/// of the running kernel last and are no copies; else null.
void* made_once(const Context& context, std::size_t bytes, Make make);

/// Capture::loop. (loop.cu)
void launch_loop(void* recording, const Capture::Loop& loop, void* stream);

}  // namespace tern::cuda
