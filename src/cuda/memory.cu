#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "cuda/cuda.hpp"
#include "cuda/streams.cuh"

namespace tern::cuda {
namespace {

constexpr std::size_t kibi = 1024, mebi = kibi * kibi;
constexpr std::size_t slab_bytes = 2 * mebi, largest_small = mebi;
constexpr std::size_t bounce_bytes = 256 * kibi;

// Small blocks are carved from slabs, because the card hands out nothing below 2 MiB.
struct Slab {
  void* base = nullptr;
  std::size_t used = 0;
  int busy = 0;  // blocks that are not in the cache
};

struct Block {
  void* pointer = nullptr;
  std::size_t size = 0;
  Slab* slab = nullptr;            // null: a cudaMalloc of its own
  Stream* stream = nullptr;        // whose work may still touch it
  Recording* recording = nullptr;  // whose replays use it
  bool live = false, cached = false;
};

using FreeLists = std::map<std::size_t, std::vector<Block*>>;

// At most a quarter of a block is lost to rounding, and neighbouring sizes share blocks.
std::size_t round_up(std::size_t bytes) {
  const auto up = [](std::size_t value, std::size_t step) { return (value + step - 1) / step * step; };
  if (bytes <= 4 * kibi) return up(bytes, 512);
  std::size_t power = 4 * kibi;
  while (power < bytes) power *= 2;
  if (bytes <= largest_small) return up(bytes, power / 8);
  return up(bytes, std::max(2 * mebi, power / 16));
}

std::string in_words(std::size_t bytes) {
  if (bytes >= 10 * mebi) return message(bytes / mebi, " MiB");
  return message(bytes, " bytes");
}

/// Of one card.
class CudaMemory final : public Memory {
 public:
  explicit CudaMemory(int device)
      : device_(device), name_(device == 0 ? "cuda" : message("cuda:", device)), reached_(most_cards) {}

  std::string_view name() const override { return name_; }
  bool host_accessible() const override { return false; }

  void* allocate(std::size_t bytes, void* stream_handle) override {
    Stream& stream = own(stream_handle);
    const std::size_t size = round_up(bytes);
    std::lock_guard lock(mutex_);
    collect_returned();
    Recording* recording = stream.recording.load();
    Block* block = nullptr;
    if (recording != nullptr) block = take(recordings_[recording], size);
    if (block == nullptr) block = uncache(stream, size);
    if (block == nullptr) block = make(size);
    if (block == nullptr) {
      // Freeing what nobody uses may help; what is in use cannot be had.
      release_cache();
      block = make(size);
    }
    if (block == nullptr) throw OutOfMemory(shortage(bytes));
    block->live = true;
    block->stream = &stream;
    block->recording = recording;
    in_use_ += block->size;
    peak_ = std::max(peak_, in_use_);
    return block->pointer;
  }

  void release(void* pointer, std::size_t, void* stream_handle) noexcept override {
    if (pointer == nullptr) return;
    try {
      std::lock_guard lock(mutex_);
      const auto found = blocks_.find(pointer);
      if (found == blocks_.end()) return;
      Block* block = found->second.get();
      if (!block->live) return;
      block->live = false;
      in_use_ -= block->size;
      if (block->recording != nullptr) {
        // Another branch must not use it before they join.
        if (block->stream->branches > 0)
          released_.push_back(block);
        else
          recordings_[block->recording][block->size].push_back(block);
        return;
      }
      Stream& stream = stream_state(stream_handle);
      // The stream may be another thread's, which must not begin to record between the question and the event.
      std::unique_lock gate(stream.gate, std::defer_lock);
      if (&stream != block->stream) gate.lock();
      if (Recording* recording = stream.recording.load(); recording != nullptr) {
        // Recorded work may use this older block, so every replay will: it must not serve anything else.
        block->recording = recording;
        return;
      }
      if (&stream != block->stream) {
        // Used by two streams: free for its own only after what the other has queued.
        Returned returned{block, nullptr};
        use_card(stream.device);
        if (cudaEventCreateWithFlags(&returned.used, cudaEventDisableTiming) == cudaSuccess) {
          if (cudaEventRecord(returned.used, stream.handle) == cudaSuccess) {
            returned_.push_back(returned);
            return;
          }
          cudaEventDestroy(returned.used);
        }
        cudaGetLastError();
        cudaStreamSynchronize(stream.handle);
      }
      cache(block);
    } catch (...) {
      // Only the maps' own memory can run out here; the block is then lost until the process ends.
    }
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
      const std::size_t part = std::min(bytes, StagingRing::segment_bytes - ring.used);
      std::byte* staged = ring.base + ring.segment * StagingRing::segment_bytes + ring.used;
      std::memcpy(staged, source, part);
      check(cudaMemcpyAsync(target, staged, part, cudaMemcpyHostToDevice, stream.handle), "copying to the card");
      ring.used = std::min(StagingRing::segment_bytes, (ring.used + part + 63) / 64 * 64);
      target += part;
      source += part;
      bytes -= part;
    }
  }

