// Gradients that travel as bfloat16, and steps that are recorded with several shards of a batch in a rank.

#include "counted.hpp"
#include "ranks.hpp"
#include "support/files.hpp"
#include "tern/models/models.hpp"
#include "tern/modes/device.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/parallel/pipeline.hpp"
#include "tern/run/step.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::DataParallel;
using parallel::Group;
using parallel::ShardLoss;

namespace {

/// The gradients of one batch of 24.
std::vector<double> gradients(const Group& group, DType wire, bool loop = false) {
  models::Mlp net({.layers = {10, 33, 4}});
  DataParallel ranks(group, net, {.bucket_bytes = 600, .wire = wire});
  Generator generator(3);
  const Tensor x = randn({24, 10}, generator), y = randint(0, 4, {24}, generator);
  const auto loss_of = [&](const data::Rows& rows) -> ShardLoss {
    return operators::cross_entropy(net(x.slice(0, rows.begin, rows.end)), y.slice(0, rows.begin, rows.end));
  };
  if (loop)
    ranks.backward(loss_of(ranks.share().rows(24)).loss);
  else
    ranks.backward(24, loss_of);
  std::vector<double> values;
  for (const Tensor& tensor : net.parameters())
    for (const double value : tensor.grad().values()) values.push_back(value);
  return values;
}

}  // namespace

TEST_CASE("data parallel: gradients that travel as bfloat16 are near, and the same in all ranks", "[parallel][ranks]") {
  const std::vector<double> alone = gradients(Group(), DType::float32);
  CHECK(gradients(Group(), DType::bfloat16) == alone);
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      for (const bool loop : {false, true}) {
        const std::vector<double> found = gradients(group, DType::bfloat16, loop);
        const Tensor first = tensor(found, {static_cast<std::int64_t>(found.size())});
        group.broadcast(first);
        if (first.values() != found) return "ranks have other bits";
        double largest = 0;
        for (const double value : alone) largest = std::max(largest, std::abs(value));
        for (std::size_t i = 0; i < found.size(); ++i)
          if (std::abs(found[i] - alone[i]) > 0x1p-7 * largest) return message(found[i], " for ", alone[i]);
        if (group.size() > 1 && !loop && found == gradients(group, DType::float32)) return "nothing was rounded";
      }
      return {};
    });
}

TEST_CASE("data parallel: sums of bfloat16 are made in float32", "[parallel]") {
  // 256 + 1 + 1 + 1 is 259 in float32; in bfloat16 each 1 is lost.
  check_ranks(4, [](const Group& group) -> std::string {
    const nn::Linear net(1, 1, {.bias = false});
    DataParallel ranks(group, net, {.wire = DType::bfloat16});
    ranks.backward(operators::sum(net(full({1, 1}, group.rank() == 0 ? 256 : 1))));
    const double found = net.parameters()[0].grad().item();
    return found == 260.0 / 4 ? "" : message(found);  // 259 as bfloat16
  });
}

TEST_CASE("data parallel: bfloat16 halves what is sent", "[parallel]") {
  std::mutex mutex;
  std::size_t narrow = 0, wide = 0;
  check_ranks(2, [&](const Group& group) -> std::string {
    for (const DType wire : {DType::float32, DType::bfloat16}) {
      const auto counted = std::make_shared<Counted>(group);
      const nn::Linear net(100, 100);
      DataParallel ranks(Group(counted), net, {.wire = wire});
      const std::size_t before = counted->sent();
      ranks.backward(operators::sum(net(ones({1, 100}))));
      const std::lock_guard lock(mutex);
      (wire == DType::float32 ? wide : narrow) += counted->sent() - before;
    }
    return {};
  });
  INFO(narrow << " bytes for " << wide);
  CHECK(narrow < wide * 51 / 100);
}

TEST_CASE("data parallel: what cannot travel is a typed error", "[parallel]") {
  const nn::Linear net(2, 2);
  CHECK_THAT(said<DTypeError>([&] { DataParallel(Group(), net, {.wire = DType::float16}); }),
             ContainsSubstring("float32 or bfloat16, not float16"));
  CHECK_THAT(said<Error>([&] { DataParallel(Group(), net, {.shards = 2, .wire = DType::bfloat16}); }),
             ContainsSubstring("2 shards have the same sum for any number of ranks"));
}

namespace {

struct Recorded {
  std::vector<double> values = {};
  std::int64_t replays = 0;
  std::string reason = {};
};

/// Eight steps with masks; `make` gives a step of its own to run, recorded where `records`.
template <class Make>
Recorded run_steps(bool records, Make make) {
  const Device device{"debug"};
  models::Mlp net({.layers = {16, 32, 4}});
  optim::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  Generator generator(1);
  const Tensor x = randn({32, 16}, generator), y = randint(0, 4, {32}, generator);
  const auto body = make(net, optimizer);
  Step step(body);
  manual_seed(5);
  Recorded result;
  for (int i = 0; i < 8; ++i) result.values.push_back((records ? step(x, y) : body(x, y)).item());
  for (const Tensor& tensor : net.parameters())
    for (const double value : tensor.values()) result.values.push_back(value);
  result.values.push_back(static_cast<double>(default_generator().position()));
  result.replays = step.replays();
  return result;
}

}  // namespace

TEST_CASE("data parallel: masks of several shards in a rank are drawn anew by every replay", "[parallel][step]") {
  const auto make = [](const models::Mlp& net, optim::SGD& optimizer) {
    const auto ranks = std::make_shared<DataParallel>(Group(), net, parallel::DataParallelOptions{.shards = 4});
    return [=, &optimizer](const Tensor& images, const Tensor& labels) {
      optimizer.zero_grad();
      const ShardLoss shard = ranks->backward(32, [&](const data::Rows& rows) -> ShardLoss {
        const Tensor x = operators::dropout(images.slice(0, rows.begin, rows.end), 0.25, true);
        return operators::cross_entropy(net(x), labels.slice(0, rows.begin, rows.end));
      });
      optimizer.step();
      return shard.loss;
    };
  };
  const Recorded plain = run_steps(false, make), recorded = run_steps(true, make);
  CHECK(recorded.values == plain.values);
  CHECK(plain.values.back() == 8);
  CHECK(recorded.replays > 0);
}

TEST_CASE("pipeline: masks of several micro-batches are drawn anew by every replay", "[parallel][step]") {
  const auto make = [](const models::Mlp&, optim::SGD&) {
    Generator generator(3);
    const nn::Sequential net{nn::Dropout(0.25), nn::Linear(16, 8, {}, generator), nn::Tanh(), nn::Dropout(0.5),
                             nn::Linear(8, 4, {}, generator)};
    const auto pipeline = std::make_shared<parallel::Pipeline>(Group(), net);
    const auto optimizer = std::make_shared<optim::SGD>(net.parameters(), optim::SgdOptions{.learning_rate = 0.1});
    return [=](const Tensor& images, const Tensor& labels) {
      optimizer->zero_grad();
      const ShardLoss shard = pipeline->backward(
          32, [&](const data::Rows& rows) { return images.slice(0, rows.begin, rows.end); },
          [&](const Tensor& y, const data::Rows& rows) -> ShardLoss {
            return operators::cross_entropy(y, labels.slice(0, rows.begin, rows.end));
          });
      optimizer->step();
      return shard.loss;
    };
  };
  const Recorded plain = run_steps(false, make), recorded = run_steps(true, make);
  CHECK(recorded.values == plain.values);
  CHECK(plain.values.back() == 16);
  CHECK(recorded.replays > 0);
}

}  // namespace tern::testing
