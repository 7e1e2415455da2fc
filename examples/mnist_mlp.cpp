// Trains an MLP 784-196-196-196-10 on MNIST, in any mode: `mnist_mlp --mode vectorized`. See --help.

#include "mnist.hpp"

namespace op = tern::operators;
using tern::Tensor;

int train(const mnist::Options& options) {
  tern::Device device{options.mode, {.threads = options.threads}};
  const tern::data::Mnist digits = mnist::load(options);
  tern::models::Mlp net = tern::models::mlp_small(options.seed);
  mnist::Report report{options, device, digits, net};

  // The whole set stays where the mode can reach it; each step gathers its images.
  const tern::data::DataLoader loader{digits.train,
                                      {.batch_size = options.batch,
                                       .seed = options.seed,
                                       .resident = true,
                                       .mean = tern::data::mnist_mean,
                                       .deviation = tern::data::mnist_deviation}};
  const Tensor test_images =
      tern::data::to_float(digits.test.images, tern::data::mnist_mean, tern::data::mnist_deviation);

  tern::optim::SGD sgd{net.parameters(),
                       {.learning_rate = options.learning_rate, .momentum = 0.9, .weight_decay = 5e-4}};
  tern::optim::Scheduler schedule{sgd, tern::optim::CosineLr{.total = options.epochs}};
  tern::nn::Mean mean_loss;

  // On cuda this is recorded once and then replayed as one launch.
  tern::Step step{[&](const Tensor& rows) {
    const Tensor x = op::index_select(loader.images(), 0, rows), labels = op::index_select(loader.labels(), 0, rows);
    const Tensor loss = op::cross_entropy(net(x), labels);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    mean_loss.update(loss, static_cast<double>(rows.size(0)));
    return loss;
  }};

  for (std::int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    const Tensor order = loader.order(epoch);
    for (std::int64_t begin = 0; begin < loader.examples(); begin += options.batch) {
      const std::int64_t end = std::min(begin + options.batch, loader.examples());
      report.step(epoch, end - begin, step(order.slice(0, begin, end)));
    }
    report.trained(mean_loss.value());
    report.tested(mnist::evaluate(net, test_images, digits.test.labels));
    mean_loss.reset();
    schedule.step();
  }
  return report.finish();
}

int main(int argc, char** argv) {
  return mnist::run(argc, argv, {.name = "mnist_mlp", .claim = 0.98, .epochs = 12, .batch = 128, .learning_rate = 0.1},
                    train);
}
