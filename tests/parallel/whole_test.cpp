// What every rank holds whole has the same bits in every rank, whatever a program does between its steps.

#include "acted.hpp"
#include "ranks.hpp"
#include "tern/nn/load.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/batch_norm.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/parallel/pipeline.hpp"
#include "tern/parallel/split.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::DataParallel;
using parallel::Group;
using parallel::Layout;
using parallel::ShardLoss;

namespace {

struct Points {
  Tensor x, y;
};
Points points(std::int64_t count) {
  Generator generator(8);
  return {randn({count, 4}, generator), randint(0, 3, {count}, generator)};
}

/// In the middle two layers that the ranks have parts of, whose rows they exchange.
nn::Sequential split_net(const Group& group) {
  Generator generator(3);
  return nn::Sequential{nn::Linear(4, 6, {}, generator), nn::Tanh(),
                        parallel::ColumnLinear(group, 6, 12, {.input = Layout::rows}, generator), nn::Tanh(),
                        parallel::RowLinear(group, 12, 3, {.output = Layout::rows}, generator)};
}

nn::Sequential plain_net() {
  Generator generator(3);
  return nn::Sequential{nn::Linear(4, 6, {}, generator), nn::Tanh(), nn::Linear(6, 3, {}, generator)};
}

ShardLoss mean_loss(const nn::Module& net, const Points& all, std::int64_t begin, std::int64_t end) {
  return operators::cross_entropy(net(all.x.slice(0, begin, end)), all.y.slice(0, begin, end));
}

/// The first tensor that is not rank 0's, of those that have no part.
std::string apart_in(const Group& group, const nn::Module& net) {
  const auto find = [&](const std::string& name, const Tensor& tensor) -> std::string {
    const std::vector<double> all = group.all_gather(tensor.flatten()).values();
    const auto count = static_cast<std::size_t>(tensor.numel());
    for (std::size_t i = count; i < all.size(); ++i)
      if (all[i] != all[i % count]) return message(name, ": ", all[i], " in rank ", i / count, " for ", all[i % count]);
    return {};
  };
  std::string first;
  for (const auto& [name, tensor] : net.state()) {
    const bool part = name.starts_with("2.") || name == "4.weight";
    if (group.size() > 1 && part && net.state().size() == 6) continue;
    if (const std::string found = find(name, tensor); first.empty()) first = found;
  }
  return first;
}

std::string far(double found, double expected, const char* what) {
  return std::abs(found - expected) <= 1e-5 * std::abs(expected) ? std::string()
                                                                 : message(what, " is ", found, " for ", expected);
}

}  // namespace

TEST_CASE("whole: gradients of split layers are clipped by the norm of the whole model", "[parallel][ranks]") {
  const Points all = points(12);
  const auto trained = [&](const Group& group, double& norm) {
    nn::Sequential net = split_net(group);
    DataParallel ranks(group, net);
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.5});
    for (int i = 0; i < 10; ++i) {
      sgd.zero_grad();
      (void)ranks.backward(12, [&](const data::Rows& rows) { return mean_loss(net, all, rows.begin, rows.end); });
      norm = optim::clip_grad_norm(net.parameters(), 0.05).item();
      sgd.step();
    }
    return net;
  };
  double norm_of_one = 0;
  const nn::State expected = trained(Group(), norm_of_one).state();
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      double norm = 0;
      const nn::Sequential net = trained(group, norm);
      if (const std::string apart = apart_in(group, net); !apart.empty()) return apart;
      if (const std::string wrong = far(norm, norm_of_one, "the norm"); !wrong.empty()) return wrong;
      for (const auto& [name, tensor] : parallel::whole_state(net)) {
        const std::vector<double> found = tensor.values(), other = expected.at(name).values();
        for (std::size_t i = 0; i < found.size(); ++i)
          if (std::abs(found[i] - other[i]) > 1e-5) return message(name, ": ", found[i], " for ", other[i]);
      }
      return {};
    });
}

namespace {

/// Splits its weight; the base class does not know when it is made.
class Halves : public parallel::SplitModule {
 public:
  explicit Halves(const Group& group)
      : SplitModule(group), weight_(parameter("weight", full({12 / group.size()}, 1.0))) {}
  Tensor forward(const Tensor& x) const override {
    return exchange(group(), operators::sum(exchange(group(), x, Layout::whole, Layout::rows) * weight_),
                    Layout::partial, Layout::whole);
  }
  Layout layout(const std::string& /*name*/) const override { return Layout::rows; }

 private:
  nn::Parameter weight_;
};

}  // namespace

