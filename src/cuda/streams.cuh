#pragma once
// The streams of the mode: one per host thread and card, pooled, never destroyed (a process may exit after the driver).

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>

#include "cuda/branches.cuh"

namespace tern::cuda {

struct Recording;

/// Pinned memory that host data passes through on its way to the card: a ring of segments, each with the event after
/// which it may be written again.
struct StagingRing {
  static constexpr std::size_t segments = 8, segment_bytes = std::size_t{1} << 20;
  std::byte* base = nullptr;
  std::array<cudaEvent_t, segments> copied{};
  std::size_t segment = 0, used = 0;
};

struct Stream {
  cudaStream_t handle = nullptr;
  int device = 0;                 ///< its card, and that of all that it holds
  cudaEvent_t ordered = nullptr;  ///< for Memory::order
  cudaEvent_t begun = nullptr;    ///< what was queued before the recording that goes on
  std::mutex gate;  ///< held while a recording begins or ends, and while an event is queued from elsewhere
  static constexpr int most_sides = 8;
  std::array<cudaStream_t, most_sides> sides{};  ///< run beside `handle` while a recording forks
  cudaEvent_t forked = nullptr;
  std::array<cudaEvent_t, most_sides> joined{};
  std::vector<Branch> branches;  ///< of the recording, until join_branches(); the recording thread's
  std::atomic<bool> branching = false;
  FaultCell* fault = nullptr;
  FaultCell left{};  ///< of threads that had the stream before, unread
  StagingRing staging;
  std::byte* bounce = nullptr;    ///< pinned, for small copies to the host
  std::shared_ptr<void> library;  ///< what cuDNN needs of its own in each thread (convolution/engines.cu)
  std::atomic<Recording*> recording{nullptr};
};

/// The calling thread's stream on a card.
Stream& thread_stream(int device);
/// On the card that it works on.
inline Stream& thread_stream() { return thread_stream(card().device); }
/// The state behind a Context's stream; throws Error for a stream that is not one of ours.
Stream& stream_state(void* stream);
/// An event after what the stream has queued so far. What a recording queues reaches nobody before it is replayed: what
/// came before it is all there is to wait for.
cudaEvent_t event_after(Stream& stream);
/// Waits for that; errors are left to the owner of the stream. The second waits for every stream of the card.
void finish(Stream& stream) noexcept;
void finish_all(int device) noexcept;

/// What the recording that goes on, if one does, needs for as long as it may be replayed. (capture.cu)
void keep_for_replays(const Stream& stream, const std::shared_ptr<const void>& needed);
/// Where its replays will find these bytes. (capture.cu)
const std::byte* keep_on_card(Stream& stream, std::vector<std::byte> bytes);

// ---- blocks and recordings (memory.cu) ----

/// From now on, what is allocated on the stream belongs to the recording.
void open_recording(Stream& stream, Recording* recording) noexcept;
void close_recording(Stream& stream) noexcept;
/// What was released while the stream had branches may be used again.
void reuse_released(Stream& stream) noexcept;
/// A block that the host may write before the recording's replays: none that recorded work has used.
void* allocate_unrecorded(Stream& stream, std::size_t bytes);
/// Hands the blocks of a recording on that card back to the cache.
void disband_recording(int device, Recording* recording) noexcept;

}  // namespace tern::cuda
