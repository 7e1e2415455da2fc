// How long from the first step until a network reaches the target accuracy on MNIST's test set. The images stay on the
// device, so the time includes all of training: shuffling, gathering batches, normalising, steps with their recording,
// and the test after each epoch. It does not include loading the files. One line per seed.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <tern/tern.hpp>
#include <vector>

namespace {

using namespace tern;
namespace op = operators;

struct Options {
  std::string mode = "fastest", precision = "strict", folder;
  std::int64_t batch = 256, epochs = 2, seeds = 5;
  double target = 0.99, learning_rate = 0.1, warmup = 0.5, momentum = 0.9, weight_decay = 5e-4;
  bool fastest = false, loops = false;
};

struct Outcome {
  double accuracy = 0;
  double seconds = -1;       ///< until the target; below 0: not reached
  double epoch_seconds = 0;  ///< of the fastest epoch, without the test
  std::int64_t reached = 0;  ///< the epoch after which it was
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Converts bytes to normalised images.
Tensor normalized(const Tensor& images) {
  return (images.to(DType::float32) / 255 - data::mnist_mean) / data::mnist_deviation;
}

/// The same elements on the scope's device.
Tensor resident(const Tensor& tensor) { return op::index_select(tensor, 0, arange(0, tensor.size(0))); }

Outcome race(const data::Mnist& mnist, const Options& options, std::uint64_t seed) {
  const Tensor bytes = resident(mnist.train.images), labels = resident(mnist.train.labels);
  const Tensor test_bytes = resident(mnist.test.images), test_labels = resident(mnist.test.labels);
  models::LeNet net(seed);
  optim::SGD sgd(net.parameters(), {.learning_rate = options.learning_rate,
                                    .momentum = options.momentum,
                                    .weight_decay = options.weight_decay,
                                    .nesterov = true});
  const std::int64_t steps = bytes.size(0) / options.batch;
  const auto warmup = static_cast<std::int64_t>(static_cast<double>(steps) * options.warmup);
  optim::Scheduler rate(sgd, optim::CosineLr{.total = steps * options.epochs, .warmup = warmup});
  Generator generator(seed);
  current_scope().context.memory->synchronize(current_scope().context.stream);

  Outcome outcome;
  const auto begin = std::chrono::steady_clock::now();
  // Once, since every epoch uses the same images.
  const Tensor images = normalized(bytes), test_images = normalized(test_bytes);
  Step train([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = net.loss(x, y);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    return loss;
  });
  Step correct([&](const Tensor& x, const Tensor& y) {
    const NoGrad no_grad;
    return op::sum(op::equal(op::argmax(net(x), 1).to(DType::float32), y.to(DType::float32)).to(DType::float32));
  });
  for (std::int64_t epoch = 1; epoch <= options.epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const Tensor order = resident(randperm(images.size(0), generator)).slice(0, 0, steps * options.batch);
    const Tensor x =
        op::index_select(images, 0, order).reshape({steps, options.batch, 1, images.size(2), images.size(3)});
    const Tensor y = op::index_select(labels, 0, order).reshape({steps, options.batch});
    Tensor losses;
    if (options.loops) {
      losses = train.run_each({x, y}, rate.changes(steps));
      rate.set_position(rate.position() + steps);
    } else {
      for (std::int64_t i = 0; i < steps; ++i) {
        losses = train(x[i], y[i]);
        rate.step();
      }
    }
    losses.values();
    const double epoch_seconds = seconds_since(start);
    outcome.epoch_seconds = epoch == 1 ? epoch_seconds : std::min(outcome.epoch_seconds, epoch_seconds);
    constexpr std::int64_t part = 1000;
    Tensor right;
    for (std::int64_t at = 0; at < test_images.size(0); at += part) {
      const Tensor here = correct(test_images.slice(0, at, at + part), test_labels.slice(0, at, at + part));
      right = right.defined() ? right + here : here;
    }
    outcome.accuracy = right.item() / static_cast<double>(test_images.size(0));
    if (outcome.accuracy >= options.target && outcome.seconds < 0) {
      outcome.seconds = seconds_since(begin);
      outcome.reached = epoch;
    }
  }
  return outcome;
}

void run(const Options& options) {
  const data::Mnist mnist = data::load_mnist({.folder = options.folder});
  const Device device(options.mode, {.precision = precision_of(options.precision), .deterministic = !options.fastest});
  std::printf("LeNet in %s (%s), %s, %s, batch %lld, %lld epochs, learning rate %g; %s\n\n", device.name().c_str(),
              device.description().c_str(), options.precision.c_str(), options.fastest ? "fastest" : "deterministic",
              static_cast<long long>(options.batch), static_cast<long long>(options.epochs), options.learning_rate,
              mnist.train.source.c_str());
  std::printf("| seed | until %.1f %% | after epoch | at the end | an epoch |\n|---|---|---|---|---|\n",
              100 * options.target);
  for (std::int64_t seed = 1; seed <= options.seeds; ++seed) {
    const Outcome outcome = race(mnist, options, static_cast<std::uint64_t>(seed));
    const std::string until = outcome.seconds < 0 ? "never" : message(std::llround(outcome.seconds * 1e3), " ms");
    std::printf("| %lld | %s | %lld | %.2f %% | %.1f ms |\n", static_cast<long long>(seed), until.c_str(),
                static_cast<long long>(outcome.reached), 100 * outcome.accuracy, outcome.epoch_seconds * 1e3);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"Time to a given accuracy on MNIST, everything counted but loading"};
  app.add_option("--mode", options.mode, "the mode")->capture_default_str();
  app.add_option("--precision", options.precision, "strict, tf32 or bf16")->capture_default_str();
  app.add_option("--data", options.folder, "folder of MNIST's four files; without it they are searched");
  app.add_option("--batch", options.batch, "images a step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--epochs", options.epochs, "epochs, over which the rate falls")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seeds", options.seeds, "runs")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--target", options.target, "accuracy")->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "its largest value")->capture_default_str();
  app.add_option("--warmup", options.warmup, "epochs in which the rate rises")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay, "of SGD with Nesterov's momentum 0.9")->capture_default_str();
  app.add_flag("--fastest", options.fastest, "algorithms that need not repeat");
  app.add_flag("--loops", options.loops, "an epoch is a loop (Step::each) instead of a call for each step");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mnist_race: %s\n", error.what());
    return 1;
  }
}
