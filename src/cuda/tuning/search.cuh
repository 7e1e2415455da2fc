#pragma once
// The search for the cheapest cut of a problem, and how a program that measures takes part in it.

#include <any>
#include <limits>
#include <vector>

#include "cuda/tuning/costs.cuh"
#include "kernels/choice.hpp"

namespace tern::cuda::tuning {

/// While one exists, the searches of its thread ask for every cut's cost by `costs`, and take the cut of the number
/// `take`, or, if that is negative, the cheapest. Cuts are numbered in the order of the search. One problem at a time:
/// what was taken stays until the next forget().
class Watch {
 public:
  Watch() { current() = this; }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { current() = nullptr; }

  const Costs* costs = nullptr;  ///< null: those of the rule
  int take = -1;
  std::vector<float> guesses;  ///< of the last search: microseconds of each cut
  std::any taken;
  void forget(int next) {
    take = next;
    taken.reset();
  }

  static Watch*& current() {
    constinit static thread_local Watch* watch = nullptr;
    return watch;
  }
};

template <class Cut>
class Search {
 public:
  Search() {
    if (watch_ != nullptr) watch_->guesses.clear();
  }
  void offer(const Cut& cut, float guess) {
    if (watch_ != nullptr) [[unlikely]] {
      watch_->guesses.push_back(guess);
      if (watch_->take >= 0 && watch_->take != static_cast<int>(watch_->guesses.size()) - 1) return;
    }
    if (guess >= least_) return;
    best_ = cut;
    least_ = guess;
  }
  bool found() const { return least_ < std::numeric_limits<float>::max(); }
  /// A `Cut` as it is made if there was none.
  const Cut& best() const { return best_; }
  float least() const { return least_; }

 private:
  Watch* watch_ = Watch::current();
  Cut best_{};
  float least_ = std::numeric_limits<float>::max();
};

/// The cut that find(costs) returns, as kernels::remembered.
template <class Key, class Problem, class Find>
auto cut_of(const Problem& problem, Rule rule, const Find& find) {
  using Cut = decltype(find(costs(rule)));
  Watch* const watch = Watch::current();
  if (watch == nullptr) [[likely]]
    return kernels::remembered<Key>(problem, [&] { return find(costs(rule)); });
  if (const Cut* const taken = std::any_cast<Cut>(&watch->taken)) return *taken;
  const Cut cut = find(watch->costs == nullptr ? costs(rule) : *watch->costs);
  watch->taken = cut;
  return cut;
}

}  // namespace tern::cuda::tuning
