// Recurrent layers in kernels for whole sequences.

#include <algorithm>
#include <cmath>
#include <string>

#include "support/catch.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/operators/recurrent.hpp"
#include "tern/tern.hpp"

using namespace tern;
namespace op = tern::operators;

namespace {

struct Layer {
  bool lstm, reverse;
  std::vector<Tensor> tensors;  // x, hidden, cell, weights, biases

  Layer(bool is_lstm, bool backwards, std::int64_t batch = 20, std::int64_t width = 200)
      : lstm(is_lstm), reverse(backwards) {
    Generator generator(3);
    const std::int64_t steps = 5, inputs = 30, rows = (lstm ? 4 : 3) * width;
    for (const Shape& shape : {Shape{steps, batch, inputs}, Shape{batch, width}, Shape{batch, width},
                               Shape{rows, inputs}, Shape{rows, width}, Shape{rows}, Shape{rows}}) {
      tensors.push_back(op::mul(randn(shape, generator), shape.rank() == 3 ? 1 : 0.1));
      tensors.back().set_requires_grad(true);
    }
  }

  /// Results. With lengths the steps are composed of other operators.
  std::vector<Tensor> results(const Tensor& lengths = {}) const {
    const auto& t = tensors;
    return lstm ? op::lstm(t[0], t[1], t[2], t[3], t[4], t[5], t[6], {}, lengths, {.reverse = reverse})
                : op::gru(t[0], t[1], t[3], t[4], t[5], t[6], lengths, {.reverse = reverse});
  }

  /// Results and gradients.
  std::vector<Tensor> all(const Tensor& lengths = {}) const {
    std::vector<Tensor> found = results(lengths);
    Tensor loss = op::sum(op::mul(found[0], found[0]));
    for (std::size_t i = 1; i < found.size(); ++i) loss = op::add(loss, op::sum(op::mul(found[i], 3)));
    loss.backward();
    for (Tensor& each : found) each = each.detach();
    for (Tensor each : tensors) {
      if (!each.grad().defined()) continue;
      found.push_back(each.grad().clone());
      each.zero_grad();
    }
    return found;
  }
};

}  // namespace

TEST_CASE("recurrent: any number of threads gives the same bits", "[operators]") {
  const Layer layer(GENERATE(true, false), GENERATE(true, false));
  std::vector<Tensor> first;
  for (const int threads : {1, 2, 3, 8}) {
    INFO(threads);
    const Device device("vectorized", {.threads = threads});
    const std::vector<Tensor> found = layer.all();
    if (first.empty()) first = found;
    REQUIRE(found.size() == first.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i].values() == first[i].values());
  }
}

TEST_CASE("recurrent: whole sequences and composed steps agree", "[operators]") {
  const Layer layer(GENERATE(true, false), GENERATE(true, false));
  const Device device("vectorized");
  const std::vector<Tensor> at_once = layer.all(), composed = layer.all(full({20}, 5, DType::int64));
  REQUIRE(at_once.size() == composed.size());
  for (std::size_t i = 0; i < composed.size(); ++i) {
    INFO(i);
    CHECK(op::allclose(at_once[i], composed[i], 1e-4, 1e-4));
  }
}

TEST_CASE("recurrent: a mode may leave the gradients to one without kernels for sequences", "[operators]") {
  static constexpr const char* own[] = {"lstm", "gru"};
  static const Mode& forward_alone = []() -> const Mode& {
    Mode made = mode("vectorized");
    made.inner = "sequential";
    made.own = own;
    return register_mode("forward-alone", made);
  }();
  const Layer layer(GENERATE(true, false), GENERATE(true, false));
  std::vector<Tensor> expected;
  {
    const Device device("vectorized");
    expected = layer.all();
  }
  const Device device(forward_alone);
  const std::vector<Tensor> found = layer.all();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(op::allclose(found[i], expected[i], 1e-4, 1e-4));
}

TEST_CASE("recurrent: a step without states is recorded", "[operators]") {
  const Layer layer(GENERATE(true, false), false, 3, 20);
  const auto& t = layer.tensors;
  const Device device("debug");
  Step step([&](const std::vector<Tensor>&) {
    std::vector<Tensor> results =
        layer.lstm ? op::lstm(t[0], {}, {}, t[3], t[4], t[5], t[6]) : op::gru(t[0], {}, t[3], t[4], t[5], t[6]);
    op::sum(results[0]).backward();
    for (Tensor each : t) each.zero_grad();
    return std::vector<Tensor>{results[0].detach()};
  });
  for (int call = 0; call < 4; ++call) step.run_all({});
  INFO(step.unrecorded());
  CHECK(step.replays() > 0);
}

namespace {

/// How far two lists of tensors are apart, in the largest element of each.
double distance(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = a[i].values(), y = b[i].values();
    REQUIRE(x.size() == y.size());
    double apart = 0, largest = 1e-30;
    for (std::size_t k = 0; k < x.size(); ++k) {
      apart = std::max(apart, std::abs(x[k] - y[k]));
      largest = std::max(largest, std::abs(y[k]));
    }
    most = std::max(most, apart / largest);
  }
  return most;
}

}  // namespace

// Each width and batch divides a layer among the multiprocessors in another way.
TEST_CASE("recurrent: the algorithms of cuda agree with vectorized, recorded too", "[recurrent][cuda]") {
  const std::vector<Place> places = devices();
  if (std::none_of(places.begin(), places.end(), [](const Place& place) { return place.name == "cuda"; })) {
    WARN("skipped: mode cuda is not available");
    return;
  }
  const std::int64_t width = GENERATE(5, 64, 128, 200, 256, 384, 512, 777, 1024);
  DYNAMIC_SECTION("width " << width)
  for (const bool lstm : {true, false})
    for (const std::int64_t batch : {1, 3, 32, 130}) {
      const Layer layer(lstm, width % 3 == 1, batch, width);
      std::vector<Tensor> expected;
      {
        const Device device("vectorized");
        expected = layer.all();
      }
      for (const char* algorithm : {"one_cluster", "persistent", "clustered", "steps"}) {
        INFO((lstm ? "lstm" : "gru") << " of width " << width << ", batch " << batch << ", " << algorithm);
        {
          const Device rounds("cuda", {.precision = Precision::tf32});
          const ForcedAlgorithm forward("recurrent", algorithm), backward("recurrent_backward", algorithm);
          CHECK(distance(layer.all(), expected) < 5e-3);
        }
        const Device device("cuda");
        const ForcedAlgorithm forward("recurrent", algorithm), backward("recurrent_backward", algorithm);
        const std::vector<Tensor> found = layer.all();
        CHECK(distance(found, expected) < 2e-5);
        if (algorithm == std::string("steps")) CHECK(forward.taken() == 1);
        const std::vector<Tensor> repeated = layer.all();
        for (std::size_t i = 0; i < found.size(); ++i) CHECK(repeated[i].values() == found[i].values());
        Step step([&](const std::vector<Tensor>&) { return layer.results(); });
        const NoGrad none;
        for (int call = 0; call < 4; ++call) {
          const std::vector<Tensor> again = step.run_all({layer.tensors[0]});
          for (std::size_t i = 0; i < again.size(); ++i) CHECK(again[i].values() == found[i].values());
        }
        CHECK(step.replays() > 0);
      }
    }
}
