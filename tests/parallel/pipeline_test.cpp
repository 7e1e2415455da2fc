// Stages of a net over the ranks, and grids of ranks that are data parallel as well.

#include "tern/parallel/pipeline.hpp"

#include <optional>

#include "parallel/cut.hpp"
#include "ranks.hpp"
#include "support/files.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/parallel/mesh.hpp"
#include "tern/parallel/split.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::Group;
using parallel::Layout;
using parallel::Mesh;
using parallel::Pipeline;
using parallel::ShardLoss;

namespace {

/// Statistics, masks, activations behind layers, a stage without parameters.
nn::Sequential deep_net(double dropout = 0.3) {
  Generator generator(11);
  nn::Sequential net{nn::Conv2d(1, 3, 3, {}, generator), nn::Relu()};
  if (dropout > 0) net.add("norm", nn::BatchNorm2d(3));
  net.add("flatten", nn::Flatten());
  if (dropout > 0) net.add("drop1", nn::Dropout(dropout));
  net.add("a", nn::Linear(48, 20, {}, generator)).add("tanh", nn::Tanh());
  if (dropout > 0) net.add("drop2", nn::Dropout(dropout));
  return net.add("b", nn::Linear(20, 12, {}, generator))
      .add("relu", nn::Relu())
      .add("c", nn::Linear(12, 4, {}, generator));
}

struct Examples {
  Tensor x, y;
};
Examples examples() {
  Generator generator(3);
  return {randn({48, 1, 6, 6}, generator), randint(0, 4, {48}, generator)};
}

struct Trained {
  std::vector<double> losses = {}, right = {};
  std::vector<std::pair<std::string, std::vector<double>>> state = {};
  std::uint64_t position = 0;
  bool operator==(const Trained&) const = default;
};

Tensor right_of(const Tensor& logits, const Tensor& labels) {
  return operators::sum(
      operators::equal(operators::argmax(logits).to(DType::float64), labels.to(DType::float64)).to(DType::float64));
}

/// Four steps with 12 of the examples each.
Trained train(const Group& group, const parallel::PipelineOptions& options, double dropout = 0.3) {
  manual_seed(7);
  Pipeline pipeline(group, deep_net(dropout), options);
  std::optional<optim::SGD> optimizer;
  if (const std::vector<Tensor> own = pipeline.stage().parameters(); !own.empty())
    optimizer.emplace(own, optim::SgdOptions{.learning_rate = 0.05, .momentum = 0.9});
  const Examples all = examples();
  Trained trained;
  for (std::int64_t begin = 0; begin < 48; begin += 12) {
    if (optimizer) optimizer->zero_grad();
    const ShardLoss shard = pipeline.backward(
        12, [&](const data::Rows& rows) { return all.x.slice(0, begin + rows.begin, begin + rows.end); },
        [&](const Tensor& y, const data::Rows& rows) -> ShardLoss {
          const Tensor labels = all.y.slice(0, begin + rows.begin, begin + rows.end);
          return {operators::cross_entropy(y, labels), right_of(y, labels)};
        });
    if (optimizer) optimizer->step();
    trained.losses.push_back(shard.loss.item());
    trained.right.push_back(shard.sums.item());
  }
  for (const auto& [name, tensor] : pipeline.whole_state()) trained.state.emplace_back(name, tensor.values());
  trained.position = default_generator().position();
  return trained;
}

/// The same without a pipeline.
Trained train_plainly(double dropout) {
  manual_seed(7);
  const nn::Sequential net = deep_net(dropout);
  optim::SGD optimizer(net.parameters(), {.learning_rate = 0.05, .momentum = 0.9});
  const Examples all = examples();
  Trained trained;
  for (std::int64_t begin = 0; begin < 48; begin += 12) {
    optimizer.zero_grad();
    const Tensor labels = all.y.slice(0, begin, begin + 12), y = net(all.x.slice(0, begin, begin + 12));
    const Tensor loss = operators::cross_entropy(y, labels);
    loss.backward();
    optimizer.step();
    trained.losses.push_back(loss.item());
    trained.right.push_back(right_of(y, labels).item());
  }
  for (const auto& [name, tensor] : net.state()) trained.state.emplace_back(name, tensor.values());
  trained.position = default_generator().position();
  return trained;
}

std::string far(const Trained& found, const Trained& expected, double tolerance) {
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    if (std::abs(found.losses[i] - expected.losses[i]) > tolerance)
      return message("loss ", i, ": ", found.losses[i], " for ", expected.losses[i]);
  if (found.state.size() != expected.state.size()) return "other names";
  for (std::size_t i = 0; i < expected.state.size(); ++i) {
    const auto& [name, values] = expected.state[i];
    if (found.state[i].first != name) return "other names";
    for (std::size_t k = 0; k < values.size(); ++k)
      if (std::abs(found.state[i].second[k] - values[k]) > tolerance)
        return message(name, ": ", found.state[i].second[k], " for ", values[k]);
  }
  return {};
}

std::vector<std::size_t> cut(const nn::Sequential& net, const std::vector<double>& costs, std::size_t stages) {
  return parallel::cut_stages(net, costs, stages);
}

}  // namespace

