#include <algorithm>

#include "cuda/blocks.cuh"
#include "cuda/recording.cuh"

namespace tern::cuda {
namespace {

constexpr std::size_t kibi = 1024, mebi = kibi * kibi;
constexpr std::size_t slab_bytes = 2 * mebi, largest_small = mebi;
constexpr std::size_t most_growth = 64 * mebi;  // of a recording, so that work beside other work need not wait

// Rounding wastes at most a quarter of a block, and similar sizes share blocks.
std::size_t round_up(std::size_t bytes) {
  const auto up = [](std::size_t value, std::size_t step) { return (value + step - 1) / step * step; };
  if (bytes <= 4 * kibi) return up(bytes, 512);
  std::size_t power = 4 * kibi;
  while (power < bytes) power *= 2;
  if (bytes <= largest_small) return up(bytes, power / 8);
  return up(bytes, std::max(2 * mebi, power / 16));
}

bool fits(std::size_t free, std::size_t size) { return free >= size && free <= size + size / 4; }

std::string in_words(std::size_t bytes) {
  if (bytes >= 10 * mebi) return message(bytes / mebi, " MiB");
  return message(bytes, " bytes");
}

}  // namespace

void* Blocks::allocate(std::size_t bytes, Stream& stream, Recording* recording, bool fresh) {
  const std::size_t size = round_up(bytes);
  std::lock_guard lock(mutex_);
  collect_returned();
  Block* block = nullptr;
  if (!fresh && recording != nullptr) block = take(recordings_[recording], size);
  if (block == nullptr) block = uncache(stream, size);
  if (block == nullptr) block = make(size);
  if (block == nullptr) {
    // Freeing unused memory may help; memory in use is unavailable.
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

void Blocks::release(void* pointer, void* stream_handle) noexcept {
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
      // Another branch, or what follows work aside, must not use it before they join.
      if (block->stream->holds_back())
        released_.push_back(block);
      else
        recordings_[block->recording][block->size].push_back(block);
      return;
    }
    Stream& stream = stream_state(stream_handle);
    // The stream may be another thread's, which must not start recording between the query and the event.
    std::unique_lock gate(stream.gate, std::defer_lock);
    if (&stream != block->stream) gate.lock();
    if (Recording* recording = stream.recording.load(); recording != nullptr) {
      // Recorded work may use this older block, so every replay will: nothing else may use it.
      block->recording = recording;
      return;
    }
    if (&stream != block->stream) {
      // Used by two streams: free for its own only after the other's queued work.
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

MemoryStatistics Blocks::statistics() const {
  std::lock_guard lock(mutex_);
  return {.in_use = in_use_, .reserved = reserved_, .peak = peak_, .limit = limit_};
}

void Blocks::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = in_use_;
}

void Blocks::trim() {
  std::lock_guard lock(mutex_);
  release_cache();
}

void Blocks::set_limit(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  if (limit_ != 0 && reserved_ > limit_) release_cache();
}

bool Blocks::needs_held_back(std::size_t bytes, const Stream& stream) {
  const std::size_t size = round_up(bytes);
  std::lock_guard lock(mutex_);
  const auto held = [&](const Block* block) { return block->stream == &stream && fits(block->size, size); };
  return !has_used(stream, size) && std::ranges::any_of(released_, held) && grows_too_far(stream, size);
}

bool Blocks::needs_used(std::size_t bytes, const Stream& stream) {
  const std::size_t size = round_up(bytes);
  std::lock_guard lock(mutex_);
  return has_used(stream, size) && grows_too_far(stream, size);
}

bool Blocks::has_used(const Stream& stream, std::size_t size) {
  const FreeLists& lists = recordings_[stream.recording.load()];
  const auto found = lists.lower_bound(size);
  return found != lists.end() && fits(found->first, size);
}

bool Blocks::grows_too_far(const Stream& stream, std::size_t size) {
  Recording& recording = *stream.recording.load();
  if (recording.grown + size > most_growth) return true;
  recording.grown += size;
  return false;
}

void Blocks::reuse_released(const Stream& stream) noexcept {
  std::lock_guard lock(mutex_);
  std::erase_if(released_, [&](Block* block) {
    if (block->stream != &stream) return false;
    recordings_[block->recording][block->size].push_back(block);
    return true;
  });
}

void Blocks::disband(Recording* recording) noexcept {
  std::lock_guard lock(mutex_);
  for (const auto& [pointer, block] : blocks_) {
    if (block->recording != recording) continue;
    block->recording = nullptr;
    if (!block->live) cache(block.get());
  }
  recordings_.erase(recording);
}

Block* Blocks::take(FreeLists& lists, std::size_t size) {
  const auto found = lists.lower_bound(size);
  if (found == lists.end() || !fits(found->first, size)) return nullptr;
  Block* block = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) lists.erase(found);
  return block;
}

void Blocks::cache(Block* block) {
  cached_[block->stream][block->size].push_back(block);
  block->cached = true;
  if (block->slab != nullptr) --block->slab->busy;
}

Block* Blocks::uncache(Stream& stream, std::size_t size) {
  Block* block = take(cached_[&stream], size);
  if (block == nullptr) return nullptr;
  block->cached = false;
  if (block->slab != nullptr) ++block->slab->busy;
  return block;
}

void Blocks::collect_returned() {
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

// Null if the card or the limit has no room.
void* Blocks::reserve(std::size_t bytes) {
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

Block* Blocks::make(std::size_t size) {
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

void Blocks::release_cache() noexcept {
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

void Blocks::give_back(void* pointer, std::size_t bytes) noexcept {
  if (cudaFree(pointer) != cudaSuccess) cudaGetLastError();
  reserved_ -= bytes;
}

std::string Blocks::shortage(std::size_t bytes) const {
  std::size_t free_bytes = 0, total_bytes = 0;
  use_card(device_);
  if (cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess) cudaGetLastError();
  return message(name_, ": out of memory: wanted ", in_words(bytes), "; in use ", in_words(in_use_), ", reserved ",
                 in_words(reserved_), limit_ == 0 ? std::string() : message(" of a limit of ", in_words(limit_)),
                 ", free on the card ", in_words(free_bytes), " of ", in_words(total_bytes),
                 "; try a smaller batch, or free tensors that are no longer needed");
}

}  // namespace tern::cuda
