// A training without the program around it.

#include "training.hpp"

#include <atomic>
#include <cmath>
#include <limits>

#include "support/catch.hpp"
#include "tern/core/create.hpp"

namespace tern::testing {

using namespace tool;

namespace {

/// Two classes that one feature tells apart. The first pass over them gives numbers whose loss is not one.
class Delayed final : public data::ExampleSource {
 public:
  std::int64_t size() const override { return 8; }
  std::int64_t classes() const override { return 2; }
  Shape shape() const override { return {1}; }
  std::int64_t label(std::int64_t index) const override { return index % 2; }
  std::string name() const override { return "delayed"; }
  std::optional<std::int64_t> read(std::int64_t index, const random::Words&, std::span<float> to) const override {
    to[0] = ++reads_ <= size() ? std::numeric_limits<float>::infinity() : index % 2 == 0 ? -1.0f : 1.0f;
    return label(index);
  }

 private:
  mutable std::atomic<std::int64_t> reads_ = 0;
};

}  // namespace

TEST_CASE("training: a validation loss that is no number is never the best, also after a resume", "[tools][training]") {
  const Tensor features = tensor({-1.0f, 1.0f, -1.2f, 0.9f}, {4, 1});
  TrainingData data;
  data.train.memory = {.images = features, .labels = tensor<std::int64_t>({0, 1, 0, 1}), .classes = 2};
  data.validation.source = std::make_shared<Delayed>();
  data.blueprint = {.table = true,
                    .input = {1},
                    .classes = {"a", "b"},
                    .columns = {"x"},
                    .scaling = {.mean = {0}, .deviation = {1}},
                    .source = "two",
                    .examples = 12,
                    .validation = 0.5};
  Settings settings;
  settings.layers = {1, 64, 2};
  settings.early_stop = 10;
  settings.epochs = 3;
  complete(settings, data);
  Training training(settings, data);
  REQUIRE(training.run(1, {}) == Ended::finished);
  REQUIRE(std::isnan(*training.history()[0].validation_loss));
  CHECK_FALSE(training.history()[0].best);
  CHECK_FALSE(training.keeps_best());

  Training resumed(settings, data);
  resumed.restore(training.snapshot(), "snapshot");
  REQUIRE(resumed.history().size() == 1);
  REQUIRE(resumed.history()[0].validation_loss.has_value());
  CHECK(std::isnan(*resumed.history()[0].validation_loss));
  for (Training* each : {&training, &resumed}) {
    REQUIRE(each->run(3, {}) == Ended::finished);
    CHECK(each->history()[1].best);
    CHECK(std::isfinite(*each->history()[1].validation_loss));
    CHECK(each->keeps_best());
  }
}

}  // namespace tern::testing
