#pragma once

#include <functional>

#include "tern/optim/optimizer.hpp"

namespace tern::optim {

// Learning-rate schedules: pure functions of the position (the steps or epochs that the scheduler counts) that return
// the factor of the initial learning rate.

/// gamma^(position / step_size), integer division.
struct StepLr {
  std::int64_t step_size = 1;
  double gamma = 0.1;
  double operator()(std::int64_t position) const;
};

/// gamma^position.
struct ExponentialLr {
  double gamma = 0.9;
  double operator()(std::int64_t position) const;
};

/// Rises linearly to 1 over the first `warmup` positions ((position + 1) / (warmup + 1)), then falls along half a
/// cosine to `minimum` at `total`, where it stays.
struct CosineLr {
  std::int64_t total = 1;
  std::int64_t warmup = 0;
  double minimum = 0;
  double operator()(std::int64_t position) const;
};

/// (1 - position / total)^power, 0 from `total` on.
struct PolynomialLr {
  std::int64_t total = 1;
  double power = 1;
  double operator()(std::int64_t position) const;
};

/// Rises from 1 / start_divisor to 1 over the first `rise` of all positions and falls to 1 / (start_divisor
/// end_divisor) at the last one, each along half a cosine: torch's OneCycleLR with the optimiser's rate as max_lr.
/// (Smith and Topin, 2018.)
struct OneCycleLr {
  std::int64_t total = 2;
  double rise = 0.3;
  double start_divisor = 25, end_divisor = 1e4;
  double operator()(std::int64_t position) const;
};

using Schedule = std::function<double(std::int64_t position)>;

/// Applies a schedule to an optimiser, which must outlive it: immediately for position 0, then at each `step`. It
/// scales the learning rate that the optimiser had when its first Scheduler was made, or that of the last
/// set_learning_rate; schedulers do not compound. The one that was stepped last decides.
class Scheduler {
 public:
  Scheduler(Optimizer& optimizer, Schedule schedule);
  void step() { set_position(position_ + 1); }
  std::int64_t position() const { return position_; }
  /// Continues from a checkpoint.
  void set_position(std::int64_t position);
  /// The rates of the next `steps` steps, for a loop of a Step; move the position afterwards:
  ///
  ///     step.run_each({rows}, scheduler.changes(steps));
  ///     scheduler.set_position(scheduler.position() + steps);
  std::vector<Step::Change> changes(std::int64_t steps) const;

 private:
  Optimizer* optimizer_;
  Schedule schedule_;
  double start_;  // the optimiser's learning rate when the scheduler was made
  std::int64_t position_ = 0;
};

struct PlateauOptions {
  double factor = 0.1;         ///< factor of the rate for each reduction
  std::int64_t patience = 10;  ///< steps without improvement that are tolerated
  double threshold = 1e-4;     ///< an improvement is a change by more than this fraction of the best value
  std::int64_t cooldown = 0;   ///< steps after a reduction that do not count
  double minimum = 0;          ///< lowest rate
  bool larger_is_better = false;
};

/// Lowers the learning rate when a value, such as the validation loss, stops improving: torch's ReduceLROnPlateau. The
/// optimiser must outlive it.
class ReduceOnPlateau {
 public:
  explicit ReduceOnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});
  /// Call it once per epoch, for example. NaN is never an improvement.
  void step(double value);

  /// The best value and the steps waited since, for a checkpoint. The optimiser holds the rate.
  nn::State state() const;
  /// See nn::load_tensors.
  void load_state(const nn::State& state);

 private:
  Optimizer* optimizer_;
  PlateauOptions options_;
  double best_;
  std::int64_t waited_ = 0, resting_ = 0;
};

}  // namespace tern::optim
