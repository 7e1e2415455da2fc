#pragma once

#include <cstdint>
#include <iterator>
#include <memory>

#include "tern/data/dataset.hpp"

namespace tern::data {

struct LoaderOptions {
  std::int64_t batch_size = 128;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< leave out a last batch that is not full
  int prefetch = 2;        ///< batches prepared ahead by a thread; 0: prepared when asked for
  bool resident =
      false;        ///< convert the whole set once and gather batches in the mode: no transfer of images per batch
  double mean = 0;  ///< of to_float, for uint8 images
  double deviation = 1;
};

struct Batch {
  Tensor images = {};         ///< float32 [size, ...]
  Tensor labels = {};         ///< int64 [size]
  std::int64_t size = 0;      ///< examples in this batch
  std::int64_t position = 0;  ///< number of this batch in its epoch
};

/// Batches of a Dataset. What an epoch holds is a function of (seed, epoch) alone, so a checkpoint needs only the two
/// and the position. Copies share the data.
class DataLoader {
 public:
  /// Throws what Dataset::check throws.
  explicit DataLoader(const Dataset& dataset, const LoaderOptions& options = {});

  class Epoch;
  /// The batches of an epoch from number `first_batch` on: `for (const Batch& batch : loader.epoch(e))`. Runs in the
  /// scope of the caller; what fails in the thread is thrown where the batch is asked for.
  Epoch epoch(std::int64_t epoch, std::int64_t first_batch = 0) const;

  /// Batches of one epoch, and examples that they hold.
  std::int64_t batches() const;
  std::int64_t examples() const;
  const LoaderOptions& options() const;
  const Dataset& dataset() const;
  /// int64 [n]: the examples of an epoch in their order. Sliced, it is the index of a batch for `operators::gather`.
  Tensor order(std::int64_t epoch) const;
  /// The whole set as float32, converted once (at the first call unless `resident`): a Step that gathers for itself
  /// reads these.
  const Tensor& images() const;
  const Tensor& labels() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// One pass over the batches. Leaving it early stops and joins its thread.
class DataLoader::Epoch {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;

    const Batch& operator*() const { return epoch_->current(); }
    const Batch* operator->() const { return &epoch_->current(); }
    Iterator& operator++() {
      if (!epoch_->advance()) epoch_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return epoch_ == other.epoch_; }

   private:
    friend class Epoch;
    explicit Iterator(Epoch* epoch) : epoch_(epoch) {}
    Epoch* epoch_;
  };

  Epoch(Epoch&&) noexcept;
  Epoch& operator=(Epoch&&) = delete;
  ~Epoch();

  /// Takes the first batch. A pass is made once.
  Iterator begin() { return Iterator(advance() ? this : nullptr); }
  Iterator end() { return Iterator(nullptr); }

 private:
  friend class DataLoader;
  struct Worker;
  explicit Epoch(std::unique_ptr<Worker> worker);
  bool advance();
  const Batch& current() const;
  std::unique_ptr<Worker> worker_;
};

}  // namespace tern::data
