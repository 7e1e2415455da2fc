// Ranks with a GPU each, over NCCL.

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>

#include "acted.hpp"
#include "support/files.hpp"
#include "tern/models/models.hpp"
#include "tern/modes/device.hpp"
#include "tern/modes/forced_algorithm.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/run/step.hpp"
#include "two_gpus.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::Group;
using parallel::ShardLoss;

TEST_CASE("groups: on the host there is no other algorithm", "[parallel][ranks]") {
  check_ranks(2, [](const Group& group) -> std::string {
    if (!parallel::on_devices(group).on_host()) return "the host's memory went over NCCL";
    const Device device{"debug"};
    return parallel::on_devices(group).on_host() ? "" : "the memory of an acted device went over NCCL";
  });
}

TEST_CASE("groups: NCCL carries between two GPUs", "[parallel][cuda]") {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  check_ranks(2, [](const Group& host) -> std::string {
    const Device device{device_name(host.rank())};
    const Group group = parallel::on_devices(host);
    if (group.transport() != "nccl") return "without NCCL";
    const int rank = group.rank();
    for (const DType dtype :
         {DType::float32, DType::float64, DType::bfloat16, DType::float16, DType::int32, DType::int64, DType::uint8}) {
      Tensor x = full({1000}, rank + 1, dtype);
      group.all_reduce(x);
      if (x.values() != std::vector<double>(1000, 3)) return message("a sum of ", dtype, ": ", x);
      group.all_reduce(x = full({3}, rank, dtype), parallel::Reduction::max);
      if (x.values() != std::vector<double>(3, 1)) return message("a maximum of ", dtype, ": ", x);
    }
    // Begun beside other work, and complete behind the join.
    const Tensor large = full({1 << 22}, rank + 1), small = full({5}, rank + 1);
    Tensor other = ones({1 << 20});
    for (int i = 0; i < 3; ++i) {
      group.begin_all_reduce(large);
      group.begin_all_reduce(small);
      other = operators::mul(other, 2.0);
      group.join();
      const Tensor wrong = operators::sum(operators::not_equal(large, full({1}, 3 << i)).to(DType::float32));
      if (wrong.item() != 0) return message(wrong.item(), " wrong sums of ", large.numel());
      if (small.values() != std::vector<double>(5, 3 << i)) return message("a begun sum: ", small);
    }
    // Pieces of all sizes, some of them views at odd places, and more than one message takes.
    for (const DType dtype : {DType::float32, DType::float64, DType::int32, DType::uint8}) {
      const Tensor whole = full({301}, rank + 1, dtype);
      std::vector<Tensor> pieces{full({1 << 20}, rank + 1, dtype), full({3 << 20}, rank + 1, dtype),
                                 whole.slice(0, 0, 3), whole.slice(0, 101, 301)};
      for (int i = 1; i < 200; ++i) pieces.push_back(full({i}, rank + 1, dtype));
      group.begin_all_reduce(pieces);
      group.join();
      for (const Tensor& piece : pieces) {
        const Tensor wrong = operators::not_equal(piece.to(DType::float64), full({1}, 3, DType::float64));
        const double count = operators::sum(wrong.to(DType::float64)).item();
        if (count != 0) return message(count, " wrong sums of ", piece.numel(), " ", dtype);
      }
      if (whole.slice(0, 3, 101).values() != std::vector<double>(98, rank + 1)) return "a sum wrote beside a piece";
    }
    const Tensor mean = full({5}, rank);
    group.begin_all_reduce({mean, mean.clone()}, parallel::Reduction::mean);
    group.join();
    if (mean.values() != std::vector<double>(5, 0.5)) return message("a mean: ", mean);
    Tensor x = full({2}, rank);
    group.broadcast(x, 1);
    if (x.values() != std::vector<double>{1, 1}) return message("broadcast: ", x);
    if (group.all_gather(full({1}, rank)).values() != std::vector<double>{0, 1}) return "all_gather";
    if (group.reduce_scatter(arange(0, 4).to(DType::float32)).values() !=
        (rank == 0 ? std::vector<double>{0, 2} : std::vector<double>{4, 6}))
      return "reduce_scatter";
    if (group.all_to_all(full({2}, rank)).values() != std::vector<double>{0, 1}) return "all_to_all";
    if (rank == 0)
      group.send(full({3}, 7), 1);
    else
      group.receive(x = zeros({3}), 0);
    if (rank == 1 && x.values() != std::vector<double>(3, 7)) return message("receive: ", x);
    const Group single = group.split(rank);
    if (single.size() != 1) return "split";
    group.barrier();
    return {};
  });
}

