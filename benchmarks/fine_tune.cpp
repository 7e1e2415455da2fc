// The value of pretrained weights for other classes: ResNet18 (its form for 32x32 images) learns five classes of
// CIFAR-10, and then the other five from few images: from scratch, from these weights, and its last layer only on these
// weights. Each method takes the same number of steps on the same images; one row per number of images, the mean over
// the seeds.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <tern/tern.hpp>
#include <vector>

namespace {

using namespace tern;
namespace op = operators;

struct Options {
  std::string mode = "fastest", precision = "strict", folder;
  std::vector<std::int64_t> images{10, 50, 200, 1000};
  std::int64_t batch = 128, epochs = 20, steps = 400, seeds = 3, width_divisor = 1, limit = 0;
  double learning_rate = 0.1, tuning_rate = 0.02, weight_decay = 5e-4;
};

/// The same elements on the scope's device.
Tensor resident(const Tensor& tensor) { return op::index_select(tensor, 0, arange(0, tensor.size(0))); }

struct Images {
  Tensor bytes, labels;
  std::int64_t size() const { return labels.size(0); }
};

/// The images of the classes 0, 2, 4, ... (`odd` false) or 1, 3, 5, ..., renumbered from 0; at most this many per
/// class.
Images half_of(const data::Dataset& set, bool odd, std::int64_t of_each) {
  std::vector<std::int64_t> rows, labels, taken(10);
  const auto all = set.labels.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if ((all[i] % 2 == 1) != odd || (of_each > 0 && taken[static_cast<std::size_t>(all[i])]++ >= of_each)) continue;
    rows.push_back(static_cast<std::int64_t>(i));
    labels.push_back(all[i] / 2);
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  return {op::index_select(set.images, 0, tensor(rows, {count})), resident(tensor(labels, {count}))};
}

class Normalize {
 public:
  Tensor operator()(const Tensor& bytes) const { return (bytes.to(DType::float32) - mean_) / deviation_; }

