#include "tern/parallel/data_parallel.hpp"

#include "ranks.hpp"
#include "support/files.hpp"
#include "tern/modes/device.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/batch_norm.hpp"
#include "tern/run/step.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::DataParallel;
using parallel::Group;
using parallel::ShardLoss;

namespace {

/// Convolution, statistics, dropout, a layer that is frozen and one that nothing uses.
class Net : public nn::Module {
 public:
  explicit Net(std::uint64_t seed) : Net(Generator(seed)) {}
  Tensor forward(const Tensor& x) const override {
    const Tensor hidden = operators::relu(norm_(conv_(x))).flatten(1);
    return last_(drop_(frozen_(hidden)));
  }

 private:
  explicit Net(Generator generator)
      : conv_(module("conv", nn::Conv2d(1, 3, 3, {}, generator))),
        norm_(module("norm", nn::BatchNorm2d(3))),
        frozen_(module("frozen", nn::Linear(48, 20, {}, generator))),
        unused_(module("unused", nn::Linear(7, 5, {}, generator))),
        drop_(module("drop", nn::Dropout(0.3))),
        last_(module("last", nn::Linear(20, 4, {}, generator))) {
    for (Tensor& tensor : frozen_.parameters()) tensor.set_requires_grad(false);
  }

  nn::Conv2d conv_;
  nn::BatchNorm2d norm_;
  nn::Linear frozen_, unused_;
  nn::Dropout drop_;
  nn::Linear last_;
};

std::vector<Tensor> trained_of(const nn::Module& net) {
  std::vector<Tensor> tensors = net.parameters();
  std::erase_if(tensors, [](const Tensor& tensor) { return !tensor.requires_grad(); });
  return tensors;
}

struct Examples {
  Tensor x, y;
};
Examples examples(std::int64_t count) {
  Generator generator(3);
  return {randn({count, 1, 6, 6}, generator), randint(0, 4, {count}, generator)};
}

std::vector<float> all_of(const nn::Module& net, optim::Optimizer& optimizer) {
  std::vector<float> values;
  for (const auto& [name, tensor] : net.state())
    for (const double value : tensor.values()) values.push_back(static_cast<float>(value));
  for (const auto& [name, tensor] : optimizer.state())
    for (const double value : tensor.values()) values.push_back(static_cast<float>(value));
  return values;
}

struct Trained {
  std::vector<float> net = {};
  std::vector<double> losses = {}, right = {};
  std::uint64_t position = 0;
  bool operator==(const Trained&) const = default;
};

/// `steps` batches of 22 examples (the last has 10), from where `from` stood.
Trained train(const Group& group, const parallel::DataParallelOptions& options, int first = 0, int last = 5,
              nn::State* model = nullptr, nn::State* state = nullptr) {
  // Every rank begins with other weights, and gets those of rank 0.
  Net net(10 + static_cast<std::uint64_t>(group.rank()));
  if (model != nullptr && !model->empty()) net.load_state(*model);
  manual_seed(7);
  default_generator().set_position(static_cast<std::uint64_t>(first));
  optim::SGD optimizer(trained_of(net), {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  if (state != nullptr && !state->empty()) optimizer.load_state(*state);
  DataParallel ranks(group, net, options);
  const Examples all = examples(98);
  Trained trained;
  for (int step = first; step < last; ++step) {
    const std::int64_t begin = 22 * step, end = std::min<std::int64_t>(98, begin + 22);
    optimizer.zero_grad();
    const ShardLoss shard = ranks.backward(end - begin, [&](const data::Rows& rows) -> ShardLoss {
      const Tensor y = all.y.slice(0, begin + rows.begin, begin + rows.end);
      const Tensor logits = net(all.x.slice(0, begin + rows.begin, begin + rows.end));
      return {
          operators::cross_entropy(logits, y),
          operators::sum(
              operators::equal(operators::argmax(logits).to(DType::float64), y.to(DType::float64)).to(DType::float64))};
    });
    optimizer.step();
    trained.losses.push_back(shard.loss.item());
    trained.right.push_back(shard.sums.item());
  }
  trained.net = all_of(net, optimizer);
  trained.position = default_generator().position();
  if (model != nullptr) *model = net.state();
  if (state != nullptr) *state = optimizer.state();
  return trained;
}

std::string difference(const Trained& found, const Trained& expected) {
  if (found.losses != expected.losses) return message("losses ", found.losses[0], " and ", expected.losses[0]);
  if (found.right != expected.right) return "other numbers of right answers";
  if (found.net != expected.net) return "other weights";
  return found == expected ? "" : "another place of the generator";
}

}  // namespace

TEST_CASE("data parallel: the same bits for any number of ranks", "[parallel][ranks]") {
  for (const int shards : {4, 6, 16}) {
    const Trained alone = train(Group(), {.shards = shards});
    CHECK(alone.position == 5);  // each step draws one mask
    for (const int count : rank_counts())
      check_ranks(count, [&](const Group& group) {
        // Small buckets and large ones: how gradients travel changes nothing.
        return difference(train(group, {.shards = shards, .bucket_bytes = 200}), alone) +
               difference(train(group, {.shards = shards}), alone);
      });
  }
}

TEST_CASE("data parallel: one rank and one shard are a plain training", "[parallel]") {
  const Trained found = train(Group(), {});
  Net net(10);
  manual_seed(7);
  optim::SGD optimizer(trained_of(net), {.learning_rate = 0.05, .momentum = 0.9, .weight_decay = 1e-3});
  const Examples all = examples(98);
  for (int step = 0; step < 5; ++step) {
    const std::int64_t begin = 22 * step, end = std::min<std::int64_t>(98, begin + 22);
    optimizer.zero_grad();
    operators::cross_entropy(net(all.x.slice(0, begin, end)), all.y.slice(0, begin, end)).backward();
    optimizer.step();
  }
  CHECK(found.net == all_of(net, optimizer));
  CHECK(found == train(Group(), {.shards = 1}));
}

TEST_CASE("data parallel: goes on with another number of ranks", "[parallel]") {
  const Trained whole = train(Group(), {.shards = 8});
  for (const auto& [before, after] : {std::pair{2, 4}, std::pair{4, 3}, std::pair{3, 1}}) {
    nn::State model, state;
    std::mutex mutex;
    parallel::launch({.ranks = before}, [&](const Group& group) {
      nn::State own_model, own_state;
      train(group, {.shards = 8}, 0, 2, &own_model, &own_state);
      const std::lock_guard lock(mutex);
      if (group.rank() != 0) return;
      model = own_model;
      state = own_state;
    });
    check_ranks(after, [&](const Group& group) -> std::string {
      nn::State own_model, own_state;
      for (const auto& [name, tensor] : model) own_model.emplace(name, tensor.clone());
      for (const auto& [name, tensor] : state) own_state.emplace(name, tensor.clone());
      return train(group, {.shards = 8}, 2, 5, &own_model, &own_state).net == whole.net ? "" : "other weights";
    });
  }
}

TEST_CASE("data parallel: without shards all ranks agree, and are near to one", "[parallel][ranks]") {
  // Without dropout and statistics, which are those of a rank's shard, the mean is the mean.
  const auto gradients = [](const Group& group) {
    Net net(1);
    net.eval();
    DataParallel ranks(group, net);
    const Examples all = examples(24);
    ranks.backward(24, [&](const data::Rows& rows) -> ShardLoss {
      return operators::cross_entropy(net(all.x.slice(0, rows.begin, rows.end)), all.y.slice(0, rows.begin, rows.end));
    });
    std::vector<double> values;
    for (const nn::NamedTensor& named : net.named_parameters())
      if (named.tensor.grad().defined())
        for (const double value : named.tensor.grad().values()) values.push_back(value);
    return values;
  };
  const std::vector<double> alone = gradients(Group());
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      const std::vector<double> found = gradients(group);
      if (found.size() != alone.size()) return message(found.size(), " elements of ", alone.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        if (std::abs(found[i] - alone[i]) > 1e-6) return message(found[i], " for ", alone[i]);
      const Tensor first = tensor(found, {static_cast<std::int64_t>(found.size())});
      group.broadcast(first);
      return first.values() == found ? "" : "ranks have other bits";
    });
}

namespace {

/// A convolution, a batch norm and a layer behind it.
template <class Norm>
class Normal : public nn::Module {
 public:
  explicit Normal(const Norm& norm) : Normal(norm, Generator(8)) {}
  Tensor forward(const Tensor& x) const override { return last_(operators::relu(norm_(conv_(x))).flatten(1)); }

