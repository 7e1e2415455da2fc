#include "early_stopping.hpp"

#include "tern/tensor/create.hpp"

namespace tern::tool {

namespace {

// The validation share is a share of all examples, this one of those that are not held out.
double stopping_share(const Settings& settings, const TrainingData& data) {
  if (!data.three_way()) return settings.stopping;
  return data.blueprint.validation / (1 - data.blueprint.test);
}

data::SplitRows stopping_rows(const Settings& settings, const TrainingData& data) {
  const std::vector<std::int64_t> labels = data.blueprint.regression
                                               ? std::vector<std::int64_t>(static_cast<std::size_t>(data.train.size()))
                                               : data.train.labels();
  // A draw other than the one that held examples out.
  return data::split_rows(labels, data.blueprint.outputs(), stopping_share(settings, data), ~settings.split);
}

Examples part(const Examples& whole, const std::shared_ptr<const data::ExampleSource>& source,
              const std::vector<std::int64_t>& rows) {
  if (source) return {.source = std::make_shared<data::Subset>(source, rows), .folder = whole.folder};
  return {whole.memory.select(tensor(rows, {static_cast<std::int64_t>(rows.size())})), {}};
}

}  // namespace

TrainingParts divide(const Settings& settings, const TrainingData& data) {
  if (settings.early_stop.value_or(0) == 0 && !data.three_way()) return {data.train, {}};
  const data::SplitRows rows = stopping_rows(settings, data);
  if (rows.validation.empty()) return {data.train, {}};
  return {part(data.train, data.train.source, rows.train), part(data.train, data.plain, rows.validation)};
}

bool divisible(const Settings& settings, const TrainingData& data) {
  return data.train.size() > 0 && !stopping_rows(settings, data).validation.empty();
}

}  // namespace tern::tool
