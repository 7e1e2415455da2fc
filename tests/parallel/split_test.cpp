// Layers whose parameters the ranks hold together: what they compute is what the whole layer does.

#include "tern/parallel/split.hpp"

#include "counted.hpp"
#include "ranks.hpp"
#include "support/files.hpp"
#include "tern/models/alexnet.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/data_parallel.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::exchange;
using parallel::Group;
using parallel::Layout;
using parallel::ShardLoss;

namespace {

/// This rank's block of a dimension.
Tensor block(const Group& group, const Tensor& x, std::int64_t dim) {
  const std::int64_t size = x.size(dim) / group.size();
  return x.slice(dim, group.rank() * size, (group.rank() + 1) * size).contiguous();
}

/// What a rank has of a tensor that is held so.
Tensor held(const Group& group, const Tensor& whole, Layout layout) {
  if (layout == Layout::rows) return block(group, whole, 0);
  if (layout == Layout::features) return block(group, whole, -1);
  return layout == Layout::partial ? whole * (group.rank() + 1.0) : whole;
}

/// What is meant by such a tensor: partial ones are whole times 1 + 2 + ... .
double meant(const Group& group, Layout layout) {
  return layout == Layout::partial ? group.size() * (group.size() + 1) / 2.0 : 1.0;
}

std::string near(const char* what, const Tensor& found, const Tensor& expected, double tolerance = 1e-5) {
  if (!(found.shape() == expected.shape())) return message(what, ": ", found.shape(), " for ", expected.shape());
  const std::vector<double> a = found.values(), b = expected.values();
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > tolerance * std::max(1.0, std::abs(b[i])))
      return message(what, ", element ", i, ": ", a[i], " for ", b[i]);
  return {};
}

constexpr Layout from_layouts[]{Layout::whole, Layout::partial, Layout::rows, Layout::features};
constexpr Layout to_layouts[]{Layout::whole, Layout::copies, Layout::rows, Layout::features};

}  // namespace

TEST_CASE("exchange: from every layout into every other, there and back", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const std::int64_t n = group.size();
      Generator generator(2);
      for (const Shape& shape : {Shape{2 * n, 3 * n}, Shape{n, 2, 2 * n}, Shape{3 * n, 2, 1, n}}) {
        const Tensor whole = randn(shape, generator), other = randn(shape, generator);
        for (const Layout from : from_layouts)
          for (const Layout to : to_layouts) {
            const std::string what = message(shape, ", ", static_cast<int>(from), " to ", static_cast<int>(to));
            Tensor x = held(group, whole, from).clone();
            x.set_requires_grad();
            const Tensor y = exchange(group, x, from, to);
            if (const auto wrong = near(what.c_str(), y, held(group, whole * meant(group, from), to)); !wrong.empty())
              return wrong;
            // The loss is the sum of what is meant times `other`: of copies each rank takes a share.
            const double share = to == Layout::copies ? 1.0 / static_cast<double>(n) : 1.0;
            operators::sum(y * held(group, other, to) * share).backward();
            const Tensor expected = from == Layout::partial ? other : held(group, other, from);
            if (const auto wrong = near((what + ", gradient").c_str(), x.grad(), expected); !wrong.empty())
              return wrong;
          }
      }
      return {};
    });
}

TEST_CASE("exchange: mistakes are typed errors", "[parallel]") {
  const Tensor x = ones({3, 5});
  CHECK_THAT(said<Error>([&] { exchange(Group(), x, Layout::copies, Layout::rows); }), ContainsSubstring("copies"));
  CHECK_THAT(said<Error>([&] { exchange(Group(), x, Layout::rows, Layout::partial); }), ContainsSubstring("partial"));
  const auto on_two = [&](Layout from, Layout to) {
    parallel::launch({.ranks = 2}, [&](const Group& group) { exchange(group, x, from, to); });
  };
  CHECK_THAT(said<ShapeError>([&] { on_two(Layout::whole, Layout::rows); }),
             ContainsSubstring("the 3 rows of [3,5] are not divided equally among 2 ranks"));
  CHECK_THAT(said<ShapeError>([&] { on_two(Layout::rows, Layout::features); }), ContainsSubstring("5 features"));
  CHECK_THAT(said<ShapeError>([&] { exchange(Group(), ones({4}), Layout::rows, Layout::features); }),
             ContainsSubstring("too few dimensions"));
}

