// The cards of stub/cuda_runtime.h: their streams, events and captures.

#include "card.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using card::Work, card::card_mutex, card::current, card::misuse, card::push;

std::condition_variable& changed() {
  static auto* condition = new std::condition_variable;
  return *condition;
}

/// One record of an event.
struct Mark {
  bool done = false;
  Clock::time_point at;
};

std::atomic<bool> failing_streams{false};
std::atomic<int> events{0}, failing_records{0}, misuses{0}, launches{0};

std::map<std::pair<const void*, int>, int>& attributes_set() {
  static auto* all = new std::map<std::pair<const void*, int>, int>;
  return *all;
}

}  // namespace

struct CUgraph_st {
  std::vector<Work> work;
  std::set<cudaStream_t> members;   // all streams whose work is recorded here
  std::set<cudaStream_t> unjoined;  // those whose last work nothing of the first stream waits for
  cudaStream_t first = nullptr;
  bool valid = true;
};
struct CUgraphExec_st {
  std::vector<Work> work;
  int device = 0;
};
struct CUevent_st {
  std::shared_ptr<Mark> mark;         // null: never recorded, or recorded in a capture
  std::shared_ptr<CUgraph_st> graph;  // of that capture
  cudaStream_t from = nullptr;
  int device = 0;
};
struct CUstream_st {
  int device = 0;
  std::deque<Work> work;
  bool busy = false;
  std::shared_ptr<CUgraph_st> graph;  // null: not capturing
  std::thread thread;

  void run() {
    std::unique_lock lock(card_mutex());
    for (;;) {
      changed().wait(lock, [&] { return !work.empty(); });
      Work next = std::move(work.front());
      work.pop_front();
      busy = true;
      lock.unlock();
      // Late, so that a missing wait shows.
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      next();
      lock.lock();
      busy = false;
      changed().notify_all();
    }
  }
  void push(Work next) {
    work.push_back(std::move(next));
    changed().notify_all();
  }
};

namespace {

Clock::duration passed{};  // what card::pass added to the clock

void finish_mark(const std::shared_ptr<Mark>& mark) {
  const std::scoped_lock lock(card_mutex());
  mark->done = true;
  mark->at = Clock::now() + passed;
  changed().notify_all();
}
void await_mark(const std::shared_ptr<Mark>& mark) {
  std::unique_lock lock(card_mutex());
  changed().wait(lock, [&] { return mark->done; });
}

}  // namespace

std::mutex& card::card_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
cudaError_t card::misuse() {
  ++misuses;
  return cudaErrorInvalidResourceHandle;
}
int card::device_of(cudaStream_t stream) { return stream->device; }
cudaError_t card::push(cudaStream_t stream, Work work) {
  if (stream->graph == nullptr) {
    stream->push(std::move(work));
    return cudaSuccess;
  }
  if (!stream->graph->valid) return cudaErrorStreamCaptureInvalidated;
  stream->graph->work.push_back(std::move(work));
  if (stream != stream->graph->first) stream->graph->unjoined.insert(stream);
  return cudaSuccess;
}

