#include "support/replaying.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tern/core/error.hpp"

namespace tern::testing {
namespace {

constexpr int pattern = 0xff;  // a float or double of these bytes is a NaN, an int64 is -1

// The library's pointers are not addresses: they are this far beyond the block, where no 64-bit program has memory.
constexpr std::uintptr_t distance = std::uintptr_t{1} << (std::numeric_limits<std::uintptr_t>::digits - 2);

template <class T>
T* reachable(T* pointer) {
  return pointer == nullptr ? nullptr : reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(pointer) - distance);
}
void* out_of_reach(void* block) { return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(block) + distance); }

using Work = std::function<void()>;

struct Recording;

struct Block {
  std::size_t size = 0;
  bool live = true;
  Recording* recording = nullptr;  // whose replays use it
};

struct Recording {
  std::vector<Work> work;
  std::vector<std::vector<Work>> branches;  // since the last join
  std::vector<Work> aside;                  // what the work awaits next
  std::vector<Work> ahead;                  // before all other work
  Capture::Aside goes;
  std::vector<std::size_t> marks;        // places in the work
  std::vector<std::vector<Work>> early;  // from each mark
  int goes_early = -1;
  std::vector<void*> free, free_after_join;

  bool holds_back() const { return !branches.empty() || !aside.empty(); }
};

struct Stream {
  Recording* recording = nullptr;
};

std::atomic<int> failures{0};
std::atomic<int> recordings{0};
std::atomic<int> loops{0};

Stream& own_stream() {
  // Never freed, but listed, so that none is a leak: a storage may refer to the stream of a thread that has ended.
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<Stream>>;
  static thread_local Stream* const own = [] {
    const std::lock_guard lock(mutex);
    return all.emplace_back(std::make_unique<Stream>()).get();
  }();
  return *own;
}

Recording* recording_of(void* stream) { return stream == nullptr ? nullptr : static_cast<Stream*>(stream)->recording; }

void queue(void* stream, Work work) {
  Recording* const recording = recording_of(stream);
  if (recording == nullptr)
    work();
  else if (recording->goes_early >= 0)
    recording->early[static_cast<std::size_t>(recording->goes_early)].push_back(std::move(work));
  else if (recording->goes.everything)
    recording->aside.push_back(std::move(work));
  else if (recording->goes.ahead)
    recording->ahead.push_back(std::move(work));
  else if (recording->branches.empty())
    recording->work.push_back(std::move(work));
  else
    recording->branches.back().push_back(std::move(work));
}

class ReplayingMemory final : public Memory {
 public:
  std::string_view name() const override { return "replaying"; }
  bool host_accessible() const override { return false; }

  void* allocate(std::size_t bytes, void* stream) override {
    const std::size_t size = (bytes + 63) / 64 * 64;
    const std::lock_guard lock(mutex_);
    expects<OutOfMemory>(limit_ == 0 || statistics_.in_use + size <= limit_, "replaying memory: ", bytes,
                         " bytes would pass the limit of ", limit_);
    Recording* const recording = recording_of(stream);
    void* pointer = nullptr;
    if (recording != nullptr && !recording->goes.ahead) {
      const auto fits = [&](void* free) { return blocks_[free].size == size; };
      const auto found = std::find_if(recording->free.begin(), recording->free.end(), fits);
      if (found != recording->free.end()) {
        pointer = *found;
        recording->free.erase(found);
      }
    }
    if (pointer == nullptr) {
      void* const block = std::aligned_alloc(64, size);
      expects<OutOfMemory>(block != nullptr, "replaying memory: the host has none left");
      std::memset(block, pattern, size);
      pointer = out_of_reach(block);
    }
    blocks_[pointer] = {size, true, recording};
    statistics_.in_use += size;
    statistics_.peak = std::max(statistics_.peak, statistics_.in_use);
    return pointer;
  }

  void release(void* pointer, std::size_t, void* stream) noexcept override {
    const std::lock_guard lock(mutex_);
    Block& block = blocks_.at(pointer);
    block.live = false;
    statistics_.in_use -= block.size;
    Recording* const recording = recording_of(stream);
    const auto poison = [pointer, size = block.size] { std::memset(reachable(pointer), pattern, size); };
    if (recording != nullptr && block.recording == recording) {
      (recording->holds_back() ? recording->free_after_join : recording->free).push_back(pointer);
      recording->aside.empty() ? queue(stream, poison) : recording->aside.push_back(poison);
    } else if (recording != nullptr && block.recording == nullptr) {
      block.recording = recording;  // recorded work may use this older block
    } else {
      poison();
      if (block.recording == nullptr) forget(pointer);
    }
  }

