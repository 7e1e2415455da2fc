#include <exception>
#include <utility>

#include "cuda/aside.cuh"
#include "cuda/cuda.hpp"
#include "cuda/recording.cuh"
#include "cuda/waits.cuh"

namespace tern::cuda {
namespace {

thread_local Stream* recorded = nullptr;  // of which something goes aside
thread_local Capture::Aside goes;
thread_local Stream* early = nullptr;  // of which work goes early

void follow_aside(Stream& stream) {
  stream.aside_holds = true;
  Recording* const recording = stream.recording.load();
  wait_for(stream.aside, stream.handle, stream.forked, recording == nullptr ? nullptr : &recording->of_aside);
}

void go_ahead(const Stream& stream) { check(cudaStreamWaitEvent(stream.ahead, stream.opened), "ordering two streams"); }

void keep_failure(const Stream& stream) {
  if (Recording* const recording = stream.recording.load()) recording->failure = std::current_exception();
}

void await(Stream& stream, cudaStream_t side) {
  Recording* const recording = stream.recording.load();
  const bool noted = recording != nullptr && side == stream.ahead;
  wait_for(stream.handle, side, stream.awaited, noted ? &recording->of_ahead : nullptr);
}

}  // namespace

void set_aside(void* stream_handle, Capture::Aside what) noexcept {
  Stream& stream = stream_state(stream_handle);
  try {
    if (goes.ahead) await(stream, stream.ahead);
    if (what.everything) follow_aside(stream);
    if (what.ahead) go_ahead(stream);
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

int mark(void* stream_handle) noexcept {
  Stream& stream = stream_state(stream_handle);
  Recording* const recording = stream.recording.load();
  if (recording == nullptr || recording->marks == Stream::most_marks) return -1;
  Mark& next = stream.marks[static_cast<std::size_t>(recording->marks)];
  try {
    next.aside_holds = stream.aside_holds;
    check(cudaEventRecord(next.in_order, stream.handle), "recording an event");
    if (next.aside_holds) check(cudaEventRecord(next.aside, stream.aside), "recording an event");
  } catch (...) {
    keep_failure(stream);
    return -1;
  }
  return recording->marks++;
}

void go_early(void* stream_handle, int mark) noexcept {
  Stream& stream = stream_state(stream_handle);
  early = mark < 0 ? nullptr : &stream;
  try {
    if (mark < 0) return await(stream, stream.early);
    const Mark& from = stream.marks[static_cast<std::size_t>(mark)];
    check(cudaStreamWaitEvent(stream.early, from.in_order), "ordering two streams");
    if (from.aside_holds) check(cudaStreamWaitEvent(stream.early, from.aside), "ordering two streams");
  } catch (...) {
    keep_failure(stream);
  }
}

bool goes_early(const void* stream) { return early != nullptr && early->handle == stream; }

cudaStream_t all_aside(const void* stream) {
  if (goes_early(stream)) return early->early;
  if (!(goes.everything || goes.ahead) || recorded->handle != stream) return nullptr;
  return goes.ahead ? recorded->ahead : recorded->aside;
}

bool goes_ahead(const void* stream) { return goes.ahead && recorded->handle == stream; }

void end_ahead(void* stream_handle) {
  Stream& stream = stream_state(stream_handle);
  wait_for(stream.ahead, stream.handle, stream.forked, nullptr);
}

bool parameters_aside(const Context& context) {
  return goes.parameters && !CopiedWeights::present() && recorded->handle == context.stream;
}

cudaStream_t next_aside(const Context& context) {
  Stream& stream = stream_state(context.stream);
  follow_aside(stream);
  return stream.aside;
}

void* MadeAhead::make(const Context& context, std::size_t bytes, const Make& work) {
  if (!goes.weights || CopiedWeights::present() || recorded->handle != context.stream) return nullptr;
  made_ = allocate_unused(*recorded, bytes);
  if (made_ == nullptr) return nullptr;
  stream_ = recorded;
  bytes_ = bytes;
  go_ahead(*stream_);
  Context where = context;
  where.stream = stream_->ahead;
  work(where, made_);
  await(*stream_, stream_->ahead);
  return made_;
}

MadeAhead::~MadeAhead() {
  if (made_ != nullptr) memory(stream_->device).release(made_, bytes_, stream_->handle);
}

}  // namespace tern::cuda
