#include "run/auto_choice.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

#include "modes/explanations.hpp"
#include "tern/autograd/tape.hpp"
#include "tern/core/error.hpp"
#include "tern/operators/dot.hpp"
#include "tern/tensor/create.hpp"

namespace tern {

namespace {

using Clock = AutoChoice::Clock;

// A stretch lasts this long and has this many calls, unless they are slow. Warm-up calls precede it: the first moves
// parameters and creates momenta, a later one is recorded, and kernels choose their algorithms.
constexpr double stretch_seconds = 0.01, slow_seconds = 0.2;
constexpr int stretch_calls = 3, warm_calls = 4;
// Two stretches of equally fast modes differ by a few per cent on an idle machine.
constexpr int rounds = 3;
constexpr double clearly_behind = 1.25, hopeless = 20;
// How much faster than its definition a convolution may be (Winograd saves a factor of 2.25), or a product of another
// size than the measured one.
constexpr double margin = 4;

double seconds_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double>(end - begin).count();
}

std::string duration(double seconds) {
  const auto rounded = [](double value) { return std::llround(value); };
  if (seconds < 0.01) return message(rounded(seconds * 1e6), " us");
  if (seconds < 10) return message(rounded(seconds * 1e3), " ms");
  return message(rounded(seconds), " s");
}

class CountsFlops final : public Observer {
 public:
  CountsFlops() { begin(); }
  ~CountsFlops() override { end(); }
  void after(const OperatorCall& call) override { flops += call.flops(); }
  double flops = 0;
};

// Floating-point operations per second of a matrix product in the scope of the thread, measured once.
double rate_of_products() {
  using Key = std::tuple<const Mode*, Precision, int, bool>;
  static std::mutex mutex;
  static std::map<Key, double> known;
  const Scope& scope = current_scope();
  const Key key{scope.mode, scope.context.precision, scope.context.threads, scope.context.deterministic};
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(key); found != known.end()) return found->second;
  constexpr std::int64_t side = 128;
  const NoGrad no_grad;
  const Tensor a = full({side, side}, 1), b = full({side, side}, 1);
  double least = 0;
  for (int i = 0; i < 3; ++i) {
    const auto begin = Clock::now();
    const Tensor product = operators::matmul(a, b);
    scope.context.memory->finish(scope.context.stream);
    const double seconds = seconds_between(begin, Clock::now());
    if (i > 0) least = i == 1 ? seconds : std::min(least, seconds);
  }
  return known[key] = 2.0 * side * side * side / std::max(least, 1e-9);
}

}  // namespace

AutoChoice::AutoChoice(StepKey key, const std::vector<const Mode*>& modes) : key_(std::move(key)) {
  static std::atomic<std::uint64_t> made{0};
  number_ = ++made;
  for (const Mode* mode : modes) candidates_.insert(candidates_.begin(), {mode});
  if (candidates_.size() == 1) choose();
}

double AutoChoice::fastest() const {
  double least = 0;
  for (const Candidate& candidate : candidates_)
    if (candidate.seconds > 0 && (least == 0 || candidate.seconds < least)) least = candidate.seconds;
  return least;
}

std::vector<Tensor> AutoChoice::call(const Call& function, const Mode* before) {
  const std::uint64_t device = current_scope().automatic;
  if (chosen_ == nullptr && before != nullptr)
    warm_ = timed_ = 0;
  else if (chosen_ == nullptr && timed_ > 0)
    end_stretch();
  if (chosen_ != nullptr && explained_ != device) explain(explained_ = device, number_, sentence());
  if (chosen_ != nullptr || before != nullptr) {
    last_ = chosen_ != nullptr ? chosen_ : before;
    const Device there(*last_);
    return function();
  }
  Candidate& candidate = candidates_[current_];
  last_ = candidate.mode;
  try {
    return run(function, candidate);
  } catch (const OutOfMemory& error) {
    candidate.out = message("has too little memory: ", error.what());
    next();
    throw;
  } catch (...) {
    warm_ = timed_ = 0;
    throw;
  }
}