  void copy_in(void* to, const void* from, std::size_t bytes, void* stream) override {
    expects(recording_of(stream) == nullptr, "replaying: a copy from the host while a step is recorded");
    std::memcpy(reachable(to), from, bytes);
  }
  void copy_out(void* to, const void* from, std::size_t bytes, void* stream) override {
    expects(recording_of(stream) == nullptr, "replaying: a copy to the host while a step is recorded");
    std::memcpy(to, reachable(from), bytes);
  }
  void copy(void* to, const void* from, std::size_t bytes, void* stream) override {
    queue(stream, [=] { std::memmove(reachable(to), reachable(from), bytes); });
  }

  void* stream() override { return &own_stream(); }
  void synchronize(void* stream) override {
    expects(recording_of(stream) == nullptr, "replaying: a wait while a step is recorded");
  }

  MemoryStatistics statistics() const override {
    const std::lock_guard lock(mutex_);
    MemoryStatistics now = statistics_;
    now.reserved = now.in_use;
    now.limit = limit_;
    return now;
  }
  void reset_peak() override { statistics_.peak = statistics_.in_use; }
  void trim() override {}
  void set_limit(std::size_t bytes) override { limit_ = bytes; }

  void disband(Recording* recording) {
    const std::lock_guard lock(mutex_);
    std::vector<void*> unused;
    for (auto& [pointer, block] : blocks_)
      if (block.recording == recording) {
        block.recording = nullptr;
        if (!block.live) unused.push_back(pointer);
      }
    for (void* pointer : unused) forget(pointer);
  }

 private:
  void forget(void* pointer) {
    blocks_.erase(pointer);
    std::free(reachable(pointer));
  }

  mutable std::mutex mutex_;
  std::map<void*, Block> blocks_;
  MemoryStatistics statistics_;
  std::size_t limit_ = 0;
};

ReplayingMemory& memory() {
  static ReplayingMemory& memory = *new ReplayingMemory;  // never destroyed: tensors may outlive static destructors
  return memory;
}

// ---- recording ----

void begin(void* stream) {
  Stream& own = *static_cast<Stream*>(stream);
  expects(own.recording == nullptr, "replaying: this thread is already recording a step");
  own.recording = new Recording;
  ++recordings;
}

void destroy(void* handle) {
  auto* recording = static_cast<Recording*>(handle);
  memory().disband(recording);
  delete recording;
  --recordings;
}

void abandon(void* stream) { destroy(std::exchange(static_cast<Stream*>(stream)->recording, nullptr)); }

/// Puts what goes early directly behind its mark.
void place_early(Recording& recording) {
  for (std::size_t i = recording.early.size(); i-- > 0;)
    recording.work.insert(recording.work.begin() + static_cast<std::ptrdiff_t>(recording.marks[i]),
                          recording.early[i].begin(), recording.early[i].end());
}

void* end(void* stream) {
  Recording* const recording = std::exchange(static_cast<Stream*>(stream)->recording, nullptr);
  place_early(*recording);
  if (failures.load() > 0) {
    --failures;
    destroy(recording);
    throw Error("replaying: this recording was to fail");
  }
  return recording;
}

void launch(void* handle, void* stream) {
  expects(recording_of(stream) == nullptr, "replaying: a launch while a step is recorded");
  for (const auto* const all : {&static_cast<Recording*>(handle)->ahead, &static_cast<Recording*>(handle)->work})
    for (const Work& work : *all) work();
}

void loop(void* handle, const Capture::Loop& loop, void* stream) {
  ++loops;
  for (std::int64_t step = 0; step < loop.count; ++step) {
    const auto row = [&](auto* first, std::size_t bytes) {
      return reachable(first) + static_cast<std::size_t>(step) * bytes;
    };
    if (step > 0)
      for (const auto& [to, from, bytes] : loop.in)
        std::memcpy(reachable(to), row(static_cast<const std::byte*>(from), bytes), bytes);
    launch(handle, stream);
    for (const auto& [to, from, bytes] : loop.out)
      std::memcpy(row(static_cast<std::byte*>(to), bytes), reachable(from), bytes);
    for (const auto& [value, increment] : loop.counters) *static_cast<std::uint64_t*>(reachable(value)) += increment;
  }
}