cudaError_t card::queue(cudaStream_t stream, Work work) {
  const std::scoped_lock lock(card_mutex());
  if (stream->device != current) return misuse();
  return push(stream, std::move(work));
}
int card::live_events() { return events.load(); }
void card::fail_event_records(int count) { failing_records = count; }
void card::fail_stream_creates(bool fails) { failing_streams = fails; }
int card::take_misuses() { return misuses.exchange(0); }
int card::take_launches() { return launches.exchange(0); }
void card::count_launch() { ++launches; }
int card::times_set(const void* kernel, int device) {
  const std::scoped_lock lock(card_mutex());
  return attributes_set()[{kernel, device}];
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = card::count;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= card::count) return cudaErrorInvalidDevice;
  current = device;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  if (failing_streams) return cudaErrorInvalidValue;
  *stream = new CUstream_st;
  (*stream)->device = current;
  (*stream)->thread = std::thread([made = *stream] { made->run(); });
  (*stream)->thread.detach();
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  std::unique_lock lock(card_mutex());
  if (stream->graph != nullptr) {
    stream->graph->valid = false;
    return cudaErrorStreamCaptureUnsupported;
  }
  changed().wait(lock, [&] { return stream->work.empty() && !stream->busy; });
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::scoped_lock lock(card_mutex());
  if (event->graph != nullptr) {
    if (stream->graph == nullptr) {
      stream->graph = event->graph;
      event->graph->members.insert(stream);
    }
    if (stream->graph != event->graph) {
      stream->graph->valid = event->graph->valid = false;
      return cudaErrorStreamCaptureMerge;
    }
    // Recorded work runs in the order in which it was queued, which respects every wait.
    if (stream == stream->graph->first)
      stream->graph->unjoined.erase(event->from);
    else
      stream->graph->unjoined.insert(stream);
    return cudaSuccess;
  }
  if (stream->graph != nullptr) {
    stream->graph->valid = false;
    return cudaErrorStreamCaptureIsolation;
  }
  if (event->mark == nullptr) return cudaSuccess;
  stream->push([mark = event->mark] { await_mark(mark); });
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::scoped_lock lock(card_mutex());
  if (stream->graph != nullptr) return cudaErrorInvalidValue;
  stream->graph = std::make_shared<CUgraph_st>();
  stream->graph->first = stream;
  stream->graph->members.insert(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::scoped_lock lock(card_mutex());
  *graph = nullptr;
  const std::shared_ptr<CUgraph_st> ended = stream->graph;
  if (ended == nullptr) return cudaErrorInvalidValue;
  for (cudaStream_t member : ended->members) member->graph = nullptr;
  if (!ended->valid) return cudaErrorStreamCaptureInvalidated;
  if (!ended->unjoined.empty()) return cudaErrorStreamCaptureUnjoined;
  *graph = new CUgraph_st(*ended);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  (*event)->device = current;
  ++events;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return cudaEventCreate(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::scoped_lock lock(card_mutex());
  delete event;
  --events;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (failing_records > 0 && failing_records-- > 0) return cudaErrorInvalidValue;
  const std::scoped_lock lock(card_mutex());
  if (event->device != stream->device) return misuse();
  event->from = stream;
  event->graph = stream->graph;
  event->mark = nullptr;
  if (stream->graph != nullptr) return cudaSuccess;
  event->mark = std::make_shared<Mark>();
  stream->push([mark = event->mark] { finish_mark(mark); });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::scoped_lock lock(card_mutex());
  if (event->graph != nullptr) return cudaErrorCapturedEvent;
  return event->mark == nullptr || event->mark->done ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  std::shared_ptr<Mark> mark;
  {
    const std::scoped_lock lock(card_mutex());
    if (event->graph != nullptr) return cudaErrorCapturedEvent;
    mark = event->mark;
  }
  if (mark != nullptr) await_mark(mark);
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t first, cudaEvent_t second) {
  const std::scoped_lock lock(card_mutex());
  if (first->mark == nullptr || second->mark == nullptr) return cudaErrorInvalidValue;
  if (first->device != second->device) return misuse();
  *milliseconds = std::chrono::duration<float, std::milli>(second->mark->at - first->mark->at).count();
  return cudaSuccess;
}

void card::pass(std::chrono::seconds time) {
  const std::scoped_lock lock(card_mutex());
  passed += time;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->work, graph->first->device};
  if (graph->first->device != current) return misuse();
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (executable->device != stream->device) return misuse();
  return card::queue(stream, [work = executable->work] {
    for (const Work& one : work) one();
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the card"; }
const char* cudaGetErrorName(cudaError_t status) {
  switch (status) {
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureMerge:
      return "cudaErrorStreamCaptureMerge";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorStreamCaptureUnjoined:
      return "cudaErrorStreamCaptureUnjoined";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    default:
      return "another error";
  }
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"no card", 9, 0, 2, 99 * 1024, std::size_t{8} << 30};
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrClockRate ? 1755000 : 2;
  return cudaSuccess;
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, void (*)()) {
  // Code for 8.0 on a card of 9.0.
  *attributes = {80, 90};
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int) {
  const std::scoped_lock lock(card_mutex());
  ++attributes_set()[{kernel, current}];
  return cudaSuccess;
}
