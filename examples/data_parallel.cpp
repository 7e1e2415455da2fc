// A net that ranks train together: threads here, or processes under mpirun (`mpirun -n 4 data_parallel mpi`). Any
// number of them trains to the same weights, bit for bit.
#include <iostream>
#include <string_view>
#include <tern/tern.hpp>

using namespace tern;

namespace {

/// One epoch; the weights.
nn::State train(const parallel::Group& group, const data::Dataset& digits) {
  models::Mlp net({.layers = {784, 100, 10}});
  optim::SGD optimizer(net.parameters(), {.learning_rate = 0.1, .momentum = 0.9});
  parallel::DataParallel ranks(group, net, {.shards = 4});
  const data::DataLoader loader(digits, {.batch_size = 50, .share = ranks.share()});
  for (const data::Batch& batch : loader.epoch(0)) {
    optimizer.zero_grad();
    const Tensor loss =
        ranks
            .backward(batch.whole,
                      [&](const data::Rows& rows) -> parallel::ShardLoss {
                        // The loader returns this rank's rows of the batch.
                        const std::int64_t begin = rows.begin - batch.first, end = rows.end - batch.first;
                        return net.loss(batch.images.slice(0, begin, end), batch.labels.slice(0, begin, end));
                      })
            .loss;
    optimizer.step();
    if (group.rank() == 0 && batch.position % 5 == 0)
      std::cout << group.size() << " ranks, batch " << batch.position << ": loss " << loss.item() << '\n';
  }
  return net.state();
}

bool same(const nn::State& a, const nn::State& b) {
  for (const auto& [name, tensor] : a)
    if (tensor.values() != b.at(name).values()) return false;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const data::Dataset digits = data::synthetic_digits(1000);
  const nn::State alone = train(parallel::Group(), digits);
  const bool processes = argc > 1 && std::string_view(argv[1]) == "mpi";
  bool all_same = true;
  parallel::launch({.transport = processes ? "mpi" : "threads", .ranks = 3}, [&](const parallel::Group& group) {
    const bool own = same(train(group, digits), alone);
    if (group.rank() == 0) all_same = own;
  });
  std::cout << (all_same ? "the same bits as one rank\n" : "OTHER BITS than one rank\n");
  return all_same ? 0 : 1;
}
