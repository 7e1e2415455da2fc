#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/choice.hpp"
#include "vectorized/convolution/problem.hpp"
#include "vectorized/parallel.hpp"

namespace tern::vectorized::bfloat16 {
struct Kernels;
}

namespace tern::vectorized::convolution {

/// What plans allocate, they take from the pool of the thread: one is made in every call.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class Other>
  PoolAllocator(const PoolAllocator<Other>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(host_memory().allocate(count * sizeof(T), nullptr)); }
  void deallocate(T* elements, std::size_t count) { host_memory().release(elements, count * sizeof(T), nullptr); }
  bool operator==(const PoolAllocator&) const = default;
};
template <class T>
using Pooled = std::vector<T, PoolAllocator<T>>;

/// One call divided for the problem's team, in phases: a phase begins when all parts of the previous one have ended.
template <class T>
class Plan {
 public:
  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  virtual ~Plan() = default;
  static void* operator new(std::size_t bytes) { return host_memory().allocate(bytes, nullptr); }
  static void operator delete(void* plan, std::size_t bytes) { host_memory().release(plan, bytes, nullptr); }
  virtual int phases() const { return 1; }
  virtual std::int64_t shared() const { return 0; }   ///< elements of scratch for the team, through all phases
  virtual std::int64_t scratch() const { return 0; }  ///< and for each of its parts, in a phase
  virtual void run(const Team& team, int phase, T* shared, T* scratch) const = 0;
  /// Whether the first phase only writes the shared scratch, from the weights alone.
  virtual bool first_prepares_weights() const { return false; }
  /// Whether `run` also does what Arrays::added and Arrays::after want; else it leaves that out.
  virtual bool finishes() const { return false; }
  /// After the run: false if the algorithm cannot handle the values and another one must compute the outputs.
  virtual bool done() const { return true; }
};

template <class T>
using PlanPointer = std::unique_ptr<const Plan<T>>;

/// An algorithm, which also runs beside others on one team. Each is reproducible bit for bit for any number of threads,
/// but sums in its own order. Costs are cycles on one thread of a typical machine.
template <class T>
struct Algorithm : kernels::Algorithm<Problem, Arrays<T>> {
  PlanPointer<T> (*plan)(const Problem&, const Arrays<T>&);
};

// Each is in the file of its name.
template <class T>
PlanPointer<T> im2col(const Problem&, const Arrays<T>&);
template <class T>
PlanPointer<T> direct(const Problem&, const Arrays<T>&);  // of im2col, the forward pass with few outputs
bool direct_fits(const Problem&);
/// Cycles of these sums, which include what lies between the rows, for two vectors of positions and an element of k;
/// and of a product of patches, which are cut run by run, or with a stride element by element.
double direct_products(const Problem&);
double direct_copies(const Problem&);  ///< cycles of what comes before these sums
double patch_products(const Problem&);
template <class T>
PlanPointer<T> rows(const Problem&, const Arrays<T>&);
template <class T>
PlanPointer<T> winograd(const Problem&, const Arrays<T>&);
template <class T>
bool winograd_fits(const Problem&);
template <class T>
double winograd_cycles(const Problem&);
template <class T>
PlanPointer<T> depthwise(const Problem&, const Arrays<T>&);
bool depthwise_fits(const Problem&);
template <class T>
double depthwise_cycles(const Problem&);
template <class T>
PlanPointer<T> dots(const Problem&, const Arrays<T>&);
bool dots_fit(const Problem&);
template <class T>
double dots_cycles(const Problem&);
template <class T>
PlanPointer<T> lines(const Problem&, const Arrays<T>&);
bool lines_fit(const Problem&);
template <class T>
double lines_cycles(const Problem&);
template <class T>
PlanPointer<T> taps(const Problem&, const Arrays<T>&);
bool taps_fit(const Problem&);
template <class T>
double taps_cycles(const Problem&);
bool bfloat16_fits(const Problem&);
double bfloat16_cycles(const Problem&, const bfloat16::Kernels&);
PlanPointer<float> bfloat16_rows(const Problem&, const Arrays<float>&, const bfloat16::Kernels&);

inline constexpr std::size_t most_plans = 3;

/// Runs one plan whose weights are in `weights`: from its first phase, which writes them, or from the second.
template <class T>
void run_on_weights(Context& context, int threads, const Plan<T>& plan, T* weights, bool ready) {
  const std::int64_t each = round_up(plan.scratch(), 16);
  const Scratch scratch(context, static_cast<std::size_t>(each * threads) * sizeof(T));
  const int first = ready ? 1 : 0;
  parallel_phases(threads, plan.phases() - first, [&](const Team& team, int phase) {
    plan.run(team, phase + first, weights, scratch.as<T>() + each * team.index);
  });
}

/// Runs plans on one team: those that share scratch one after another, the others concurrently.
template <class T>
void run(Context& context, int threads, std::span<const PlanPointer<T>> plans) {
  std::array<int, most_plans> first{};  // phases
  std::int64_t shared = 0, each = 0;
  int phases = 0, vacant = 0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan<T>& plan = *plans[i];
    if (plan.shared() > 0) {
      first[i] = vacant;
      vacant += plan.phases();
    }
    phases = std::max(phases, first[i] + plan.phases());
    shared = std::max(shared, round_up(plan.shared(), 16));
    each = std::max(each, round_up(plan.scratch(), 16));
  }
  const Scratch scratch(context, static_cast<std::size_t>(shared + each * threads) * sizeof(T));
  parallel_phases(threads, phases, [&](const Team& team, int phase) {
    for (std::size_t i = 0; i < plans.size(); ++i)
      if (const int own = phase - first[i]; own >= 0 && own < plans[i]->phases())
        plans[i]->run(team, own, scratch.as<T>(), scratch.as<T>() + shared + each * team.index);
  });
}

}  // namespace tern::vectorized::convolution
