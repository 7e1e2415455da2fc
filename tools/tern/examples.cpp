#include "examples.hpp"

#include "tern/data/loader.hpp"

namespace tern::tool {

std::int64_t Examples::size() const {
  if (source) return source->size();
  return memory.images.defined() ? memory.images.size(0) : 0;
}

std::vector<std::int64_t> Examples::labels() const {
  if (!source) return memory.labels.to_vector<std::int64_t>();
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < size(); ++i) result.push_back(source->label(i));
  return result;
}

std::string unreadable_words(const std::vector<std::string>& files) {
  constexpr std::size_t most_named = 3;
  if (files.empty()) return {};
  std::string text = message(files.size(), files.size() == 1 ? " image" : " images", " could not be read: ");
  for (std::size_t i = 0; i < files.size() && i < most_named; ++i) text += (i > 0 ? ", " : "") + files[i];
  return text + (files.size() > most_named ? ", ..." : "");
}

Tensor Examples::example(std::int64_t index, const Blueprint& blueprint) const {
  if (!source) return scaled(memory.images.slice(0, index, index + 1), blueprint).reshape(blueprint.input);
  Tensor result(blueprint.input);
  source->read(index, {}, result.write<float>());
  return result;
}

Tensor scaled(const Tensor& images, const Blueprint& blueprint) {
  if (images.dtype() == DType::float32) return images;
  return data::to_float(images, blueprint.scaling.mean[0], blueprint.scaling.deviation[0]);
}

bool for_each_batch(const Examples& examples, const Blueprint& blueprint, std::int64_t size,
                    const std::function<bool(const Tensor& x, const Tensor& labels)>& use,
                    const std::optional<data::Rows>& batches) {
  const std::int64_t count = examples.size();
  const data::Rows wanted = batches.value_or(data::Rows{0, (count + size - 1) / size});
  if (wanted.size() == 0) return true;
  if (examples.source) {
    const data::DataLoader loader(examples.source, {.batch_size = size, .shuffle = false});
    for (const data::Batch& batch : loader.epoch(0, wanted.begin)) {
      if (batch.position >= wanted.end) break;
      if (!use(batch.images, batch.labels)) return false;
    }
    return true;
  }
  const Tensor& labels = examples.memory.labels;
  for (std::int64_t i = wanted.begin; i < wanted.end; ++i) {
    const std::int64_t begin = i * size, end = std::min(begin + size, count);
    const Tensor x = scaled(examples.memory.images.slice(0, begin, end), blueprint);
    if (!use(x, labels.defined() ? labels.slice(0, begin, end) : Tensor())) return false;
  }
  return true;
}

}  // namespace tern::tool