void reuse_released(Recording& recording) {
  recording.free.insert(recording.free.end(), recording.free_after_join.begin(), recording.free_after_join.end());
  recording.free_after_join.clear();
}

void branch(void* stream) { recording_of(stream)->branches.emplace_back(); }

void join(void* stream) {
  Recording& recording = *recording_of(stream);
  for (auto branch = recording.branches.rbegin(); branch != recording.branches.rend(); ++branch)
    std::move(branch->begin(), branch->end(), std::back_inserter(recording.work));
  recording.branches.clear();
  reuse_released(recording);
}

void set_aside(void* stream, Capture::Aside what) { recording_of(stream)->goes = what; }

void await(void* stream) {
  Recording& recording = *recording_of(stream);
  std::move(recording.aside.begin(), recording.aside.end(), std::back_inserter(recording.work));
  recording.aside.clear();
  reuse_released(recording);
}

int mark(void* stream) {
  Recording& recording = *recording_of(stream);
  await(stream);
  recording.marks.push_back(recording.work.size());
  recording.early.emplace_back();
  return static_cast<int>(recording.marks.size()) - 1;
}

void go_early(void* stream, int mark) { recording_of(stream)->goes_early = mark; }

// ---- the table ----

// An argument of a kernel as a queued call stores it.
template <class A>
struct Kept {
  std::decay_t<A> value;
  explicit Kept(const std::decay_t<A>& input) : value(input) {}
  std::decay_t<A>& get() { return value; }
};

template <class T>
struct Kept<T*> {
  T* value;
  explicit Kept(T* input) : value(reachable(input)) {}
  T* get() { return value; }
};

template <>
struct Kept<Context&> {
  Context value;
  explicit Kept(const Context& input) : value(input) {
    value.memory = &host_memory();  // where the kernel's scratch may be
    value.stream = nullptr;
  }
  Context& get() { return value; }
};

template <>
struct Kept<const random::Key&> {
  random::Key value;
  explicit Kept(const random::Key& input) : value(input) { value.base = reachable(input.base); }
  const random::Key& get() { return value; }
};

template <class T>
struct Kept<const kernels::Parameters<T>&> {
  std::vector<T*> value;
  std::vector<Scalar<T>*> first, second;
  std::vector<const T*> gradient;
  std::vector<std::int64_t> size;
  kernels::Parameters<T> parameters;

  explicit Kept(const kernels::Parameters<T>& source) {
    const auto keep = [&](auto& kept, auto* pointers) {
      for (std::int64_t i = 0; pointers != nullptr && i < source.count; ++i) kept.push_back(reachable(pointers[i]));
    };
    keep(value, source.value);
    keep(gradient, source.gradient);
    keep(first, source.first);
    keep(second, source.second);
    size.assign(source.size, source.size + source.count);
  }
  const kernels::Parameters<T>& get() {
    parameters = {
        static_cast<std::int64_t>(size.size()),   value.data(), gradient.data(), first.empty() ? nullptr : first.data(),
        second.empty() ? nullptr : second.data(), size.data()};
    return parameters;
  }
};

// Compiled once for all kernels with the same arguments.
template <class... A>
void queue_call(kernels::Kernel<void(Context&, A...)> kernel, Context& context, A... arguments) {
  queue(context.stream, [kernel, kept = std::tuple<Kept<Context&>, Kept<A>...>(context, arguments...)]() mutable {
    std::apply([&](auto&... each) { kernel(each.get()...); }, kept);
  });
}

/// The kernel that was in a slot, and the one that queues it.
template <auto slot, class... A>
struct Queued {
  static inline kernels::Kernel<void(Context&, A...)> plain = kernels::absent;
  static void call(Context& context, A... arguments) { queue_call<A...>(plain, context, arguments...); }
};

template <auto slot, class Family, class... A>
void record_slot(Family& family, kernels::Kernel<void(Context&, A...)> Family::*) {
  Queued<slot, A...>::plain = family.*slot;
  family.*slot = kernels::Kernel<void(Context&, A...)>(Queued<slot, A...>::call);
}
// A slot that answers a question about sizes queues nothing.
template <auto slot, class Family, class Result, class... A>
void record_slot(Family&, kernels::Kernel<Result(const Context&, A...)> Family::*) {}