TEST_CASE("whole: a split layer of your own is known where the ranks have seen it", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      const Halves net(group);
      (void)parallel::whole_state(net);
      net(full({12}, 2.0)).backward();
      return far(optim::clip_grad_norm(net.parameters(), 1).item(), 2 * std::sqrt(12.0), "the norm");
    });
}

TEST_CASE("whole: a pipeline's gradients are clipped with the same bits for any number of stages",
          "[parallel][ranks]") {
  const Points all = points(8);
  const auto trained = [&](const Group& group, double& norm) {
    Generator generator(3);
    const nn::Sequential net{nn::Linear(4, 6, {}, generator), nn::Linear(6, 7, {}, generator), nn::Tanh(),
                             nn::Linear(7, 5, {}, generator), nn::Linear(5, 3, {}, generator)};
    parallel::Pipeline pipeline(group, net, {.micro_batches = 2});
    optim::SGD sgd(pipeline.stage().parameters(), {.learning_rate = 0.3});
    for (int i = 0; i < 6; ++i) {
      sgd.zero_grad();
      (void)pipeline.backward(
          8, [&](const data::Rows& rows) { return all.x.slice(0, rows.begin, rows.end); },
          [&](const Tensor& y, const data::Rows& rows) -> ShardLoss {
            return operators::cross_entropy(y, all.y.slice(0, rows.begin, rows.end));
          });
      const Tensor found =
          i % 2 == 0 ? optim::clip_grad_norm(pipeline.stage().parameters(), 0.1) : pipeline.clip_grad_norm(0.1);
      norm = found.item();
      sgd.step();
    }
    return pipeline.whole_state();
  };
  double norm_of_one = 0;
  const nn::State expected = trained(Group(), norm_of_one);
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      double norm = 0;
      for (const auto& [name, tensor] : trained(group, norm))
        if (tensor.values() != expected.at(name).values()) return message(name, " differs");
      return norm == norm_of_one ? std::string() : message("the norm is ", norm, " for ", norm_of_one);
    });
}

TEST_CASE("whole: a stage without parameters takes part in the norm", "[parallel]") {
  const Points all = points(8);
  check_ranks(3, [&](const Group& group) -> std::string {
    Generator generator(3);
    const nn::Sequential net{nn::Linear(4, 3, {}, generator), nn::Dropout(0.0), nn::Linear(3, 3, {}, generator)};
    parallel::Pipeline pipeline(group, net, {.micro_batches = 1});
    (void)pipeline.backward(
        8, [&](const data::Rows&) { return all.x; },
        [&](const Tensor& y, const data::Rows&) -> ShardLoss { return operators::cross_entropy(y, all.y); });
    const double norm = pipeline.clip_grad_norm(1e-3).item();
    double squares = 0;
    for (const Tensor& parameter : pipeline.stage().parameters())
      for (const double value : parameter.grad().values()) squares += value * value;
    Tensor sum = full({1}, squares, DType::float64);
    group.all_reduce(sum);
    if (norm < 1e-2) return message("the norm is ", norm);
    return far(std::sqrt(sum.item()), 1e-3 * norm / (norm + 1e-6), "the norm of what is clipped");
  });
}

TEST_CASE("whole: what is frozen and unfrozen while ranks train is trained alike", "[parallel][ranks]") {
  const Points all = points(12);
  const auto trained = [&](const Group& group, int shards) {
    nn::Sequential net = plain_net();
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.3, .momentum = 0.9});
    nn::freeze(net, {"0.*"});
    DataParallel ranks(group, net, {.shards = shards});
    for (int i = 0; i < 9; ++i) {
      if (i == 3) nn::unfreeze(net, {"0.*"});
      if (i == 6) nn::freeze(net, {"2.weight"});
      sgd.zero_grad();
      if (shards == 0 && i % 2 == 1)
        ranks.backward(mean_loss(net, all, ranks.share().rows(12).begin, ranks.share().rows(12).end).loss);
      else
        (void)ranks.backward(12, [&](const data::Rows& rows) { return mean_loss(net, all, rows.begin, rows.end); });
      sgd.step();
    }
    return net;
  };
  for (const int shards : {0, 4}) {
    CAPTURE(shards);
    const nn::State expected = trained(Group(), shards).state();
    for (const int count : rank_counts())
      check_ranks(count, [&](const Group& group) -> std::string {
        const nn::Sequential net = trained(group, shards);
        if (const std::string apart = apart_in(group, net); !apart.empty()) return apart;
        for (const auto& [name, tensor] : net.state())
          if (const std::string wrong = far(tensor.values()[0], expected.at(name).values()[0], name.c_str());
              !wrong.empty())
            return wrong;
        return {};
      });
  }
}

