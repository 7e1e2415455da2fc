#include <memory>

#include "cuda/aside.cuh"
#include "cuda/cuda.hpp"
#include "cuda/recording.cuh"

namespace tern::cuda {

void keep_for_replays(const Stream& stream, const std::shared_ptr<const void>& needed) {
  if (Recording* const recording = stream.recording.load()) recording->needed.push_back(needed);
}

namespace {

std::byte* kept_block(Stream& stream, std::size_t size) {
  auto* const block = static_cast<std::byte*>(allocate_unrecorded(stream, size));
  // By then no replay runs, on whichever stream it was launched.
  keep_for_replays(stream, std::shared_ptr<const void>(block, [block, size, &stream](const void*) {
                     memory(stream.device).release(block, size, stream.handle);
                   }));
  return block;
}

}  // namespace

const std::byte* keep_on_card(Stream& stream, std::vector<std::byte> bytes) {
  std::byte* const to = kept_block(stream, bytes.size());
  stream.recording.load()->uploads.push_back({to, std::move(bytes)});
  return to;
}

void* made_once(const Context& context, std::size_t bytes, Make make) {
  Stream& stream = stream_state(context.stream);
  Recording* const recording = stream.recording.load();
  if (recording == nullptr || CopiedWeights::present() || host_functions.weights_last == nullptr ||
      !host_functions.weights_last())
    return nullptr;
  void* const to = kept_block(stream, bytes);
  recording->makes.push_back([make = std::move(make), context, to] { make(context, to); });
  return to;
}

namespace {

void begin(void* stream_handle) {
  Stream& stream = stream_state(stream_handle);
  expects(stream.recording.load() == nullptr, "cuda: this thread is already recording a step; steps do not nest");
  auto recording = std::make_unique<Recording>();
  recording->device = stream.device;
  const std::lock_guard gate(stream.gate);
  check(cudaEventRecord(stream.begun, stream.handle), "recording an event");
  // Relaxed: the allocator may request card memory while recording, which affects no stream.
  check(cudaStreamBeginCapture(stream.handle, cudaStreamCaptureModeRelaxed), "starting to record");
  check(cudaEventRecord(stream.opened, stream.handle), "recording an event");
  open_recording(stream, recording.release());
}

void destroy(void* recording_handle) {
  auto* recording = static_cast<Recording*>(recording_handle);
  if (recording == nullptr) return;
  // A replay may still use the blocks. At process exit the driver may be gone: then nothing is left to do. What it
  // keeps for its replays belongs to its card.
  try {
    use_card(recording->device);
  } catch (const std::exception&) {
  }
  if (recording->launched_on != nullptr) finish(stream_state(recording->launched_on));  // it may be recording
  recording->loop.reset();
  if (recording->executable != nullptr) cudaGraphExecDestroy(recording->executable);
  if (recording->graph != nullptr) cudaGraphDestroy(recording->graph);
  cudaGetLastError();
  disband_recording(recording->device, recording);
  delete recording;
}

void abandon(void* stream_handle) {
  Stream& stream = stream_state(stream_handle);
  Recording* recording = stream.recording.load();
  if (recording == nullptr) return;
  {
    const std::lock_guard gate(stream.gate);
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream.handle, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    cudaGetLastError();
    close_recording(stream);
  }
  destroy(recording);
}

void* end(void* stream_handle) {
  Stream& stream = stream_state(stream_handle);
  Recording* recording = stream.recording.load();
  expects(recording != nullptr, "cuda: this thread is not recording a step");
  std::unique_lock gate(stream.gate);
  cudaError_t status = cudaStreamEndCapture(stream.handle, &recording->graph);
  close_recording(stream);
  gate.unlock();
  use_card(stream.device);
  try {
    if (recording->failure) std::rethrow_exception(recording->failure);
    for (const Upload& upload : recording->uploads)
      memory(stream.device).copy_in(upload.to, upload.bytes.data(), upload.bytes.size(), stream.handle);
    for (const auto& make : recording->makes) make();
    if (!recording->uploads.empty() || !recording->makes.empty())
      check(cudaStreamSynchronize(stream.handle), "waiting for a stream");
  } catch (...) {
    destroy(recording);
    throw;
  }
  recording->uploads.clear(), recording->makes.clear();
  if (status == cudaSuccess) status = cudaGraphInstantiate(&recording->executable, recording->graph, priorities);
  if (status == cudaSuccess) status = cudaGraphUpload(recording->executable, stream.handle);
  if (status != cudaSuccess) {
    destroy(recording);
    check(status, "recording the step");
  }
  return recording;
}

void launch_recording(void* recording_handle, void* stream_handle) {
  auto* recording = static_cast<Recording*>(recording_handle);
  use_card(recording->device);
  recording->launched_on = static_cast<cudaStream_t>(stream_handle);
  check(cudaGraphLaunch(recording->executable, recording->launched_on), "replaying the step");
}

}  // namespace

const Capture& capture() {
  static const Capture capture{.begin = begin,
                               .end = end,
                               .abandon = abandon,
                               .launch = launch_recording,
                               .destroy = destroy,
                               .branch = next_branch,
                               .join = join_branches,
                               .aside = set_aside,
                               .await = await_aside,
                               .mark = mark,
                               .early = go_early,
                               .bytes_per_mark = std::size_t{8} << 20};
  return capture;
}

}  // namespace tern::cuda
