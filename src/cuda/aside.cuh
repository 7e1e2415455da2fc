#pragma once
// Work aside of a recording (Capture::aside): a second stream, whose work comes after all earlier work of the recorded
// one and which that one awaits late.

#include <functional>

#include "cuda/support.cuh"
#include "tern/modes/mode.hpp"

namespace tern::cuda {

struct Stream;

/// What replays read, and what writes it.
using Make = std::function<void(const Context& context, void* to)>;

/// Capture::aside and Capture::await.
void set_aside(void* stream, Capture::Aside what) noexcept;
void await_aside(void* stream) noexcept;
/// Capture::mark and Capture::early.
int mark(void* stream) noexcept;
void go_early(void* stream, int mark) noexcept;

/// Where the thread's work for a stream goes while everything goes aside or ahead; else null.
cudaStream_t all_aside(const void* stream);
/// Whether the thread's work for a stream goes early: other work should come first.
bool goes_early(const void* stream);
/// Whether work goes ahead: it may use no block that the recording has used.
bool goes_ahead(const void* stream);
/// From here on it comes after all earlier work.
void end_ahead(void* stream);
/// Whether a kernel may write gradients of parameters on the stream of next_aside().
bool parameters_aside(const Context& context);
/// What is queued there from here on comes after all that has been queued on the context's stream.
cudaStream_t next_aside(const Context& context);

/// What a kernel has made of its weights ahead of the recording, until the end of the block.
class MadeAhead {
 public:
  MadeAhead() = default;
  MadeAhead(const MadeAhead&) = delete;
  MadeAhead& operator=(const MadeAhead&) = delete;
  ~MadeAhead();
  /// Memory that `work` fills, for kernels that are queued from here on; null if that must be done in order, as with
  /// copies of weights (CopiedWeights). Once only.
  void* make(const Context& context, std::size_t bytes, const Make& work);

 private:
  Stream* stream_ = nullptr;
  void* made_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tern::cuda
