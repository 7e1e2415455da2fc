#pragma once
// How the mode chooses algorithms and caches its choices. Each choice is described by one struct, a `Problem`, that
// holds everything the choice may read, including the device: equal problems get equal choices. Only the choice is
// cached, never sizes or pointers of the problem.

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/streams.cuh"
#include "modes/memo.hpp"
#include "tern/core/error.hpp"
#include "tern/kernels/algorithms.hpp"

namespace tern::cuda {

/// One algorithm for a kind of problem, for the lists that choose() reads. With Problem::deterministic it is
/// reproducible bit for bit.
template <class Problem, class Arrays>
struct Algorithm {
  const char* name;                                                    ///< one of its decision's names (mode.cu)
  bool (*fits)(const Problem&) = [](const Problem&) { return true; };  ///< cheap: called every time
  std::size_t (*workspace)(const Problem&, int plan) = nullptr;        ///< bytes; null: none
  void (*run)(Context&, const Problem&, const Arrays&, int plan, void* workspace) = nullptr;
  /// The next plan after `plan` (-1: the first) that runs the problem, or -1. A library that proposes several
  /// algorithms numbers them. Null: one plan, 0.
  int (*next_plan)(const Problem&, int plan) = nullptr;

  int plan_after(const Problem& problem, int plan) const {
    return next_plan != nullptr ? next_plan(problem, plan) : plan < 0 ? 0 : -1;
  }
  std::size_t bytes(const Problem& problem, int plan) const {
    return workspace == nullptr ? 0 : workspace(problem, plan);
  }
};

// ---- rules ----

/// Caches a rule, which is arithmetic on the problem: calls make() the first time per thread, because evaluating it
/// again would cost more than the kernel. `Rule` separates the caches.
template <class Rule, class Problem, class Make>
auto remembered(const Problem& problem, const Make& make) {
  thread_local Memo<Problem, decltype(make())> chosen;
  if (const auto* known = chosen.find(problem)) return *known;
  return chosen.keep(problem, make());
}

// ---- timing ----

/// An event that is destroyed at the end of its block, also on a throw.
class Event {
 public:
  Event() { check(cudaEventCreate(&event_), "creating an event"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { cudaEventDestroy(event_); }
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Delays the work queued after it for this long.
void delay(const Context& context, unsigned microseconds);

/// The best of a few repetitions of `work`, which queues on the context's stream and may be repeated. It is queued
/// while the card waits, so that short kernels are timed and not their launches.
template <class Work>
float microseconds(const Context& context, const Work& work, int turns, int repeats) {
  constexpr unsigned launches = 20;  // upper bound of the microseconds that queueing `work` takes
  const Event start, stop;
  work();
  float best = 0;
  for (int turn = 0; turn < turns; ++turn) {
    delay(context, launches * static_cast<unsigned>(repeats));
    check(cudaEventRecord(start, stream_of(context)), "recording an event");
    for (int i = 0; i < repeats; ++i) work();
    check(cudaEventRecord(stop, stream_of(context)), "recording an event");
    check(cudaEventSynchronize(stop), "timing a candidate");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, start, stop), "timing a candidate");
    const float time = milliseconds * 1000 / static_cast<float>(repeats);
    best = turn == 0 ? time : std::min(best, time);
  }
  return best;
}

// ---- trials ----

/// An algorithm of a list, and one of its plans.
template <class Problem, class Arrays>
struct Chosen {
  const Algorithm<Problem, Arrays>* algorithm = nullptr;
  int plan = 0;
};

/// The results of trials for a kind of problem, in this process.
template <class Problem, class Arrays>
struct Trials {
  /// Trials restricted to a forced algorithm are separate from trials of all.
  struct Key {
    Problem problem;
    const char* forced;
    auto operator<=>(const Key&) const = default;
  };
  std::mutex mutex;
  Memo<Key, Chosen<Problem, Arrays>> found;

