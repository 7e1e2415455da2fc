// Masters of 16-bit weights, and the scale of the loss, where the ranks have parts of a model.

#include <cmath>
#include <limits>

#include "ranks.hpp"
#include "tern/nn/nn.hpp"
#include "tern/operators/operators.hpp"
#include "tern/optim/optim.hpp"
#include "tern/parallel/data_parallel.hpp"
#include "tern/parallel/split.hpp"

namespace tern::testing {

using parallel::DataParallel;
using parallel::Group;
using parallel::Layout;

namespace {

/// Two layers that the ranks have parts of, in 16 bits.
nn::Sequential split_net(const Group& group) {
  Generator generator(3);
  nn::Sequential net{nn::Linear(4, 6, {}, generator), nn::Tanh(),
                     parallel::ColumnLinear(group, 6, 12, {.input = Layout::rows}, generator), nn::Tanh(),
                     parallel::RowLinear(group, 12, 3, {.output = Layout::rows}, generator)};
  net.to(DType::bfloat16);
  return net;
}

/// What the ranks have whole, in order.
std::vector<double> whole_values(const nn::Module& net) {
  std::vector<double> values;
  for (const auto& [name, tensor] : net.state())
    if (!name.starts_with("2.") && name != "4.weight")
      for (const double value : tensor.values()) values.push_back(value);
  return values;
}

/// Empty if all ranks have these numbers.
std::string apart(const Group& group, const std::vector<double>& values) {
  const std::vector<double> all = group.all_gather(tensor(values, {static_cast<std::int64_t>(values.size())})).values();
  for (std::size_t i = values.size(); i < all.size(); ++i)
    if (const double own = all[i % values.size()]; all[i] != own && !(std::isnan(all[i]) && std::isnan(own)))
      return message(all[i], " in rank ", i / values.size(), " for ", own);
  return {};
}

Tensor points() {
  Generator generator(8);
  return randn({12, 4}, generator).to(DType::bfloat16);
}

parallel::ShardLoss loss_of(const nn::Module& net, const Tensor& x, const data::Rows& rows) {
  const Tensor y = net(x.slice(0, rows.begin, rows.end)).to(DType::float32);
  return operators::mean(operators::square(y));
}

}  // namespace

TEST_CASE("mixed: masters of split layers are clipped by the norm of the whole model", "[parallel][ranks]") {
  const Tensor x = points();
  const auto norm_in = [&](const Group& group, std::string& wrong) {
    nn::Sequential net = split_net(group);
    DataParallel ranks(group, net);
    optim::MasterWeights masters(net.parameters());
    (void)ranks.backward(12, [&](const data::Rows& rows) { return loss_of(net, x, rows); });
    masters.load_gradients();
    const double weights = optim::clip_grad_norm(net.parameters(), 1e9).item();
    const double norm = optim::clip_grad_norm(masters.parameters(), 1e9).item();
    if (std::abs(norm - weights) > 1e-3 * norm)
      wrong = message("the weights' norm is ", weights, ", the masters' ", norm);
    if (const std::string other = apart(group, {norm, weights}); !other.empty()) wrong = other;
    return norm;
  };
  std::string none;
  const double expected = norm_in(Group(), none);
  CHECK(none.empty());
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) {
      std::string wrong;
      const double norm = norm_in(group, wrong);
      if (wrong.empty() && std::abs(norm - expected) > 0.02 * expected) wrong = message(norm, " for ", expected);
      return wrong;
    });
}

TEST_CASE("mixed: a gradient that is not finite in one rank's part skips the step of all", "[parallel][ranks]") {
  const Tensor x = points();
  for (const int count : rank_counts())
    check_ranks(count, [&](const Group& group) -> std::string {
      nn::Sequential net = split_net(group);
      DataParallel ranks(group, net);
      optim::MasterWeights masters(net.parameters());
      optim::SGD sgd(masters.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
      optim::GradScaler scaler({.scale = 16, .interval = 2});
      std::vector<double> before;
      for (int step = 0; step < 6; ++step) {
        sgd.zero_grad();
        for (Tensor parameter : net.parameters()) parameter.zero_grad();
        (void)ranks.backward(
            12, [&](const data::Rows& rows) { return parallel::ShardLoss(scaler.scale(loss_of(net, x, rows).loss)); });
        const bool spoils = step == 3;
        if (spoils && group.rank() == group.size() - 1)
          for (const auto& [name, parameter] : net.named_parameters())
            if (name == "2.weight") Tensor(parameter).set_grad(full(parameter.shape(), HUGE_VAL, parameter.dtype()));
        before = whole_values(net);
        const double scale = scaler.value();
        scaler.step(masters, sgd);
        if (spoils && scaler.value() != scale / 2) return message("the scale is ", scaler.value());
        if (spoils && whole_values(net) != before) return "a step was taken";
        if (!spoils && whole_values(net) == before) return message("step ", step, " was skipped");
        std::vector<double> now = whole_values(net);
        now.push_back(scaler.value());
        if (const std::string other = apart(group, now); !other.empty()) return message("step ", step, ": ", other);
      }
      return {};
    });
}

}  // namespace tern::testing