TEST_CASE("pipeline: the same bits for any number of stages", "[parallel][ranks]") {
  for (const int micro_batches : {1, 2, 6, 12}) {
    const Trained alone = train(Group(), {.micro_batches = micro_batches});
    CHECK(alone.position == 8);  // two masks a step
    for (const int count : rank_counts())
      check_ranks(count, [&](const Group& group) -> std::string {
        const Trained found = train(group, {.micro_batches = micro_batches});
        if (found == alone) return {};
        if (found.losses != alone.losses) return message("losses ", found.losses[0], " for ", alone.losses[0]);
        return found.state != alone.state ? "other weights" : "another place of the generator";
      });
  }
}

TEST_CASE("pipeline: one micro-batch is a plain training, several are near to it", "[parallel][ranks]") {
  const Trained plain = train_plainly(0.3), without = train_plainly(0);
  CHECK(train(Group(), {.micro_batches = 1}) == plain);
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) { return far(train(group, {.micro_batches = 4}, 0), without, 1e-5); });
}

TEST_CASE("pipeline: stages cost alike", "[parallel][ranks]") {
  using Cuts = std::vector<std::size_t>;
  Generator generator(1);
  nn::Sequential net;
  for (int i = 0; i < 6; ++i) net.add(nn::Linear(2, 2, {}, generator));
  CHECK(cut(net, {}, 3) == Cuts{0, 2, 4, 6});
  CHECK(cut(net, {9, 1, 1, 1, 1, 1}, 2) == Cuts{0, 1, 6});
  CHECK(cut(net, {1, 1, 1, 1, 1, 9}, 3)[2] == 5);
  CHECK(cut(net, {0, 0, 0, 0, 0, 0}, 6) == Cuts{0, 1, 2, 3, 4, 5, 6});
  // An activation stays with the layer that computes it.
  const nn::Sequential pairs{nn::Linear(2, 2), nn::Relu(), nn::Linear(2, 2), nn::Relu()};
  CHECK(cut(pairs, {1, 9, 1, 1}, 2) == Cuts{0, 2, 4});
  CHECK_THAT(said<ShapeError>([&] { cut(pairs, {}, 3); }),
             ContainsSubstring("3 ranks for a net of 4 modules, 2 of them"));
  CHECK_THAT(said<ShapeError>([&] { cut(pairs, {1, 2}, 2); }), ContainsSubstring("2 costs for 4 modules"));
  CHECK_THAT(said<ShapeError>([&] { cut(pairs, {1, 2, -1, 2}, 2); }), ContainsSubstring("costs -1"));

  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      // What rank 0 measured counts.
      const std::vector<double> costs =
          group.rank() == 0 ? std::vector<double>{1, 1, 1, 1, 1, 9} : std::vector<double>();
      const Pipeline pipeline(group, net, {.costs = costs});
      if (group.rank() + 1 == group.size() && group.size() > 1 && pipeline.first() != 5) return "cut elsewhere";
      if (pipeline.stage().size() != pipeline.last() - pipeline.first()) return "another stage";
      const std::string name = message(pipeline.first(), ".weight");
      return pipeline.stage().state().contains(name) ? "" : "its modules have other names";
    });
}

