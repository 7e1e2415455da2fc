#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>

#include "tern/data/dataset.hpp"
#include "tern/data/example_source.hpp"
#include "tern/data/share.hpp"

namespace tern::data {

struct LoaderOptions {
  std::int64_t batch_size = 128;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  ///< leave out an incomplete last batch
  int prefetch = 2;        ///< batches that threads prepare ahead; 0: prepared on request
  int workers = 0;  ///< threads that prepare batches; 0: one for a Dataset; for other sources one per core, at most 16
  bool resident =
      false;        ///< convert the whole set once and gather batches in the mode: no transfer of images per batch
  double mean = 0;  ///< see to_float, for a Dataset of uint8 images
  double deviation = 1;
  /// For a source whose examples have no classes: [n, ...] of any dtype. If the source returns the label i, the batch
  /// gets row i. A source that returns the example's number as its label has one row per example.
  Tensor targets = {};
  /// With several ranks: this rank's share of every batch of `batch_size` examples. The order of the examples is the
  /// same for any number of ranks.
  Share share = {};
};

struct Batch {
  Tensor images = {};         ///< float32 [size, ...]; a Dataset with no_classes keeps other dtypes
  Tensor labels = {};         ///< int64 [size]; with no_classes or targets rows of these, [size, ...]
  std::int64_t size = 0;      ///< examples in this batch
  std::int64_t position = 0;  ///< number of this batch in its epoch
  std::int64_t first = 0;     ///< position of its first example in the batch of all ranks; 0 without
                              ///< LoaderOptions::share
  std::int64_t whole = 0;     ///< number of examples in the batch of all ranks
};

/// Batches of a Dataset in memory, or of a source that makes its examples on request. An epoch's content is a function
/// of (seed, epoch) only, whatever the number of workers, so a checkpoint needs only these two and the position. Copies
/// share the data.
class DataLoader {
 public:
  /// Throws as Dataset::check.
  explicit DataLoader(const Dataset& dataset, const LoaderOptions& options = {});
  /// `options.workers` threads read the examples. Throws NumericError for a label outside [0, classes), and ShapeError
  /// for options that apply only to a Dataset (resident, mean, deviation).
  explicit DataLoader(std::shared_ptr<const ExampleSource> source, const LoaderOptions& options = {});
  template <std::derived_from<ExampleSource> Source>
  explicit DataLoader(const Source& source, const LoaderOptions& options = {})
      : DataLoader(std::shared_ptr<const ExampleSource>(std::make_shared<const Source>(source)), options) {}

  class Epoch;
  /// The batches of an epoch, starting at number `first_batch`: `for (const Batch& batch : loader.epoch(e))`. Runs in
  /// the caller's scope. An error in a thread is thrown where its batch is requested and ends the epoch. Examples that
  /// the source leaves out make a batch smaller; an empty batch is skipped. With several ranks no example may be left
  /// out (ShapeError), and a rank without examples gets an empty share.
  Epoch epoch(std::int64_t epoch, std::int64_t first_batch = 0) const;

  /// The number of batches and of examples in one epoch.
  std::int64_t batches() const;
  std::int64_t examples() const;
  const LoaderOptions& options() const;
  /// For a source: labels, classes and origin, without images.
  const Dataset& dataset() const;
  /// int64 [n]: the examples of an epoch in order. A slice of it indexes a batch for `operators::gather`.
  Tensor order(std::int64_t epoch) const;
  /// The whole set as float32, converted once (at the first call unless `resident`), for a Step that gathers its own
  /// batches. Throws ShapeError for a source, whose images are not kept; see `collect`.
  const Tensor& images() const;
  const Tensor& labels() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// One pass over the batches. Leaving it early stops and joins its threads.
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

  /// Takes the first batch. An epoch can be iterated once.
  Iterator begin() { return Iterator(advance() ? this : nullptr); }
  Iterator end() { return Iterator(nullptr); }

 private:
  friend class DataLoader;
  struct Pass;
  explicit Epoch(std::unique_ptr<Pass> pass);
  bool advance();
  const Batch& current() const;
  std::unique_ptr<Pass> pass_;
};

}  // namespace tern::data
