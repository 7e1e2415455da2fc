#pragma once
// Work aside of a recording (Capture::aside): a second stream, whose work comes after all earlier work of the recorded
// one and which that one awaits late.

#include "cuda/support.cuh"
#include "tern/modes/mode.hpp"

namespace tern::cuda {

struct Stream;

/// Capture::aside and Capture::await.
void set_aside(void* stream, Capture::Aside what) noexcept;
void await_aside(void* stream) noexcept;

/// Where the thread's work for a stream goes while everything goes aside or ahead; else null.
cudaStream_t all_aside(const void* stream);
/// Whether work goes ahead: it may use no block that the recording has used.
bool goes_ahead(const void* stream);
/// From here on it comes after all earlier work.
void end_ahead(void* stream);
/// Whether a kernel may write gradients of parameters on the stream of next_aside().
bool parameters_aside(const Context& context);
/// What is queued there from here on comes after all that has been queued on the context's stream.
cudaStream_t next_aside(const Context& context);

/// To the end of the block, kernels of the thread write gradients of parameters in order: others read them.
class ParametersInOrder {
 public:
  ParametersInOrder();
  ParametersInOrder(const ParametersInOrder&) = delete;
  ParametersInOrder& operator=(const ParametersInOrder&) = delete;
  ~ParametersInOrder();

 private:
  const Capture::Aside outer_;
};

}  // namespace tern::cuda