TEST_CASE("pipeline: costs are measured, and nothing is left of it", "[parallel]") {
  const nn::Sequential net = deep_net();
  manual_seed(5);
  nn::State before;
  for (const auto& [name, tensor] : net.state()) before.emplace(name, tensor.clone());
  const Tensor kept = full({3, 1, 3, 3}, 2);
  Tensor(net.parameters()[0]).set_grad(kept);
  const std::vector<double> costs = parallel::measured_costs(net, examples().x);
  CHECK(costs.size() == net.size());
  for (const double cost : costs) CHECK(cost > 0);
  for (const auto& [name, tensor] : net.state()) CHECK(tensor.values() == before.at(name).values());
  CHECK(net.parameters()[0].grad().values() == std::vector<double>(27, 2));
  CHECK_FALSE(net.parameters()[1].grad().defined());
  CHECK(default_generator().position() == 0);
}

TEST_CASE("pipeline: a state goes in stage by stage", "[parallel]") {
  const nn::State whole = deep_net().state();
  check_ranks(3, [&](const Group& group) -> std::string {
    Pipeline pipeline(group, deep_net());
    for (const Tensor& tensor : pipeline.stage().parameters()) tensor.detach().fill_(0);
    pipeline.stage().load_state(whole, {.allow_unexpected = true});
    for (const auto& [name, tensor] : pipeline.whole_state())
      if (tensor.values() != whole.at(name).values()) return name;
    return {};
  });
}

TEST_CASE("pipeline: mistakes are typed errors that name them", "[parallel]") {
  const auto on_two = [](const std::function<void(const Group&)>& program) { parallel::launch({.ranks = 2}, program); };
  const auto step = [](Pipeline& pipeline, std::int64_t batch, const Shape& one) {
    pipeline.backward(
        batch,
        [&](const data::Rows& rows) {
          Shape shape = one;
          shape[0] = rows.size();
          return ones(shape);
        },
        [](const Tensor& y, const data::Rows&) -> ShardLoss { return operators::mean(y); });
  };
  const nn::Sequential net{nn::Linear(3, 3), nn::Linear(3, 3)};
  Pipeline pipeline(Group(), net, {.micro_batches = 4});
  CHECK_THAT(said<ShapeError>([&] { step(pipeline, 6, {1, 3}); }), ContainsSubstring("6 examples is not cut into 4"));
  CHECK_THAT(said<ShapeError>([&] { Pipeline(Group(), net, {.micro_batches = 0}); }), ContainsSubstring("1 to 256"));
  CHECK_THAT(said<ShapeError>([&] {
               on_two([](const Group& group) { Pipeline(group, nn::Sequential{nn::Linear(3, 3), nn::Relu()}); });
             }),
             ContainsSubstring("2 ranks for a net of 2 modules, 1 of them"));
  CHECK_THAT(said<ParallelError>([&] {
               on_two([&](const Group& group) {
                 Pipeline(group, group.rank() == 0
                                     ? net
                                     : nn::Sequential{nn::Linear(3, 3), nn::Relu(), nn::Tanh(), nn::Linear(3, 3)});
               });
             }),
             ContainsSubstring("rank 0 has a net of 2 modules, rank 1 one of 4"));
  CHECK_THAT(said<ShapeError>([&] {
               on_two([&](const Group& group) {
                 Pipeline two(group, net, {.micro_batches = 2});
                 step(two, 4, {1, 3});
                 step(two, 8, {1, 3});
                 step(two, 4, {1, 2, 3});
               });
             }),
             ContainsSubstring("inputs of several sizes"));
  CHECK_THAT(said<ShapeError>([&] { step(pipeline, 4, {1, 5}); }), ContainsSubstring("0, Linear(3, 3)"));
}

TEST_CASE("mesh: rows hold a copy of the model, columns the same shard of it", "[parallel]") {
  check_ranks(4, [](const Group& group) -> std::string {
    const Mesh mesh(group, 2);
    if (mesh.model.size() != 2 || mesh.model.rank() != group.rank() % 2) return "another row";
    if (mesh.data.size() != 2 || mesh.data.rank() != group.rank() / 2) return "another column";
    Tensor sum = full({1}, group.rank());
    mesh.data.all_reduce(sum);
    if (sum.item() != 2 + 2 * (group.rank() % 2)) return message("a column's sum is ", sum);
    return said<ShapeError>([&] { Mesh(group, 3); }).find("copies of a model of 3 ranks") != std::string::npos ? ""
                                                                                                               : "3";
  });
}

