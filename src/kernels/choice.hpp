#pragma once
// How a mode chooses algorithms and caches its choices. Each choice is described by one struct, a `Problem`, that holds
// everything the choice may read, including the device: equal problems get equal choices. Only the choice is cached,
// never sizes or pointers of the problem.

#include <algorithm>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/memo.hpp"
#include "tern/core/error.hpp"
#include "tern/kernels/algorithms.hpp"
#include "tern/kernels/context.hpp"

namespace tern::kernels {

/// One algorithm for a kind of problem, for the lists that choose() reads.
template <class Problem, class Arrays>
struct Algorithm {
  const char* name;                                                    ///< one of its decision's names
  bool (*fits)(const Problem&) = [](const Problem&) { return true; };  ///< cheap: called every time
  std::size_t (*workspace)(const Problem&, int plan) = nullptr;        ///< bytes; null: none
  void (*run)(Context&, const Problem&, const Arrays&, int plan, void* workspace) = nullptr;
  /// The next plan after `plan` (-1: the first) that runs the problem, or -1. A library that proposes several
  /// algorithms numbers them. Null: one plan, 0.
  int (*next_plan)(const Problem&, int plan) = nullptr;
  /// A rough cost, for rules. Null in a list that stands in the order of preference.
  double (*cost)(const Problem&) = nullptr;