TEST_CASE("whole: what is frozen in some ranks alone is an error", "[parallel]") {
  const Points all = points(12);
  CHECK_THROWS_AS(parallel::launch({.ranks = 2, .limit = std::chrono::seconds(5)},
                                   [&](const Group& group) {
                                     nn::Sequential net = plain_net();
                                     DataParallel ranks(group, net);
                                     if (group.rank() == 1) nn::freeze(net, {"0.*"});
                                     (void)ranks.backward(12, [&](const data::Rows& rows) {
                                       return mean_loss(net, all, rows.begin, rows.end);
                                     });
                                   }),
                  ParallelError);
}

TEST_CASE("whole: other parameters of the same sizes frozen in each rank are an error that names them", "[parallel]") {
  const Tensor x = points(12).x;
  try {
    parallel::launch({.ranks = 2, .limit = std::chrono::seconds(20)}, [&](const Group& group) {
      nn::Sequential net{nn::Linear(4, 4), nn::Linear(4, 4)};
      DataParallel ranks(group, net);
      nn::freeze(net, {group.rank() == 0 ? "0.*" : "1.*"});
      (void)ranks.backward(12, [&](const data::Rows& rows) -> ShardLoss {
        return operators::mean(operators::square(net(x.slice(0, rows.begin, rows.end))));
      });
    });
    FAIL("trained");
  } catch (const ParallelError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("DataParallel") && ContainsSubstring("frozen"));
  }
}

TEST_CASE("whole: a last batch with fewer examples than ranks, on the host and on devices", "[parallel]") {
  const Points all = points(8);
  for (const bool devices : {false, true})
    for (const bool sums : {false, true})
      for (const int shards : {0, 5}) {
        CAPTURE(devices, sums, shards);
        check_ranks(3, [&](const Group& host) -> std::string {
          const Device device(devices ? "debug" : "vectorized");
          const Group group = devices ? Group(std::make_shared<Acted>(host, *current_scope().mode->memory)) : host;
          const nn::Sequential net = plain_net(), alone = plain_net();
          DataParallel ranks(group, net, {.shards = shards}), one(Group(), alone, {.shards = shards});
          optim::SGD sgd(net.parameters(), {.learning_rate = 0.5}), other(alone.parameters(), {.learning_rate = 0.5});
          for (const std::int64_t batch : {6, 2, 1, 6}) {
            const auto part = [&](const nn::Module& module) {
              return [&](const data::Rows& rows) {
                ShardLoss found = mean_loss(module, all, rows.begin, rows.end);
                if (sums) found.sums = full({2}, static_cast<double>(rows.size()), DType::float64);
                return found;
              };
            };
            sgd.zero_grad();
            other.zero_grad();
            const ShardLoss found = ranks.backward(batch, part(net)), expected = one.backward(batch, part(alone));
            if (const std::string wrong = far(found.loss.item(), expected.loss.item(), "the loss"); !wrong.empty())
              return wrong;
            if (sums && found.sums.values() != std::vector<double>(2, static_cast<double>(batch)))
              return message("the sums are ", found.sums);
            sgd.step();
            other.step();
          }
          if (const std::string apart = apart_in(host, net); !apart.empty()) return apart;
          for (const auto& [name, tensor] : net.state())
            if (const std::string wrong = far(tensor.values()[0], alone.state().at(name).values()[0], name.c_str());
                !wrong.empty())
              return wrong;
          return {};
        });
      }
}

TEST_CASE("whole: what one rank alone has used is the others' too, on devices", "[parallel]") {
  const Points all = points(8);
  check_ranks(2, [&](const Group& host) -> std::string {
    const Device device("debug");
    const Group group(std::make_shared<Acted>(host, *current_scope().mode->memory));
    const nn::Sequential net = plain_net();
    DataParallel ranks(group, net);
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.5, .weight_decay = 0.1});
    for (int i = 0; i < 3; ++i) {
      sgd.zero_grad();
      (void)ranks.backward(8, [&](const data::Rows& rows) -> ShardLoss {
        const Tensor x = all.x.slice(0, rows.begin, rows.end);
        // The second rank passes the last layer by.
        if (host.rank() == 1) return operators::mean(net[0](x));
        return mean_loss(net, all, rows.begin, rows.end);
      });
      sgd.step();
    }
    return apart_in(host, net);
  });
}