 private:
  Normal(const Norm& norm, Generator generator)
      : conv_(module("conv", nn::Conv2d(1, 3, 3, {}, generator))),
        norm_(module("norm", norm)),
        last_(module("last", nn::Linear(48, 4, {}, generator))) {}
  nn::Conv2d conv_;
  Norm norm_;
  nn::Linear last_;
};

/// The gradients and buffers of one step on 22 examples, and what it then says of others.
template <class Norm>
std::vector<double> normal_step(const Group& group, const Norm& norm) {
  Normal<Norm> net(norm);
  DataParallel ranks(group, net);
  const Examples all = examples(30);
  ranks.backward(22, [&](const data::Rows& rows) -> ShardLoss {
    return operators::cross_entropy(net(all.x.slice(0, rows.begin, rows.end)), all.y.slice(0, rows.begin, rows.end));
  });
  std::vector<double> values;
  for (const Tensor& tensor : net.parameters())
    for (const double value : tensor.grad().values()) values.push_back(value);
  for (const nn::NamedTensor& named : net.named_buffers())
    for (const double value : named.tensor.values()) values.push_back(value);
  net.eval();
  for (const double value : net(all.x.slice(0, 22, 30)).values()) values.push_back(value);
  return values;
}

}  // namespace

TEST_CASE("data parallel: batch norm of all ranks is that of the whole batch", "[parallel][ranks]") {
  const std::vector<double> alone = normal_step(Group(), nn::BatchNorm2d(3, {.momentum = 0.3}));
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      const std::vector<double> found = normal_step(group, parallel::BatchNorm2d(group, 3, {.momentum = 0.3}));
      if (found.size() != alone.size()) return message(found.size(), " values, ", alone.size(), " expected");
      for (std::size_t i = 0; i < found.size(); ++i)
        if (std::abs(found[i] - alone[i]) > 2e-6) return message("value ", i, ": ", found[i], " for ", alone[i]);
      return {};
    });
  // A rank's own statistics are others.
  if (!under_mpi())
    check_ranks(2, [&](const Group& group) -> std::string {
      const std::vector<double> found = normal_step(group, nn::BatchNorm2d(3, {.momentum = 0.3}));
      return std::abs(found[0] - alone[0]) > 2e-6 ? "" : "the check could not fail";
    });
  const Normal<parallel::BatchNorm2d> net(parallel::BatchNorm2d(Group(), 3));
  CHECK_THAT(said<Error>([&] { DataParallel(Group(), net, {.shards = 4}); }),
             ContainsSubstring("norm, BatchNorm2d(3, of all ranks), needs all of a batch at once"));
}

