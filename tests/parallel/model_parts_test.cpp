// Parts of a model that the ranks hold apart: in training and evaluation, of several groups, and of classes of one's
// own.

#include <cmath>

#include "ranks.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/mesh.hpp"
#include "tern/parallel/pipeline.hpp"
#include "tern/parallel/split.hpp"

namespace tern::testing {

using parallel::Group;
using parallel::Layout;
using parallel::Pipeline;
using parallel::ShardLoss;

namespace {

double step(Pipeline& pipeline) {
  const auto input = [](const data::Rows& rows) { return ones({rows.size(), 3}); };
  const auto loss = [](const Tensor& y, const data::Rows&) -> ShardLoss { return operators::mean(y); };
  return pipeline.backward(4, input, loss).loss.item();
}

}  // namespace

TEST_CASE("pipeline: a stage may evaluate between its steps", "[parallel][ranks]") {
  for (const int count : {2, 3}) {
    if (under_mpi()) break;
    check_ranks(count, [](const Group& group) -> std::string {
      // A mask draws where it trains alone.
      Pipeline pipeline(group, nn::Sequential{nn::Linear(3, 3), nn::Dropout(0.5), nn::Linear(3, 3), nn::Linear(3, 2)},
                        {.micro_batches = 2});
      pipeline.stage().eval();
      const double first = step(pipeline);
      pipeline.stage().train();
      step(pipeline);
      pipeline.stage().eval();
      return step(pipeline) == first ? "" : "it says something else";
    });
  }
}

TEST_CASE("pipeline: all ranks cut where the first one does", "[parallel][ranks]") {
  if (under_mpi()) return;
  check_ranks(2, [](const Group& group) -> std::string {
    const nn::Sequential net{nn::Linear(3, 3), nn::Linear(3, 3), nn::Linear(3, 3), nn::Linear(3, 3)};
    const std::vector<double> costs =
        group.rank() == 0 ? std::vector<double>{9, 1, 1, 1} : std::vector<double>{1, 1, 1, 9};
    const Pipeline pipeline(group, net, {.costs = costs});
    const std::size_t first = group.rank() == 0 ? 0 : 1, last = group.rank() == 0 ? 1 : 4;
    return pipeline.first() == first && pipeline.last() == last
               ? ""
               : message("modules ", pipeline.first(), " to ", pipeline.last());
  });
}

TEST_CASE("split layers: the norm of layers of several groups is that of all their parts", "[parallel][ranks]") {
  if (under_mpi()) return;
  check_ranks(4, [](const Group& group) -> std::string {
    const parallel::Mesh mesh(group, 2);
    const nn::Sequential net{parallel::ColumnLinear(mesh.model, 2, 4, {.bias = false}),
                             parallel::ColumnLinear(mesh.data, 4, 4, {.bias = false})};
    std::vector<Tensor> weights = net.parameters();
    weights[0].set_grad(full(weights[0].shape(), mesh.model.rank() + 1));
    weights[1].set_grad(full(weights[1].shape(), 10 * (mesh.data.rank() + 1)));
    const double norm = optim::clip_grad_norm(weights, 1).item();
    const double expected = std::sqrt(4 * (1 + 4) + 8 * (100 + 400));
    return std::abs(norm - expected) < 1e-3 ? "" : message("a norm of ", norm, " for ", expected);
  });
}

namespace {

/// A split layer whose forward is its own.
class Doubled final : public parallel::ColumnLinear {
 public:
  using ColumnLinear::ColumnLinear;
  Tensor forward(const Tensor& x) const override { return ColumnLinear::forward(x) * 2; }
};

}  // namespace

TEST_CASE("split layers: a class of the user's computes what it says, with an activation behind it too", "[parallel]") {
  Generator generator(3);
  const Doubled layer(Group(), 3, 4, {}, generator);
  const Tensor x = randn({2, 3}, generator);
  const nn::Sequential net{layer, nn::Relu()};
  CHECK(net(x).values() == operators::relu(layer(x)).values());
}

TEST_CASE("split layers: a rank counts what it computes itself", "[parallel][ranks]") {
  if (under_mpi()) return;
  check_ranks(2, [](const Group& group) -> std::string {
    const Shape own{3, 6};  // of six rows in all, or of twelve features
    const parallel::ColumnLinear whole(group, 6, 8), rows(group, 6, 8, {.input = Layout::rows});
    if (const std::int64_t found = nn::summary(whole, own).flops; found != 2 * 3 * 6 * 4)
      return message(found, " of the whole");
    if (const std::int64_t found = nn::summary(rows, own).flops; found != 2 * 6 * 6 * 4)
      return message(found, " of rows");
    return {};
  });
}

}  // namespace tern::testing