  int plan_after(const Problem& problem, int plan) const {
    return next_plan != nullptr ? next_plan(problem, plan) : plan < 0 ? 0 : -1;
  }
  std::size_t bytes(const Problem& problem, int plan) const {
    return workspace == nullptr ? 0 : workspace(problem, plan);
  }
};

/// A list of algorithms.
template <class Problem, class Arrays>
using Candidates = std::span<const Algorithm<Problem, Arrays>* const>;

/// An algorithm of a list, and one of its plans.
template <class Problem, class Arrays>
struct Chosen {
  const Algorithm<Problem, Arrays>* algorithm = nullptr;
  int plan = 0;
};

/// Caches a rule, which is arithmetic on the problem: calls make() the first time per thread, because evaluating it
/// again would cost more than the kernel. `Rule` separates the caches.
template <class Rule, class Problem, class Make>
auto remembered(const Problem& problem, const Make& make) {
  thread_local Memo<Problem, decltype(make())> chosen;
  if (const auto* known = chosen.find(problem)) return *known;
  return chosen.keep(problem, make());
}

/// By a rule: the one of least cost, or the first, among those that fit and, unless `name` is empty, have that name.
/// Null if there is none.
template <class Problem, class Arrays>
Chosen<Problem, Arrays> chosen_by_rule(Candidates<Problem, Arrays> algorithms, const Problem& problem,
                                       std::string_view name = {}) {
  Chosen<Problem, Arrays> best;
  double least = 0;
  for (const auto* algorithm : algorithms) {
    if ((!name.empty() && name != algorithm->name) || !algorithm->fits(problem)) continue;
    const int plan = algorithm->plan_after(problem, -1);
    if (plan < 0) continue;
    if (algorithm->cost == nullptr) return {algorithm, plan};
    const double cost = algorithm->cost(problem);
    if (best.algorithm != nullptr && cost >= least) continue;
    best = {algorithm, plan};
    least = cost;
  }
  return best;
}

/// The same with the name that is forced for `decision` if an algorithm of that name fits, else with all of them. The
/// caller reports it.
template <class Problem, class Arrays>
Chosen<Problem, Arrays> chosen_by_rule(const Context& context, const char* decision,
                                       Candidates<Problem, Arrays> algorithms, const Problem& problem) {
  const std::string_view forced = forced_algorithm(context, decision);
  if (!forced.empty())
    if (const auto chosen = chosen_by_rule(algorithms, problem, forced); chosen.algorithm != nullptr) return chosen;
  return chosen_by_rule(algorithms, problem);
}

/// What a decision reads that is taken before there are arrays: whether an operator runs in one kernel or is composed.
struct NoArrays {};
/// For decisions between "fused" and "composed", whose list holds both: whether `problem` is fused. What runs fused is
/// reported by its kernel.
template <class Problem>
bool fuses(const Context& context, const char* decision, Candidates<Problem, NoArrays> algorithms,
           const Problem& problem) {
  const char* const name = chosen_by_rule(context, decision, algorithms, problem).algorithm->name;
  if (std::string_view(name) == "fused") return true;
  took_algorithm(context, decision, name);
  return false;
}

// ---- trials ----

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

/// Times every plan of every algorithm on `arrays`, whose results are overwritten: briefly for each, longer for the
/// promising ones. A candidate that fails, or has no memory, is skipped; without any there is no result.
///
/// A `Clock` has a function time(context, work, turns, repeats), the best of a few turns of the microseconds of a call
/// of `work`; `turns` and `repeats` of the longer measurement; `least_gain`, the microseconds by which a later
/// candidate must be faster.
template <class Clock, class Problem, class Arrays>
std::optional<Chosen<Problem, Arrays>> fastest(Context& context, Candidates<Problem, Arrays> algorithms,
                                               const Problem& problem, const Arrays& arrays) {
  std::optional<Chosen<Problem, Arrays>> best;
  float best_quick = 0, best_time = 0;
  for (const auto* algorithm : algorithms) {
    int plan = algorithm->plan_after(problem, -1);
    for (int seen = 0; plan >= 0 && seen < most_plans; ++seen, plan = algorithm->plan_after(problem, plan)) try {
        const Scratch workspace(context, algorithm->bytes(problem, plan));
        const auto run = [&] { algorithm->run(context, problem, arrays, plan, workspace.template as<void>()); };
        const float quick = Clock::time(context, run, 1, 1);
        if (best && quick > 1.5f * best_quick) continue;
        best_quick = best ? std::min(best_quick, quick) : quick;
        const float time = Clock::time(context, run, Clock::turns, Clock::repeats);
        if (best && time > best_time - Clock::least_gain) continue;
        best = {algorithm, plan};
        best_time = time;
      } catch (const Error&) {
      }
  }
  return best;
}

/// The algorithm and plan for a problem. Candidates are the algorithms of the list that fit, or those with the name
/// that is forced for `decision` (null: cannot be forced) if one fits. With `deterministic` the rule chooses, otherwise
/// the first call that may be timed: the one that is fastest on `arrays`. Where `may_time()` says no (the work is being
/// recorded) the rule's is taken and not cached.
template <class Clock, class Problem, class Arrays, class MayTime>
Chosen<Problem, Arrays> choose(Context& context, const char* decision, Candidates<Problem, Arrays> algorithms,
                               const Problem& problem, const Arrays& arrays, bool deterministic,
                               const MayTime& may_time) {
  using All = Trials<Problem, Arrays>;
  const std::string_view forced = decision == nullptr ? std::string_view() : forced_algorithm(context, decision);
  const Chosen<Problem, Arrays> by_force =
      forced.empty() ? Chosen<Problem, Arrays>{} : chosen_by_rule(algorithms, problem, forced);
  const auto by_rule = [&] {
    const auto chosen = by_force.algorithm != nullptr ? by_force : chosen_by_rule(algorithms, problem);
    if (chosen.algorithm == nullptr) [[unlikely]]  // the text costs more than the choice
      throw Error(message("no kernel of this build runs ", text_of(problem),
                          "; split the batch, or build with the libraries that CMake did not find"));
    return chosen;
  };
  const auto find = [&] {
    if (deterministic) return by_rule();
    const typename All::Key key{problem, by_force.algorithm == nullptr ? nullptr : by_force.algorithm->name};
    All& all = All::all();
    {
      const std::scoped_lock lock(all.mutex);
      if (const auto* known = all.found.find(key)) return *known;
    }
    const auto untried = by_rule();
    if (!may_time()) return untried;
    std::vector<const Algorithm<Problem, Arrays>*> candidates;
    for (const auto* algorithm : algorithms)
      if ((key.forced == nullptr || forced == algorithm->name) && algorithm->fits(problem))
        candidates.push_back(algorithm);
    std::optional<Chosen<Problem, Arrays>> found;
    if (candidates.size() == 1 && candidates[0]->next_plan == nullptr)
      found = untried;
    else  // not under the lock: others continue
      found = fastest<Clock, Problem, Arrays>(context, candidates, problem, arrays);
    if (!found) return untried;
    const std::scoped_lock lock(all.mutex);
    return all.found.keep(key, *found);
  };
  const Chosen<Problem, Arrays> chosen = find();
  if (decision != nullptr) took_algorithm(context, decision, chosen.algorithm->name);
  return chosen;
}

/// The results of trials, one line each: problem, algorithm and plan.
template <class Problem, class Arrays>
std::vector<std::string> remembered_choices() {
  auto& all = Trials<Problem, Arrays>::all();
  const std::scoped_lock lock(all.mutex);
  std::vector<std::string> lines;
  all.found.each([&](const auto& key, const auto& chosen) {
    const std::string plan = chosen.algorithm->next_plan == nullptr ? "" : message(", plan ", chosen.plan);
    lines.push_back(
        message(text_of(key.problem), ": ", chosen.algorithm->name, plan, key.forced == nullptr ? "" : " (forced)"));
  });
  return lines;
}

}  // namespace tern::kernels
