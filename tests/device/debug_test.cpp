// The debug device acts as a device, and finds no fault where there is none.

#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "device/debug_faults.hpp"
#include "support/catch.hpp"
#include "tern/tern.hpp"

using namespace tern;
using namespace tern::testing;
using Catch::ContainsSubstring;
namespace op = tern::operators;

TEST_CASE("debug: kernels run when somebody waits, in an order that the seed fixes", "[device][debug]") {
  static std::vector<std::int64_t> order;
  const auto order_of = [](const std::string& name, const char* seed) {
    setenv("TERN_DEBUG_SEED", seed, 1);
    const Mode& debug = planted(name, [](Mode& mode) {
      mode.operators.arithmetic.neg = +[](Context&, float* out, const float*, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = 0;
        order.push_back(n);
      };
    });
    unsetenv("TERN_DEBUG_SEED");
    Memory& memory = *debug.memory;
    order.clear();
    std::vector<void*> streams;
    std::vector<float*> blocks;
    for (int i = 0; i < 4; ++i) {
      std::thread([&] { streams.push_back(memory.stream()); }).join();
      blocks.push_back(static_cast<float*>(memory.allocate(400, streams.back())));
    }
    for (std::int64_t n = 1; n <= 24; ++n) {
      Context context{.memory = &memory, .stream = streams[n % 4]};
      debug.operators.arithmetic.neg(context, blocks[n % 4], blocks[n % 4], n);
    }
    CHECK(order.size() < 48);
    for (std::size_t i = 0; i < 4; ++i) memory.release(blocks[i], 400, streams[i]);
    memory.finish(nullptr);
    CHECK(order.size() == 48);  // once in each view
    return order;
  };
  const auto first = order_of("seeded a", "7");
  CHECK(order_of("seeded b", "7") == first);
  CHECK(order_of("seeded c", "8") != first);
  setenv("TERN_DEBUG_SEED", "seven", 1);
  CHECK_THROWS_WITH(planted("seeded d", [](Mode&) {}), ContainsSubstring("TERN_DEBUG_SEED is \"seven\""));
  unsetenv("TERN_DEBUG_SEED");
}

TEST_CASE("debug: a bad label is reported by the next wait, as on a card", "[device][debug]") {
  const Device device{"debug"};
  const Tensor labels = tensor<std::int64_t>({0, 7});
  CHECK_THROWS_AS(op::cross_entropy(ones({2, 3}), labels).item(), NumericError);
  CHECK_THROWS_WITH(op::index_select(ones({3, 2}), 0, labels).values(),
                    ContainsSubstring("gather") && ContainsSubstring("index 7 at position 1, expected one in [0, 3)"));
  CHECK(op::one_hot(labels, 8).values()[15] == 1);
}

TEST_CASE("debug: it is requested by its name alone", "[device][debug]") {
  CHECK(mode("debug").name == "debug");
  CHECK(&mode("debug") == &mode("debug"));
  CHECK(mode("debug:vectorized").name == "debug:vectorized");
  CHECK(mode("debug").timer == nullptr);
  CHECK_FALSE(mode("debug").on_host());
  CHECK(fastest_mode() != "debug");
  CHECK(reference_mode().name == "sequential");
  for (const ModeStatus& status : modes()) CHECK_FALSE(status.name.starts_with("debug"));
  CHECK_THROWS_AS(mode("debug:nobody"), DeviceUnavailable);
  CHECK_THROWS_WITH(mode("debug:debug"), ContainsSubstring("do not run on the host's memory"));
  CHECK_THROWS_AS(mode("debugger"), DeviceUnavailable);
  CHECK_THROWS_AS(register_mode("debug", mode("sequential")), Error);
}

namespace {

struct Training {
  std::vector<double> values;
  std::int64_t replays = 0;
};

/// The losses of a LeNet and then its parameters.
Training train_lenet(const std::string& mode_name, bool stepped, std::uint64_t seed, int steps) {
  const Device device{mode_name};
  Training result;
  models::LeNet net(seed);
  optim::SGD sgd(net.parameters(), {.learning_rate = 0.01, .momentum = 0.9});
  const auto train = [&](const Tensor& x, const Tensor& labels) {
    Tensor loss = net.loss(x, labels);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    return loss;
  };
  Step step(train);
  const data::Dataset digits = data::synthetic_digits(16);
  const data::DataLoader loader(digits, {.batch_size = 4, .seed = seed, .prefetch = 2});
  int left = steps;
  for (std::int64_t epoch = 0; left > 0; ++epoch)
    for (const data::Batch& batch : loader.epoch(epoch)) {
      if (left-- <= 0) break;
      result.values.push_back((stepped ? step(batch.images, batch.labels) : train(batch.images, batch.labels)).item());
    }
  for (const Tensor& parameter : net.parameters())
    for (const double value : parameter.values()) result.values.push_back(value);
  result.replays = step.replays();
  return result;
}

}  // namespace

TEST_CASE("debug: LeNet trains by a Step to the bits of sequential", "[device][debug]") {
  const Training debug = train_lenet("debug", true, 1, 6);
  CHECK(debug.replays >= 3);
  CHECK(debug.values == train_lenet("sequential", false, 1, 6).values);
}

TEST_CASE("debug: the vectorized mode's kernels, to its bits", "[device][debug]") {
  const Training debug = train_lenet("debug:vectorized", true, 1, 6);
  CHECK(debug.replays >= 3);
  CHECK(debug.values == train_lenet("vectorized", false, 1, 6).values);
}

TEST_CASE("debug: two threads train at once", "[device][debug]") {
  std::array<Training, 2> beside;
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < beside.size(); ++i)
    threads.emplace_back([&, i] { beside[i] = train_lenet("debug", true, i + 1, 4); });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < beside.size(); ++i)
    CHECK(beside[i].values == train_lenet("sequential", false, i + 1, 4).values);
}