 private:
  static Tensor channels(const std::array<float, 3>& values) {
    return resident(tensor({255 * values[0], 255 * values[1], 255 * values[2]}).reshape({1, 3, 1, 1}));
  }
  Tensor mean_ = channels(data::cifar_mean), deviation_ = channels(data::cifar_deviation);
};

models::ResNet18 make_net(const Options& options, std::uint64_t seed) {
  return models::ResNet18(
      {.classes = 5, .image_size = 32, .width_divisor = options.width_divisor, .stem = models::Stem::small}, seed);
}

struct Method {
  bool whole = true;  ///< otherwise the last layer only, and the statistics of the body stay
  double rate = 0.1;
  std::int64_t steps = 0;
};

/// Trains the parameters that require a gradient. Each pass has another order of images, shifted and flipped at random.
void train(models::ResNet18& net, const Images& set, const Method& method, const Options& options, std::uint64_t seed) {
  net.train(method.whole);
  const std::int64_t batch = std::min(options.batch, set.size()), passes = set.size() / batch;
  const data::Augment augment({.shift = 4, .mirror = true, .cover = 120, .seed = seed});
  const Normalize normalize;
  optim::SGD sgd(
      nn::trained_parameters(net),
      {.learning_rate = method.rate, .momentum = 0.9, .weight_decay = options.weight_decay, .nesterov = true});
  optim::Scheduler rate(sgd, optim::OneCycleLr{.total = method.steps, .rise = 0.25});
  Step step([&](const Tensor& rows, const Tensor& drawn) {
    const Tensor x = normalize(augment(op::index_select(set.bytes, 0, rows), drawn));
    const Tensor loss = op::cross_entropy(net(x), op::index_select(set.labels, 0, rows));
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    return loss;
  });
  Generator generator(seed);
  for (std::int64_t done = 0, pass = 0; done < method.steps; ++pass) {
    const Tensor numbers = randperm(set.size(), generator);
    const Tensor order = resident(numbers), drawn = resident(augment.draw(pass, numbers));
    for (std::int64_t i = 0; i < passes && done < method.steps; ++i, ++done) {
      step(order.slice(0, i * batch, (i + 1) * batch), drawn.slice(0, i * batch, (i + 1) * batch));
      rate.step();
    }
  }
}

double accuracy(models::ResNet18& net, const Images& set) {
  const NoGrad no_grad;
  const Normalize normalize;
  net.eval();
  constexpr std::int64_t part = 1000;
  double right = 0;
  for (std::int64_t begin = 0; begin < set.size(); begin += part) {
    const std::int64_t end = std::min(begin + part, set.size());
    const Tensor guessed = op::argmax(net(normalize(set.bytes.slice(0, begin, end))), 1);
    right += op::sum(op::equal(guessed, set.labels.slice(0, begin, end)).to(DType::float32)).item();
  }
  return right / static_cast<double>(set.size());
}

/// A new net with all weights of `body` except the last layer, which knows other classes.
models::ResNet18 begun_with(const nn::State& body, const Options& options, std::uint64_t seed) {
  models::ResNet18 net = make_net(options, seed);
  nn::State taken = body;
  std::erase_if(taken, [](const auto& entry) { return entry.first.starts_with("fc."); });
  nn::load(net, taken, {.strict = false}, "the trained network");
  return net;
}

void run(const Options& options) {
  const data::Cifar cifar = data::load_cifar10(options.folder);
  const Device device(options.mode, {.precision = precision_of(options.precision)});
  const Images first = half_of(cifar.train, false, options.limit), first_test = half_of(cifar.test, false, 0),
               other_test = half_of(cifar.test, true, options.limit);
  const std::int64_t steps = options.epochs * (first.size() / std::min(options.batch, first.size()));
  models::ResNet18 trained = make_net(options, 1);
  train(trained, first, {.rate = options.learning_rate, .steps = steps}, options, 1);
  std::printf(
      "ResNet18 (32x32) in %s (%s), %s: %lld images of five classes of %s, %lld epochs, %.2f %% of their test images "
      "right.\nThen the other five classes: %lld steps of up to %lld images, learning rate %g from scratch and of the "
      "last layer, %g of all; %lld seeds.\n\n",
      device.name().c_str(), device.description().c_str(), options.precision.c_str(),
      static_cast<long long>(first.size()), cifar.train.source.c_str(), static_cast<long long>(options.epochs),
      100 * accuracy(trained, first_test), static_cast<long long>(options.steps), static_cast<long long>(options.batch),
      options.learning_rate, options.tuning_rate, static_cast<long long>(options.seeds));
  std::printf("| images of each class | from scratch | fine-tuned | last layer alone |\n|---|---|---|---|\n");
  std::fflush(stdout);
  const nn::State body = trained.state();
  for (const std::int64_t of_each : options.images) {
    const Images set = half_of(cifar.train, true, of_each);
    std::array<double, 3> right{};
    for (std::int64_t seed = 1; seed <= options.seeds; ++seed) {
      const auto number = static_cast<std::uint64_t>(seed);
      models::ResNet18 scratch = make_net(options, number), tuned = begun_with(body, options, number),
                       head = begun_with(body, options, number);
      nn::freeze(head, {"*"});
      nn::unfreeze(head, {"fc.*"});
      train(scratch, set, {.rate = options.learning_rate, .steps = options.steps}, options, number);
      train(tuned, set, {.rate = options.tuning_rate, .steps = options.steps}, options, number);
      train(head, set, {.whole = false, .rate = options.learning_rate, .steps = options.steps}, options, number);
      right[0] += accuracy(scratch, other_test);
      right[1] += accuracy(tuned, other_test);
      right[2] += accuracy(head, other_test);
    }
    const double share = 100 / static_cast<double>(options.seeds);
    std::printf("| %lld | %.2f %% | %.2f %% | %.2f %% |\n", static_cast<long long>(set.size() / 5), share * right[0],
                share * right[1], share * right[2]);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"ResNet18 on five classes of CIFAR-10, begun with weights of the other five, beside from scratch"};
  app.add_option("--data", options.folder, "folder of CIFAR-10's binaries, or of train/CLASS and test/CLASS")
      ->required();
  app.add_option("--mode", options.mode, "the mode")->capture_default_str();
  app.add_option("--precision", options.precision, "strict, tf32 or bf16")->capture_default_str();
  app.add_option("--images", options.images, "of each class to tune on, several numbers")->capture_default_str();
  app.add_option("--batch", options.batch, "images a step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--epochs", options.epochs, "of the first five classes")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--steps", options.steps, "on the other five")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--seeds", options.seeds, "trainings that a figure is the mean of")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "largest, from scratch and of the last layer")
      ->capture_default_str();
  app.add_option("--tuning-rate", options.tuning_rate, "largest, of all layers that were trained before")
      ->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay, "of SGD with Nesterov's momentum 0.9")->capture_default_str();
  app.add_option("--width-divisor", options.width_divisor, "divides the channels, to try it on a small machine")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit", options.limit, "images of each class to begin on and to test on; 0: all")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fine_tune: %s\n", error.what());
    return 1;
  }
}