std::vector<Tensor> AutoChoice::run(const Call& function, Candidate& candidate) {
  Device there(*candidate.mode);
  if (warm_ == warm_calls) {
    ++timed_;
    return function();
  }
  const auto begin = Clock::now();
  std::vector<Tensor> results;
  if (flops_ < 0) {
    CountsFlops count;
    results = function();
    flops_ = count.flops;
  } else {
    results = function();
  }
  there.synchronize();
  start_ = Clock::now();
  const double took = seconds_between(begin, start_);
  // The first call moves what the mode does not have yet; a recording needs several.
  if (fastest() > 0 && took > hopeless * fastest() && took > slow_seconds) {
    candidate.out = message("one call took ", duration(took));
    next();
  } else {
    warm_ = took > slow_seconds && candidate.mode->capture == nullptr ? warm_calls : warm_ + 1;
  }
  return results;
}

// The last call's time ends where the next one begins, so the caller's work after it counts.
void AutoChoice::end_stretch() {
  const double elapsed = seconds_between(start_, Clock::now());
  if (elapsed < stretch_seconds || (timed_ < stretch_calls && elapsed < slow_seconds)) return;
  Candidate& candidate = candidates_[current_];
  Memory& memory = *candidate.mode->memory;
  memory.synchronize(memory.stream());
  const double seconds = seconds_between(start_, Clock::now()) / timed_;
  // The median, so that neither a lucky nor a disturbed stretch decides.
  std::vector<double>& all = candidate.stretches;
  all.insert(std::ranges::lower_bound(all, seconds), seconds);
  candidate.seconds = all[(all.size() - 1) / 2];
  next();
}

// Would it take longer than the fastest even if it ran only its products?
bool AutoChoice::too_slow(Candidate& candidate) const {
  if (candidate.seconds > 0 || fastest() == 0 || flops_ <= 0) return false;
  const Device there(*candidate.mode);
  const double least = flops_ / (margin * rate_of_products());
  if (least < fastest()) return false;
  candidate.out = message("is not tried, its products would take about ", duration(least * margin));
  return true;
}

void AutoChoice::next() {
  warm_ = timed_ = 0;
  for (;;) {
    if (++current_ == candidates_.size()) {
      current_ = 0;
      ++round_;
      for (Candidate& candidate : candidates_)
        if (candidate.out.empty() && candidate.seconds > clearly_behind * fastest())
          candidate.out = message(duration(candidate.seconds));
    }
    const auto in =
        std::ranges::count_if(candidates_, [](const Candidate& candidate) { return candidate.out.empty(); });
    if (round_ == rounds || (round_ > 0 && in <= 1)) return choose();
    if (candidates_[current_].out.empty() && !too_slow(candidates_[current_])) return;
  }
}

void AutoChoice::choose() {
  // If none was timed, the probably fastest with enough memory.
  const auto better = [](const Candidate& a, const Candidate& b) {
    if (a.out.empty() != b.out.empty()) return a.out.empty();
    return a.seconds > 0 && (b.seconds == 0 || a.seconds < b.seconds);
  };
  chosen_ = std::ranges::min_element(candidates_, better)->mode;
}

std::string AutoChoice::sentence() const {
  std::string text = "Step of ";
  const auto list = [&](const char* between, const std::string& part) {
    text += (text.ends_with(' ') ? "" : between) + part;
  };
  for (const StepKey::Input& input : key_.inputs) list(", ", message(input.dtype, " ", input.shape));
  text += message(": ", chosen_->name);
  for (const Candidate& candidate : candidates_)
    if (candidate.mode == chosen_ && candidate.seconds > 0)
      text += message(", ", duration(candidate.seconds), " a call");
  for (const Candidate& candidate : candidates_)
    if (candidate.mode != chosen_)
      text +=
          message("; ", candidate.mode->name, " ", candidate.out.empty() ? duration(candidate.seconds) : candidate.out);
  return text;
}

}  // namespace tern
