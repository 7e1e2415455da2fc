#include <algorithm>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cuda/streams.cuh"
#include "cuda/support.cuh"

namespace tern::cuda {

void fail(cudaError_t status, const char* doing, const std::source_location& where) {
  cudaGetLastError();  // else the next, innocent, call would report it again
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);
  const std::string text = message("cuda: ", doing, " failed: ", cudaGetErrorString(status), " (",
                                   cudaGetErrorName(status), ", ", file, ":", where.line(), ")");
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  throw Error(text);
}

namespace {
// All kernels are compiled for the same architectures, so one stands for all.
__global__ void probe_kernel() {}
}  // namespace

const Card& card() {
  static const Card card = [] {
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "reading the card's properties");
    Card read;
    read.name = properties.name;
    read.multiprocessors = properties.multiProcessorCount;
    read.shared_per_block = properties.sharedMemPerBlockOptin;
    read.memory = properties.totalGlobalMem;
    cudaFuncAttributes kernel{};
    check(cudaFuncGetAttributes(&kernel, probe_kernel), "reading the version of the kernels");
    read.code = std::min(kernel.ptxVersion, kernel.binaryVersion);
    read.overlap = read.code >= 90;
    return read;
  }();
  return card;
}

namespace {

// Leaked on purpose: threads may end, and tensors may be freed, after static objects are gone.
struct Registry {
  std::mutex mutex;
  std::unordered_map<void*, Stream*> all;
  std::vector<Stream*> idle;
};
Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

Stream* make_stream() {
  auto* stream = new Stream;
  check(cudaStreamCreateWithFlags(&stream->handle, cudaStreamNonBlocking), "creating a stream");
  for (cudaStream_t& side : stream->sides)
    check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "creating a stream");
  std::vector<cudaEvent_t*> events{&stream->ordered, &stream->begun, &stream->forked};
  for (cudaEvent_t& joined : stream->joined) events.push_back(&joined);
  for (cudaEvent_t* event : events) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
  check(cudaHostAlloc(reinterpret_cast<void**>(&stream->fault), sizeof(FaultCell), cudaHostAllocPortable),
        "pinning host memory");
  *stream->fault = FaultCell{};
  return stream;
}

struct ThreadStream {
  Stream* stream = nullptr;
  ~ThreadStream() {
    if (stream == nullptr) return;
    Registry& streams = registry();
    std::lock_guard lock(streams.mutex);
    streams.idle.push_back(stream);
  }
};
thread_local ThreadStream own_stream;
thread_local Stream* last_looked_up = nullptr;
thread_local Stream* branching = nullptr;  // has branches, and the thread queues on the last of them

}  // namespace

Stream& thread_stream() {
  if (own_stream.stream != nullptr) [[likely]]
    return *own_stream.stream;
  Registry& streams = registry();
  std::lock_guard lock(streams.mutex);
  if (streams.idle.empty()) {
    Stream* made = make_stream();
    streams.all[made->handle] = made;
    own_stream.stream = made;
  } else {
    own_stream.stream = streams.idle.back();
    streams.idle.pop_back();
  }
  return *own_stream.stream;
}

Stream& stream_state(void* stream) {
  if (last_looked_up != nullptr && last_looked_up->handle == stream) [[likely]]
    return *last_looked_up;
  Registry& streams = registry();
  std::lock_guard lock(streams.mutex);
  const auto found = streams.all.find(stream);
  expects(found != streams.all.end(), "cuda: a stream that Memory::stream() did not make; use that of the scope");
  last_looked_up = found->second;
  return *found->second;
}

cudaEvent_t event_after(Stream& stream) {
  const std::lock_guard gate(stream.gate);
  if (stream.recording.load() != nullptr) return stream.begun;
  check(cudaEventRecord(stream.ordered, stream.handle), "recording an event");
  return stream.ordered;
}

void finish(Stream& stream) noexcept {
  try {
    check(cudaEventSynchronize(event_after(stream)), "waiting for a stream");
  } catch (const std::exception&) {
    // Whoever queued that work meets its error.
  }
}

void finish_all() noexcept {
  Registry& streams = registry();
  std::lock_guard lock(streams.mutex);
  for (const auto& [handle, stream] : streams.all) finish(*stream);
}

bool recording(const Context& context) { return stream_state(context.stream).recording.load() != nullptr; }

FaultCell* fault_cell(const Context& context) { return stream_state(context.stream).fault; }

cudaStream_t queue_of(void* stream) {
  if (branching == nullptr || branching->handle != stream) [[likely]]
    return static_cast<cudaStream_t>(stream);
  return branching->sides[static_cast<std::size_t>(branching->branches - 1) % Stream::most_sides];
}

cudaStream_t stream_of(const Context& context) { return queue_of(context.stream); }

bool may_fork(const Context& context) { return branching == nullptr && recording(context); }

cudaStream_t fork(const Context& context) {
  Stream& stream = stream_state(context.stream);
  check(cudaEventRecord(stream.forked, stream.handle), "recording an event");
  check(cudaStreamWaitEvent(stream.sides[0], stream.forked), "ordering two streams");
  return stream.sides[0];
}

void join(const Context& context) {
  Stream& stream = stream_state(context.stream);
  check(cudaEventRecord(stream.joined[0], stream.sides[0]), "recording an event");
  check(cudaStreamWaitEvent(stream.handle, stream.joined[0]), "ordering two streams");
}

void next_branch(void* stream_handle) {
  Stream& stream = stream_state(stream_handle);
  if (branching == nullptr) {
    check(cudaEventRecord(stream.forked, stream.handle), "recording an event");
    branching = &stream;
  }
  const auto before = static_cast<std::size_t>(stream.branches++);
  if (before < Stream::most_sides)
    check(cudaStreamWaitEvent(stream.sides[before], stream.forked), "ordering two streams");
}

void join_branches(void* stream_handle) noexcept {
  if (branching == nullptr) return;
  Stream& stream = *branching;
  branching = nullptr;
  const auto used = std::min<std::size_t>(static_cast<std::size_t>(stream.branches), Stream::most_sides);
  for (std::size_t i = 0; i < used; ++i) {
    // A failure leaves a branch without an end, which the end of the recording reports.
    cudaEventRecord(stream.joined[i], stream.sides[i]);
    cudaStreamWaitEvent(static_cast<cudaStream_t>(stream_handle), stream.joined[i]);
  }
  stream.branches = 0;
  reuse_released(stream);
}

void allow_shared(const void* kernel, std::size_t bytes) {
  static std::mutex mutex;
  static auto* allowed = new std::unordered_map<const void*, std::size_t>;
  std::lock_guard lock(mutex);
  std::size_t& most = (*allowed)[kernel];
  if (bytes <= most) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for more shared memory");
  most = bytes;
}

}  // namespace tern::cuda