namespace {

nn::Sequential grid_net(const Group* group) {
  Generator generator(2);
  nn::Sequential net{nn::Conv2d(1, 3, 3, {}, generator), nn::Relu(), nn::Flatten()};
  if (group != nullptr)
    net.add("a", parallel::ColumnLinear(*group, 48, 20, {}, generator))
        .add("tanh", nn::Tanh())
        .add("b", parallel::RowLinear(*group, 20, 4, {}, generator));
  else
    net.add("a", nn::Linear(48, 20, {}, generator)).add("tanh", nn::Tanh()).add("b", nn::Linear(20, 4, {}, generator));
  return net;
}

/// Three steps with all examples, each copy of the model among `model` ranks.
Trained train_grid(const Group& group, int model, int shards = 0) {
  const Mesh mesh(group, model);
  const nn::Sequential net = grid_net(&mesh.model);
  optim::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  parallel::DataParallel ranks(mesh.data, net, {.shards = shards});
  const Examples all = examples();
  Trained trained;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    trained.losses.push_back(ranks
                                 .backward(48,
                                           [&](const data::Rows& rows) -> ShardLoss {
                                             return operators::cross_entropy(net(all.x.slice(0, rows.begin, rows.end)),
                                                                             all.y.slice(0, rows.begin, rows.end));
                                           })
                                 .loss.item());
    optimizer.step();
  }
  for (const auto& [name, tensor] : parallel::whole_state(net)) trained.state.emplace_back(name, tensor.values());
  return trained;
}

Trained train_grid_alone() {
  const nn::Sequential net = grid_net(nullptr);
  optim::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  const Examples all = examples();
  Trained trained;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const Tensor loss = operators::cross_entropy(net(all.x), all.y);
    loss.backward();
    optimizer.step();
    trained.losses.push_back(loss.item());
  }
  for (const auto& [name, tensor] : net.state()) trained.state.emplace_back(name, tensor.values());
  return trained;
}

}  // namespace

TEST_CASE("mesh: data parallel copies of split layers learn what one device does", "[parallel]") {
  const Trained alone = train_grid_alone();
  for (const int model : {1, 2, 4})
    check_ranks(4, [&](const Group& group) { return far(train_grid(group, model), alone, 1e-5); });
  // With a fixed number of shards the number of copies changes no bit.
  Trained two;
  std::mutex mutex;
  check_ranks(2, [&](const Group& group) {
    const Trained found = train_grid(group, 2, 4);
    const std::lock_guard lock(mutex);
    if (group.rank() == 0) two = found;
    return far(found, alone, 1e-5);
  });
  check_ranks(4, [&](const Group& group) { return train_grid(group, 2, 4) == two ? "" : "other bits"; });
  CHECK_THAT(said<ParallelError>([&] {
               parallel::launch({.ranks = 4}, [](const Group& group) {
                 const Mesh mesh(group, 2);
                 parallel::DataParallel(group, grid_net(&mesh.model));
               });
             }),
             ContainsSubstring("some of the 4 ranks have the same shard of a.weight"));
}

TEST_CASE("mesh: data parallel pipelines learn what one device does", "[parallel]") {
  const Trained alone = train_grid_alone();
  for (const int model : {1, 2})
    check_ranks(4, [&](const Group& group) -> std::string {
      const Mesh mesh(group, model);
      Pipeline pipeline(mesh.model, grid_net(nullptr), {.micro_batches = 3});
      optim::SGD optimizer(pipeline.stage().parameters(), {.learning_rate = 0.1, .momentum = 0.9});
      parallel::DataParallel ranks(mesh.data, pipeline.stage());
      const Examples all = examples();
      const std::int64_t own = 48 / mesh.data.size(), begin = own * mesh.data.rank();
      Trained trained;
      for (int step = 0; step < 3; ++step) {
        optimizer.zero_grad();
        Tensor loss =
            pipeline
                .backward(
                    own, [&](const data::Rows& rows) { return all.x.slice(0, begin + rows.begin, begin + rows.end); },
                    [&](const Tensor& y, const data::Rows& rows) -> ShardLoss {
                      return operators::cross_entropy(y, all.y.slice(0, begin + rows.begin, begin + rows.end));
                    })
                .loss;
        ranks.average();
        mesh.data.all_reduce(loss, parallel::Reduction::mean);
        optimizer.step();
        trained.losses.push_back(loss.item());
      }
      for (const auto& [name, tensor] : pipeline.whole_state()) trained.state.emplace_back(name, tensor.values());
      return far(trained, alone, 1e-5);
    });
}

}  // namespace tern::testing
