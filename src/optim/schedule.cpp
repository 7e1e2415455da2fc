#include "tern/optim/schedule.hpp"

#include <cmath>
#include <numbers>

namespace tern::optim {

double StepLr::operator()(std::int64_t position) const {
  expects(step_size > 0, "StepLr: step_size is ", step_size, ", it must be positive");
  const std::int64_t steps = position / step_size;
  return std::pow(gamma, static_cast<double>(steps));
}

double ExponentialLr::operator()(std::int64_t position) const { return std::pow(gamma, static_cast<double>(position)); }

double CosineLr::operator()(std::int64_t position) const {
  expects(warmup >= 0 && total > warmup, "CosineLr: total ", total, " must exceed warmup ", warmup);
  if (position < warmup) return static_cast<double>(position + 1) / static_cast<double>(warmup + 1);
  if (position >= total) return minimum;
  const double progress = static_cast<double>(position - warmup) / static_cast<double>(total - warmup);
  return minimum + (1 - minimum) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

Scheduler::Scheduler(Optimizer& optimizer, Schedule schedule)
    : optimizer_(&optimizer),
      schedule_(std::move(schedule)),
      start_(optimizer.scheduled_rate_.value_or(optimizer.learning_rate())) {
  optimizer.scheduled_rate_ = start_;
  set_position(0);
}

void Scheduler::set_position(std::int64_t position) {
  expects(position >= 0, "scheduler: position ", position, " is negative");
  optimizer_->apply_learning_rate(start_ * schedule_(position));
  position_ = position;
}

}  // namespace tern::optim
