#pragma once
// What a recorded backward queues aside: the gradients of parameters, for which nothing waits before backward ends.
// They then run beside the gradients that lead on. The update of a parameter may start before backward ends, once
// nothing uses the parameter and its gradient any more.

#include <initializer_list>
#include <limits>
#include <memory>
#include <unordered_map>

#include "tern/modes/device.hpp"
#include "tern/modes/mode.hpp"

namespace tern {

class Storage;
class Tensor;

/// One backward of the calling thread. While a Step is being recorded in a mode that can (Capture::aside), its work may
/// go aside; whatever else uses a storage of that work comes after it. All of it has joined at the end of the block. A
/// backward inside another one ends that one's work aside.
class [[nodiscard]] WorkAside {
 public:
  /// With `joined`, nothing goes aside: somebody reads each gradient before backward ends.
  explicit WorkAside(bool joined);
  WorkAside(const WorkAside&) = delete;
  WorkAside& operator=(const WorkAside&) = delete;
  ~WorkAside();

  /// Whether the tensor's elements are written aside.
  static bool writes(const Tensor& tensor);
  /// The recording thread is about to queue work that uses a storage.
  static void uses(Storage& storage, bool writes);
  /// Whether all work of the thread goes aside.
  static bool inside();
  /// Work from here on comes after all that is aside.
  static void join() noexcept;

 private:
  friend class Aside;
  friend class KernelAside;
  /// The backward whose work may go aside in the current scope; null: none.
  static WorkAside* open();
  void add(Storage& storage, bool writes);
  void end() noexcept;

  const Capture* capture_ = nullptr;  // null: nothing goes aside
  void* stream_ = nullptr;
  bool inside_ = false;                                                        // what the thread queues goes aside
  std::unordered_map<const Storage*, std::weak_ptr<Storage>> read_, written_;  // not joined yet
  WorkAside* const outer_;
};

/// To the end of the block, all work of the thread goes aside if `goes`: after what it has queued so far, and after the
/// work aside before it.
class [[nodiscard]] Aside {
 public:
  explicit Aside(bool goes);
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside();

 private:
  WorkAside* work_ = nullptr;
};

/// To the end of the block, all work of the thread goes ahead of a recorded step if `input` is a parameter that it has
/// not written, and all that the work reads.
class [[nodiscard]] Ahead {
 public:
  explicit Ahead(const Tensor& input);
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  ~Ahead();
  /// Whether the thread is in such a block.
  static bool goes();

 private:
  const Capture* capture_ = nullptr;
  void* stream_ = nullptr;
};

/// To the end of the block, what the kernel of an operator does with its weights alone goes ahead of a recorded step,
/// if they are unchanged in it. A backward pass that needs its weights leads on: it may write the gradients of
/// parameters aside, and read there what they depend on. Nothing does if tensors are converted to the kernel's
/// elements.
class [[nodiscard]] KernelAside {
 public:
  /// Tensors of other gradients are not among them. Undefined ones do not count.
  struct Tensors {
    std::initializer_list<const Tensor*> read, written;
  };
  KernelAside(const Tensor& weight, std::size_t element, const Tensors& tensors = {});
  KernelAside(const KernelAside&) = delete;
  KernelAside& operator=(const KernelAside&) = delete;
  ~KernelAside();

 private:
  const Capture* capture_ = nullptr;
  void* stream_ = nullptr;
};

/// Where a recorded step last used each storage. A Recording has one.
class Marks {
 public:
  Marks();
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  ~Marks();

  /// The recording thread is about to queue work that uses a storage.
  static void uses(const Storage& storage);
  /// Work that writes the gradient of a parameter is queued.
  static void arrived(const Tensor& gradient);
  /// The first mark behind the last use of all these tensors; `none`: their update has to come in order.
  static int behind(std::initializer_list<const Tensor*> tensors);
  static constexpr int none = std::numeric_limits<int>::max();

 private:
  friend class Early;
  const Capture* capture_ = nullptr;  // of the marks
  void* stream_ = nullptr;
  int count_ = 0;
  std::size_t bytes_ = 0;                         // of gradients since the last mark
  std::unordered_map<const Storage*, int> last_;  // the number of the first mark behind its last use
};

/// Until the end of the block, the thread's work may start as soon as the work before a mark has ended.
class [[nodiscard]] Early {
 public:
  /// Marks::none: it comes in order.
  explicit Early(int mark);
  Early(const Early&) = delete;
  Early& operator=(const Early&) = delete;
  ~Early();

 private:
  const Marks* marks_ = nullptr;
};

}  // namespace tern