TEST_CASE("whole: what one rank alone has used is the others' too, in the first run of a step", "[parallel]") {
  const Points all = points(8);
  check_ranks(2, [&](const Group& host) -> std::string {
    const Device device("debug");
    const Group group(std::make_shared<Acted>(host, *current_scope().mode->memory));
    const nn::Sequential net = plain_net();
    DataParallel ranks(group, net);
    optim::SGD sgd(net.parameters(), {.learning_rate = 0.5, .weight_decay = 0.1});
    const auto train = [&](const Tensor& x) {
      sgd.zero_grad();
      const Tensor loss = ranks
                              .backward(8,
                                        [&](const data::Rows& rows) -> ShardLoss {
                                          // The second rank passes the last layer by.
                                          if (host.rank() == 1)
                                            return operators::mean(net[0](x.slice(0, rows.begin, rows.end)));
                                          return mean_loss(net, all, rows.begin, rows.end);
                                        })
                              .loss;
      sgd.step();
      return loss;
    };
    // A group that is acted cannot be recorded, so every call is the first one of a Step.
    for (int i = 0; i < 3; ++i) {
      Step step(train);
      (void)step.run({all.x});
      if (std::string apart = apart_in(host, net); !apart.empty()) return message("call ", i, ": ", apart);
    }
    return {};
  });
}

TEST_CASE("whole: batch norm of all ranks needs an example in each, and says so", "[parallel]") {
  std::string said;
  try {
    parallel::launch({.ranks = 3, .limit = std::chrono::seconds(5)}, [&](const Group& group) {
      const nn::Sequential net{parallel::BatchNorm2d(group, 2), nn::Flatten(), nn::Linear(8, 2)};
      DataParallel ranks(group, net);
      ranks.check(3);
      const Tensor x = ones({2, 2, 2, 2});
      (void)ranks.backward(2, [&](const data::Rows& rows) -> ShardLoss {
        return operators::mean(net(x.slice(0, rows.begin, rows.end)));
      });
    });
  } catch (const ShapeError& error) {
    said = error.what();
  }
  CHECK_THAT(said, ContainsSubstring("a batch of 2 examples leaves some of 3 ranks without any"));
  CHECK_THAT(said, ContainsSubstring("0, BatchNorm2d"));
}

TEST_CASE("whole: the loss of a 16-bit net is reported in float32", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      const nn::Linear net(4, 3, {.dtype = DType::bfloat16});
      DataParallel ranks(group, net, {.shards = 4});
      const ShardLoss found = ranks.backward(8, [&](const data::Rows&) -> ShardLoss {
        return operators::sum(net(ones({1, 4}, DType::bfloat16))).to(DType::float32) * 0 + 2.5452;
      });
      return far(found.loss.item(), 2.5452, "the loss");
    });
}

TEST_CASE("whole: replicas begin with the parameters of the first rank", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      Generator generator(static_cast<std::uint64_t>(group.rank()) + 1), first(1);
      nn::Sequential net{nn::Linear(4, 3, {}, generator), nn::Linear(3, 2, {}, generator)};
      const nn::Sequential expected{nn::Linear(4, 3, {}, first), nn::Linear(3, 2, {}, first)};
      nn::freeze(net, {"0.*"});
      const DataParallel ranks(group, net);
      for (const auto& [name, tensor] : net.state())
        if (tensor.values() != expected.state().at(name).values()) return message(name, " is not the first rank's");
      return {};
    });
}

TEST_CASE("whole: replicas with other parameters than the first rank's are an error that names them", "[parallel]") {
  const auto said = [](const std::function<nn::Sequential(int)>& make) {
    try {
      parallel::launch({.ranks = 2, .limit = std::chrono::seconds(5)}, [&](const Group& group) {
        const nn::Sequential net = make(group.rank());
        const DataParallel ranks(group, net);
      });
    } catch (const ParallelError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(said([](int rank) { return nn::Sequential{nn::Linear(2, 2 + rank)}; }),
             ContainsSubstring("0.weight float32 [3,2]"));
  CHECK_THAT(said([](int rank) {
               return rank == 0 ? nn::Sequential{nn::Linear(2, 2)} : nn::Sequential{nn::Linear(2, 2), nn::Linear(2, 2)};
             }),
             ContainsSubstring("1.weight"));
  CHECK_THAT(said([](int rank) {
               nn::Sequential net{nn::Linear(2, 2), nn::Linear(2, 2)};
               if (rank == 1) nn::freeze(net, {"1.*"});
               return net;
             }),
             ContainsSubstring("to train"));
}

}  // namespace tern::testing
