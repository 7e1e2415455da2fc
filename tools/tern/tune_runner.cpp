#include "tune_runner.hpp"

#include <algorithm>
#include <cmath>
#include <new>
#include <thread>

#include "errors.hpp"
#include "names.hpp"
#include "progress.hpp"
#include "signals.hpp"
#include "tern/modes/device.hpp"

namespace tern::tool {

const char* name_of(TrialState state) {
  constexpr const char* names[]{"waiting", "running", "paused", "dropped", "done", "failed"};
  return names[static_cast<int>(state)];
}

TuneRunner::TuneRunner(const TunePlan& plan, std::vector<std::shared_ptr<const TrainingData>> data,
                       std::function<void()> watch)
    : plan_(plan), data_(std::move(data)), watch_(std::move(watch)), status_(plan.trials.size()) {}

std::vector<TrialStatus> TuneRunner::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void TuneRunner::change(std::size_t trial, const std::function<void(TrialStatus&)>& edit) {
  const std::lock_guard lock(mutex_);
  edit(status_[trial]);
}

std::vector<std::size_t> ranked(const std::vector<TrialStatus>& all) {
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](std::size_t i) {
    const TrialStatus& status = all[i];
    const double loss = status.validation_loss.value_or(status.loss), accuracy = status.accuracy.value_or(0);
    return std::tuple(status.state == TrialState::failed, status.state == TrialState::dropped, status.epoch == 0,
                      std::isnan(accuracy) ? 0 : -accuracy, std::isnan(loss) ? INFINITY : loss);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

// Epochs after which the better part goes on: R / eta^k, ..., R / eta, R.
std::vector<std::int64_t> TuneRunner::rungs() const {
  std::vector<std::int64_t> found{plan_.epochs};
  if (plan_.halving == 0) return found;
  for (std::size_t left = plan_.trials.size() / static_cast<std::size_t>(plan_.halving); left > 0;
       left /= static_cast<std::size_t>(plan_.halving)) {
    const std::int64_t earlier = found.front() / plan_.halving;
    if (earlier == 0) break;
    found.insert(found.begin(), earlier);
  }
  return found;
}

bool TuneRunner::run() {
  std::vector<std::size_t> going(plan_.trials.size());
  for (std::size_t i = 0; i < going.size(); ++i) going[i] = i;
  const std::vector<std::int64_t> stages = rungs();
  for (const std::int64_t epochs : stages) {
    const bool last = epochs == stages.back();
    if (!run_rung(going, epochs, last)) return false;
    if (last) break;
    // The better ones of this rung go on; at least one.
    const std::size_t keep = std::max<std::size_t>(1, going.size() / static_cast<std::size_t>(plan_.halving));
    std::vector<std::size_t> better;
    for (const std::size_t trial : ranking()) {
      if (std::find(going.begin(), going.end(), trial) == going.end()) continue;
      const TrialState state = status()[trial].state;
      if (state == TrialState::failed) continue;
      if (better.size() < keep)
        better.push_back(trial);
      else
        change(trial, [](TrialStatus& status) { status.state = TrialState::dropped; });
    }
    std::sort(better.begin(), better.end());
    going = std::move(better);
    watch_();
  }
  return true;
}

bool TuneRunner::run_rung(const std::vector<std::size_t>& trials, std::int64_t epochs, bool last) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < trials.size() && SignalGuard::received() == 0; i = next++)
      run_trial(trials[i], epochs, last);
  };
  std::vector<std::jthread> workers;
  for (std::size_t i = 0; i < std::min(plan_.jobs, trials.size()); ++i) workers.emplace_back(work);
  workers.clear();  // joins
  return SignalGuard::received() == 0;
}

// A trial that fails says why, and the others go on.
void TuneRunner::run_trial(std::size_t trial, std::int64_t epochs, bool last) {
  change(trial, [](TrialStatus& status) { status.state = TrialState::running; });
  watch_();
  const double began = seconds_now();
  std::string problem;
  try {
    train(trial, epochs, last);
  } catch (const std::bad_alloc&) {
    problem = "memory ran out";
  } catch (const std::exception& error) {
    problem = error.what();
  }
  change(trial, [&](TrialStatus& status) {
    status.seconds += seconds_now() - began;
    if (problem.empty()) return;
    status.state = TrialState::failed;
    status.problem = problem;
  });
  watch_();
}

void TuneRunner::train(std::size_t trial, std::int64_t epochs, bool last) {
  Settings settings = plan_.settings[trial];
  const Options options = training_options(settings);
  DeviceOptions place = device_options(settings);
  place.threads = plan_.threads;
  const Device device{settings.mode, place};
  RunSession session(settings, options, {});
  Training training(settings, *data_[trial]);
  session.start(training, *data_[trial]);
  const auto tell = [&](const EpochResult& result) {
    change(trial, [&](TrialStatus& status) {
      status.epoch = result.epoch;
      status.loss = result.loss;
      status.validation_loss = result.validation_loss;
      status.accuracy = result.validation_accuracy ? *result.validation_accuracy : result.accuracy;
    });
    watch_();
  };
  // A search that is taken up again decides by what it knew then.
  const auto known = std::min(static_cast<std::int64_t>(training.history().size()), epochs);
  if (known > 0) tell(training.history()[static_cast<std::size_t>(known - 1)]);
  Training::Hooks hooks;
  hooks.step = [&](const Position& position, const Tensor& loss) { session.stepped(position, loss); };
  hooks.epoch = [&](const EpochResult& result) {
    session.epoch_done(result);
    tell(result);
  };
  hooks.refit = [&](const Position& position) { session.refitting(position); };
  hooks.stop = [] { return SignalGuard::received() != 0; };
  const Ended ended = training.run(std::min(epochs, *settings.epochs), hooks);
  TrialState state = TrialState::done;
  if (ended == Ended::interrupted) {
    session.interrupt();
    state = TrialState::paused;
  } else if (last || ended == Ended::stopped_early || training.position().epoch == *settings.epochs) {
    const Finished finished = session.finish(ended);
    EpochResult result = training.kept();
    if (finished.validation) {
      result.validation_loss = finished.validation->loss;
      result.validation_accuracy = finished.validation->accuracy;
    }
    if (result.best) tell(result);
  } else {
    session.pause();
    state = TrialState::paused;
  }
  change(trial, [&](TrialStatus& status) { status.state = state; });
}

}  // namespace tern::tool
