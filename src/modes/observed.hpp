#pragma once
// Pieces of work that observers are told of, to the end of the block.

#include "tern/modes/device.hpp"
#include "tern/modes/observer.hpp"

namespace tern {

/// True when an operator of the calling thread has to say what it does.
inline bool observed() { return detail::observer != nullptr || current_scope().observer != nullptr; }

/// By what the calling thread's work is being recorded; null: it runs.
const Capture* capturing() noexcept;

/// Runs the kernel of an operator, seen by the observers of the thread and of its scope. Without `work` it is a piece
/// that cannot be repeated.
void observe(const char* name, DType compute, const OperatorCall::Work& work);
void observe(const char* name, const std::function<void()>& work);

/// The operator that the thread is about to run takes its pointers from `stage`, to the end of the block.
class [[nodiscard]] Staged {
 public:
  explicit Staged(Stage& stage);
  Staged(const Staged&) = delete;
  Staged& operator=(const Staged&) = delete;
  ~Staged();

 private:
  OperatorCall unheard_;  // where nobody watches
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

/// Bytes move between memories. Throws what an observer throws: TransferError where the scope forbids it, Error where
/// the work is recorded, since a replay cannot repeat it.
class [[nodiscard]] ObservedMove {
 public:
  explicit ObservedMove(const Move& move);
  ObservedMove(const ObservedMove&) = delete;
  ObservedMove& operator=(const ObservedMove&) = delete;
  ~ObservedMove();

 private:
  Move move_;
};

/// What runs to the end of the block belongs to backward.
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
