#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/aside.cuh"
#include "cuda/blocks.cuh"
#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"

namespace tern::cuda {
namespace {

constexpr std::size_t bounce_bytes = std::size_t{256} * 1024, piece_bytes = std::size_t{304} * 1024;

/// The memory of one card.
class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(int device)
      : device_(device),
        name_(device == 0 ? "cuda" : message("cuda:", device)),
        blocks_(device, name_),
        reached_(most_cards) {}

  std::string_view name() const override { return name_; }
  bool host_accessible() const override { return false; }

  void* allocate(std::size_t bytes, void* stream_handle) override {
    Stream& stream = own(stream_handle);
    if (stream.aside_holds && blocks_.needs_held_back(bytes, stream)) await_aside(stream_handle);
    const bool ahead = goes_ahead(stream_handle), used = ahead && blocks_.needs_used(bytes, stream);
    if (used) end_ahead(stream_handle);
    return blocks_.allocate(bytes, stream, ahead && !used);
  }
  void release(void* pointer, std::size_t, void* stream_handle) noexcept override {
    blocks_.release(pointer, stream_handle);
  }

  void copy_in(void* to, const void* from, std::size_t bytes, void* stream_handle) override {
    if (bytes == 0) return;
    Stream& stream = own(stream_handle);
    refuse_recording(stream, "a copy from the host", "copy the tensor before the step, or pass it as an argument");
    StagingRing& ring = staging(stream);
    auto* target = static_cast<std::byte*>(to);
    auto* source = static_cast<const std::byte*>(from);
    while (bytes > 0) {
      if (ring.used == StagingRing::segment_bytes) {
        check(cudaEventRecord(ring.copied[ring.segment], stream.handle), "recording an event");
        ring.segment = (ring.segment + 1) % StagingRing::segments;
        ring.used = 0;
        check(cudaEventSynchronize(ring.copied[ring.segment]), "waiting for a copy to the card");
      }
      // In pieces, so that the card copies one while the host writes the next.
      const std::size_t part = std::min({bytes, StagingRing::segment_bytes - ring.used, piece_bytes});
      std::byte* staged = ring.base + ring.segment * StagingRing::segment_bytes + ring.used;
      std::memcpy(staged, source, part);
      check(cudaMemcpyAsync(target, staged, part, cudaMemcpyHostToDevice, stream.handle), "copying to the card");
      ring.used = std::min(StagingRing::segment_bytes, (ring.used + part + 63) / 64 * 64);
      target += part;
      source += part;
      bytes -= part;
    }
  }

  // On the calling thread's stream, after the producer's queued work: the producer's stream may be recording, and its
  // pinned buffer belongs to its own thread.
  void copy_out(void* to, const void* from, std::size_t bytes, void* producer_handle) override {
    if (bytes == 0) return;
    Stream& producer = own(producer_handle);
    Stream& reader = thread_stream(device_);
    refuse_recording(reader, "a copy to the host", "read the value after the step");
    order(producer.handle, reader.handle);
    void* target = to;
    if (bytes <= bounce_bytes) {
      if (reader.bounce == nullptr) {
        use_card(device_);
        check(cudaHostAlloc(reinterpret_cast<void**>(&reader.bounce), bounce_bytes, cudaHostAllocDefault),
              "pinning host memory");
      }
      target = reader.bounce;
    }
    check(cudaMemcpyAsync(target, from, bytes, cudaMemcpyDeviceToHost, reader.handle), "copying to the host");
    wait(reader);
    if (&producer != &reader) {
      report_fault(*producer.fault);
      report_fault(producer.left);
    }
    if (target != to) std::memcpy(to, target, bytes);
    reader.staging.segment = reader.staging.used = 0;  // its copies have ended: the next ones need no new segment
  }

