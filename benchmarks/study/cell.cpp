#include "cell.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>

#include "format.hpp"
#include "nets.hpp"

namespace tern::study {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

bool same_row(const CellKey& a, const CellKey& b) {
  return a.net == b.net && a.mode == b.mode && a.precision == b.precision;
}

// Smaller measured batches of the cell's row, the largest last.
std::vector<const Cell*> measured_below(const CellKey& key, const std::vector<Cell>& before) {
  std::vector<const Cell*> result;
  for (const Cell& cell : before)
    if (same_row(cell.key, key) && cell.key.batch < key.batch && cell.time.median > 0) result.push_back(&cell);
  std::sort(result.begin(), result.end(), [](const Cell* a, const Cell* b) { return a->key.batch < b->key.batch; });
  return result;
}

// The memory that the mode can still allocate; 0: unknown.
double bytes_available(const Memory& memory) {
  const MemoryStatistics statistics = memory.statistics();
  if (statistics.limit > 0)
    return static_cast<double>(statistics.limit - std::min(statistics.limit, statistics.in_use));
  if (!memory.host_accessible()) return 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) return 1024 * std::stod(line.substr(13));
  return 0;
}

Spread spread_of(std::vector<double> values, std::size_t skipped) {
  values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::min(skipped, values.size())));
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double quantile) {
    const double place = quantile * static_cast<double>(values.size() - 1);
    const auto low = static_cast<std::size_t>(place);
    const std::size_t high = std::min(low + 1, values.size() - 1);
    return values[low] + (values[high] - values[low]) * (place - static_cast<double>(low));
  };
  return {at(0.5), at(0.1), at(0.9)};
}

std::vector<Transfer> per_step(const std::vector<Transfer>& moved, std::int64_t steps) {
  std::vector<Transfer> result = moved;
  for (Transfer& transfer : result) {
    transfer.count = (transfer.count + steps - 1) / steps;
    transfer.bytes /= steps;
  }
  return result;
}

class Training {
 public:
  Training(Cell& cell, const CellInput& input)
      : cell_(cell),
        input_(input),
        device_(cell.key.mode, {.threads = input.setting.threads, .precision = precision_of(cell.key.precision)}),
        net_(make_net(cell.key.net, input.setting)),
        sgd_(net_->parameters(),
             {.learning_rate = learning_rate(input.setting, cell.key.batch), .momentum = 0.9, .weight_decay = 5e-4}) {}

  void run(Clock::time_point began) {
    const Setting& setting = input_.setting;
    const data::DataLoader loader(
        input_.images, {.batch_size = cell_.key.batch, .seed = setting.seed, .drop_last = true, .prefetch = 0});
    cell_.per_epoch = loader.batches();
    std::int64_t steps = cell_.per_epoch * setting.epochs;
    if (setting.steps > 0) steps = std::min(steps, setting.steps);
    // A mode that records runs two steps eagerly (the first creates the momenta), records the third and replays from
    // then on.
    cell_.warm_up = std::min<std::int64_t>(device_.mode().capture != nullptr ? 3 : 1, steps - 1);
    Step step([this](const Tensor& x, const Tensor& labels) { return train(x, labels); });
    manual_seed(setting.seed);
    cell_.status = Status::complete;
    for (int epoch = 0; epoch < setting.epochs && std::ssize(cell_.loss) < steps; ++epoch)
      for (const data::Batch& batch : loader.epoch(epoch)) {
        if (std::ssize(cell_.loss) == cell_.warm_up) reset_transfers();
        one_step(step, batch);
        if (input_.stop && input_.stop()) throw Interrupted();
        const std::int64_t done = std::ssize(cell_.loss);
        if (done >= steps) break;
        if (input_.seconds > 0 && seconds_since(began) > input_.seconds && done > cell_.warm_up) {
          cell_.status = Status::cut;
          cell_.note =
              message("cut after ", count(done), " of ", count(steps), " steps, ", duration(seconds_since(began)));
          epoch = setting.epochs;
          break;
        }
      }
    const std::int64_t measured = std::ssize(cell_.loss) - cell_.warm_up;
    cell_.transfers = per_step(transfers(), measured);
    cell_.time = spread_of(cell_.step, static_cast<std::size_t>(cell_.warm_up));
    cell_.move_time = spread_of(cell_.move, static_cast<std::size_t>(cell_.warm_up));
    cell_.peak_bytes = static_cast<double>(device_.mode().memory->statistics().peak);
  }

