#include "tern/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tern/tensor/create.hpp"

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

double PolynomialLr::operator()(std::int64_t position) const {
  expects(total > 0 && power >= 0, "PolynomialLr: total ", total, " and power ", power, ", expected positive ones");
  return std::pow(1 - static_cast<double>(std::min(position, total)) / static_cast<double>(total), power);
}

double OneCycleLr::operator()(std::int64_t position) const {
  expects(total > 1 && rise > 0 && rise < 1 && start_divisor > 0 && end_divisor > 0, "OneCycleLr: total ", total,
          ", rise ", rise, ", divisors ", start_divisor, " and ", end_divisor);
  const double peak = rise * static_cast<double>(total) - 1, last = static_cast<double>(total - 1);
  const double at = std::min(static_cast<double>(position), last);
  const auto between = [](double from, double to, double share) {
    return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * share));
  };
  const double start = 1 / start_divisor;
  return at <= peak && peak > 0 ? between(start, 1, at / peak)
                                : between(1, start / end_divisor, (at - peak) / (last - peak));
}

ReduceOnPlateau::ReduceOnPlateau(Optimizer& optimizer, const PlateauOptions& options)
    : optimizer_(&optimizer),
      options_(options),
      best_(options.larger_is_better ? -std::numeric_limits<double>::infinity()
                                     : std::numeric_limits<double>::infinity()) {
  expects(options.factor > 0 && options.factor < 1 && options.patience >= 0 && options.cooldown >= 0,
          "ReduceOnPlateau: factor ", options.factor, ", patience ", options.patience, ", cooldown ", options.cooldown);
}

void ReduceOnPlateau::step(double value) {
  const double margin = std::isinf(best_) ? 0 : options_.threshold * std::abs(best_);
  const bool better = options_.larger_is_better ? value > best_ + margin : value < best_ - margin;
  if (better) best_ = value;
  if (resting_ > 0) {
    --resting_;
    waited_ = 0;
    return;
  }
  waited_ = better ? 0 : waited_ + 1;
  if (waited_ <= options_.patience) return;
  // A rate below the minimum is kept.
  const double rate = optimizer_->learning_rate(), reduced = std::max(rate * options_.factor, options_.minimum);
  if (reduced < rate) optimizer_->set_learning_rate(reduced);
  resting_ = options_.cooldown;
  waited_ = 0;
}

nn::State ReduceOnPlateau::state() const {
  return {{"best", full({1}, best_, DType::float64)},
          {"resting", tensor(std::vector{resting_}, {1})},
          {"waited", tensor(std::vector{waited_}, {1})}};
}

void ReduceOnPlateau::load_state(const nn::State& state) {
  std::vector<nn::NamedTensor> own;
  for (const auto& [name, tensor] : this->state()) own.push_back({name, tensor});
  nn::load_tensors("load_state: the state does not fit this ReduceOnPlateau", own, state);
  best_ = own[0].tensor.item();
  resting_ = own[1].tensor.to_vector<std::int64_t>()[0];
  waited_ = own[2].tensor.to_vector<std::int64_t>()[0];
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

std::vector<Step::Change> Scheduler::changes(std::int64_t steps) const {
  expects(steps > 0, "scheduler: ", steps, " steps are no loop");
  std::vector<double> rates;
  for (std::int64_t i = 0; i < steps; ++i) rates.push_back(start_ * schedule_(position_ + i));
  return optimizer_->rate_changes(rates);
}

}  // namespace tern::optim
