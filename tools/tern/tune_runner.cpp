#include "tune_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <new>
#include <optional>
#include <thread>
#include <typeinfo>

#include "errors.hpp"
#include "names.hpp"
#include "progress.hpp"
#include "tern/modes/device.hpp"
#include "tern/training/signal_guard.hpp"
#include "text.hpp"
#include "trial_files.hpp"

namespace tern::tool {

namespace {

// An Error of no derived class comes from the device's runtime.
bool is_of_device(const std::exception& error, const std::string& device) {
  if (dynamic_cast<const DeviceUnavailable*>(&error) != nullptr) return true;
  return typeid(error) == typeid(Error) && device != "auto" && !mode(device).on_host();
}

}  // namespace

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
                      std::isnan(accuracy) ? INFINITY : -accuracy, std::isnan(loss) ? INFINITY : loss);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  return order;
}

// Epochs after which the better fraction continues: R / eta^k, ..., R / eta, R.
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
    // The better ones of this rung continue; at least one.
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

/// Trials that are trained up to this many epochs, in order.
struct TuneRunner::Rung {
  std::int64_t epochs = 0;
  bool last = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::size_t> waiting;          // until a process takes or finishes them
  std::size_t running = 0;                   // in this process
  std::exception_ptr failure;                // of the last device, or of the other processes
  std::filesystem::file_time_type latest{};  // when a trial of another process progressed, by the file system's clock
  double moved = 0;                          // when that was noticed here
};

struct TuneRunner::Taken {
  std::optional<std::size_t> trial = {};
  std::unique_ptr<TrialClaim> claim = {};
};

bool TuneRunner::run_rung(const std::vector<std::size_t>& trials, std::int64_t epochs, bool last) {
  Rung rung;
  rung.epochs = epochs;
  rung.last = last;
  rung.waiting = trials;
  std::vector<std::jthread> workers;
  const std::size_t most = std::min(plan_.jobs * plan_.devices.size(), trials.size());
  for (std::size_t i = 0; i < most; ++i)
    workers.emplace_back([&, i] { work(rung, plan_.devices[i % plan_.devices.size()]); });
  workers.clear();  // joins
  if (rung.failure) std::rethrow_exception(rung.failure);
  return training::SignalGuard::received() == 0;
}

// The next free trial; none if all have arrived, or on a signal.
TuneRunner::Taken TuneRunner::take(Rung& rung) {
  constexpr std::chrono::milliseconds glance{50};  // between looks at other processes
  std::unique_lock lock(rung.mutex);
  while (training::SignalGuard::received() == 0 && !rung.failure) {
    for (auto next = rung.waiting.begin(); next != rung.waiting.end();) {
      Taken taken{*next};
      std::optional<TrialStatus> outcome;
      if (plan_.shared) {
        const std::string& folder = plan_.settings[*next].run;
        outcome = read_outcome(folder, rung.epochs);
        if (!outcome) {
          taken.claim = std::make_unique<TrialClaim>(folder);
          if (!*taken.claim) {
            change(*next++, [](TrialStatus& status) { status.state = TrialState::running; });
            continue;
          }
          outcome = read_outcome(folder, rung.epochs);  // it may have ended meanwhile
        }
      }
      next = rung.waiting.erase(next);
      if (!outcome) {
        ++rung.running;
        rung.moved = 0;
        return taken;
      }
      change(*taken.trial, [&](TrialStatus& status) { status = *outcome; });
      watch_();
    }
    if (rung.waiting.empty() && rung.running == 0) break;
    if (plan_.shared && rung.running == 0) look_after_others(rung);
    rung.changed.wait_for(lock, glance);
  }
  return {};
}

// Working processes write their metrics. A stopped process keeps its claim and would be awaited forever.
void TuneRunner::look_after_others(Rung& rung) const {
  std::filesystem::file_time_type latest{};
  for (const std::size_t trial : rung.waiting) {
    std::error_code missing;
    const auto written = std::filesystem::last_write_time(RunFolder::metrics_in(plan_.settings[trial].run), missing);
    if (!missing) latest = std::max(latest, written);
  }
  const double now = seconds_now();
  if (rung.moved == 0 || latest != rung.latest) {
    rung.latest = latest;
    rung.moved = now;
  } else if (plan_.limit > 0 && now - rung.moved > static_cast<double>(plan_.limit)) {
    rung.failure = std::make_exception_ptr(ParallelError(
        message(plan_.settings[rung.waiting.front()].run, ", which another process has claimed, has not moved for ",
                plan_.limit, " s (--rank-limit)")));
  }
}