  // One step outside a Step, because a replay has no operators; the first one warms up what the Step did not.
  void profile(Clock::time_point began) {
    const double limit = input_.seconds;
    const bool records = device_.mode().capture != nullptr;
    if (limit > 0 && seconds_since(began) + cell_.time.median * (records ? 2 : 1) > 1.5 * limit) return;
    const data::Batch batch =
        *data::DataLoader(input_.images, {.batch_size = cell_.key.batch, .prefetch = 0}).epoch(0).begin();
    batch.images.storage().read(current_scope());
    batch.labels.storage().read(current_scope());
    if (records) train(batch.images, batch.labels);
    device_.synchronize();
    Profile profile;
    train(batch.images, batch.labels);
    device_.synchronize();
    profile.stop();
    cell_.profile = profile.table(input_.roofline);
  }

 private:
  Tensor train(const Tensor& images, const Tensor& labels) {
    Tensor loss = net_->loss(images, labels);
    sgd_.zero_grad();
    loss.backward();
    sgd_.step();
    return loss;
  }

  void one_step(Step& step, const data::Batch& batch) {
    auto start = Clock::now();
    batch.images.storage().read(current_scope());
    batch.labels.storage().read(current_scope());
    device_.synchronize();
    cell_.move.push_back(seconds_since(start));
    start = Clock::now();
    const Tensor loss = step(batch.images, batch.labels);
    device_.synchronize();
    cell_.step.push_back(seconds_since(start));
    cell_.loss.push_back(loss.item());
  }

  Cell& cell_;
  const CellInput& input_;
  Device device_;
  std::shared_ptr<models::ImageClassifier> net_;
  optim::SGD sgd_;
};

// Whether the time or the memory is known to run out; then the cell records that and need not run.
bool is_hopeless(Cell& cell, const CellInput& input, const Memory& memory) {
  const double step = predict_seconds(cell.key, input.before);
  if (input.seconds > 0 && 2 * step > input.seconds) {
    cell.status = Status::too_slow;
    cell.predicted_seconds = step;
    cell.note = message("not run: one step would take about ", duration(step, 2), ", by the smaller batches");
    return true;
  }
  const double bytes = predict_bytes(cell.key, input), available = bytes_available(memory);
  if (available > 0 && bytes > 1.1 * available) {
    cell.status = Status::does_not_fit;
    cell.note = message("does not fit, predicted: needs about ", study::bytes(bytes), ", ", study::bytes(available),
                        " are free");
    return true;
  }
  return false;
}

}  // namespace

double learning_rate(const Setting& setting, std::int64_t batch) {
  return setting.learning_rate * std::min(1.0, static_cast<double>(batch) / 32);
}

double predict_bytes(const CellKey& key, const CellInput& input) {
  const std::vector<const Cell*> known = measured_below(key, input.before);
  const double batch = static_cast<double>(key.batch);
  if (known.size() >= 2) {
    const Cell &a = *known[known.size() - 2], &b = *known.back();
    const double slope = (b.peak_bytes - a.peak_bytes) / static_cast<double>(b.key.batch - a.key.batch);
    return b.peak_bytes + std::max(slope, 0.0) * (batch - static_cast<double>(b.key.batch));
  }
  // Weights, gradients and momenta.
  return input.bytes_per_image > 0 ? 3 * input.parameter_bytes + input.bytes_per_image * batch : 0;
}

double predict_seconds(const CellKey& key, const std::vector<Cell>& before) {
  const std::vector<const Cell*> known = measured_below(key, before);
  if (known.empty()) return 0;
  return known.back()->time.median * static_cast<double>(key.batch) / static_cast<double>(known.back()->key.batch);
}

Cell run_cell(const CellKey& key, const CellInput& input) {
  Cell cell;
  cell.key = key;
  Memory& memory = *mode(key.mode).memory;
  memory.trim();
  const std::size_t before = memory.statistics().in_use;
  const auto began = Clock::now();
  // The limit applies to the cell, in addition to what exists already: the set of images in host memory.
  struct Limit {
    Memory& of;
    ~Limit() { of.set_limit(0); }
  } const limit{memory};
  if (input.setting.memory_limit_gb > 0)
    memory.set_limit(before + static_cast<std::size_t>(input.setting.memory_limit_gb * 1e9));
  if (is_hopeless(cell, input, memory)) return cell;
  memory.reset_peak();
  try {
    Training training(cell, input);
    training.run(began);
    cell.peak_bytes -= static_cast<double>(before);
    training.profile(began);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    const bool memory_ran_out = dynamic_cast<const OutOfMemory*>(&error) != nullptr;
    if (cell.time.median > 0) {
      cell.note += message(cell.note.empty() ? "" : "; ", "no profile: ", error.what());
    } else {
      cell.status = memory_ran_out ? Status::does_not_fit : Status::failed;
      cell.note = memory_ran_out ? message("does not fit: ", error.what()) : error.what();
      for (std::vector<double>* values : {&cell.loss, &cell.step, &cell.move}) values->clear();
    }
  }
  memory.trim();
  cell.seconds = seconds_since(began);
  return cell;
}

}  // namespace tern::study
