#include "data/pipeline.hpp"

#include <algorithm>
#include <cstring>
#include <system_error>
#include <utility>

#include "data/streams.hpp"
#include "tern/modes/mode.hpp"

namespace tern::data {

// ---- one batch -----------------------------------------------------------------------------------------------------

Assembly::Assembly(const ExampleSource& source, std::span<const std::int64_t> rows, std::int64_t position)
    : rows_(rows), row_count_(element_count(source.shape())), kept_(rows.size()) {
  const auto size = static_cast<std::int64_t>(rows.size());
  Shape shape{size};
  for (const std::int64_t extent : source.shape()) shape.push_back(extent);
  batch_ = {.images = Tensor(shape), .labels = Tensor({size}, DType::int64), .size = size, .position = position};
  images_ = batch_.images.write<float>().data();
  labels_ = batch_.labels.write<std::int64_t>().data();
}

void Assembly::read(const ExampleSource& source, std::int64_t begin, std::int64_t end, std::uint64_t seed,
                    std::int64_t epoch) {
  std::int64_t row = begin;
  try {
    for (; row < end; ++row) {
      const std::int64_t index = rows_[static_cast<std::size_t>(row)];
      const random::Words draw = random::philox(seed, static_cast<std::uint64_t>(index),
                                                streams::examples + static_cast<std::uint64_t>(epoch));
      const auto label =
          source.read(index, draw, std::span(images_ + row * row_count_, static_cast<std::size_t>(row_count_)));
      kept_[static_cast<std::size_t>(row)] = label.has_value();
      labels_[row] = label.value_or(0);
    }
  } catch (...) {
    const std::lock_guard lock(failing_);
    if (!failure_ || row < failed_row_) {
      failure_ = std::current_exception();
      failed_row_ = row;
    }
  }
}

Batch Assembly::finish() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  std::int64_t kept = 0;
  for (std::int64_t row = 0; row < batch_.size; ++row) {
    if (!kept_[static_cast<std::size_t>(row)]) continue;
    if (kept < row && row_count_ > 0)
      std::memcpy(images_ + kept * row_count_, images_ + row * row_count_,
                  static_cast<std::size_t>(row_count_) * sizeof(float));
    labels_[kept++] = labels_[row];
  }
  if (kept < batch_.size) {
    batch_.images = batch_.images.slice(0, 0, kept);
    batch_.labels = batch_.labels.slice(0, 0, kept);
    batch_.size = kept;
  }
  return std::move(batch_);
}

// ---- all batches of an epoch ---------------------------------------------------------------------------------------

struct Pipeline::Job {
  std::unique_ptr<Assembly> assembly;
  std::int64_t size = 0;                  // examples, of which ...
  std::int64_t handed_out = 0, read = 0;  // ... these were handed to threads, and these are done
  Batch batch;
  std::exception_ptr failure;
  bool ready = false;
};

Pipeline::Pipeline(const Plan& plan) : plan_(plan), opened_(plan.first), delivered_(plan.first) {
  if (plan_.prefetch == 0 || plan_.first >= plan_.count) return;
  plan_.order.read<std::int64_t>();  // on the host before several threads read it
  try {
    for (int i = 0; i < plan_.workers; ++i) threads_.emplace_back([this, scope = current_scope()] { work(scope); });
  } catch (const std::system_error&) {
    // No more threads available: those that exist do the work; without any, batches are made on request.
  }
}

