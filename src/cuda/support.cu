#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"

namespace tern::cuda {

void fail(cudaError_t status, const char* doing, const std::source_location& where) {
  cudaGetLastError();  // otherwise the next, unrelated, call would report it again
  std::string_view file = where.file_name();
  file.remove_prefix(file.find_last_of('/') + 1);
  const std::string text = message("cuda: ", doing, " failed: ", cudaGetErrorString(status), " (",
                                   cudaGetErrorName(status), ", ", file, ":", where.line(), ")");
  if (status == cudaErrorMemoryAllocation) throw OutOfMemory(text);
  throw Error(text);
}

namespace {
// All kernels are compiled for the same architectures, so one represents all.
__global__ void probe_kernel() {}

thread_local const Card* used_card = nullptr;  // by the thread; null: never chosen

// Sets the card for the thread's runtime calls, which the program may have changed.
void make_current(int device) {
  int current = 0;
  check(cudaGetDevice(&current), "asking for the current card");
  if (current != device) check(cudaSetDevice(device), "changing the card");
}

Card read_card(int device) {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "reading the card's properties");
  Card read;
  read.name = properties.name;
  read.multiprocessors = properties.multiProcessorCount;
  read.shared_per_block = properties.sharedMemPerBlockOptin;
  read.memory = properties.totalGlobalMem;
  read.device = device;
  make_current(device);
  cudaFuncAttributes kernel{};
  check(cudaFuncGetAttributes(&kernel, probe_kernel), "reading the version of the kernels");
  read.code = std::min(kernel.ptxVersion, kernel.binaryVersion);
  read.overlap = read.code >= 90;
  int floats_per_double = 0;
  check(cudaDeviceGetAttribute(&floats_per_double, cudaDevAttrSingleToDoublePrecisionPerfRatio, device),
        "reading the card's properties");
  read.doubles = read.code >= 90 && floats_per_double <= 2;
  read.capability = properties.major * 10 + properties.minor;
  int kilohertz = 0;
  check(cudaDeviceGetAttribute(&kilohertz, cudaDevAttrClockRate, device), "reading the card's properties");
  if (kilohertz > 0) read.clock = static_cast<float>(kilohertz) / 1000;
  return read;
}
}  // namespace

int card_count() {
  static const int count = [] {
    int found = 0;
    check(cudaGetDeviceCount(&found), "counting the cards");
    return std::min(found, most_cards);
  }();
  return count;
}

const Card& card(int device) {
  struct Entry {
    std::once_flag read;
    Card card;
  };
  static auto& entries = *new std::vector<Entry>(static_cast<std::size_t>(card_count()));
  Entry& entry = entries[static_cast<std::size_t>(device)];
  std::call_once(entry.read, [&] { entry.card = read_card(device); });
  return entry.card;
}

const Card& card() {
  if (used_card == nullptr) [[unlikely]]
    used_card = &card(0);
  return *used_card;
}

void use_card(int device) {
  if (card_count() == 1) return;
  if (used_card == nullptr || used_card->device != device) used_card = &card(device);
  make_current(device);
}

namespace {

// Leaked on purpose: threads may end, and tensors may be freed, after static objects are gone.
struct Registry {
  std::mutex mutex;
  std::unordered_map<void*, Stream*> all;
  std::unordered_map<int, std::vector<Stream*>> idle;  // per card
};
Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

Stream* make_stream(int device) {
  use_card(device);
  auto stream = std::make_unique<Stream>();
  stream->device = device;
  const auto make = [](cudaStream_t& made, int priority) {
    check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, priority), "creating a stream");
  };
  const int usual = std::getenv("TERN_OLD_PRIORITY") != nullptr ? -1 : -2, late = -1,
            lowest = 0;  // late: nothing waits for it soon
  make(stream->handle, usual);
  for (cudaStream_t& side : stream->sides) make(side, usual);
  make(stream->aside, late);
  make(stream->ahead, usual);
  make(stream->early, lowest);
  std::vector<cudaEvent_t*> events{&stream->ordered, &stream->begun, &stream->forked, &stream->awaited,
                                   &stream->opened};
  for (cudaEvent_t& joined : stream->joined) events.push_back(&joined);
  for (Mark& mark : stream->marks) events.insert(events.end(), {&mark.in_order, &mark.aside});
  for (cudaEvent_t* event : events) check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "creating an event");
  check(cudaHostAlloc(reinterpret_cast<void**>(&stream->fault), sizeof(FaultCell), cudaHostAllocPortable),
        "pinning host memory");
  *stream->fault = FaultCell{};
  return stream.release();
}

/// What an earlier thread's work reported, unread, does not belong to the next thread: it is kept for the reader of
/// that work.
void leave_fault(Stream& stream) {
  finish(stream);
  std::atomic_ref<int> reported(stream.fault->kind);
  if (reported.load() == static_cast<int>(Fault::none)) return;
  stream.left.value = stream.fault->value;
  stream.left.limit = stream.fault->limit;
  std::atomic_ref<int>(stream.left.kind).store(reported.exchange(static_cast<int>(Fault::none)));
}

struct ThreadStreams {
  std::array<Stream*, most_cards> of_card{};  // null if the thread has none yet
  ~ThreadStreams() {
    Registry& streams = registry();
    std::lock_guard lock(streams.mutex);
    for (Stream* const stream : of_card)
      if (stream != nullptr) streams.idle[stream->device].push_back(stream);
  }
};
thread_local ThreadStreams own_streams;
thread_local Stream* last_looked_up = nullptr;

}  // namespace

Stream& thread_stream(int device) {
  Stream*& own = own_streams.of_card[static_cast<std::size_t>(device)];
  if (own != nullptr) [[likely]]
    return *own;
  Registry& streams = registry();
  {
    std::lock_guard lock(streams.mutex);
    std::vector<Stream*>& idle = streams.idle[device];
    if (idle.empty()) {
      Stream* made = make_stream(device);
      streams.all[made->handle] = made;
      return *(own = made);
    }
    own = idle.back();
    idle.pop_back();
  }
  leave_fault(*own);
  return *own;
}

void use_card_of(void* stream) { use_card(stream_state(stream).device); }

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
    // The thread that queued that work gets its error.
  }
}

void finish_all(int device) noexcept {
  // The wait must not block others from their streams: what it waits for may wait for their work.
  std::vector<Stream*> all;
  try {
    Registry& streams = registry();
    std::lock_guard lock(streams.mutex);
    for (const auto& [handle, stream] : streams.all)
      if (stream->device == device) all.push_back(stream);
  } catch (const std::exception&) {
    // Without memory for the list it waits for those that are on it.
  }
  for (Stream* const stream : all) finish(*stream);
}

bool recording(const Context& context) { return stream_state(context.stream).recording.load() != nullptr; }

FaultCell* fault_cell(const Context& context) { return stream_state(context.stream).fault; }

void allow_shared(const void* kernel, std::size_t bytes) {
  static std::mutex mutex;
  static auto& allowed =
      *new std::vector<std::unordered_map<const void*, std::size_t>>(static_cast<std::size_t>(card_count()));
  std::lock_guard lock(mutex);
  std::size_t& most = allowed[static_cast<std::size_t>(card().device)][kernel];
  if (bytes <= most) return;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "asking for more shared memory");
  most = bytes;
}

}  // namespace tern::cuda
