// A training without the program around it.

#include "training.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "errors.hpp"
#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using namespace tool;

namespace {

/// Two classes that one feature tells apart. As the examples set aside, the first pass over them (4 of 20, of which
/// a fifth is set aside) gives numbers whose loss is not one.
class Points final : public data::ExampleSource {
 public:
  explicit Points(std::int64_t broken) : broken_(broken) {}
  std::int64_t size() const override { return 20; }
  std::int64_t classes() const override { return 2; }
  Shape shape() const override { return {1}; }
  std::int64_t label(std::int64_t index) const override { return index % 2; }
  std::string name() const override { return "points"; }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words&, std::span<float> to) const override {
    to[0] = ++reads_ <= broken_ ? std::numeric_limits<float>::infinity() : index % 2 == 0 ? -1.0f : 1.0f;
    return label(index);
  }

 private:
  std::int64_t broken_;
  mutable std::atomic<std::int64_t> reads_ = 0;
};

Blueprint blueprint_of(std::int64_t columns, std::int64_t examples) {
  const auto count = static_cast<std::size_t>(columns);
  return {.table = true,
          .input = {columns},
          .classes = {"a", "b"},
          .encoding = {.columns = std::vector<data::Column>(count, {.name = "x"})},
          .source = "two",
          .examples = examples};
}

/// Rows whose only feature is their number; `share` of them of class 1.
TrainingData numbered(std::int64_t rows, std::int64_t every) {
  std::vector<float> features;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < rows; ++i) {
    features.push_back(static_cast<float>(i));
    labels.push_back(i % every == 0);
  }
  TrainingData data;
  data.train.memory = {.images = tensor(features, {rows, 1}), .labels = tensor(labels, {rows}), .classes = 2};
  data.blueprint = blueprint_of(1, rows);
  return data;
}

}  // namespace

TEST_CASE("training: a stopping loss that is no number is never the best, also after a resume", "[tools][training]") {
  TrainingData data;
  data.train.source = std::make_shared<Points>(0);
  data.plain = std::make_shared<Points>(4);
  data.blueprint = blueprint_of(1, 20);
  Settings settings;
  settings.layers = {1, 64, 2};
  settings.early_stop = 10;
  settings.refit = "no";
  settings.epochs = 3;
  complete(settings, data);
  Training training(settings, data);
  REQUIRE(training.run(1, {}) == Ended::finished);
  REQUIRE(std::isnan(training.history()[0].stopping->loss));
  CHECK_FALSE(training.history()[0].best);

  Training resumed(settings, data);
  resumed.restore(training.snapshot(), "snapshot");
  REQUIRE(resumed.history().size() == 1);
  REQUIRE(resumed.history()[0].stopping.has_value());
  CHECK(std::isnan(resumed.history()[0].stopping->loss));
  for (Training* each : {&training, &resumed}) {
    REQUIRE(each->run(3, {}) == Ended::finished);
    CHECK(each->history()[1].best);
    CHECK(std::isfinite(each->history()[1].stopping->loss));
    CHECK(each->kept().best);
  }
}

TEST_CASE("training: the parts are disjoint, whole, stratified and the same every time", "[tools][training]") {
  const TrainingData data = numbered(200, 4);
  Settings settings;
  complete(settings, data);
  CHECK(*settings.early_stop > 0);  // the default for tables
  CHECK(settings.refit == "yes");
  const auto rows = [](const Examples& part) { return part.memory.images.to_vector<float>(); };
  const TrainingParts parts = divide(settings, data), again = divide(settings, data);
  CHECK(rows(parts.stopping) == rows(again.stopping));
  std::vector<float> all = rows(parts.learning);
  for (const float row : rows(parts.stopping)) all.push_back(row);
  std::ranges::sort(all);
  CHECK(all == rows(data.train));  // each row once
  const auto ones = [](const Examples& part) {
    const auto labels = part.memory.labels.to_vector<std::int64_t>();
    return std::ranges::count(labels, 1);
  };
  CHECK(parts.stopping.size() == 40);
  CHECK(ones(parts.stopping) == 10);
  CHECK(ones(parts.learning) == 40);
  Settings other = settings;
  other.split = 1;
  CHECK(rows(divide(other, data).stopping) != rows(parts.stopping));
  other.early_stop = 0;
  CHECK(divide(other, data).learning.size() == 200);
  CHECK(divide(other, data).stopping.size() == 0);
}

TEST_CASE("training: too few rows to set some aside", "[tools][training]") {
  const TrainingData data = numbered(4, 2);
  Settings settings;
  complete(settings, data);
  CHECK(*settings.early_stop == 0);
  CHECK(settings.refit == "no");
  Settings requested;
  requested.early_stop = 5;
  CHECK_THROWS_AS(complete(requested, data), UsageError);
  Settings refit;
  refit.refit = "yes";
  CHECK_THROWS_AS(complete(refit, data), UsageError);
}

TEST_CASE("training: a table's dropout and decay follow its classes, columns and rows", "[tools][training]") {
  const auto completed = [](std::int64_t rows, std::int64_t columns, std::size_t classes) {
    TrainingData data = numbered(rows, 2);
    data.blueprint = blueprint_of(columns, rows);
    data.blueprint.classes.resize(classes);
    Settings settings;
    complete(settings, data);
    return std::pair{*settings.dropout, *settings.weight_decay};
  };
  CHECK(completed(100, 8, 2) == std::pair{0.5, 0.8});
  CHECK(completed(100, 8, 4) == std::pair{0.25, 0.8});
  CHECK(completed(1000, 2, 2) == std::pair{0.5, 0.3});  // never below 0.6 / classes
  CHECK(completed(1000, 2, 4) == std::pair{0.25, 0.15});
  CHECK(completed(20, 500, 2) == std::pair{0.5, 3.0});  // never above 3
  Settings layers;
  layers.layers = {1, 4, 2};
  complete(layers, numbered(100, 2));
  CHECK(*layers.dropout == 0);  // who says what the net is gets it
}

}  // namespace tern::testing