template <class Family, auto... slots>
void record_slots(Family& family, MemberList<slots...>) {
  (record_slot<slots>(family, slots), ...);
}
template <class Family>
void record_family(Family& family) {
  record_slots(family, typename Family::Members{});
}
void record_family(bool& /*channels_last*/) {}

template <class Table, auto... families>
void record_families(Table& table, MemberList<families...>) {
  (record_family(table.*families), ...);
}
template <class T>
void record_table(kernels::Operators<T>& table) {
  record_families(table, typename kernels::Operators<T>::Members{});
}

// ---- gradients of parameters ----

// The part of a kernel that computes them goes aside; the kernels of "sequential" compute each gradient by itself.
template <class InOrder, class Aside>
void split(Context& context, bool leads_on, const InOrder& in_order, const Aside& aside) {
  Recording* const recording = recording_of(context.stream);
  if (recording == nullptr || !recording->goes.parameters || !leads_on) {
    in_order();
    return aside();
  }
  in_order();
  recording->goes = {.everything = true};
  aside();
  recording->goes = {.parameters = true};
}

template <class T>
void linear_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const kernels::Linear& sizes) {
  using Slots = Queued<&kernels::Dot<T>::linear_backward, T*, T*, T*, const T*, const T*, const T*, const T*,
                       const kernels::Linear&>;
  split(
      context, grad_x != nullptr,
      [&] {
        if (grad_x != nullptr) Slots::call(context, grad_x, nullptr, nullptr, grad_y, x, weight, y, sizes);
      },
      [&] { Slots::call(context, nullptr, grad_weight, grad_bias, grad_y, x, weight, y, sizes); });
}

template <class T>
void conv2d_backward(Context& context, T* grad_x, T* grad_weight, T* grad_bias, const T* grad_y, const T* x,
                     const T* weight, const T* y, const kernels::Conv2d& sizes) {
  using Slots = Queued<&kernels::Conv<T>::conv2d_backward, T*, T*, T*, const T*, const T*, const T*, const T*,
                       const kernels::Conv2d&>;
  split(
      context, grad_x != nullptr,
      [&] {
        if (grad_x != nullptr) Slots::call(context, grad_x, nullptr, nullptr, grad_y, x, weight, y, sizes);
      },
      [&] { Slots::call(context, nullptr, grad_weight, grad_bias, grad_y, x, weight, y, sizes); });
}

template <class T>
void split_gradients(kernels::Operators<T>& table) {
  if constexpr (std::is_same_v<T, Scalar<T>> && std::is_floating_point_v<T>) {
    table.dot.linear_backward = linear_backward<T>;
    table.conv.conv2d_backward = conv2d_backward<T>;
  }
}

// The fill value is in host memory and is read before the call returns.
void fill(Context& context, void* out, std::int64_t n, const void* value, std::size_t element) {
  std::array<std::byte, 8> kept{};
  std::memcpy(kept.data(), value, element);
  queue(context.stream, [=, host = Kept<Context&>(context)]() mutable {
    mode("sequential").movement.fill(host.get(), reachable(out), n, kept.data(), element);
  });
}

}  // namespace

const Mode& replaying_mode() {
  static const Mode& replaying = []() -> const Mode& {
    static const Capture capture{.begin = begin,
                                 .end = end,
                                 .abandon = abandon,
                                 .launch = launch,
                                 .destroy = destroy,
                                 .branch = branch,
                                 .join = join,
                                 .loop = loop,
                                 .aside = set_aside,
                                 .await = await};
    Mode mode = tern::mode("sequential");
    mode.memory = &memory();
    mode.capture = &capture;
    mode.for_each_table([](auto& table) {
      record_table(table);
      split_gradients(table);
    });
    record_family(mode.movement);
    record_family(*mode.quantized);
    mode.movement.fill = fill;
    return register_mode("replaying", mode);
  }();
  return replaying;
}

const Mode& replaying_early_mode() {
  static const Mode& early = []() -> const Mode& {
    static const Capture capture = [] {
      Capture with_marks = *replaying_mode().capture;
      with_marks.mark = mark;
      with_marks.early = go_early;
      return with_marks;
    }();
    Mode mode = replaying_mode();
    mode.capture = &capture;
    return register_mode("replaying_early", mode);
  }();
  return early;
}

void fail_recordings(int count) { failures.store(count); }
int live_recordings() { return recordings.load(); }
int launched_loops() { return loops.load(); }

}  // namespace tern::testing
