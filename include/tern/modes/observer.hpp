#pragma once
// Observers see what the library does: every operator with its tensors, every move between memories, every wait. The
// profiler, the transfer ledger, the recorder of a Step and the checks of a scope are observers.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/dtype.hpp"
#include "tern/core/random.hpp"

namespace tern {

class Generator;
class Memory;
class Storage;
class Tensor;
struct Capture;
namespace operators {
class OpListener;
struct OpCall;
}  // namespace operators

/// What a kernel does with one of its tensors.
enum class Role : std::uint8_t { in, out, inout };

/// A tensor whose pointer a kernel takes.
struct Operand {
  const Tensor* tensor = nullptr;
  Role role = Role::in;
  std::size_t element = 0;  ///< bytes of one element as the kernel sees it: a bfloat16 may arrive as a float32
  double part = 1;          ///< the fraction of its distinct elements that is read
};

/// Provides the operands of a repeated call.
class Stage {
 public:
  virtual ~Stage() = default;
  /// The first element of the operand for this run.
  virtual void* pointer(const Operand& operand) = 0;
};

/// Where in a program the calling thread is, for messages: the modules being called, an operator's backward.
class Whereabouts {
 public:
  Whereabouts() : outer_(std::exchange(innermost, this)) {}
  Whereabouts(const Whereabouts&) = delete;
  Whereabouts& operator=(const Whereabouts&) = delete;
  virtual ~Whereabouts() { innermost = outer_; }

  /// Such as "features.3, Conv2d(3, 64, 3x3)".
  virtual std::string describe() const = 0;
  const Whereabouts* outer() const { return outer_; }

  static constinit thread_local const Whereabouts* innermost;

 private:
  const Whereabouts* outer_;
};
/// The description of the innermost one; empty outside.
std::string whereabouts();

/// One call of a kernel by a public operator.
class OperatorCall {
 public:
  /// Runs the kernel in the scope of the thread, for the compute type.
  using Work = std::function<void(DType compute)>;
  using Algorithm = std::pair<const char*, const char*>;  ///< a decision and the algorithm it took

  OperatorCall(const char* name, DType compute, const Work* work);
  OperatorCall(const OperatorCall&) = delete;
  OperatorCall& operator=(const OperatorCall&) = delete;

  const char* name() const { return name_; }  ///< "conv2d"; lives as long as the process
  /// The public operator that this kernel works for, with its attributes and tensors (operators/op.hpp); null where the
  /// program called none, as in most of backward.
  const operators::OpCall* source() const { return source_; }
  DType compute() const { return compute_; }         ///< for operators that only move elements: the elements' dtype
  bool backward() const { return backward_; }        ///< runs inside Tensor::backward
  bool repeats() const { return work_ != nullptr; }  ///< whether `repeat` may be called
  /// Runs the kernel once more in the scope of the thread, with the operands of `stage`.
  void repeat(Stage& stage, DType compute) const;

  // Complete when the kernel has returned.
  const std::vector<Operand>& operands() const { return operands_; }
  double flops() const { return flops_; }  ///< by the operator's definition; 0 except for products and convolutions
  const std::vector<Algorithm>& algorithms() const { return algorithms_; }

  // ---- for operators and kernels ----
  /// The call that the thread is executing, if it is observed; else null.
  static OperatorCall* open() { return open_; }
  /// Notes an operand. The result, unless null, is the pointer to use.
  void* use(const Operand& operand);
  void add_flops(double flops) { flops_ += flops; }
  void took(const char* decision, const char* algorithm) noexcept;
  /// Provides the pointers; null: use those of the tensors.
  const Stage* stage() const { return stage_; }

 private:
  friend class ObservedCall;
  friend class Staged;
  static constinit thread_local OperatorCall* open_;

  const char* name_;
  const operators::OpCall* source_;
  DType compute_;
  bool backward_;
  const Work* work_;
  Stage* stage_ = nullptr;
  std::vector<Operand> operands_;
  double flops_ = 0;
  std::vector<Algorithm> algorithms_;
};

/// Bytes that go from one memory to another.
struct Move {
  Memory& from;
  Memory& to;
  std::size_t bytes;
};

/// Sees what happens on a thread from `begin` to `end`. The most recent observer is called first. A scope may also have
/// an observer (Scope::observer), which sees the operators.
class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() { end(); }

  /// An operator's kernel is about to run; has run; has thrown.
  virtual void before(const OperatorCall& /*call*/) {}
  virtual void after(const OperatorCall& /*call*/) {}
  virtual void failed(const OperatorCall& /*call*/) noexcept {}

  /// Bytes are about to move (an exception stops them); have moved.
  virtual void begin_move(const Move& /*move*/) {}
  virtual void end_move(const Move& /*move*/) noexcept {}
  /// The host is about to wait for a device; has waited.
  virtual void begin_wait() {}
  virtual void end_wait() noexcept {}

  // What a thread's work depends on. Report here whatever the library reads on the host and a replay does not read
  // again.
  /// The storage is about to be used in `memory`.
  virtual void uses(Storage& /*storage*/, Memory& /*memory*/, bool /*reads*/, bool /*writes*/) {}
  /// The host itself, not a kernel, is about to read or write the elements.
  virtual void host_uses(Storage& /*storage*/, bool /*writes*/) {}
  /// The gradient of the tensor is about to be read or replaced.
  virtual void gradient(const Tensor& /*tensor*/, bool /*replaced*/) {}
  /// The generator is about to hand out a stream.
  virtual void draws(Generator& /*generator*/) {}
  /// What is queued depends on a switch on the host.
  virtual void depends(const std::shared_ptr<const bool>& /*on*/) {}

  /// Draws the key of a stream for an operator if this observer controls it; otherwise returns false.
  virtual bool draw(Generator& /*generator*/, random::Key& /*key*/) { return false; }
  /// How this observer records the thread's work instead of running it; null: it does not record.
  virtual const Capture* captures() const noexcept { return nullptr; }
  /// Whether the work that it records has written a storage, and not by work ahead (Capture::Aside).
  virtual bool has_written(const Storage& /*storage*/) const noexcept { return false; }

 protected:
  void begin() noexcept;
  void end() noexcept;

 private:
  template <class Event>
  friend void tell(Event&& event);
  friend class Unobserved;

  Observer* outer_ = nullptr;
  bool watches_ = false;
};

namespace detail {
extern constinit thread_local Observer* observer;  // the most recent one of the thread; null: no observer

/// Who hears which public operators the thread calls.
struct Hearing {
  operators::OpListener* listener = nullptr;
  const operators::OpCall* call = nullptr;  // that is being executed: what it calls in turn is not heard
  bool on = false;  // outside of every call, if there is a listener or an observer, or mixed precision
};
extern constinit thread_local Hearing hearing;
/// Sets `on` anew: a listener, an observer or a scope has come or gone.
void update_hearing() noexcept;
}  // namespace detail

/// Notifies each observer of the thread, the most recent first.
template <class Event>
void tell(Event&& event) {
  for (Observer *each = detail::observer, *next = nullptr; each != nullptr; each = next) {
    next = each->outer_;
    event(*each);
  }
}

/// Suspends observation on this thread until the end of the scope: for an observer's own work.
class [[nodiscard]] Unobserved {
 public:
  Unobserved() : hidden_(std::exchange(detail::observer, nullptr)) { detail::update_hearing(); }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;
  ~Unobserved() {
    detail::observer = hidden_;
    detail::update_hearing();
  }

 private:
  Observer* hidden_;
};

}  // namespace tern
