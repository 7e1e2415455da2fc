#include "early_stopping.hpp"

#include "tern/tensor/create.hpp"

namespace tern::tool {

namespace {

data::SplitRows stopping_rows(const Settings& settings, const TrainingData& data) {
  std::vector<std::int64_t> labels;
  if (data.train.source)
    for (std::int64_t i = 0; i < data.train.size(); ++i) labels.push_back(data.train.source->label(i));
  else if (data.blueprint.regression)
    labels.resize(static_cast<std::size_t>(data.train.size()));  // all of one kind
  else
    labels = data.train.memory.labels.to_vector<std::int64_t>();
  // Another draw than the one that held the validation examples out.
  return data::split_rows(labels, data.blueprint.outputs(), settings.stopping, ~settings.split);
}

Examples part(const Examples& whole, const std::shared_ptr<const data::ExampleSource>& source,
              const std::vector<std::int64_t>& rows) {
  if (source) return {{}, std::make_shared<data::Subset>(source, rows)};
  return {whole.memory.select(tensor(rows, {static_cast<std::int64_t>(rows.size())})), {}};
}

}  // namespace

TrainingParts divide(const Settings& settings, const TrainingData& data) {
  if (settings.early_stop.value_or(0) == 0) return {data.train, {}};
  const data::SplitRows rows = stopping_rows(settings, data);
  return {part(data.train, data.train.source, rows.train), part(data.train, data.plain, rows.validation)};
}

bool divisible(const Settings& settings, const TrainingData& data) {
  return data.train.size() > 0 && !stopping_rows(settings, data).validation.empty();
}

}  // namespace tern::tool
