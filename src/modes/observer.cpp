#include "tern/modes/observer.hpp"

#include <exception>
#include <new>

#include "modes/algorithm_book.hpp"
#include "modes/ledger.hpp"
#include "modes/observed.hpp"

namespace tern {

constinit thread_local Observer* detail::observer = nullptr;
constinit thread_local detail::Hearing detail::hearing{};
constinit thread_local OperatorCall* OperatorCall::open_ = nullptr;
constinit thread_local const Whereabouts* Whereabouts::innermost = nullptr;
constinit thread_local int RunningBackward::depth_ = 0;

std::string whereabouts() { return Whereabouts::innermost == nullptr ? "" : Whereabouts::innermost->describe(); }

OperatorCall::OperatorCall(const char* name, DType compute, const Work* work)
    : name_(name), source_(detail::hearing.call), compute_(compute), backward_(RunningBackward::any()), work_(work) {}

void detail::update_hearing() noexcept {
  const bool scope = innermost_scope != nullptr && innermost_scope->hears();
  hearing.on = hearing.call == nullptr && (hearing.listener != nullptr || observer != nullptr || scope);
}

void Observer::begin() noexcept {
  watches_ = true;
  outer_ = std::exchange(detail::observer, this);
  detail::update_hearing();
}

void Observer::end() noexcept {
  if (!std::exchange(watches_, false)) return;
  Observer** place = &detail::observer;
  while (*place != nullptr && *place != this) place = &(*place)->outer_;
  if (*place == this) *place = outer_;
  detail::update_hearing();
}

void* OperatorCall::use(const Operand& operand) {
  operands_.push_back(operand);
  return stage_ == nullptr ? nullptr : stage_->pointer(operand);
}

void OperatorCall::took(const char* decision, const char* algorithm) noexcept {
  try {
    algorithms_.emplace_back(decision, algorithm);
  } catch (const std::bad_alloc&) {  // the kernel's error is the one that counts; its observers just know less
  }
}

void OperatorCall::repeat(Stage& stage, DType compute) const {
  OperatorCall again(name_, compute, work_);
  again.stage_ = &stage;
  OperatorCall* const outer = std::exchange(open_, &again);
  const Unobserved alone;
  try {
    (*work_)(compute);
  } catch (...) {
    open_ = outer;
    throw;
  }
  open_ = outer;
}

Staged::Staged(Stage& stage) : unheard_("", DType::float32, nullptr), outer_(OperatorCall::open_) {
  if (outer_ == nullptr) OperatorCall::open_ = &unheard_;
  OperatorCall::open_->stage_ = &stage;
}

Staged::~Staged() {
  OperatorCall::open_->stage_ = nullptr;
  OperatorCall::open_ = outer_;
}

const Capture* capturing() noexcept {
  const Capture* found = nullptr;
  tell([&](Observer& observer) {
    if (found == nullptr) found = observer.captures();
  });
  return found;
}

/// An operator's call, reported to all observers.
class ObservedCall {
 public:
  ObservedCall(const char* name, DType compute, const OperatorCall::Work* work)
      : call_(name, compute, work), outer_(OperatorCall::open_) {
    tell([&](Observer& observer) { watching_.push_back(&observer); });
    if (Observer* const observer = current_scope().observer) watching_.push_back(observer);
  }
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;
  /// Observers that saw the call begin but not end learn that it failed.
  ~ObservedCall() {
    close();
    while (notified_ > 0) watching_[--notified_]->failed(call_);
  }

  void begin() {
    for (; notified_ < watching_.size(); ++notified_) watching_[notified_]->before(call_);
    OperatorCall::open_ = &call_;
    watch_algorithms(+1);
  }
  /// The kernel has returned.
  void succeed() {
    close();
    while (notified_ > 0) watching_[--notified_]->after(call_);
  }

 private:
  void close() {
    if (OperatorCall::open_ != &call_) return;
    OperatorCall::open_ = outer_;
    watch_algorithms(-1);
  }

  OperatorCall call_;
  OperatorCall* outer_;
  std::vector<Observer*> watching_;
  std::size_t notified_ = 0;
};

ObservedMove::ObservedMove(const Move& move) : move_(move) {
  std::size_t notified = 0;
  try {
    tell([&](Observer& observer) {
      observer.begin_move(move);
      ++notified;
    });
    ledger().begin_move(move);
  } catch (...) {
    tell([&](Observer& observer) {
      if (notified > 0) observer.end_move(move);
      notified -= notified > 0;
    });
    throw;
  }
}

ObservedMove::~ObservedMove() {
  ledger().end_move(move_);
  tell([&](Observer& observer) { observer.end_move(move_); });
}

void observe(const char* name, DType compute, const OperatorCall::Work& work) {
  ObservedCall call(name, compute, &work);
  call.begin();
  work(compute);
  call.succeed();
}

void observe(const char* name, const std::function<void()>& work) {
  ObservedCall call(name, DType::uint8, nullptr);
  call.begin();
  work();
  call.succeed();
}

}  // namespace tern