TEST_CASE("groups: short sums by either algorithm have the same bits on two GPUs, at once and recorded",
          "[parallel][cuda]") {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  std::mutex mutex;
  std::map<std::string, std::int64_t> taken;
  std::int64_t replays = 0;
  check_ranks(2, [&](const Group& host) -> std::string {
    const Device device{device_name(host.rank())};
    const Group group = parallel::on_devices(host);
    for (const DType dtype : {DType::float32, DType::float64})
      for (const auto reduction : {parallel::Reduction::sum, parallel::Reduction::mean})
        for (const std::int64_t size : {1, 2, 3, 5, 1000, 20'000, 131'072, 262'145}) {
          Generator generator(static_cast<std::uint64_t>(7 * size + group.rank()));
          const Tensor x = randn({size}, generator).to(dtype);
          const Tensor odd = randn({size + 1}, generator).to(dtype).slice(0, 1, size + 1);
          const auto by = [&](const char* algorithm) {
            const ForcedAlgorithm forced{"all_reduce", algorithm};
            std::vector<double> values;
            Step step([&](const Tensor& a, const Tensor& b) {
              const std::vector<Tensor> sums{a.clone(), b.clone(), a[0].clone()};
              group.begin_all_reduce(sums, reduction);
              group.join();
              group.all_reduce(sums[2], parallel::Reduction::mean);
              return operators::cat({sums[0], sums[1], sums[2].reshape({1})}, 0);
            });
            for (int i = 0; i < 6; ++i) values = step(x, odd).values();
            const std::lock_guard lock(mutex);
            taken[algorithm] += forced.taken();
            replays += step.replays();
            return values;
          };
          const std::vector<double> own = by("peers");
          if (own != by("library")) return message("other sums of ", size, ' ', dtype);
          Tensor first = tensor(own, {static_cast<std::int64_t>(own.size())});
          host.broadcast(first);
          if (first.values() != own) return message("ranks have other sums of ", size, ' ', dtype);
        }
    return {};
  });
  CHECK(taken["library"] > 0);
  CHECK(replays > 0);
  if (taken["peers"] == 0) WARN("these GPUs do not reach each other's memory");
}

TEST_CASE("groups: a rank that fails on its GPU ends the others' wait for its share", "[parallel][cuda]") {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  // By the library the wait would be one of NCCL's.
  std::atomic<int> waited = 0, reported = 0;
  const auto program = [&](const Group& host) {
    const Device device{device_name(host.rank())};
    const Group group = parallel::on_devices(host);
    const ForcedAlgorithm forced{"all_reduce", "peers"};
    Tensor x = ones({1000});
    group.all_reduce(x);
    if (forced.taken() == 0) throw ParallelError("these GPUs do not reach each other's memory: on purpose");
    if (host.rank() == 1) throw ParallelError("on purpose");
    ++waited;
    group.all_reduce(x);
    (void)x.values();  // comes back
    try {
      group.all_reduce(x);
    } catch (const ParallelError& error) {
      if (std::string(error.what()).find("rank 1 is gone") != std::string::npos) ++reported;
      throw;
    }
  };
  CHECK_THROWS_WITH(parallel::launch({.ranks = 2, .limit = std::chrono::seconds(60)}, program),
                    ContainsSubstring("on purpose"));
  CHECK(reported == waited);
  // The devices are as good as before.
  check_ranks(2, [](const Group& host) -> std::string {
    const Device device{device_name(host.rank())};
    Tensor x = full({1000}, host.rank());
    parallel::on_devices(host).all_reduce(x);
    return x.values() == std::vector<double>(1000, 1) ? "" : message("a sum: ", x);
  });
}

TEST_CASE("data parallel: one and two GPUs have the same bits, in a recorded step too", "[parallel][cuda]") {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  std::mutex mutex;
  std::int64_t replays = 0;
  const auto train = [&](const Group& group, int shards, double dropped = 0) {
    const Device device{device_name(group.rank())};
    models::Mlp net({.layers = {16, 32, 4}});
    optim::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
    parallel::DataParallel ranks(group, net, {.shards = shards});
    Generator generator(1);
    const Tensor x = randn({32, 16}, generator), y = randint(0, 4, {32}, generator);
    Step step([&](const Tensor& images, const Tensor& labels) {
      optimizer.zero_grad();
      const ShardLoss shard = ranks.backward(32, [&](const data::Rows& rows) -> ShardLoss {
        const Tensor x_shard = operators::dropout(images.slice(0, rows.begin, rows.end), dropped, true);
        return operators::cross_entropy(net(x_shard), labels.slice(0, rows.begin, rows.end));
      });
      optimizer.step();
      return shard.loss;
    });
    manual_seed(5);
    std::vector<double> values;
    for (int i = 0; i < 8; ++i) values.push_back(step(x, y).item());
    for (const Tensor& tensor : net.parameters())
      for (const double value : tensor.values()) values.push_back(value);
    const std::lock_guard lock(mutex);
    replays += step.replays();
    return values;
  };
  const std::vector<double> alone = train(Group(), 4), near = train(Group(), 1), dropping = train(Group(), 4, 0.25);
  replays = 0;
  check_ranks(2, [&](const Group& group) { return train(group, 4) == alone ? "" : "other bits"; });
  check_ranks(2, [&](const Group& group) { return train(group, 4, 0.25) == dropping ? "" : "other bits by dropout"; });
  check_ranks(2, [&](const Group& group) -> std::string {
    const std::vector<double> found = train(group, 0);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (std::abs(found[i] - near[i]) > 1e-4) return message(found[i], " for ", near[i]);
    return {};
  });
  CHECK(replays > 0);
  // Each rank draws apart, in its recording as well: two shards on two ranks are what one rank makes of two.
  const std::vector<double> two = train(Group(), 2, 0.25);
  replays = 0;
  check_ranks(2, [&](const Group& group) { return train(group, 2, 0.25) == two ? "" : "other bits in a recording"; });
  CHECK(replays > 0);
  // So does a rank with several shards.
  replays = 0;
  CHECK(train(Group(), 4, 0.25) == dropping);
  CHECK(replays > 0);
}

TEST_CASE("data parallel: GPUs count what their sums take and what of it nobody hid, in a recorded step too",
          "[parallel][cuda]") {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  const std::string algorithm = GENERATE("peers", "library");
  check_ranks(2, [&](const Group& host) -> std::string {
    const Device device{device_name(host.rank())};
    const ForcedAlgorithm forced{"all_reduce", algorithm};
    const Group group = parallel::on_devices(host);
    parallel::Collective& transport = group.collective();
    const auto spent = [&] {
      const parallel::Collective::Spent now = transport.spent();
      return std::pair{now.busy, now.waited};
    };
    Tensor gradient = zeros({1 << 18}), other = zeros({1 << 18});
    group.all_reduce(gradient);
    if (spent() != std::pair{0.0, 0.0}) return "it counts though nobody wants to know";
    transport.measure();
    // Alone, all of it is a wait.
    group.all_reduce(gradient);
    const auto [alone, waited] = spent();
    if (!(alone > 0 && alone < 1)) return message("a sum of 1 MiB took ", alone, " s");
    if (std::abs(waited - alone) > 1e-9) return message("alone: busy ", alone, " s, waited ", waited, " s");
    // Beside much, none of it is. (What a recording has nothing to do beside may come to its join late.)
    const auto share_hidden = [&](int products) {
      Tensor factor = rand({2048, 2048}) / 2048;
      Step step([&](const Tensor& x) {
        group.begin_all_reduce(gradient);
        Tensor product = x;
        for (int i = 0; i < products; ++i) product = operators::matmul(product, factor);
        group.join();
        return product + gradient[0];
      });
      for (int i = 0; i < 4; ++i) step(factor);
      const auto before = spent();
      for (int i = 0; i < 20; ++i) step(factor);
      const auto after = spent();
      const double busy = after.first - before.first;
      if (step.replays() == 0 || !(busy > 20 * 1e-6)) return -1.0;
      return 1 - (after.second - before.second) / busy;
    };
    const double bare = share_hidden(0), beside = share_hidden(20);
    if (!(bare >= 0 && bare <= 1)) return message(bare, " of the sums hidden behind nothing");
    if (!(beside > 0.95 && beside <= 1)) return message(beside, " of the sums hidden behind twenty products");
    return {};
  });
}

namespace {

/// Empty where the loss, gradients and running statistics of a step are the means of what the ranks have alone.
std::string wrong_means(const Group& group) {
  Generator generator(1);
  for (const std::int64_t batch : {12, 7}) {
    const Tensor x = randn({batch, 3, 4, 4}, generator, 5, 2), target = randn({batch, 3, 4, 4}, generator);
    const auto loss_of = [&](const nn::Module& net, std::int64_t begin, std::int64_t end) {
      const Tensor difference = net(x.slice(0, begin, end)) - target.slice(0, begin, end);
      return operators::mean(difference * difference);
    };
    const auto values_of = [](const nn::Module& net) {
      std::vector<double> values;
      for (const Tensor& tensor : net.parameters())
        for (const double value : tensor.grad().values()) values.push_back(value);
      for (const nn::NamedTensor& named : net.named_buffers())
        for (const double value : named.tensor.values()) values.push_back(value);
      return values;
    };
    const nn::BatchNorm2d net(3);
    parallel::DataParallel ranks(group, net);
    const double loss = ranks
                            .backward(batch,
                                      [&](const data::Rows& rows) -> ShardLoss {
                                        return {loss_of(net, rows.begin, rows.end), full({1}, rows.size())};
                                      })
                            .loss.item();
    const std::vector<double> found = values_of(net);
    std::vector<double> expected(found.size());
    double whole = 0;
    for (int rank = 0; rank < group.size(); ++rank) {
      const nn::BatchNorm2d own(3);
      const data::Rows rows = data::Share{rank, group.size(), 0}.shard(batch, rank);
      const Tensor shard = loss_of(own, rows.begin, rows.end);
      shard.backward();
      const double weight = static_cast<double>(rows.size()) / static_cast<double>(batch);
      whole += weight * shard.item();
      const std::vector<double> values = values_of(own);
      for (std::size_t i = 0; i < values.size(); ++i) expected[i] += weight * values[i];
    }
    if (std::abs(loss - whole) > 1e-5) return message("a loss of ", loss, " for ", whole);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (std::abs(found[i] - expected[i]) > 1e-5)
        return message("batch ", batch, ", value ", i, ": ", found[i], " for ", expected[i]);
  }
  return {};
}

}  // namespace

TEST_CASE("data parallel: devices average statistics and gradients, whatever the rows of each", "[parallel]") {
  for (const int count : {2, 3})
    check_ranks(count, [](const Group& host) -> std::string {
      const Device device{"debug"};
      return wrong_means(Group(std::make_shared<Acted>(host, *device.mode().memory)));
    });
}

TEST_CASE("data parallel: GPUs average statistics and gradients, whatever the rows of each", "[parallel][cuda]") {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  check_ranks(2, [](const Group& group) -> std::string {
    const Device device{device_name(group.rank())};
    return wrong_means(group);
  });
}

}  // namespace tern::testing
