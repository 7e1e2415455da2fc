// A net whose layers are divided among ranks: a batch runs in micro-batches, forward and backward in turns. Threads
// here, or processes under mpirun (`mpirun -n 3 pipeline mpi`). Any number of stages trains to the same weights, bit
// for bit.
#include <iostream>
#include <string_view>
#include <tern/tern.hpp>

using namespace tern;

namespace {

nn::Sequential make_net() {
  Generator generator(1);
  return nn::Sequential{nn::Linear(784, 200, {}, generator), nn::Relu(), nn::Dropout(0.2),
                        nn::Linear(200, 100, {}, generator), nn::Relu(), nn::Linear(100, 10, {}, generator)};
}

/// Ten steps; the weights of all stages.
nn::State train(const parallel::Group& group, const Tensor& images, const Tensor& labels) {
  manual_seed(3);
  const nn::Sequential net = make_net();
  parallel::Pipeline pipeline(group, net,
                              {.micro_batches = 4, .costs = parallel::measured_costs(net, images.slice(0, 0, 25))});
  optim::SGD optimizer(pipeline.stage().parameters(), {.learning_rate = 0.1});
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    const Tensor loss = pipeline
                            .backward(
                                100, [&](const data::Rows& rows) { return images.slice(0, rows.begin, rows.end); },
                                [&](const Tensor& y, const data::Rows& rows) -> parallel::ShardLoss {
                                  return op::cross_entropy(y, labels.slice(0, rows.begin, rows.end));
                                })
                            .loss;
    optimizer.step();
    if (group.rank() == 0 && step % 3 == 0)
      std::cout << group.size() << " stages, step " << step << ": loss " << loss.item() << '\n';
  }
  return pipeline.whole_state();
}

bool same(const nn::State& a, const nn::State& b) {
  for (const auto& [name, tensor] : a)
    if (tensor.values() != b.at(name).values()) return false;
  return a.size() == b.size();
}

}  // namespace

int main(int argc, char** argv) {
  Generator generator(2);
  const Tensor images = randn({100, 784}, generator), labels = randint(0, 10, {100}, generator);
  const nn::State alone = train(parallel::Group(), images, labels);
  const bool processes = argc > 1 && std::string_view(argv[1]) == "mpi";
  bool all_same = true;
  parallel::launch({.transport = processes ? "mpi" : "threads", .ranks = 3}, [&](const parallel::Group& group) {
    const bool own = same(train(group, images, labels), alone);
    if (group.rank() == 0) all_same = own;
  });
  std::cout << (all_same ? "the same bits as one stage\n" : "OTHER BITS than one stage\n");
  return all_same ? 0 : 1;
}
