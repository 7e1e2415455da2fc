// The first engine: the library's own threads, one set for the whole process. Work is cut into parts that any thread
// may take, so nobody waits for a thread that has not arrived: if its workers do not run, because other processes hold
// the cores or the system grants no thread, a caller runs all parts itself.
#include <pthread.h>
#include <sched.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>

#include "modes/cores.hpp"
#include "vectorized/placement.hpp"
#include "vectorized/team_call.hpp"

namespace tern::vectorized {
namespace {

// Long enough for the serial work between two operators of a training step, short compared with a time slice of the
// system. With OMP_WAIT_POLICY=passive, threads that wait sleep at once.
const std::chrono::microseconds spin_time = [] {
  const char* const policy = std::getenv("OMP_WAIT_POLICY");
  const bool passive = policy != nullptr && strcasecmp(policy, "passive") == 0;
  return std::chrono::microseconds{passive ? 0 : 300};
}();

void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  asm volatile("yield");
#endif
}

/// Waiting: a short spin, which is fastest with a free core, then sleep, which leaves the core to others.
class Sleepers {
 public:
  /// Returns when `ready` holds. The thread that makes it hold must do so in a sequentially consistent operation before
  /// wake().
  template <class Ready>
  void wait(const Ready& ready) {
    const auto start = std::chrono::steady_clock::now();
    do
      for (int i = 0; i < 256; ++i) {
        if (ready()) return;
        pause();
      }
    while (std::chrono::steady_clock::now() - start < spin_time);
    std::unique_lock lock(mutex_);
    count_.fetch_add(1);
    woken_.wait(lock, ready);
    count_.fetch_sub(1);
  }
  void wake() {
    if (count_.load() == 0) return;
    { const std::lock_guard lock(mutex_); }
    woken_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable woken_;
  std::atomic<int> count_{0};
};

/// What one caller offers to the workers. Never freed, since a worker may read it at any time. A worker that has taken
/// a part may read the rest: it does not change before that part has ended.
struct Offer {
  alignas(64) std::array<std::atomic<bool>, most_threads> open{};  ///< parts that nobody has begun
  std::atomic<int> parts{0};                                       ///< of the phase, 0 if there is none; a hint
  alignas(64) std::atomic<int> left{0};                            ///< parts that have not ended
  TeamCall* call = nullptr;
  int phase = 0;
  std::atomic<int> core{-1};  ///< where the caller was
  Sleepers caller;
  int workers = 0;  ///< that its caller can use; under the pool's lock
  std::atomic<bool> owned{true};
  Offer* next = nullptr;

  bool take(int part) {
    return open[static_cast<std::size_t>(part)].load(std::memory_order_relaxed) &&
           open[static_cast<std::size_t>(part)].exchange(false, std::memory_order_acquire);
  }

  void run(int part) {
    call->run(part, phase);
    if (left.fetch_sub(1) == 1) caller.wake();
  }
};

/// The process's workers. Never freed: they run until the process ends.
class Pool {
 public:
  explicit Pool(Pool* before) : before_(before) {}

  Offer& offer() {
    for (Offer* offer = offers_.load(); offer != nullptr; offer = offer->next)
      if (!offer->owned.load(std::memory_order_relaxed) && !offer->owned.exchange(true)) return *offer;
    auto* offer = new Offer;
    offer->next = offers_.load();
    while (!offers_.compare_exchange_weak(offer->next, offer)) {
    }
    return *offer;
  }

  void give_back(Offer& offer) {
    const std::lock_guard lock(mutex_);
    wanted_ -= offer.workers;
    offer.workers = 0;
    offer.owned.store(false);
  }

  void run(Offer& offer, TeamCall& call) {
    offer.call = &call;
    offer.core.store(sched_getcpu(), std::memory_order_relaxed);
    for (offer.phase = 0; offer.phase < call.phases() && !call.failed(); ++offer.phase) {
      offer.left.store(call.parts(), std::memory_order_relaxed);
      share(offer);
    }
  }

 private:
  /// Runs the parts of a phase together with the workers.
  void share(Offer& offer) {
    const int parts = offer.call->parts();
    if (offer.workers < parts - 1) grow(offer, parts);
    for (int part = 1; part < parts; ++part)
      offer.open[static_cast<std::size_t>(part)].store(true, std::memory_order_release);
    offer.parts.store(parts, std::memory_order_release);
    offers_made_.fetch_add(1);
    workers_.wake();
    offer.run(0);
    for (int part = parts - 1; part > 0; --part)
      if (offer.take(part)) offer.run(part);
    offer.parts.store(0, std::memory_order_relaxed);
    offer.caller.wait([&] { return offer.left.load() == 0; });
  }

  /// Workers for all callers, but together no more than cores, or than the largest team needs.
  void grow(Offer& offer, int parts) {
    const std::lock_guard lock(mutex_);
    wanted_ += parts - 1 - offer.workers;
    offer.workers = parts - 1;
    largest_ = std::max({largest_, parts - 1, default_threads() - 1});
    try {
      for (; count_ < std::min(wanted_, largest_); ++count_)
        std::thread([this, number = count_ + 1] { work(number); }).detach();
    } catch (const std::system_error&) {  // the system grants no more: the callers do the work
    }
  }

  [[noreturn]] void work(int number) {
    Placement placement;
    for (;;) {
      const std::uint32_t seen = offers_made_.load();
      if (!help(number, placement)) workers_.wait([&] { return offers_made_.load() != seen; });
    }
  }

  /// Runs parts that nobody has begun. A worker starts with the part of its own number, whose data is still in its
  /// cache from the last operator.
  bool help(int number, Placement& placement) {
    bool any = false;
    for (Offer* offer = offers_.load(); offer != nullptr; offer = offer->next) {
      const int parts = offer->parts.load(std::memory_order_relaxed);
      if (parts > 0) placement.leave(offer->core.load(std::memory_order_relaxed));
      for (int i = 0; i < parts; ++i)
        if (const int part = (number + i) % parts; offer->take(part)) {
          offer->run(part);
          any = true;
        }
    }
    return any;
  }

  std::atomic<Offer*> offers_{nullptr};
  alignas(64) std::atomic<std::uint32_t> offers_made_{0};
  Sleepers workers_;
  std::mutex mutex_;
  int count_ = 0, wanted_ = 0, largest_ = 0;
  [[maybe_unused]] Pool* before_;  ///< of the process that this one was forked from
};

std::atomic<Pool*> current_pool{nullptr};

/// A calling thread's offer.
struct Caller {
  Pool* pool = nullptr;
  Offer* offer = nullptr;
  ~Caller() {
    if (pool != nullptr && pool == current_pool.load()) pool->give_back(*offer);
  }
};
thread_local Caller caller;

/// A forked process has none of its parent's workers, so it starts with its own pool.
void begin_process() { current_pool.store(new Pool(current_pool.load())); }

Pool& pool() {
  [[maybe_unused]] static const bool once = [] {
    begin_process();
    pthread_atfork(nullptr, nullptr, begin_process);
    return true;
  }();
  return *current_pool.load();
}

}  // namespace

void run_on_workers(TeamCall& call) {
  Pool& pool = vectorized::pool();
  if (caller.pool != &pool) {
    caller.offer = &pool.offer();
    caller.pool = &pool;
  }
  pool.run(*caller.offer, call);
}

}  // namespace tern::vectorized