  // On the calling thread's stream, behind what its producer has queued: the producer's stream may be recording, and
  // its pinned buffer is its own thread's.
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
    if (&producer != &reader) report_fault(producer);
    if (target != to) std::memcpy(to, target, bytes);
  }

  void copy(void* to, const void* from, std::size_t bytes, void* stream_handle) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, queue_of(stream_handle)), "copying on the card");
  }

  // From another card: straight where it lets this one reach it, else the driver brings the bytes.
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
      // It may be another thread's, which must not begin to record between the question and the wait.
      const std::lock_guard gate(second.gate);
      if (second.recording.load() == nullptr)
        return check(cudaStreamWaitEvent(second.handle, queued), "ordering two streams");
    }
    // Replays come later than this wait, so that a recording needs nothing else.
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

  MemoryStatistics statistics() const override {
    std::lock_guard lock(mutex_);
    return {.in_use = in_use_, .reserved = reserved_, .peak = peak_, .limit = limit_};
  }
  void reset_peak() override {
    std::lock_guard lock(mutex_);
    peak_ = in_use_;
  }
  void trim() override {
    std::lock_guard lock(mutex_);
    release_cache();
  }
  void set_limit(std::size_t bytes) override {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    if (limit_ != 0 && reserved_ > limit_) release_cache();
  }

  void reuse_released(const Stream& stream) noexcept {
    std::lock_guard lock(mutex_);
    std::erase_if(released_, [&](Block* block) {
      if (block->stream != &stream) return false;
      recordings_[block->recording][block->size].push_back(block);
      return true;
    });
  }

  void disband(Recording* recording) noexcept {
    std::lock_guard lock(mutex_);
    for (const auto& [pointer, block] : blocks_) {
      if (block->recording != recording) continue;
      block->recording = nullptr;
      if (!block->live) cache(block.get());
    }
    recordings_.erase(recording);
  }

 private:
  struct Returned {
    Block* block;
    cudaEvent_t used;
  };

  // The state behind a stream of this card.
  Stream& own(void* handle) const {
    Stream& stream = stream_state(handle);
    expects(stream.device == device_, name_, ": a stream of card ", stream.device, "; use that of Memory::stream()");
    return stream;
  }

  // From here on this card reaches the memory of the other one, if it can.
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
    report_fault(stream);
  }

  // Throws what the stream's kernels reported, to whoever asks first.
  static void report_fault(Stream& stream) {
    FaultCell& cell = *stream.fault;
    std::atomic_ref<int> reported(cell.kind);
    if (static_cast<Fault>(reported.load()) == Fault::none) [[likely]]
      return;
    const volatile FaultCell& written = cell;
    const long long value = written.value, limit = written.limit;
    const auto kind = static_cast<Fault>(reported.exchange(static_cast<int>(Fault::none)));
    if (kind == Fault::none) return;
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

  static Block* take(FreeLists& lists, std::size_t size) {
    const auto found = lists.lower_bound(size);
    if (found == lists.end() || found->first > size + size / 4) return nullptr;
    Block* block = found->second.back();
    found->second.pop_back();
    if (found->second.empty()) lists.erase(found);
    return block;
  }

  // Into the cache of its stream, and out of it.
  void cache(Block* block) {
    cached_[block->stream][block->size].push_back(block);
    block->cached = true;
    if (block->slab != nullptr) --block->slab->busy;
  }
  Block* uncache(Stream& stream, std::size_t size) {
    Block* block = take(cached_[&stream], size);
    if (block == nullptr) return nullptr;
    block->cached = false;
    if (block->slab != nullptr) ++block->slab->busy;
    return block;
  }

  void collect_returned() {
    for (std::size_t i = 0; i < returned_.size();) {
      const cudaError_t status = cudaEventQuery(returned_[i].used);
      if (status == cudaErrorNotReady) {
        cudaGetLastError();
        ++i;
        continue;
      }
      cudaEventDestroy(returned_[i].used);
      cache(returned_[i].block);
      returned_[i] = returned_.back();
      returned_.pop_back();
    }
  }

  // Null when the card or the limit has no room.
  void* reserve(std::size_t bytes) {
    if (limit_ != 0 && reserved_ + bytes > limit_) return nullptr;
    use_card(device_);
    void* pointer = nullptr;
    const cudaError_t status = cudaMalloc(&pointer, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      return nullptr;
    }
    check(status, "allocating memory on the card");
    reserved_ += bytes;
    return pointer;
  }

  Block* make(std::size_t size) {
    auto block = std::make_unique<Block>();
    block->size = size;
    if (size <= largest_small) {
      if (slabs_.empty() || slabs_.back()->used + size > slab_bytes) {
        void* base = reserve(slab_bytes);
        if (base == nullptr) return nullptr;
        slabs_.push_back(std::make_unique<Slab>());
        slabs_.back()->base = base;
      }
      block->slab = slabs_.back().get();
      block->pointer = static_cast<std::byte*>(block->slab->base) + block->slab->used;
      block->slab->used += size;
      ++block->slab->busy;
    } else {
      block->pointer = reserve(size);
      if (block->pointer == nullptr) return nullptr;
    }
    Block* made = block.get();
    blocks_[made->pointer] = std::move(block);
    return made;
  }

  void release_cache() noexcept {
    finish_all(device_);
    collect_returned();
    const auto unused = [](const Block& block) {
      return block.cached && (block.slab == nullptr || block.slab->busy == 0);
    };
    for (auto& [stream, lists] : cached_)
      for (auto list = lists.begin(); list != lists.end();) {
        std::erase_if(list->second, [&](Block* block) { return unused(*block); });
        list = list->second.empty() ? lists.erase(list) : std::next(list);
      }
    std::erase_if(blocks_, [&](const auto& entry) {
      const Block& block = *entry.second;
      if (!unused(block)) return false;
      if (block.slab == nullptr) give_back(block.pointer, block.size);
      return true;
    });
    std::erase_if(slabs_, [&](const auto& slab) {
      if (slab->busy != 0) return false;
      give_back(slab->base, slab_bytes);
      return true;
    });
  }

  void give_back(void* pointer, std::size_t bytes) noexcept {
    if (cudaFree(pointer) != cudaSuccess) cudaGetLastError();
    reserved_ -= bytes;
  }

  std::string shortage(std::size_t bytes) const {
    std::size_t free_bytes = 0, total_bytes = 0;
    use_card(device_);
    if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) cudaGetLastError();
    return message(name_, ": out of memory: wanted ", in_words(bytes), "; in use ", in_words(in_use_), ", reserved ",
                   in_words(reserved_), limit_ == 0 ? std::string() : message(" of a limit of ", in_words(limit_)),
                   ", free on the card ", in_words(free_bytes), " of ", in_words(total_bytes),
                   "; try a smaller batch, or free tensors that are no longer needed");
  }

  const int device_;
  const std::string name_;
  mutable std::mutex mutex_;
  std::vector<bool> reached_;  // the cards whose memory this one was let reach, or cannot
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Slab>> slabs_;
  std::unordered_map<Stream*, FreeLists> cached_;
  std::unordered_map<Recording*, FreeLists> recordings_;
  std::vector<Returned> returned_;
  std::vector<Block*> released_;  // while their streams have branches
  std::size_t in_use_ = 0, reserved_ = 0, peak_ = 0, limit_ = 0;
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
void reuse_released(Stream& stream) noexcept { cuda_memory(stream.device).reuse_released(stream); }
void disband_recording(int device, Recording* recording) noexcept { cuda_memory(device).disband(recording); }

}  // namespace tern::cuda
