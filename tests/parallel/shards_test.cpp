// What data parallel training is made of: the tree of the shards, the buckets, the leaves that are complete, the rows
// of a rank.

#include <map>

#include "parallel/buckets.hpp"
#include "parallel/tree.hpp"
#include "ranks.hpp"
#include "support/files.hpp"
#include "tern/data/loader.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/parallel/data_parallel.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::DataParallel;
using parallel::Group;

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
  std::vector<std::pair<bool, std::vector<double>>> completed;
  loss.backward(
      {.complete = [&](const Tensor& leaf) { completed.emplace_back(leaf.is(shared), leaf.grad().values()); }});
  REQUIRE(completed.size() == 2);
  for (const auto& [is_shared, gradient] : completed) CHECK(gradient == (is_shared ? shared : late).grad().values());
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