Pipeline::~Pipeline() {
  {
    const std::lock_guard lock(mutex_);
    stop();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Pipeline::stop() {
  stopped_ = true;
  delivered_ = plan_.count;
  work_to_do_.notify_all();
}

std::span<const std::int64_t> Pipeline::rows_of(std::int64_t position) const {
  const auto order = plan_.order.read<std::int64_t>();
  const Rows rows = plan_.share.rows(whole_of(position));
  return order.subspan(static_cast<std::size_t>(position * plan_.batch_size + rows.begin),
                       static_cast<std::size_t>(rows.size()));
}

std::int64_t Pipeline::whole_of(std::int64_t position) const {
  return std::min(plan_.batch_size, plan_.order.numel() - position * plan_.batch_size);
}

Batch Pipeline::make(std::int64_t position) const {
  Assembly assembly(*plan_.source, rows_of(position), position);
  assembly.read(*plan_.source, 0, static_cast<std::int64_t>(rows_of(position).size()), plan_.seed, plan_.epoch);
  return finish(assembly);
}

// Ranks divide examples by position, so a gap would move examples from one rank to another.
Batch Pipeline::finish(Assembly& assembly) const {
  Batch batch = assembly.finish();
  batch.whole = shared() ? whole_of(batch.position) : batch.size;
  const Rows rows = plan_.share.rows(batch.whole);
  batch.first = rows.begin;
  expects<ShapeError>(
      batch.size == rows.size(), plan_.source->name(),
      ": examples were left out, which is not possible with several ranks or shards; use data::Replacing");
  return batch;
}

// Examples of the first batch that has any left; opens the next batch if there is room. Called under the lock.
Pipeline::Job* Pipeline::take(std::int64_t& begin, std::int64_t& end) {
  Job* job = nullptr;
  for (const auto& candidate : jobs_)
    if (candidate->handed_out < candidate->size) {
      job = candidate.get();
      break;
    }
  if (job == nullptr) {
    if (opened_ >= plan_.count || jobs_.size() >= static_cast<std::size_t>(plan_.prefetch)) return nullptr;
    const auto rows = rows_of(opened_);
    auto opening = std::make_unique<Job>();
    opening->assembly = std::make_unique<Assembly>(*plan_.source, rows, opened_);
    opening->size = static_cast<std::int64_t>(rows.size());
    job = jobs_.emplace_back(std::move(opening)).get();
    ++opened_;
    work_to_do_.notify_all();
  }
  begin = job->handed_out;
  end = job->handed_out = std::min(begin + plan_.grain, job->size);
  return job;
}

// The last example of a batch has been read. Called without the lock by the thread that read it.
void Pipeline::close(Job& job) {
  try {
    job.batch = finish(*job.assembly);
    // Moves to the device here, concurrently with the consumer's work.
    if (job.batch.size > 0 && !current_scope().mode->on_host()) {
      job.batch.images.storage().read(current_scope());
      job.batch.labels.storage().read(current_scope());
    }
  } catch (...) {
    job.failure = std::current_exception();
  }
}

void Pipeline::work(const Scope& scope) {
  try {
    const Device device(scope);
    std::unique_lock lock(mutex_);
    while (true) {
      Job* job = nullptr;
      std::int64_t begin = 0, end = 0;
      work_to_do_.wait(lock, [&] {
        if (stopped_) return true;
        job = take(begin, end);
        return job != nullptr || opened_ >= plan_.count;
      });
      if (stopped_ || job == nullptr) return;
      lock.unlock();
      job->assembly->read(*plan_.source, begin, end, plan_.seed, plan_.epoch);
      lock.lock();
      job->read += end - begin;
      if (job->read < job->size) continue;
      lock.unlock();
      close(*job);
      lock.lock();
      job->ready = true;
      batch_ready_.notify_one();
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    stopped_ = true;
    work_to_do_.notify_all();
    batch_ready_.notify_one();
  }
}

bool Pipeline::next(Batch& batch) {
  while (delivered_ < plan_.count) {
    if (threads_.empty()) {
      const std::int64_t position = std::exchange(delivered_, plan_.count);
      batch = make(position);
      delivered_ = position + 1;
    } else {
      std::unique_lock lock(mutex_);
      batch_ready_.wait(lock, [&] { return failure_ || (!jobs_.empty() && jobs_.front()->ready); });
      const bool ready = !jobs_.empty() && jobs_.front()->ready;
      const std::exception_ptr failure = ready ? jobs_.front()->failure : failure_;
      if (failure) {
        stop();
        std::rethrow_exception(failure);
      }
      batch = std::move(jobs_.front()->batch);
      jobs_.pop_front();
      ++delivered_;
      work_to_do_.notify_all();
    }
    if (batch.size > 0 || shared()) return true;
  }
  return false;
}

}  // namespace tern::data