void TuneRunner::work(Rung& rung, const std::string& device) {
  for (bool works = true; works;) {
    const Taken taken = take(rung);
    if (!taken.trial) return;
    works = run_trial(*taken.trial, rung, device);
    const std::lock_guard lock(rung.mutex);
    if (!works) rung.waiting.insert(rung.waiting.begin(), *taken.trial);
    --rung.running;
    rung.changed.notify_all();
  }
}

// A trial that fails reports why, and the others continue. False if the device failed and is unusable.
bool TuneRunner::run_trial(std::size_t trial, Rung& rung, const std::string& device) {
  change(trial, [](TrialStatus& status) { status.state = TrialState::running; });
  watch_();
  const double began = seconds_now();
  std::string problem;
  bool works = true;
  try {
    train(trial, rung, device);
  } catch (const std::bad_alloc&) {
    problem = "memory ran out";
  } catch (const std::exception& error) {
    problem = error.what();
    works = !is_of_device(error, device) || !can_leave(rung, device);
  }
  TrialStatus now;
  change(trial, [&](TrialStatus& status) {
    status.seconds += seconds_now() - began;
    if (!works) {
      status.state = TrialState::waiting;
    } else if (!problem.empty()) {
      status.state = TrialState::failed;
      status.problem = problem;
    }
    now = status;
  });
  if (!works) say(message("tern: ", device, " takes no more trials: ", problem));
  // A trial that a signal stopped is not at the end of a rung.
  if (works && plan_.shared && training::SignalGuard::received() == 0)
    write_outcome(plan_.settings[trial].run, rung.epochs, now);
  watch_();
  return works;
}

// Called while its error is handled: whether another device or process continues the trials of a failed device.
bool TuneRunner::can_leave(Rung& rung, const std::string& device) {
  const std::lock_guard lock(rung.mutex);
  broken_.insert(device);
  const bool others = std::ranges::any_of(plan_.devices, [&](const auto& name) { return !broken_.contains(name); });
  if (!others && plan_.shared) rung.failure = std::current_exception();
  return others || plan_.shared;
}

void TuneRunner::train(std::size_t trial, const Rung& rung, const std::string& device_name) {
  Settings settings = plan_.settings[trial];
  const Options options = training_options(settings);
  DeviceOptions place = device_options(settings);
  place.threads = plan_.threads;
  const Device device{device_name, place};
  RunSession session(settings, options, {});
  Training training(settings, *data_[trial]);
  session.start(training, *data_[trial]);
  const auto tell = [&](const training::EpochResult& result) {
    change(trial, [&](TrialStatus& status) {
      status.epoch = result.epoch;
      status.loss = result.loss;
      status.validation_loss = result.validation_loss;
      status.accuracy = result.validation_accuracy ? *result.validation_accuracy : result.accuracy;
    });
    watch_();
  };
  // A resumed search decides by what it knew then.
  const auto known = std::min(static_cast<std::int64_t>(training.history().size()), rung.epochs);
  if (known > 0) tell(training.history()[static_cast<std::size_t>(known - 1)]);
  Training::Hooks hooks;
  hooks.step = [&](const Position& position, const Tensor& loss) { session.stepped(position, loss); };
  hooks.epoch = [&](const EpochResult& result) {
    session.epoch_done(result);
    tell(result);
  };
  hooks.refit = [&](const Position& position) { session.refitting(position); };
  hooks.stop = [] { return training::SignalGuard::received() != 0; };
  const Ended ended = training.run(std::min(rung.epochs, *settings.epochs), hooks);
  TrialState state = TrialState::done;
  if (ended == Ended::interrupted) {
    session.interrupt();
    state = TrialState::paused;
  } else if (rung.last || ended == Ended::stopped_early || training.position().epoch == *settings.epochs) {
    const RunResult finished = session.finish(ended);
    training::EpochResult result = training.kept();
    if (finished.evaluation) {
      const Evaluation& found = *finished.evaluation;
      const double quality = found.regression ? found.regression->r2 : found.figures.accuracy;
      if (data_[trial]->three_way()) {
        change(trial, [&](TrialStatus& status) { status.test = quality; });
      } else {
        result.validation_loss = found.loss;
        result.validation_accuracy = quality;
      }
    }
    if (result.best) tell(result);
  } else {
    session.pause();
    state = TrialState::paused;
  }
  change(trial, [&](TrialStatus& status) { status.state = state; });
}

}  // namespace tern::tool