  void copy(void* to, const void* from, std::size_t bytes, void* stream_handle) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue_of(stream_handle)), "copying on the card");
  }

  // From another card: directly if that card allows access, else through the driver.
  bool copy_from(Memory& source, void* to, const void* from, std::size_t bytes, void* producer,
                 void* consumer) override {
    auto* const other = dynamic_cast<CudaMemory*>(&source);
    if (other == nullptr) return false;
    Stream& stream = own(consumer);
    refuse_recording(stream, "a copy from another card", "copy the tensor before the step, or pass it as an argument");
    reach(other->device_);
    order(producer, consumer);
    check(cudaMemcpyPeerAsync(to, device_, from, other->device_, bytes, stream.handle), "copying between two cards");
    order(consumer, producer);
    return true;
  }

  void* stream() override { return thread_stream(device_).handle; }

  void order(void* producer, void* consumer) override {
    if (producer == consumer || producer == nullptr || consumer == nullptr) return;
    Stream& first = stream_state(producer);
    Stream& second = stream_state(consumer);
    const cudaEvent_t queued = event_after(first);
    {
      // It may be another thread's stream, which must not start recording between the query and the wait.
      const std::lock_guard gate(second.gate);
      if (second.recording.load() == nullptr)
        return check(cudaStreamWaitEvent(second.handle, queued), "ordering two streams");
    }
    // Replays come after this wait, so a recording needs nothing else.
    check(cudaEventSynchronize(queued), "waiting for another stream");
  }

  void finish(void* stream_handle) noexcept override {
    if (stream_handle == nullptr)
      finish_all(device_);
    else
      tern::cuda::finish(stream_state(stream_handle));
  }

  void synchronize(void* stream_handle) override {
    Stream& stream = stream_state(stream_handle);
    refuse_recording(stream, "a wait", "synchronise after the step");
    wait(stream);
  }

  MemoryStatistics statistics() const override { return blocks_.statistics(); }
  void reset_peak() override { blocks_.reset_peak(); }
  void trim() override { blocks_.trim(); }
  void set_limit(std::size_t bytes) override { blocks_.set_limit(bytes); }

  Blocks& blocks() { return blocks_; }

 private:
  // The state behind a stream of this card.
  Stream& own(void* handle) const {
    Stream& stream = stream_state(handle);
    expects(stream.device == device_, name_, ": a stream of card ", stream.device, "; use that of Memory::stream()");
    return stream;
  }

  // Enables access from this card to the other one's memory, if possible.
  void reach(int other) {
    const std::lock_guard lock(mutex_);
    if (reached_[static_cast<std::size_t>(other)]) return;
    reached_[static_cast<std::size_t>(other)] = true;
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, device_, other), "asking whether two cards reach each other");
    if (can == 0) return;
    use_card(device_);
    const cudaError_t status = cudaDeviceEnablePeerAccess(other, 0);
    cudaGetLastError();
    if (status != cudaErrorPeerAccessAlreadyEnabled) check(status, "letting two cards reach each other");
  }

  static void refuse_recording(const Stream& stream, const char* what, const char* instead) {
    expects(stream.recording.load() == nullptr, "cuda: ", what,
            " cannot be part of a recorded step, which never meets the host; ", instead);
  }

  static void wait(Stream& stream) {
    check(cudaStreamSynchronize(stream.handle), "waiting for the card");
    report_fault(*stream.fault);
  }

  // Throws what a stream's kernels reported, to the first caller that asks.
  static void report_fault(FaultCell& cell) {
    std::atomic_ref<int> reported(cell.kind);
    if (static_cast<Fault>(reported.load()) == Fault::none) [[likely]]
      return;
    const volatile FaultCell& written = cell;
    const long long value = written.value, limit = written.limit;
    const auto kind = static_cast<Fault>(reported.exchange(static_cast<int>(Fault::none)));
    if (kind == Fault::none) return;
    expects<NumericError>(kind != Fault::divisor, "cuda: work queued earlier divided integers by 0");
    throw NumericError(message("cuda: work queued earlier met ", kind == Fault::label ? "the label " : "the index ",
                               value, ", expected one in [0, ", limit, "); check the ",
                               kind == Fault::label ? "labels and the number of classes" : "indices"));
  }

  static StagingRing& staging(Stream& stream) {
    StagingRing& ring = stream.staging;
    if (ring.base == nullptr) {
      use_card(stream.device);
      for (cudaEvent_t& event : ring.copied)
        if (event == nullptr) check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
      check(cudaHostAlloc(reinterpret_cast<void**>(&ring.base), StagingRing::segments * StagingRing::segment_bytes,
                          cudaHostAllocDefault),
            "pinning host memory");
    }
    return ring;
  }

  const int device_;
  const std::string name_;
  Blocks blocks_;
  std::mutex mutex_;
  std::vector<bool> reached_;  // the cards whose memory this one may access, or cannot
};

CudaMemory& cuda_memory(int device) {
  static auto& memories = *[] {  // leaked: tensors may outlive static objects
    auto* made = new std::vector<std::unique_ptr<CudaMemory>>;
    for (int i = 0; i < card_count(); ++i) made->push_back(std::make_unique<CudaMemory>(i));
    return made;
  }();
  return *memories[static_cast<std::size_t>(device)];
}

}  // namespace

Memory& memory(int device) { return cuda_memory(device); }

void open_recording(Stream& stream, Recording* recording) noexcept { stream.recording.store(recording); }
void close_recording(Stream& stream) noexcept { stream.recording.store(nullptr); }
void reuse_released(Stream& stream) noexcept { cuda_memory(stream.device).blocks().reuse_released(stream); }
void* allocate_unused(Stream& stream, std::size_t bytes) {
  Blocks& blocks = cuda_memory(stream.device).blocks();
  return blocks.needs_used(bytes, stream) ? nullptr : blocks.allocate(bytes, stream, true);
}
void* allocate_unrecorded(Stream& stream, std::size_t bytes) {
  return cuda_memory(stream.device).blocks().allocate_unrecorded(bytes, stream);
}
void disband_recording(int device, Recording* recording) noexcept { cuda_memory(device).blocks().disband(recording); }

}  // namespace tern::cuda