namespace {

/// Two layers, whole or split; the second one's inputs are divided as the first one's outputs are.
nn::Sequential whole_net() {
  Generator generator(5);
  return nn::Sequential{nn::Linear(7, 24, {}, generator), nn::Relu(), nn::Linear(24, 12, {}, generator), nn::Tanh(),
                        nn::Linear(12, 5, {}, generator)};
}

nn::Sequential split_net(const Group& group, Layout input, Layout middle, Layout output,
                         nn::Start start = nn::Start::torch) {
  Generator generator(5);
  return nn::Sequential{
      parallel::ColumnLinear(group, 7, 24, {.start = start, .input = input}, generator), nn::Relu(),
      parallel::RowLinear(group, 24, 12, {.start = start, .output = middle}, generator), nn::Tanh(),
      parallel::RowLinear(group, 12, 5, {.start = start, .input = middle, .output = output}, generator)};
}

}  // namespace

TEST_CASE("split layers: begin as the whole ones, and compute and learn what they do", "[parallel][ranks]") {
  Generator generator(6);
  const Tensor x = randn({12, 7}, generator), weights = randn({12, 5}, generator);
  nn::Sequential whole = whole_net();
  const nn::State start = [&] {
    nn::State copy;
    for (const auto& [name, tensor] : whole.state()) copy.emplace(name, tensor.clone());
    return copy;
  }();
  Tensor leaf = x.clone();
  leaf.set_requires_grad();
  const Tensor y = whole(leaf);
  operators::sum(y * weights).backward();
  for (const int count : rank_counts())
    for (const Layout middle : {Layout::whole, Layout::rows, Layout::features})
      check_ranks(count, [&](const Group& group) -> std::string {
        nn::Sequential net = split_net(group, Layout::whole, middle, Layout::whole);
        for (const auto& [name, tensor] : parallel::whole_state(net))
          if (tensor.values() != start.at(name).values()) return message(name, " begins with other bits");
        // The generator stands where the whole layers leave it, and so may the next layer's.
        Tensor own = x.clone();
        own.set_requires_grad();
        const Tensor found = net(own);
        if (const auto wrong = near("outputs", found, y.detach()); !wrong.empty()) return wrong;
        operators::sum(found * weights).backward();
        if (const auto wrong = near("input's gradient", own.grad(), leaf.grad()); !wrong.empty()) return wrong;
        const std::vector<nn::NamedTensor> parameters = net.named_parameters(), all = whole.named_parameters();
        for (std::size_t i = 0; i < all.size(); ++i) {
          const auto& [name, tensor] = parameters[i];
          Tensor gradient = tensor.grad();
          if (name == "0.weight" || name == "0.bias")
            gradient = exchange(group, gradient, Layout::rows, Layout::whole);
          else if (name == "2.weight" || name == "4.weight")
            gradient = exchange(group, gradient, Layout::features, Layout::whole);
          else if (name == "2.bias" && middle == Layout::rows)  // the rows' own, for a DataParallel to sum
            gradient = exchange(group, gradient, Layout::partial, Layout::whole);
          if (const auto wrong = near(name.c_str(), gradient, all[i].tensor.grad()); !wrong.empty()) return wrong;
        }
        return {};
      });
}