TEST_CASE("data parallel: batch norm of 16-bit images counts and averages in float32", "[parallel]") {
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    Generator generator(4);
    const Tensor x = rand({30, 3, 5, 5}, generator, 9, 11).to(dtype);  // 750 per channel: no bfloat16
    const nn::BatchNorm2d own(3, {.dtype = dtype});
    const parallel::BatchNorm2d shared(Group(), 3, {.dtype = dtype});
    const Tensor y = own(x), found = shared(x);
    CHECK(found.dtype() == dtype);
    const std::vector<double> want = y.values(), got = found.values();
    for (std::size_t i = 0; i < want.size(); ++i) REQUIRE(std::abs(got[i] - want[i]) < 0x1p-6);
    for (std::size_t i = 0; i < 2; ++i) {
      const Tensor running = shared.named_buffers()[i].tensor;
      CHECK(running.dtype() == DType::float32);
      const std::vector<double> a = running.values(), b = own.named_buffers()[i].tensor.values();
      for (std::size_t c = 0; c < 3; ++c) CHECK(a[c] == Approx(b[c]).epsilon(1e-5));
    }
  }
}

TEST_CASE("data parallel: a loop of your own, with gradients that are added up first", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      nn::Linear net(3, 2);
      const double own = group.rank() + 1, sum = group.size() * (group.size() + 1) / 2.0;
      DataParallel ranks(group, net, {.bucket_bytes = 8});
      if (ranks.buckets() != 2) return message(ranks.buckets(), " buckets");
      const auto loss = [&](double scale) { return operators::sum(net(ones({1, 3}))) * scale; };
      loss(own).backward();  // not sent
      ranks.backward(loss(10 * own));
      for (const Tensor& tensor : net.parameters())
        for (const double value : tensor.grad().values())
          if (std::abs(value - 11 * sum / group.size()) > 1e-5) return message("a gradient of ", value);
      // What is there already is the same everywhere, so that its mean is itself.
      ranks.backward(loss(own));
      const double found = net.parameters()[0].grad().values()[0];
      return std::abs(found - 12 * sum / group.size()) < 1e-5 ? "" : message("then a gradient of ", found);
    });
}

