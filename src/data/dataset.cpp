#include "tern/data/dataset.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "data/conversion.hpp"
#include "data/streams.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/indexing.hpp"
#include "tern/tensor/create.hpp"

namespace tern::data {

Dataset Dataset::take(std::int64_t n) const {
  expects<ShapeError>(n >= 0, "take: expected a number of examples, found ", n);
  Dataset part = *this;
  const std::int64_t count = std::min(n, size());
  part.images = images.slice(0, 0, count);
  part.labels = labels.slice(0, 0, count);
  return part;
}

Dataset Dataset::select(const Tensor& rows) const {
  const Device host(reference_mode());
  Dataset part = *this;
  part.images = operators::index_select(images, 0, rows);
  part.labels = operators::index_select(labels, 0, rows);
  return part;
}

namespace {

// All positions, in an order drawn by the seed.
std::vector<std::int64_t> drawn_order(std::size_t count, std::uint64_t seed) {
  Generator generator(seed);
  generator.set_position(streams::split);
  return randperm(static_cast<std::int64_t>(count), generator).to_vector<std::int64_t>();
}

SplitRows rows_by(const std::vector<bool>& held) {
  SplitRows rows;
  for (std::size_t i = 0; i < held.size(); ++i)
    (held[i] ? rows.validation : rows.train).push_back(static_cast<std::int64_t>(i));
  return rows;
}

// For numeric targets, all examples are one class.
Split parts_of(const Dataset& dataset,
               const std::function<SplitRows(std::span<const std::int64_t> labels, std::int64_t classes)>& divide) {
  dataset.check();
  const bool numbers = dataset.classes == no_classes;
  const auto labels = numbers ? std::vector<std::int64_t>(static_cast<std::size_t>(dataset.size()))
                              : dataset.labels.to_vector<std::int64_t>();
  const SplitRows rows = divide(labels, numbers ? 1 : dataset.classes);
  const auto part = [&](const std::vector<std::int64_t>& chosen) {
    return dataset.select(tensor(chosen, {static_cast<std::int64_t>(chosen.size())}));
  };
  return {part(rows.train), part(rows.validation)};
}

}  // namespace

SplitRows split_rows(std::span<const std::int64_t> labels, std::int64_t classes, double share, std::uint64_t seed) {
  expects<NumericError>(share >= 0 && share < 1, "split: expected a share in [0, 1), found ", share);
  const std::vector<std::int64_t> order = drawn_order(labels.size(), seed);
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(classes));
  for (const std::int64_t label : labels) ++wanted.at(static_cast<std::size_t>(label));
  for (std::int64_t& examples : wanted) {
    const auto held = static_cast<std::int64_t>(std::llround(share * static_cast<double>(examples)));
    examples = std::min(held, std::max<std::int64_t>(examples - 1, 0));
  }
  std::vector<bool> held(labels.size());
  for (const std::int64_t row : order) {
    std::int64_t& left = wanted[static_cast<std::size_t>(labels[static_cast<std::size_t>(row)])];
    if (left == 0) continue;
    held[static_cast<std::size_t>(row)] = true;
    --left;
  }
  return rows_by(held);
}

SplitRows fold_rows(std::span<const std::int64_t> labels, std::int64_t classes, std::int64_t folds, std::int64_t fold,
                    std::uint64_t seed) {
  const auto count = static_cast<std::int64_t>(labels.size());
  expects<NumericError>(folds >= 2 && folds <= count, "folds: expected 2 to ", count, " folds of ", count,
                        " examples, found ", folds);
  expects<NumericError>(fold >= 0 && fold < folds, "folds: expected a fold in [0, ", folds, "), found ", fold);
  // Assigned in turn, class after class: two folds differ by at most one example, per class and in total.
  std::vector<std::int64_t> next(static_cast<std::size_t>(classes)), of_class(next.size());
  for (const std::int64_t label : labels) ++of_class.at(static_cast<std::size_t>(label));
  for (std::size_t c = 1; c < next.size(); ++c) next[c] = next[c - 1] + of_class[c - 1];
  std::vector<bool> held(labels.size());
  for (const std::int64_t row : drawn_order(labels.size(), seed)) {
    const auto at = static_cast<std::size_t>(row);
    held[at] = next[static_cast<std::size_t>(labels[at])]++ % folds == fold;
  }
  return rows_by(held);
}

Split split(const Dataset& dataset, double share, std::uint64_t seed) {
  return parts_of(dataset, [&](std::span<const std::int64_t> labels, std::int64_t classes) {
    return split_rows(labels, classes, share, seed);
  });
}

Split fold(const Dataset& dataset, std::int64_t folds, std::int64_t fold, std::uint64_t seed) {
  return parts_of(dataset, [&](std::span<const std::int64_t> labels, std::int64_t classes) {
    return fold_rows(labels, classes, folds, fold, seed);
  });
}

void Dataset::check() const {
  expects<ShapeError>(images.defined() && labels.defined(), source, ": a dataset needs images and labels");
  if (classes == no_classes) {
    expects<ShapeError>(images.rank() >= 1 && labels.rank() >= 1 && images.size(0) == labels.size(0), source,
                        ": expected images [n, ...] and labels [n, ...], found ", images.shape(), " and ",
                        labels.shape());
    return;
  }
  expects<DTypeError>(images.dtype() == DType::uint8 || images.dtype() == DType::float32, source,
                      ": expected images of uint8 or float32, found ", images.dtype());
  expects<DTypeError>(labels.dtype() == DType::int64, source, ": expected labels of int64, found ", labels.dtype());
  expects<ShapeError>(images.rank() >= 1 && labels.rank() == 1 && images.size(0) == labels.size(0), source,
                      ": expected images [n, ...] and labels [n], found ", images.shape(), " and ", labels.shape());
  expects<NumericError>(classes > 0, source, ": expected at least one class, found ", classes,
                        "; for labels that are not classes, set no_classes");
  const std::vector<std::int64_t> values = labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    expects<NumericError>(values[i] >= 0 && values[i] < classes, source, ": label ", values[i], " at position ", i,
                          " is outside [0, ", classes, "); correct the labels or the number of classes");
}

Conversion::Conversion(double mean, double deviation) {
  expects<NumericError>(deviation > 0, "to_float: expected a deviation above 0, found ", deviation);
  for (std::size_t i = 0; i < values_.size(); ++i)
    values_[i] = static_cast<float>((static_cast<double>(i) / 255 - mean) / deviation);
}

void Conversion::operator()(const std::uint8_t* from, std::int64_t count, float* to) const {
  for (std::int64_t i = 0; i < count; ++i) to[i] = values_[from[i]];
}

Tensor to_float(const Tensor& images, double mean, double deviation) {
  if (images.dtype() == DType::float32) return images;
  expects<DTypeError>(images.dtype() == DType::uint8, "to_float: expected uint8 or float32, found ", images.dtype(),
                      "; cast the tensor first");
  const Conversion convert(mean, deviation);
  const Tensor whole = images.contiguous();
  Tensor result(images.shape());
  convert(whole.read<std::uint8_t>().data(), whole.numel(), result.write<float>().data());
  return result;
}

}  // namespace tern::data
