#include <exception>
#include <utility>

#include "cuda/aside.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda {
namespace {

thread_local Stream* recorded = nullptr;  // of which something goes aside
thread_local Capture::Aside goes = Capture::Aside::nothing;

void follow(Stream& stream) {
  stream.aside_holds = true;
  check(cudaEventRecord(stream.forked, stream.handle), "recording an event");
  check(cudaStreamWaitEvent(stream.aside, stream.forked), "ordering two streams");
}

void keep_failure(const Stream& stream) {
  if (Recording* const recording = stream.recording.load()) recording->failure = std::current_exception();
}

}  // namespace

void set_aside(void* stream, Capture::Aside what) noexcept {
  recorded = what == Capture::Aside::nothing ? nullptr : &stream_state(stream);
  goes = what;
  if (what != Capture::Aside::everything) return;
  try {
    follow(*recorded);
  } catch (...) {
    keep_failure(*recorded);
  }
}

void await_aside(void* stream_handle) noexcept {
  Stream& stream = stream_state(stream_handle);
  if (!stream.aside_holds) return;
  try {
    check(cudaEventRecord(stream.awaited, stream.aside), "recording an event");
    check(cudaStreamWaitEvent(stream.handle, stream.awaited), "ordering two streams");
  } catch (...) {
    keep_failure(stream);
  }
  stream.aside_holds = all_aside(stream_handle) != nullptr;
  reuse_released(stream);
}

cudaStream_t all_aside(const void* stream) {
  return goes == Capture::Aside::everything && recorded->handle == stream ? recorded->aside : nullptr;
}

bool parameters_aside(const Context& context) {
  return goes == Capture::Aside::parameters && recorded->handle == context.stream;
}

cudaStream_t next_aside(const Context& context) {
  Stream& stream = stream_state(context.stream);
  follow(stream);
  return stream.aside;
}

ParametersInOrder::ParametersInOrder()
    : outer_(goes == Capture::Aside::parameters ? std::exchange(goes, Capture::Aside::nothing) : goes) {}
ParametersInOrder::~ParametersInOrder() { goes = outer_; }

}  // namespace tern::cuda
