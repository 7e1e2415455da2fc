#include "tern/data/loader.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "data/conversion.hpp"
#include "tern/core/create.hpp"
#include "tern/device/mode.hpp"
#include "tern/operators/shape.hpp"

namespace tern::data {

namespace {

// Streams of the seed that no Generator reaches by counting up, so that shuffling shares no numbers with weights.
constexpr std::uint64_t shuffle_streams = std::uint64_t{1} << 62;

}  // namespace

struct DataLoader::State {
  Dataset dataset;  // contiguous
  LoaderOptions options;
  Conversion convert;
  std::once_flag converted;
  Tensor whole;  // every image as float32, once asked for

  State(const Dataset& set, const LoaderOptions& chosen)
      : dataset(set), options(chosen), convert(chosen.mean, chosen.deviation) {
    expects<ShapeError>(options.batch_size >= 1, "DataLoader: expected a batch_size of 1 or more, found ",
                        options.batch_size);
    expects<ShapeError>(options.prefetch >= 0, "DataLoader: expected to prefetch 0 batches or more, found ",
                        options.prefetch);
    dataset.check();
    dataset.images = dataset.images.contiguous();
    dataset.labels = dataset.labels.contiguous();
    if (options.resident) images();
  }

  const Tensor& images() {
    std::call_once(converted, [&] { whole = to_float(dataset.images, options.mean, options.deviation); });
    return whole;
  }

  std::int64_t batches() const {
    const std::int64_t n = dataset.size(), size = options.batch_size;
    return options.drop_last ? n / size : n / size + (n % size != 0);
  }

  std::int64_t begin_of(std::int64_t batch) const { return batch * options.batch_size; }
  std::int64_t end_of(std::int64_t batch) const {
    return std::min(begin_of(batch) + options.batch_size, dataset.size());
  }

  Tensor order(std::int64_t epoch) const {
    if (!options.shuffle) return arange(0, static_cast<double>(dataset.size()));
    Generator generator(options.seed);
    generator.set_position(shuffle_streams + static_cast<std::uint64_t>(epoch));
    return randperm(dataset.size(), generator);
  }

  /// A batch copied together on the host.
  Batch assemble(std::span<const std::int64_t> rows, std::int64_t position) const {
    const auto size = static_cast<std::int64_t>(rows.size());
    Shape shape = dataset.images.shape();
    const std::int64_t row_count = dataset.size() == 0 ? 0 : dataset.images.numel() / dataset.size();
    shape[0] = size;
    Batch batch{.images = Tensor(shape), .labels = Tensor({size}, DType::int64), .size = size, .position = position};
    float* images = batch.images.write<float>().data();
    const auto labels = batch.labels.write<std::int64_t>();
    const auto all_labels = dataset.labels.read<std::int64_t>();
    for (std::size_t i = 0; i < rows.size(); ++i, images += row_count) {
      const std::int64_t row = rows[i];
      labels[i] = all_labels[static_cast<std::size_t>(row)];
      if (dataset.images.dtype() == DType::uint8)
        convert(dataset.images.read<std::uint8_t>().data() + row * row_count, row_count, images);
      else if (row_count > 0)
        std::memcpy(images, dataset.images.read<float>().data() + row * row_count,
                    static_cast<std::size_t>(row_count) * sizeof(float));
    }
    return batch;
  }

  /// A batch gathered in the mode from the resident set; without a shuffle, views of it.
  Batch gather(const Tensor& order, std::int64_t position) {
    const std::int64_t begin = begin_of(position), end = end_of(position);
    Batch batch{.size = end - begin, .position = position};
    if (options.shuffle) {
      const Tensor index = order.slice(0, begin, end);
      batch.images = operators::gather(images(), index);
      batch.labels = operators::gather(dataset.labels, index);
    } else {
      batch.images = images().slice(0, begin, end);
      batch.labels = dataset.labels.slice(0, begin, end);
    }
    return batch;
  }
};

/// What makes the batches of one epoch: on demand, or ahead of demand on a thread.
struct DataLoader::Epoch::Worker {
  std::shared_ptr<State> state;
  Tensor order;
  std::int64_t next, count;
  Batch current;

  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Batch> ready;
  std::exception_ptr problem;
  bool finished = false, stopped = false;

  Worker(std::shared_ptr<State> shared, std::int64_t epoch, std::int64_t first)
      : state(std::move(shared)), order(state->order(epoch)), next(first), count(state->batches()) {
    if (state->options.prefetch == 0 || state->options.resident || next >= count) return;
    try {
      thread = std::thread([this, scope = current_scope()] { run(scope); });
    } catch (const std::system_error&) {
      // No thread to be had: batches are then made when asked for.
    }
  }

  ~Worker() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      stopped = true;
    }
    changed.notify_all();
    thread.join();
  }

  Batch make(std::int64_t position) {
    if (state->options.resident) return state->gather(order, position);
    const std::int64_t begin = state->begin_of(position), end = state->end_of(position);
    return state->assemble(
        order.read<std::int64_t>().subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
        position);
  }

  void run(const Scope& scope) {
    try {
      const Device device(scope);
      for (; next < count; ++next) {
        Batch batch = make(next);
        // To the device from here, beside the work of the consumer.
        if (!device.mode().memory->host_accessible()) {
          batch.images.storage().read(current_scope());
          batch.labels.storage().read(current_scope());
        }
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return stopped || ready.size() < static_cast<std::size_t>(state->options.prefetch); });
        if (stopped) return;
        ready.push_back(std::move(batch));
        lock.unlock();
        changed.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      problem = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex);
      finished = true;
    }
    changed.notify_all();
  }

  bool advance() {
    if (!thread.joinable()) {
      if (next >= count) return false;
      current = make(next++);
      return true;
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return finished || !ready.empty(); });
    if (ready.empty()) {
      if (problem) std::rethrow_exception(std::exchange(problem, nullptr));
      return false;
    }
    current = std::move(ready.front());
    ready.pop_front();
    lock.unlock();
    changed.notify_all();
    return true;
  }
};

DataLoader::DataLoader(const Dataset& dataset, const LoaderOptions& options)
    : state_(std::make_shared<State>(dataset, options)) {}

DataLoader::Epoch DataLoader::epoch(std::int64_t epoch, std::int64_t first_batch) const {
  expects<ShapeError>(epoch >= 0 && first_batch >= 0, "DataLoader: epochs and batches count from 0, found ", epoch,
                      " and ", first_batch);
  return Epoch(std::make_unique<Epoch::Worker>(state_, epoch, first_batch));
}

std::int64_t DataLoader::batches() const { return state_->batches(); }
std::int64_t DataLoader::examples() const {
  return std::min(state_->batches() * state_->options.batch_size, state_->dataset.size());
}
const LoaderOptions& DataLoader::options() const { return state_->options; }
const Dataset& DataLoader::dataset() const { return state_->dataset; }
Tensor DataLoader::order(std::int64_t epoch) const { return state_->order(epoch); }
const Tensor& DataLoader::images() const { return state_->images(); }
const Tensor& DataLoader::labels() const { return state_->dataset.labels; }

DataLoader::Epoch::Epoch(std::unique_ptr<Worker> worker) : worker_(std::move(worker)) {}
DataLoader::Epoch::Epoch(Epoch&&) noexcept = default;
DataLoader::Epoch::~Epoch() = default;
bool DataLoader::Epoch::advance() { return worker_->advance(); }
const Batch& DataLoader::Epoch::current() const { return worker_->current; }

}  // namespace tern::data
