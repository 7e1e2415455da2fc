#include "tern/parallel/data_parallel.hpp"

#include <map>

#include "parallel/buckets.hpp"
#include "parallel/tree.hpp"
#include "ranks.hpp"
#include "support/files.hpp"
#include "tern/data/loader.hpp"
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
using parallel::Part;

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
    const Part part = ranks.backward(end - begin, [&](const data::Rows& rows) -> Part {
      const Tensor y = all.y.slice(0, begin + rows.begin, begin + rows.end);
      const Tensor logits = net(all.x.slice(0, begin + rows.begin, begin + rows.end));
      return {
          operators::cross_entropy(logits, y),
          operators::sum(
              operators::equal(operators::argmax(logits).to(DType::float64), y.to(DType::float64)).to(DType::float64))};
    });
    optimizer.step();
    trained.losses.push_back(part.loss.item());
    trained.right.push_back(part.sums.item());
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
  // Without dropout and statistics, which are those of a rank's part, the mean is the mean.
  const auto gradients = [](const Group& group) {
    Net net(1);
    net.eval();
    DataParallel ranks(group, net);
    const Examples all = examples(24);
    ranks.backward(24, [&](const data::Rows& rows) -> Part {
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
  ranks.backward(22, [&](const data::Rows& rows) -> Part {
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

TEST_CASE("data parallel: a loop of one's own, with gradients that are added up first", "[parallel][ranks]") {
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
        pair.backward(10, [&](const data::Rows& rows) -> Part {
          // b only where the first examples are.
          return operators::sum((rows.begin == 0 ? two.b : two.a)(ones({1, 3})));
        });
        const bool several = group.size() > 1 || shards > 1;
        if (two.c.parameters()[0].grad().defined()) return "a gradient for what nobody uses";
        if (!two.b.parameters()[0].grad().defined()) return "no gradient for what one part uses";
        if (two.a.parameters()[0].grad().defined() != several) return "the gradient of what others use";
        return {};
      });
}

TEST_CASE("data parallel: further gradients are added", "[parallel]") {
  check_ranks(2, [](const Group& group) -> std::string {
    nn::Linear net(1, 1);
    DataParallel ranks(group, net, {.shards = 2});
    for (int i = 0; i < 3; ++i)
      ranks.backward(4, [&](const data::Rows&) -> Part { return operators::sum(net(ones({1, 1}))); });
    return net.parameters()[0].grad().item() == 3 ? "" : message(net.parameters()[0].grad());
  });
}

TEST_CASE("data parallel: fewer examples than shards, and than ranks", "[parallel]") {
  const auto run = [](const Group& group) {
    Net net(2);
    manual_seed(1);
    DataParallel ranks(group, net, {.shards = 8});
    const Examples all = examples(3);
    const Part part = ranks.backward(3, [&](const data::Rows& rows) -> Part {
      return {operators::cross_entropy(net(all.x.slice(0, rows.begin, rows.end)), all.y.slice(0, rows.begin, rows.end)),
              full({2}, 1)};
    });
    std::vector<double> values = part.sums.values();
    values.push_back(part.loss.item());
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
             ContainsSubstring("backward(batch, part)"));
  CHECK_THAT(said<ShapeError>([&] { fixed.backward(2, [&](const data::Rows&) -> Part {
                                      return net(ones({1, 2}));
                                    }); }),
             ContainsSubstring("one number"));
  CHECK_THAT(said<Error>([&] {
               fixed.backward(2, [&](const data::Rows& rows) -> Part {
                 if (rows.begin > 0) default_generator().skip(1);
                 return operators::sum(net(ones({1, 2})));
               });
             }),
             ContainsSubstring("has to draw alike"));
  CHECK_THAT(said<ShapeError>([&] { fixed.backward(0, [&](const data::Rows&) -> Part { return Tensor(); }); }),
             ContainsSubstring("0 examples"));
}

// ---- the parts ----

TEST_CASE("tree: any division of any shards has the same sum", "[parallel]") {
  Generator generator(1);
  for (int shards = 1; shards <= 17; ++shards) {
    std::vector<Tensor> values;
    for (int i = 0; i < shards; ++i) values.push_back(randn({3}, generator) * (i % 5 == 3 ? 1e6 : 1.0));
    for (const int gap : {0, 3, 4}) {  // some shards hold nothing
      const auto sum_of = [&](int ranks) {
        std::vector<std::pair<parallel::Node, Tensor>> known;
        for (int rank = 0; rank < ranks; ++rank) {
          parallel::Partial partial;
          const data::Share share{rank, ranks, shards};
          for (int i = share.first(); i < share.last(); ++i)
            if (gap == 0 || i % gap != 1) partial.add(i, values[static_cast<std::size_t>(i)]);
          for (std::size_t i = 0; i < partial.nodes().size(); ++i)
            known.emplace_back(partial.nodes()[i], partial.values()[i]);
        }
        return parallel::tree_sum(shards,
                                  [&](const parallel::Node& node) {
                                    for (const auto& [each, value] : known)
                                      if (each == node) return value;
                                    return Tensor();
                                  })
            .values();
      };
      const std::vector<double> all = sum_of(1);
      for (int ranks = 2; ranks <= shards; ++ranks) CHECK(sum_of(ranks) == all);
    }
  }
  // It is the tree that is promised, not a sum from left to right.
  const std::vector<float> terms{1e8f, 1.0f, -1e8f, 1.0f};
  parallel::Partial tree;
  for (int i = 0; i < 4; ++i) tree.add(i, full({1}, terms[static_cast<std::size_t>(i)]));
  REQUIRE(tree.nodes() == std::vector<parallel::Node>{{2, 0}});
  CHECK(tree.values()[0].item<float>() == (1e8f + 1.0f) + (-1e8f + 1.0f));
}

TEST_CASE("buckets: the last layer's first, of one dtype, about as large as wanted", "[parallel]") {
  const std::vector<Tensor> tensors{zeros({10}), zeros({5}), zeros({3}, DType::float64), zeros({4}),
                                    zeros({2}, DType::float16)};
  const std::vector<parallel::Bucket> buckets = parallel::make_buckets(tensors, 59);
  REQUIRE(buckets.size() == 4);
  CHECK(buckets[0].members == std::vector<std::size_t>{4, 3});
  CHECK(buckets[0].dtype == DType::float32);
  CHECK(buckets[1].members == std::vector<std::size_t>{2});
  CHECK(buckets[1].dtype == DType::float64);
  CHECK(buckets[2].members == std::vector<std::size_t>{1});
  CHECK(buckets[3].count == 10);
}

TEST_CASE("buckets: what is large goes alone, and the first layers behind the rest", "[parallel]") {
  // A weight and a bias of each layer: the large weights neither wait for small ones nor cut them apart.
  const std::vector<Tensor> tensors{zeros({16}), zeros({4}),   zeros({200}), zeros({4}),
                                    zeros({99}), zeros({100}), zeros({300}), zeros({4})};
  const std::vector<parallel::Bucket> buckets = parallel::make_buckets(tensors, 640);
  REQUIRE(buckets.size() == 5);
  CHECK(buckets[0].members == std::vector<std::size_t>{6});
  CHECK(buckets[1].members == std::vector<std::size_t>{7, 5});
  CHECK(buckets[2].members == std::vector<std::size_t>{2});
  CHECK(buckets[3].members == std::vector<std::size_t>{4, 3});
  CHECK(buckets[4].members == std::vector<std::size_t>{1, 0});
  CHECK(buckets[4].count == 20);
  // One message that is small as it is stays one.
  CHECK(parallel::make_buckets(tensors, 1 << 20).size() == 1);
  // One whose larger part is complete early is two.
  const std::vector<parallel::Bucket> cut = parallel::make_buckets({zeros({20}), zeros({30}), zeros({500})}, 4000);
  REQUIRE(cut.size() == 2);
  CHECK(cut[1].members == std::vector<std::size_t>{1, 0});
}

TEST_CASE("data parallel: gradients are summed where backward put them", "[parallel][ranks]") {
  for (const std::int64_t bytes : {std::int64_t{8}, std::int64_t{1} << 20})  // one by one, and in one message
    for (const int count : rank_counts())
      check_ranks(count, [&](const Group& group) -> std::string {
        const nn::Linear net(3, 2);
        DataParallel ranks(group, net, {.bucket_bytes = bytes});
        operators::sum(net(full({1, 3}, group.rank() + 1))).backward();
        std::vector<Tensor> held;
        for (const Tensor& tensor : net.parameters()) held.push_back(tensor.grad());
        ranks.average();
        for (std::size_t i = 0; i < held.size(); ++i) {
          const Tensor& gradient = net.parameters()[i].grad();
          if (&gradient.storage() != &held[i].storage()) return message("gradient ", i, " has moved");
          const double mean = i == 0 ? (group.size() + 1) / 2.0 : 1;
          for (const double value : gradient.values())
            if (std::abs(value - mean) > 1e-6) return message("a gradient of ", value, ", not ", mean);
        }
        return {};
      });
}

TEST_CASE("backward: says when a leaf's gradient is complete", "[parallel]") {
  Tensor shared = full({2}, 3), late = ones({2}), unused = ones({2});
  for (Tensor* leaf : {&shared, &late, &unused}) leaf->set_requires_grad();
  const Tensor loss = operators::sum(shared * (shared * late) + shared);
  std::vector<std::pair<bool, std::vector<double>>> told;
  loss.backward({.complete = [&](const Tensor& leaf) { told.emplace_back(leaf.is(shared), leaf.grad().values()); }});
  REQUIRE(told.size() == 2);
  for (const auto& [is_shared, gradient] : told) CHECK(gradient == (is_shared ? shared : late).grad().values());
  CHECK(shared.grad().values() == std::vector<double>{7, 7});
  Tensor root = scalar(1.0f);
  root.set_requires_grad();
  int count = 0;
  root.backward({.complete = [&](const Tensor&) { ++count; }});
  CHECK(count == 1);
}

TEST_CASE("loader: every example is one rank's, in the same order for any number of ranks", "[parallel]") {
  data::Dataset set{.images = arange(0, 50, 1, DType::int64).to(DType::float32).reshape({50, 1}),
                    .labels = zeros({50}, DType::int64),
                    .classes = 1,
                    .source = "numbers"};
  for (const bool resident : {false, true})
    for (const int shards : {0, 6}) {
      const auto epoch = [&](int ranks) {
        std::map<std::pair<std::int64_t, std::int64_t>, double> rows;  // by batch and row
        for (int rank = 0; rank < ranks; ++rank) {
          const data::DataLoader loader(
              set, {.batch_size = 16, .seed = 4, .resident = resident, .share = {rank, ranks, shards}});
          CHECK(loader.batches() == 4);
          std::int64_t batches = 0;
          for (const data::Batch& batch : loader.epoch(2)) {
            ++batches;
            CHECK(batch.whole == (batch.position == 3 ? 2 : 16));
            const std::vector<double> values = batch.images.values();
            CHECK(static_cast<std::int64_t>(values.size()) == batch.size);
            for (std::size_t i = 0; i < values.size(); ++i)
              CHECK(rows.emplace(std::pair{batch.position, batch.first + static_cast<std::int64_t>(i)}, values[i])
                        .second);
          }
          CHECK(batches == 4);  // those without examples too
        }
        return rows;
      };
      const auto alone = epoch(1);
      CHECK(alone.size() == 50);
      CHECK(epoch(2) == alone);
      CHECK(epoch(3) == alone);
      CHECK(epoch(4) == alone);
    }
  CHECK_THAT(said<ShapeError>([&] { data::DataLoader(set, {.share = {2, 2}}); }), ContainsSubstring("rank 2 of 2"));
}

}  // namespace tern::testing
