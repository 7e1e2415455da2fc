#pragma once
// Scopes that report work to observers, to the end of the block.

#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"

namespace tern {

/// Whether an operator of the calling thread must report what it does.
inline bool observed() { return detail::observer != nullptr || current_scope().observer != nullptr; }

/// How the calling thread's work is being recorded; null: it runs.
const Capture* capturing() noexcept;

/// Runs the kernel of an operator and reports it to the observers of the thread and of its scope. Without `work` it
/// cannot be repeated.
void observe(const char* name, DType compute, const OperatorCall::Work& work);
void observe(const char* name, const std::function<void()>& work);

/// To the end of the block, the next operator of the thread takes its pointers from `stage`.
class [[nodiscard]] Staged {
 public:
  explicit Staged(Stage& stage);
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged();

 private:
  OperatorCall unheard_;  // used without observers
  OperatorCall* outer_;
};

/// The host waits for a device.
class [[nodiscard]] ObservedWait {
 public:
  ObservedWait() {
    if (detail::observer != nullptr) [[unlikely]]
      tell([](Observer& observer) { observer.begin_wait(); });
  }
  ObservedWait(const ObservedWait&) = delete;
  ObservedWait& operator=(const ObservedWait&) = delete;
  ~ObservedWait() {
    if (detail::observer != nullptr) [[unlikely]]
      tell([](Observer& observer) { observer.end_wait(); });
  }
};

/// Bytes move between memories. Passes on what an observer throws: TransferError if the scope forbids moves, Error if
/// the work is being recorded, since a replay cannot repeat a move.
class [[nodiscard]] ObservedMove {
 public:
  explicit ObservedMove(const Move& move);
  ObservedMove(const ObservedMove&) = delete;
  ObservedMove& operator=(const ObservedMove&) = delete;
  ~ObservedMove();

 private:
  Move move_;
};

/// Work to the end of the block belongs to backward.
class [[nodiscard]] RunningBackward {
 public:
  RunningBackward() { ++depth_; }
  RunningBackward(const RunningBackward&) = delete;
  RunningBackward& operator=(const RunningBackward&) = delete;
  ~RunningBackward() { --depth_; }
  static bool any() { return depth_ > 0; }

 private:
  static constinit thread_local int depth_;
};

}  // namespace tern