TEST_CASE("split layers: a whole model's state goes in and comes out", "[parallel][ranks]") {
  const nn::State whole = whole_net().state();
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      nn::Sequential net = split_net(group, Layout::whole, Layout::whole, Layout::whole, nn::Start::none);
      parallel::load_whole_state(net, whole);
      const nn::State found = parallel::whole_state(net);
      if (found.size() != whole.size()) return message(found.size(), " tensors");
      for (const auto& [name, tensor] : found)
        if (tensor.values() != whole.at(name).values()) return message(name, " has other bits");
      // A module counts what this rank holds, the whole state everything.
      std::int64_t everything = 0;
      for (const auto& [name, tensor] : found) everything += tensor.numel();
      if (everything != whole_net().parameter_count()) return message(everything, " elements in all");
      if (group.size() > 1 && net.parameter_count() >= everything) return "a rank has all of it";
      nn::State wrong = whole;
      wrong["0.weight"] = ones({23, 7});
      const std::string error = said<Error>([&] { parallel::load_whole_state(net, wrong); });
      return error.find("wrong shape: 0.weight") == std::string::npos ? "a wrong shape: " + error : "";
    });
}

TEST_CASE("split layers: 64-bit and 16-bit ones", "[parallel]") {
  for (const DType dtype : {DType::float64, DType::bfloat16}) {
    Generator generator(6);
    const Tensor x = randn({6, 8}, generator).to(dtype);
    nn::Sequential whole = [&] {
      Generator start(5);
      return nn::Sequential{nn::Linear(8, 12, {.dtype = dtype}, start), nn::Linear(12, 4, {.dtype = dtype}, start)};
    }();
    const Tensor y = whole(x).to(DType::float64);
    check_ranks(2, [&](const Group& group) -> std::string {
      Generator start(5);
      const parallel::ColumnLinear first(group, 8, 12, {.dtype = dtype}, start);
      const parallel::RowLinear second(group, 12, 4, {.dtype = dtype}, start);
      return near("outputs", second(first(x)).to(DType::float64), y, dtype == DType::float64 ? 1e-14 : 0x1p-6);
    });
  }
}

TEST_CASE("split layers: mistakes are typed errors that name them", "[parallel]") {
  const auto on_two = [](const std::function<void(const Group&)>& program) { parallel::launch({.ranks = 2}, program); };
  CHECK_THAT(said<ShapeError>([&] { on_two([](const Group& group) { parallel::ColumnLinear(group, 4, 7); }); }),
             ContainsSubstring("ColumnLinear: 7 outputs are not divided equally among 2 ranks"));
  CHECK_THAT(said<ShapeError>([&] { on_two([](const Group& group) { parallel::RowLinear(group, 3, 4); }); }),
             ContainsSubstring("RowLinear: 3 inputs"));
  CHECK_THAT(said<Error>([&] { parallel::RowLinear(Group(), 4, 4, {.input = Layout::partial}); }),
             ContainsSubstring("whole, rows or features"));
  CHECK(parallel::ColumnLinear(Group(), 4, 6).describe() == "ColumnLinear(4, 6, of 1 ranks)");

  const auto train = [&](std::int64_t batch, int shards, bool loop) {
    on_two([&](const Group& group) {
      nn::Sequential net{nn::Linear(4, 4),
                         parallel::ColumnLinear(group, 4, 4, {.input = Layout::rows, .output = Layout::rows})};
      parallel::DataParallel ranks(group, net, {.shards = shards});
      if (loop) return ranks.backward(operators::sum(net(ones({1, 4}))));
      ranks.backward(batch, [&](const data::Rows& rows) -> ShardLoss {
        return operators::mean(net(ones({rows.size(), 4})));
      });
    });
  };
  CHECK_NOTHROW(train(6, 0, false));
  CHECK_THAT(said<ShapeError>([&] { train(5, 0, false); }), ContainsSubstring("as 1.weight needs"));
  CHECK_THAT(said<Error>([&] { train(6, 2, false); }), ContainsSubstring("take shards = 0"));
  CHECK_THAT(said<Error>([&] { train(6, 0, true); }), ContainsSubstring("1.weight"));
}

