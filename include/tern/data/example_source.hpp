#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tern/core/random.hpp"
#include "tern/data/dataset.hpp"

namespace tern::data {

/// Labelled examples that are made on request: a DataLoader reads them on its worker threads, ahead of the training
/// loop. Derive from it to provide your own data.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;

  /// The number of examples, and of different labels.
  virtual std::int64_t size() const = 0;
  virtual std::int64_t classes() const = 0;
  /// Shape of one example, without the batch dimension.
  virtual Shape shape() const = 0;
  /// The label of an example, in [0, classes).
  virtual std::int64_t label(std::int64_t index) const = 0;
  /// Where the examples come from, for messages.
  virtual std::string name() const = 0;

  /// Writes example `index` to all of `to`, row-major, and returns its label; returns no value to leave the example
  /// out. `draw` provides the random numbers of this example in this epoch, a function of (seed, epoch, index). Use no
  /// others, and the bits are the same for any number of threads. Several threads call this at once. Throws FileError
  /// for an example that cannot be read.
  virtual std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw,
                                           std::span<float> to) const = 0;

 protected:
  ExampleSource() = default;
  ExampleSource(const ExampleSource&) = default;
  ExampleSource& operator=(const ExampleSource&) = default;
};

/// Selected examples of another source, in any order; an index may occur twice.
class Subset final : public ExampleSource {
 public:
  /// Throws ShapeError for an index outside the source.
  Subset(std::shared_ptr<const ExampleSource> source, std::vector<std::int64_t> indices);

  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  std::int64_t classes() const override { return source_->classes(); }
  Shape shape() const override { return source_->shape(); }
  std::int64_t label(std::int64_t index) const override { return source_->label(at(index)); }
  std::string name() const override;
  std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw, std::span<float> to) const override {
    return source_->read(at(index), draw, to);
  }

 private:
  std::int64_t at(std::int64_t index) const { return indices_.at(static_cast<std::size_t>(index)); }

  std::shared_ptr<const ExampleSource> source_;
  std::vector<std::int64_t> indices_;
};

/// Another source in which the next readable example of the same class, in source order, replaces one that is left out:
/// every batch keeps its size, so that a Step replays. Around a Subset, replacements come from the Subset only.
class Replacing final : public ExampleSource {
 public:
  /// Throws ShapeError for null.
  explicit Replacing(std::shared_ptr<const ExampleSource> source);

  std::int64_t size() const override { return source_->size(); }
  std::int64_t classes() const override { return source_->classes(); }
  Shape shape() const override { return source_->shape(); }
  std::int64_t label(std::int64_t index) const override { return source_->label(index); }
  std::string name() const override { return source_->name(); }
  /// Throws FileError if no example of the class can be read.
  std::optional<std::int64_t> read(std::int64_t index, const random::Words& draw, std::span<float> to) const override;

 private:
  std::shared_ptr<const ExampleSource> source_;
};

/// All examples of a source, as they are in epoch 0 of seed 0, as float32 in memory: for sets small enough to stay on
/// the device (LoaderOptions::resident). Examples that the source leaves out are missing.
Dataset collect(const ExampleSource& source);

}  // namespace tern::data
