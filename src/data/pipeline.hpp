#pragma once
// The threads behind a DataLoader.

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "tern/data/loader.hpp"
#include "tern/modes/device.hpp"

namespace tern::data {

/// One batch while threads read its examples, in any order.
class Assembly {
 public:
  /// Allocates the batch. `rows` are the examples and must outlive this.
  Assembly(const ExampleSource& source, std::span<const std::int64_t> rows, std::int64_t position);

  /// Reads rows [begin, end). Keeps errors for `finish`.
  void read(const ExampleSource& source, std::int64_t begin, std::int64_t end, std::uint64_t seed, std::int64_t epoch);
  /// Closes the gaps of skipped examples; throws the first error in row order.
  Batch finish();

 private:
  std::span<const std::int64_t> rows_;
  Batch batch_;
  float* images_ = nullptr;
  std::int64_t* labels_ = nullptr;
  std::int64_t row_count_ = 0;  // elements per example
  std::vector<std::uint8_t> kept_;
  std::mutex failing_;
  std::exception_ptr failure_;
  std::int64_t failed_row_ = 0;
};

/// Makes the batches [first, count) of an epoch ahead of the consumer, on threads that share the examples of each
/// batch.
class Pipeline {
 public:
  struct Plan {
    std::shared_ptr<const ExampleSource> source;
    Tensor order;  // int64 [n], the examples of the epoch
    std::int64_t first = 0, count = 0, batch_size = 1;
    Share share = {};
    std::uint64_t seed = 0;
    std::int64_t epoch = 0;
    int workers = 1, prefetch = 1;
    std::int64_t grain = 1;  // examples that a thread takes at a time
  };

  explicit Pipeline(const Plan& plan);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;
  ~Pipeline();

  /// Returns the next batch that is not empty (or any, with several ranks); false at the end. An exception ends the
  /// epoch.
  bool next(Batch& batch);

 private:
  struct Job;

  Batch make(std::int64_t position) const;
  Batch finish(Assembly& assembly) const;
  bool shared() const { return plan_.share.ranks > 1 || plan_.share.shards > 1; }
  std::int64_t whole_of(std::int64_t position) const;  // examples of a batch, over all ranks
  std::span<const std::int64_t> rows_of(std::int64_t position) const;
  void work(const Scope& scope);
  Job* take(std::int64_t& begin, std::int64_t& end);
  void close(Job& job);
  void stop();

  Plan plan_;
  std::int64_t opened_, delivered_;  // batches before these are being made, and were delivered
  std::mutex mutex_;
  std::condition_variable work_to_do_, batch_ready_;
  std::deque<std::unique_ptr<Job>> jobs_;  // batches [delivered_, opened_)
  std::exception_ptr failure_;             // of a thread, not of a batch
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tern::data
