#include <exception>
#include <utility>

#include "cuda/aside.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda {
namespace {

thread_local Stream* recorded = nullptr;  // of which something goes aside
thread_local Capture::Aside goes = Capture::Aside::nothing;

void follow(Stream& stream, cudaStream_t side) {
  check(cudaEventRecord(stream.forked, stream.handle), "recording an event");
  check(cudaStreamWaitEvent(side, stream.forked), "ordering two streams");
}

void follow_aside(Stream& stream) {
  stream.aside_holds = true;
  follow(stream, stream.aside);
}

void keep_failure(const Stream& stream) {
  if (Recording* const recording = stream.recording.load()) recording->failure = std::current_exception();
}

void await(Stream& stream, cudaStream_t side) {
  check(cudaEventRecord(stream.awaited, side), "recording an event");
  check(cudaStreamWaitEvent(stream.handle, stream.awaited), "ordering two streams");
}

}  // namespace

void set_aside(void* stream_handle, Capture::Aside what) noexcept {
  Stream& stream = stream_state(stream_handle);
  try {
    if (goes == Capture::Aside::ahead) await(stream, stream.ahead);
    if (what == Capture::Aside::everything) follow_aside(stream);
    if (what == Capture::Aside::ahead) check(cudaStreamWaitEvent(stream.ahead, stream.opened), "ordering two streams");
  } catch (...) {
    keep_failure(stream);
  }
  recorded = &stream;
  goes = what;
}

void await_aside(void* stream_handle) noexcept {
  Stream& stream = stream_state(stream_handle);
  if (!stream.aside_holds) return;
  try {
    await(stream, stream.aside);
  } catch (...) {
    keep_failure(stream);
  }
  stream.aside_holds = all_aside(stream_handle) == stream.aside;
  reuse_released(stream);
}

cudaStream_t all_aside(const void* stream) {
  if (goes == Capture::Aside::nothing || recorded->handle != stream) return nullptr;
  return goes == Capture::Aside::everything ? recorded->aside
         : goes == Capture::Aside::ahead    ? recorded->ahead
                                            : nullptr;
}

bool goes_ahead(const void* stream) { return goes == Capture::Aside::ahead && recorded->handle == stream; }

void end_ahead(void* stream_handle) {
  Stream& stream = stream_state(stream_handle);
  follow(stream, stream.ahead);
}

bool parameters_aside(const Context& context) {
  return goes == Capture::Aside::parameters && recorded->handle == context.stream;
}

cudaStream_t next_aside(const Context& context) {
  Stream& stream = stream_state(context.stream);
  follow_aside(stream);
  return stream.aside;
}

ParametersInOrder::ParametersInOrder()
    : outer_(goes == Capture::Aside::parameters ? std::exchange(goes, Capture::Aside::nothing) : goes) {}
ParametersInOrder::~ParametersInOrder() { goes = outer_; }

}  // namespace tern::cuda
