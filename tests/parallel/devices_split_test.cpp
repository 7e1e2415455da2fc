// Shards of a model on ranks with a device each, and gradients that travel as bfloat16 between them.

#include "acted.hpp"
#include "tern/models/models.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/parallel/pipeline.hpp"
#include "tern/parallel/split.hpp"
#include "two_gpus.hpp"

namespace tern::testing {

using parallel::Group;
using parallel::ShardLoss;

namespace {

/// A step of data parallel training.
template <class Net>
auto data_parallel_step(const Group& group, const Net& net, double learning_rate,
                        const parallel::DataParallelOptions& options = {}) {
  const auto optimizer =
      std::make_shared<optim::SGD>(net.parameters(), optim::SgdOptions{.learning_rate = learning_rate});
  const auto ranks = std::make_shared<parallel::DataParallel>(group, net, options);
  return [=](const Tensor& images, const Tensor& labels) {
    optimizer->zero_grad();
    const ShardLoss shard = ranks->backward(32, [&](const data::Rows& rows) -> ShardLoss {
      return operators::cross_entropy(net(images.slice(0, rows.begin, rows.end)),
                                      labels.slice(0, rows.begin, rows.end));
    });
    optimizer->step();
    return shard.loss;
  };
}

/// One around split layers: rows are gathered, and each rank gets its own again.
auto split_step(const Group& group) {
  using parallel::Layout;
  Generator generator(2);
  const nn::Sequential net{
      nn::Linear(16, 32, {}, generator),
      nn::Relu(),
      parallel::ColumnLinear(group, 32, 48, {.input = Layout::rows}, generator),
      nn::Relu(),
      parallel::ColumnLinear(group, 48, 24, {.input = Layout::features, .output = Layout::rows}, generator),
      nn::Tanh(),
      parallel::RowLinear(group, 24, 4, {.input = Layout::rows, .output = Layout::rows}, generator)};
  return data_parallel_step(group, net, 0.1);
}

}  // namespace

TEST_CASE("split layers: devices learn what one does", "[parallel]") {
  const auto losses = [](const Group& group) {
    Generator generator(1);
    const Tensor x = randn({32, 16}, generator), y = randint(0, 4, {32}, generator);
    auto step = split_step(group);
    std::vector<double> values;
    for (int i = 0; i < 4; ++i) values.push_back(step(x, y).item());
    return values;
  };
  for (const int count : {2, 4})
    check_ranks(count, [&](const Group& host) -> std::string {
      const Device device{"debug"};
      const std::vector<double> alone = losses(Group());
      const std::vector<double> found = losses(Group(std::make_shared<Acted>(host, *device.mode().memory)));
      for (std::size_t i = 0; i < found.size(); ++i)
        if (std::abs(found[i] - alone[i]) > 1e-5) return message("loss ", i, ": ", found[i], " for ", alone[i]);
      return {};
    });
}

TEST_CASE("split layers: two GPUs learn what one does, in a recorded step too", "[parallel][cuda]") {
  check_two_gpus([](const Group& group) { return split_step(group); });
}

TEST_CASE("pipeline: two GPUs learn what one does, in a recorded step too", "[parallel][cuda]") {
  check_two_gpus([](const Group& group) {
    Generator generator(2);
    const nn::Sequential net{nn::Linear(16, 32, {}, generator), nn::Relu(), nn::Dropout(0.25),
                             nn::Linear(32, 24, {}, generator), nn::Tanh(), nn::Linear(24, 4, {}, generator)};
    const auto pipeline = std::make_shared<parallel::Pipeline>(group, net);
    const auto optimizer =
        std::make_shared<optim::SGD>(pipeline->stage().parameters(), optim::SgdOptions{.learning_rate = 0.1});
    manual_seed(5);
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
  });
}

TEST_CASE("data parallel: two GPUs with gradients that travel as bfloat16", "[parallel][cuda]") {
  check_two_gpus([](const Group& group) {
    return data_parallel_step(group, models::Mlp({.layers = {16, 32, 4}}), 0.01, {.wire = DType::bfloat16});
  });
}

}  // namespace tern::testing
