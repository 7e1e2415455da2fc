#include "tern/data/example_source.hpp"

#include <algorithm>
#include <utility>

#include "tern/data/loader.hpp"
#include "tern/modes/device.hpp"

namespace tern::data {

Subset::Subset(std::shared_ptr<const ExampleSource> source, std::vector<std::int64_t> indices)
    : source_(std::move(source)), indices_(std::move(indices)) {
  expects<ShapeError>(source_ != nullptr, "Subset: expected a source of examples, found null");
  for (const std::int64_t index : indices_)
    expects<ShapeError>(index >= 0 && index < source_->size(), "Subset: index ", index, " is outside the ",
                        source_->size(), " examples of ", source_->name());
}

std::string Subset::name() const { return message(size(), " examples of ", source_->name()); }

Replacing::Replacing(std::shared_ptr<const ExampleSource> source) : source_(std::move(source)) {
  expects<ShapeError>(source_ != nullptr, "Replacing: expected a source of examples, found null");
}

std::optional<std::int64_t> Replacing::read(std::int64_t index, const random::Words& draw, std::span<float> to) const {
  if (const auto found = source_->read(index, draw, to)) return found;
  const std::int64_t wanted = label(index);
  for (std::int64_t i = 1; i < size(); ++i) {
    const std::int64_t candidate = (index + i) % size();
    if (label(candidate) != wanted) continue;
    if (const auto found = source_->read(candidate, draw, to)) return found;
  }
  throw FileError(
      message(name(), ": no example of class ", wanted, " can be read, expected one to replace example ", index));
}

Dataset collect(const ExampleSource& source) {
  const std::shared_ptr<const ExampleSource> unowned(std::shared_ptr<void>(), &source);
  const Device host(reference_mode());  // none of this goes to a device
  const DataLoader loader(unowned, {.batch_size = 16, .shuffle = false});
  Shape shape{source.size()};
  for (const std::int64_t extent : source.shape()) shape.push_back(extent);
  Dataset whole{.images = Tensor(shape),
                .labels = Tensor({source.size()}, DType::int64),
                .classes = source.classes(),
                .source = source.name()};
  float* images = whole.images.write<float>().data();
  std::int64_t* labels = whole.labels.write<std::int64_t>().data();
  std::int64_t count = 0;
  for (const Batch& batch : loader.epoch(0)) {
    images = std::ranges::copy(batch.images.read<float>(), images).out;
    labels = std::ranges::copy(batch.labels.read<std::int64_t>(), labels).out;
    count += batch.size;
  }
  return whole.take(count);
}

}  // namespace tern::data