TEST_CASE("split layers: ranks drop out apart, and go on alike", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      manual_seed(3);
      const parallel::Dropout drop(group, 0.5);
      const Tensor mask = drop(ones({1, 256}));
      if (default_generator().position() != 1) return "another place of the generator";
      const Tensor all = group.all_gather(mask);
      for (std::int64_t a = 0; a < group.size(); ++a)
        for (std::int64_t b = a + 1; b < group.size(); ++b)
          if (all.slice(0, a, a + 1).values() == all.slice(0, b, b + 1).values()) return "two ranks have one mask";
      manual_seed(3);
      if (group.rank() == 0 && operators::dropout(ones({1, 256}), 0.5, true).values() != mask.values())
        return "rank 0 does not draw as one rank does";
      return {};
    });
}

namespace {

struct Trained {
  std::vector<double> losses = {};
  nn::State state = {}, gradients = {};
};

/// A small AlexNet, three steps; with `split` each rank has a shard of the classifier.
Trained train_alexnet(const Group& group, bool split, double dropout = 0) {
  models::AlexNetOptions options{.classes = 6, .image_size = 67, .dropout = dropout, .width_divisor = 16};
  if (split) options.classifier_ranks = group;
  models::AlexNet net(options, 3);
  optim::SGD optimizer(net.parameters(), {.learning_rate = 0.02, .momentum = 0.9});
  parallel::DataParallel ranks(group, net);
  Generator generator(4);
  const Tensor images = rand({12, 3, 67, 67}, generator), labels = randint(0, 6, {12}, generator);
  manual_seed(9);
  Trained trained;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    trained.losses.push_back(ranks
                                 .backward(12,
                                           [&](const data::Rows& rows) -> ShardLoss {
                                             return operators::cross_entropy(net(images.slice(0, rows.begin, rows.end)),
                                                                             labels.slice(0, rows.begin, rows.end));
                                           })
                                 .loss.item());
    optimizer.step();
  }
  trained.state = parallel::whole_state(net);
  for (const auto& [name, tensor] : net.named_parameters()) trained.gradients.emplace(name, tensor.grad());
  return trained;
}

}  // namespace

TEST_CASE("split layers: AlexNet with its classifier split learns what one device does", "[parallel][ranks]") {
  const Trained alone = train_alexnet(Group(), false);
  for (const int count : rank_counts()) {
    if (count == 3) continue;  // the hidden layers have 256 outputs
    check_ranks(count, [&](const Group& group) -> std::string {
      if (group.size() == 3) return {};
      const Trained found = train_alexnet(group, true);
      for (std::size_t i = 0; i < alone.losses.size(); ++i)
        if (std::abs(found.losses[i] - alone.losses[i]) > 1e-5)
          return message(found.losses[i], " for ", alone.losses[i]);
      if (found.state.size() != alone.state.size()) return "other names";
      for (const auto& [name, tensor] : alone.state)
        if (const auto wrong = near(name.c_str(), found.state.at(name), tensor, 1e-5); !wrong.empty()) return wrong;
      for (const auto& [name, gradient] : found.gradients)
        if (gradient.shape() == alone.gradients.at(name).shape())
          if (const auto wrong = near(name.c_str(), gradient, alone.gradients.at(name), 1e-4); !wrong.empty())
            return wrong;
      return {};
    });
  }
}

TEST_CASE("split layers: AlexNet with its classifier split sends less than the gradients", "[parallel]") {
  std::mutex mutex;
  std::size_t split_bytes = 0, whole_bytes = 0;
  check_ranks(2, [&](const Group& group) -> std::string {
    for (const bool split : {false, true}) {
      const auto counted = std::make_shared<Counted>(group);
      train_alexnet(Group(counted), split, 0.5);
      const std::lock_guard lock(mutex);
      (split ? split_bytes : whole_bytes) += counted->sent();
    }
    return {};
  });
  INFO(split_bytes << " bytes beside " << whole_bytes);
  CHECK(split_bytes * 2 < whole_bytes);
}

}  // namespace tern::testing