TEST_CASE("data parallel: what no rank uses has no gradient, what one uses has", "[parallel][ranks]") {
  for (const int shards : {0, 5})
    for (const int count : rank_counts())
      check_ranks(count, [&](const Group& group) -> std::string {
        class Two : public nn::Module {
         public:
          Tensor forward(const Tensor& x) const override { return a(x); }
          nn::Linear a = module("a", nn::Linear(3, 3)), b = module("b", nn::Linear(3, 3)),
                     c = module("c", nn::Linear(3, 3));
        } two;
        DataParallel pair(group, two, {.shards = shards});
        pair.backward(10, [&](const data::Rows& rows) -> ShardLoss {
          // b only where the first examples are.
          return operators::sum((rows.begin == 0 ? two.b : two.a)(ones({1, 3})));
        });
        const bool several = group.size() > 1 || shards > 1;
        if (two.c.parameters()[0].grad().defined()) return "a gradient for what nobody uses";
        if (!two.b.parameters()[0].grad().defined()) return "no gradient for what one shard uses";
        if (two.a.parameters()[0].grad().defined() != several) return "the gradient of what others use";
        return {};
      });
}

TEST_CASE("data parallel: further gradients are added", "[parallel]") {
  check_ranks(2, [](const Group& group) -> std::string {
    nn::Linear net(1, 1);
    DataParallel ranks(group, net, {.shards = 2});
    for (int i = 0; i < 3; ++i)
      ranks.backward(4, [&](const data::Rows&) -> ShardLoss { return operators::sum(net(ones({1, 1}))); });
    return net.parameters()[0].grad().item() == 3 ? "" : message(net.parameters()[0].grad());
  });
}

TEST_CASE("data parallel: fewer examples than shards, and than ranks", "[parallel]") {
  const auto run = [](const Group& group) {
    Net net(2);
    manual_seed(1);
    DataParallel ranks(group, net, {.shards = 8});
    const Examples all = examples(3);
    const ShardLoss shard = ranks.backward(3, [&](const data::Rows& rows) -> ShardLoss {
      return {operators::cross_entropy(net(all.x.slice(0, rows.begin, rows.end)), all.y.slice(0, rows.begin, rows.end)),
              full({2}, 1)};
    });
    std::vector<double> values = shard.sums.values();
    values.push_back(shard.loss.item());
    for (const double value : net.parameters()[0].grad().values()) values.push_back(value);
    return values;
  };
  const std::vector<double> alone = run(Group());
  CHECK(alone[0] == 3);
  for (const int count : {2, 3, 4, 8})
    check_ranks(count, [&](const Group& group) { return run(group) == alone ? "" : "other bits"; });
}

TEST_CASE("data parallel: mistakes are typed errors that name them", "[parallel]") {
  const nn::Linear net(2, 2);
  CHECK_THAT(said<ShapeError>([&] { DataParallel(Group(), net, {.shards = 5000}); }), ContainsSubstring("at most"));
  const auto launched = [](const std::function<void(const Group&)>& program) {
    parallel::launch({.ranks = 2}, program);
  };
  CHECK_THAT(said<ShapeError>(
                 [&] { launched([&](const Group& group) { DataParallel(group, nn::Linear(2, 2), {.shards = 1}); }); }),
             ContainsSubstring("1 shards for 2 ranks"));
  CHECK_THAT(said<ParallelError>(
                 [&] { launched([&](const Group& group) { DataParallel(group, nn::Linear(2, 2 + group.rank())); }); }),
             ContainsSubstring("rank 0 has weight float32 [2,2] to train, rank 1 has weight float32 [3,2] to train"));
  DataParallel fixed(Group(), net, {.shards = 2});
  CHECK_THAT(said<Error>([&] {
               fixed.backward(operators::sum(net(ones({1, 2}))));
             }),
             ContainsSubstring("backward(batch, loss_of)"));
  CHECK_THAT(said<ShapeError>([&] {
               fixed.backward(2, [&](const data::Rows&) -> ShardLoss { return net(ones({1, 2})); });
             }),
             ContainsSubstring("one number"));
  CHECK_THAT(said<Error>([&] {
               fixed.backward(2, [&](const data::Rows& rows) -> ShardLoss {
                 if (rows.begin > 0) default_generator().skip(1);
                 return operators::sum(net(ones({1, 2})));
               });
             }),
             ContainsSubstring("must draw equally often"));
  CHECK_THAT(said<ShapeError>([&] { fixed.backward(0, [&](const data::Rows&) -> ShardLoss { return Tensor(); }); }),
             ContainsSubstring("0 examples"));
}

}  // namespace tern::testing