  static Trials& all() {
    static auto* trials = new Trials;  // leaked: threads may outlive static objects
    return *trials;
  }
};

constexpr int most_plans = 16;  // plans of an algorithm that a trial considers

/// What trials cannot distinguish, in microseconds: a later candidate must be faster by more.
constexpr float least_gain = 0.2f;

/// Times every plan of every algorithm on `arrays`, whose results are overwritten: briefly for each, longer for the
/// promising ones. A candidate that fails, or has no memory, is skipped; without any there is no result.
template <class Problem, class Arrays>
std::optional<Chosen<Problem, Arrays>> fastest(Context& context,
                                               std::span<const Algorithm<Problem, Arrays>* const> algorithms,
                                               const Problem& problem, const Arrays& arrays) {
  std::optional<Chosen<Problem, Arrays>> best;
  float best_quick = 0, best_time = 0;
  for (const auto* algorithm : algorithms) {
    int plan = algorithm->plan_after(problem, -1);
    for (int seen = 0; plan >= 0 && seen < most_plans; ++seen, plan = algorithm->plan_after(problem, plan)) try {
        const Scratch workspace(context, algorithm->bytes(problem, plan));
        const auto run = [&] { algorithm->run(context, problem, arrays, plan, workspace.as<void>()); };
        const float quick = microseconds(context, run, 1, 1);
        if (best && quick > 1.5f * best_quick) continue;
        best_quick = best ? std::min(best_quick, quick) : quick;
        const float time = microseconds(context, run, 2, 5);
        if (best && time > best_time - least_gain) continue;
        best = {algorithm, plan};
        best_time = time;
      } catch (const Error&) {
      }
  }
  return best;
}

/// The algorithm and plan for a problem. Candidates are the algorithms of the list that fit, or those with the name
/// that is forced for `decision` (null: cannot be forced) if one fits. With `deterministic` the first one is chosen;
/// otherwise the one that the first call outside a recording finds fastest on `arrays`. A problem first seen during a
/// recording gets the first that fits, untimed and uncached.
template <class Problem, class Arrays>
Chosen<Problem, Arrays> choose(Context& context, const char* decision,
                               std::span<const Algorithm<Problem, Arrays>* const> algorithms, const Problem& problem,
                               const Arrays& arrays) {
  using All = Trials<Problem, Arrays>;
  const std::string_view forced = decision == nullptr ? std::string_view() : forced_algorithm(context, decision);
  const auto first = [&](std::string_view name) {
    for (const auto* algorithm : algorithms)
      if ((name.empty() || name == algorithm->name) && algorithm->fits(problem))
        if (const int plan = algorithm->plan_after(problem, -1); plan >= 0)
          return Chosen<Problem, Arrays>{algorithm, plan};
    return Chosen<Problem, Arrays>{};
  };
  const Chosen<Problem, Arrays> by_force = forced.empty() ? Chosen<Problem, Arrays>{} : first(forced);
  const auto by_rule = [&] {
    const auto chosen = by_force.algorithm != nullptr ? by_force : first({});
    expects(chosen.algorithm != nullptr, "cuda: no kernel of this build runs ", text_of(problem),
            "; split the batch, or build with the libraries that CMake did not find");
    return chosen;
  };
  const auto find = [&] {
    if (context.deterministic) return by_rule();
    const typename All::Key key{problem, by_force.algorithm == nullptr ? nullptr : by_force.algorithm->name};
    All& all = All::all();
    {
      const std::scoped_lock lock(all.mutex);
      if (const auto* known = all.found.find(key)) return *known;
    }
    const auto untried = by_rule();
    if (recording(context)) return untried;
    std::vector<const Algorithm<Problem, Arrays>*> candidates;
    for (const auto* algorithm : algorithms)
      if ((key.forced == nullptr || forced == algorithm->name) && algorithm->fits(problem))
        candidates.push_back(algorithm);
    std::optional<Chosen<Problem, Arrays>> found;
    if (candidates.size() == 1 && candidates[0]->next_plan == nullptr)
      found = untried;
    else  // not under the lock: other threads continue
      found = fastest<Problem, Arrays>(context, candidates, problem, arrays);
    if (!found) return untried;
    const std::scoped_lock lock(all.mutex);
    return all.found.keep(key, *found);
  };
  const Chosen<Problem, Arrays> chosen = find();
  if (decision != nullptr) took_algorithm(context, decision, chosen.algorithm->name);
  return chosen;
}

/// A problem with its choice and workspace: all memory is allocated before work is queued on several streams.
template <class Problem, class Arrays>
class Prepared {
 public:
  Prepared(Context& context, const char* decision, std::span<const Algorithm<Problem, Arrays>* const> algorithms,
           const Problem& problem, const Arrays& arrays)
      : problem_(problem),
        arrays_(arrays),
        chosen_(choose(context, decision, algorithms, problem, arrays)),
        workspace_(context, chosen_.algorithm->bytes(problem, chosen_.plan)) {}
  /// Runs all its work on the stream of `where`.
  void run(Context& where) const {
    chosen_.algorithm->run(where, problem_, arrays_, chosen_.plan, workspace_.template as<void>());
  }

 private:
  Problem problem_;
  Arrays arrays_;
  Chosen<Problem, Arrays> chosen_;
  Scratch workspace_;
};

/// Runs both, if present; last(context) is queued after the first. In a recording the second runs concurrently.
template <class Half, class Last>
void run_side_by_side(Context& context, const std::optional<Half>& first, const std::optional<Half>& second,
                      const Last& last) {
  const bool forks = first && second && may_fork(context);
  Context beside = context;
  if (forks) beside.stream = fork(context);
  if (first) first->run(beside);
  if (forks) last(beside);
  if (second) second->run(context);
  forks ? join(context) : last(context);
}

/// The results of trials, one line each: problem, algorithm and plan.
template <class Problem, class Arrays>
std::vector<std::string> remembered_choices() {
  auto& all = Trials<Problem, Arrays>::all();
  const std::scoped_lock lock(all.mutex);
  std::vector<std::string> lines;
  all.found.each([&](const auto& key, const auto& chosen) {
    lines.push_back(message(text_of(key.problem), ": ", chosen.algorithm->name, ", plan ", chosen.plan,
                            key.forced == nullptr ? "" : " (forced)"));
  });
  return lines;
}

inline const char* name_of(Precision precision) {
  return precision == Precision::strict ? "strict" : precision == Precision::tf32 ? "tf32" : "bf16";
}

/// What a choice may read about an array: 0 if absent, else its alignment in bytes, at most 256.
inline std::uint32_t alignment_of(const void* array) {
  const auto address = reinterpret_cast<std::uintptr_t>(array);
  return static_cast<std::uint32_t>(address != 0 && address % 256 == 0 ? 256 : address & (~address + 1));
}

/// Divides one block of memory into parts: counts the bytes, and returns the parts if there is a block.
class Parts {
 public:
  explicit Parts(void* block) : block_(static_cast<std::byte*>(block)) {}
  /// Aligned like a block. Null before there is one.
  void* take(std::size_t bytes) {
    void* const part = block_ == nullptr ? nullptr : block_ + bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return part;
  }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* block_;
  std::size_t bytes_ = 0;
};

}  // namespace tern::cuda
