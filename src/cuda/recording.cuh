#pragma once

#include <cstddef>
#include <exception>
#include <memory>
#include <vector>

#include "cuda/streams.cuh"
#include "tern/modes/mode.hpp"

namespace tern::cuda {

/// Copied to the card when a recording ends.
struct Upload {
  std::byte* to;
  std::vector<std::byte> bytes;
};

struct Recording {
  int device = 0;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStream_t launched_on = nullptr;
  std::shared_ptr<void> loop;                       // made by launch_loop()
  std::vector<std::shared_ptr<const void>> needed;  // by replays
  std::vector<Upload> uploads;
  std::exception_ptr failure;  // of delayed launches; thrown when the recording ends
};

/// Capture::loop. (loop.cu)
void launch_loop(void* recording, const Capture::Loop& loop, void* stream);

}  // namespace tern::cuda
