#pragma once
// Labelled examples, in memory or read on request, and batches of either.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "blueprint.hpp"
#include "tern/data/dataset.hpp"
#include "tern/data/example_source.hpp"
#include "tern/data/image_folder.hpp"
#include "tern/data/share.hpp"

namespace tern::tool {

/// "2 images could not be read: a.jpg, b.jpg"; empty if there are none.
std::string unreadable_words(const std::vector<std::string>& files);

struct Examples {
  data::Dataset memory = {};                               // tables are scaled; images become float when batched
  std::shared_ptr<const data::ExampleSource> source = {};  // if set, `memory` is empty
  std::shared_ptr<const data::ImageFolder> folder = {};    // that `source` reads; knows what it could not read

  Tensor features = {};                 // of a table, as they were read; undefined if not displayed
  std::vector<std::int64_t> rows = {};  // of `memory`, in the table; empty if none was left out

  std::int64_t size() const;
  /// Class labels, int64 [n].
  std::vector<std::int64_t> labels() const;
  /// Where they come from.
  std::string name() const { return source ? source->name() : memory.source; }
  bool synthetic() const { return !source && memory.synthetic; }
  /// The number of an example in its file or folder, from 0.
  std::int64_t row(std::int64_t index) const { return rows.empty() ? index : rows[static_cast<std::size_t>(index)]; }
  /// The number of unreadable images, and the same as text, empty if all could be read.
  std::int64_t unreadable_count() const { return folder ? folder->corrupt() : 0; }
  std::string unreadable() const { return folder ? unreadable_words(folder->corrupt_files()) : std::string(); }
  /// One example as float32 with the blueprint's input shape, scaled.
  Tensor example(std::int64_t index, const Blueprint& blueprint) const;
};

/// Images as float32, scaled; features are already.
Tensor scaled(const Tensor& images, const Blueprint& blueprint);

/// Calls `use` with the examples in order, `size` at a time, as float32 and with their labels (undefined if there are
/// none), until it returns false; then returns false. If `batches` is passed, only those.
bool for_each_batch(const Examples& examples, const Blueprint& blueprint, std::int64_t size,
                    const std::function<bool(const Tensor& x, const Tensor& labels)>& use,
                    const std::optional<data::Rows>& batches = std::nullopt);

}  // namespace tern::tool
