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

/// Pinned memory through which host data pass to the card: a ring of segments, each with the event after which it may
/// be reused.
struct StagingRing {
  static constexpr std::size_t segments = 8, segment_bytes = std::size_t{1} << 20;
  std::byte* base = nullptr;
  std::array<cudaEvent_t, segments> copied{};
  std::size_t segment = 0, used = 0;
};

/// Where work that goes early may begin: behind both events.
struct Mark {
  cudaEvent_t in_order = nullptr, aside = nullptr;
  bool aside_holds = false;  ///< else everything is in order
};

struct Stream {
  cudaStream_t handle = nullptr;
  int device = 0;                 ///< its card, and that of all that it holds
  cudaEvent_t ordered = nullptr;  ///< for Memory::order
  cudaEvent_t begun = nullptr;    ///< what was queued before the current recording
  std::mutex gate;  ///< held while a recording begins or ends, and while an event is queued from elsewhere
  static constexpr int most_sides = 8;
  std::array<cudaStream_t, most_sides> sides{};  ///< run concurrently with `handle` while a recording forks
  cudaEvent_t forked = nullptr;
  std::array<cudaEvent_t, most_sides> joined{};
  std::vector<Branch> branches;  ///< of the recording, until join_branches(); owned by the recording thread
  std::atomic<bool> branching = false;
  cudaStream_t aside = nullptr, ahead = nullptr;  ///< of recordings (aside.cuh)
  cudaStream_t early = nullptr;                   ///< of recordings, with the lowest priority
  static constexpr int most_marks = 16;
  std::array<Mark, most_marks> marks{};
  cudaEvent_t awaited = nullptr;
  cudaEvent_t opened = nullptr;           ///< where the recording begins
  std::atomic<bool> aside_holds = false;  ///< `handle` does not await all of it yet
  /// Whether other work that it does not await yet may use what it releases.
  bool holds_back() const { return branching || aside_holds; }
  FaultCell* fault = nullptr;
  FaultCell left{};  ///< of earlier threads with this stream, unread
  StagingRing staging;
  std::byte* bounce = nullptr;    ///< pinned, for small copies to the host
  std::shared_ptr<void> library;  ///< cuDNN's objects per thread (convolution/engines.cu)
  std::atomic<Recording*> recording{nullptr};
};

/// The calling thread's stream on a card.
Stream& thread_stream(int device);
/// On the thread's current card.
inline Stream& thread_stream() { return thread_stream(card().device); }
/// The state behind a Context's stream; throws Error for a stream that is not one of ours.
Stream& stream_state(void* stream);
/// An event after the stream's queued work. Work of a recording runs only when replayed, so the event waits for what
/// came before it.
cudaEvent_t event_after(Stream& stream);
/// Waits for that; errors are left to the stream's owner. The second waits for every stream of the card.
void finish(Stream& stream) noexcept;
void finish_all(int device) noexcept;

/// Keeps what the current recording, if any, needs as long as it may be replayed. (capture.cu)
void keep_for_replays(const Stream& stream, const std::shared_ptr<const void>& needed);
/// Where its replays will find these bytes. (capture.cu)
const std::byte* keep_on_card(Stream& stream, std::vector<std::byte> bytes);

// ---- blocks and recordings (memory.cu) ----

/// From now on, allocations on the stream belong to the recording.
void open_recording(Stream& stream, Recording* recording) noexcept;
void close_recording(Stream& stream) noexcept;
/// Makes blocks that were held back reusable.
void reuse_released(Stream& stream) noexcept;
/// A block that the stream's recording has not used; null if that would take too much memory.
void* allocate_unused(Stream& stream, std::size_t bytes);
/// A block that the host may write before the recording's replays: one that no recorded work has used.
void* allocate_unrecorded(Stream& stream, std::size_t bytes);
/// Returns the blocks of a recording on that card to the cache.
void disband_recording(int device, Recording* recording) noexcept;

}  // namespace tern::cuda
