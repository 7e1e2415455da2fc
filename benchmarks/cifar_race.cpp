// Trains ResNet18 (its form for 32x32 images) on CIFAR-10: the test accuracy after this many epochs, and the training
// images per second. The images stay on the device; each step gathers its batch there, shifts and flips it at random,
// and trains with label smoothing and SGD at a rate that rises and falls once. One row per epoch; its seconds are those
// of the steps with everything that belongs to them, without the evaluation.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <tern/tern.hpp>
#include <vector>

namespace {

using namespace tern;
namespace op = operators;

struct Options {
  std::string mode = "fastest", precision = "strict", folder;
  std::int64_t batch = 256, epochs = 20, width_divisor = 1, limit = 0;
  std::uint64_t seed = 1;
  double learning_rate = 0.2, weight_decay = 5e-4, smoothing = 0.1, mix = 0, colour = 0;
  std::int64_t cutout = 0;
  bool mirrored_test = false;
  bool fastest = false;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// The same elements on the scope's device.
Tensor resident(const Tensor& tensor) { return op::index_select(tensor, 0, arange(0, tensor.size(0))); }

/// Converts bytes to normalised images.
class Normalize {
 public:
  Tensor operator()(const Tensor& bytes) const { return (bytes.to(DType::float32) - mean_) / deviation_; }

 private:
  static Tensor channels(const std::array<float, 3>& values) {
    return resident(tensor({255 * values[0], 255 * values[1], 255 * values[2]}).reshape({1, 3, 1, 1}));
  }
  Tensor mean_ = channels(data::cifar_mean), deviation_ = channels(data::cifar_deviation);
};

class Race {
  static constexpr double grey = 120;  // near the mean of all pixels

 public:
  Race(const data::Cifar& cifar, const Options& options)
      : options_(options),
        images_(resident(cifar.train.images)),
        labels_(resident(cifar.train.labels)),
        test_images_(resident(cifar.test.images)),
        test_labels_(resident(cifar.test.labels)),
        augment_({.shift = 4,
                  .mirror = true,
                  .brightness = options.colour,
                  .contrast = options.colour,
                  .saturation = options.colour,
                  .cutout = options.cutout,
                  .cover = grey,
                  .mix = options.mix,
                  .seed = options.seed}),
        net_({.classes = cifar.train.classes,
              .image_size = 32,
              .width_divisor = options.width_divisor,
              .stem = models::Stem::small},
             options.seed),
        sgd_(net_.parameters(), {.learning_rate = options.learning_rate,
                                 .momentum = 0.9,
                                 .weight_decay = options.weight_decay,
                                 .nesterov = true}),
        masters_(net_.parameters()),
        steps_(images_.size(0) / options.batch),
        rate_(sgd_, optim::OneCycleLr{.total = steps_ * options.epochs, .rise = 0.25}),
        train_([this](const Tensor& rows, const Tensor& drawn) { return step(rows, drawn); }),
        right_([this](const Tensor& x, const Tensor& y) { return count_right(x, y); }) {
    if (precision_of(options.precision) == Precision::f16) scaler_.emplace();
  }

  void run() {
    std::printf("| epoch | loss | test accuracy | images/s | seconds |\n|---|---|---|---|---|\n");
    std::vector<double> seconds;
    for (std::int64_t epoch = 0; epoch < options_.epochs; ++epoch) {
      const auto begin = std::chrono::steady_clock::now();
      const double loss = train(epoch);
      seconds.push_back(seconds_since(begin));
      std::printf("| %lld | %.4f | %.2f %% | %.0f | %.3f |\n", static_cast<long long>(epoch + 1), loss,
                  100 * accuracy(), images_per_epoch() / seconds.back(), seconds.back());
      std::fflush(stdout);
    }
    std::ranges::sort(seconds);
    std::printf("\nmedian %.0f images/s; %lld steps recorded and replayed%s\n",
                images_per_epoch() / seconds[seconds.size() / 2], static_cast<long long>(train_.replays()),
                train_.unrecorded().empty() ? "" : (", not recorded: " + train_.unrecorded()).c_str());
  }

 private:
  double images_per_epoch() const { return static_cast<double>(steps_ * options_.batch); }

  Tensor step(const Tensor& rows, const Tensor& drawn) {
    Tensor x = normalize_(augment_(op::index_select(images_, 0, rows), drawn));
    Tensor labels = op::index_select(labels_, 0, rows);
    if (options_.mix > 0) {
      const data::Mixed mixed = augment_.mixed(x, labels, net_.classes(), drawn);
      x = mixed.images;
      labels = mixed.labels;
    }
    const Tensor loss = op::cross_entropy(net_(x), labels, {.label_smoothing = options_.smoothing});
    sgd_.zero_grad();
    if (scaler_) {
      scaler_->scale(loss).backward();
      scaler_->step(masters_, sgd_);
    } else {
      loss.backward();
      sgd_.step();
    }
    return loss;
  }

  /// The mean loss of an epoch.
  double train(std::int64_t epoch) {
    net_.train();
    Generator generator(options_.seed);
    generator.set_position(static_cast<std::uint64_t>(epoch));
    const Tensor numbers = randperm(images_.size(0), generator);
    const Tensor order = resident(numbers), drawn = resident(augment_.draw(epoch, numbers));
    nn::Mean mean;
    for (std::int64_t i = 0; i < steps_; ++i) {
      const std::int64_t begin = i * options_.batch, end = begin + options_.batch;
      mean.update(train_(order.slice(0, begin, end), drawn.slice(0, begin, end)));
      rate_.step();
    }
    return mean.value();
  }

  Tensor count_right(const Tensor& x, const Tensor& y) const {
    const NoGrad no_grad;
    const Tensor images = normalize_(x);
    Tensor scores = op::softmax(net_(images), 1);
    if (options_.mirrored_test) scores = scores + op::softmax(net_(op::flip(images, {3})), 1);
    const Tensor guessed = op::argmax(scores, 1);
    return op::sum(op::equal(guessed.to(DType::float32), y.to(DType::float32)).to(DType::float32));
  }

  double accuracy() {
    net_.eval();
    constexpr std::int64_t part = 1000;
    Tensor right;
    for (std::int64_t begin = 0; begin < test_images_.size(0); begin += part) {
      const Tensor here =
          right_(test_images_.slice(0, begin, begin + part), test_labels_.slice(0, begin, begin + part));
      right = right.defined() ? right + here : here;
    }
    return right.item() / static_cast<double>(test_images_.size(0));
  }

  Options options_;
  Tensor images_, labels_, test_images_, test_labels_;
  Normalize normalize_;
  data::Augment augment_;
  models::ResNet18 net_;
  optim::SGD sgd_;
  optim::MasterWeights masters_;  // the parameters themselves, which are float32
  std::optional<optim::GradScaler> scaler_;
  std::int64_t steps_;
  optim::Scheduler rate_;
  Step train_, right_;
};

void run(const Options& options) {
  data::Cifar cifar = data::load_cifar10(options.folder);
  if (options.limit > 0) {
    cifar.train = cifar.train.take(options.limit);
    cifar.test = cifar.test.take(options.limit);
  }
  const Device device(options.mode, {.precision = precision_of(options.precision), .deterministic = !options.fastest});
  std::printf(
      "ResNet18 (32x32) in %s (%s), %s, %s, batch %lld, seed %llu, learning rate %g, weight decay %g, label smoothing "
      "%g, cutout %lld, colour %g, mix %g%s; %lld training images of %s\n\n",
      device.name().c_str(), device.description().c_str(), options.precision.c_str(),
      options.fastest ? "fastest" : "deterministic", static_cast<long long>(options.batch),
      static_cast<unsigned long long>(options.seed), options.learning_rate, options.weight_decay, options.smoothing,
      static_cast<long long>(options.cutout), options.colour, options.mix,
      options.mirrored_test ? ", test images also mirrored" : "", static_cast<long long>(cifar.train.size()),
      cifar.train.source.c_str());
  Race(cifar, options).run();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"ResNet18 on CIFAR-10: accuracy and images per second"};
  app.add_option("--data", options.folder, "folder of CIFAR-10's binaries, or of train/CLASS and test/CLASS")
      ->required();
  app.add_option("--mode", options.mode, "the mode")->capture_default_str();
  app.add_option("--precision", options.precision, "strict, tf32, bf16 or f16")->capture_default_str();
  app.add_option("--batch", options.batch, "images a step")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--epochs", options.epochs, "epochs, over which the rate rises and falls")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the weights, the order and the changes")->capture_default_str();
  app.add_option("--learning-rate", options.learning_rate, "its largest value")->capture_default_str();
  app.add_option("--weight-decay", options.weight_decay, "of SGD with Nesterov's momentum 0.9")->capture_default_str();
  app.add_option("--smoothing", options.smoothing, "of the labels")->capture_default_str();
  app.add_option("--cutout", options.cutout, "side of a square that is covered")->capture_default_str();
  app.add_option("--colour", options.colour, "brightness, contrast and saturation change by so much at most")
      ->capture_default_str();
  app.add_option("--mix", options.mix, "alpha of mixup; 0: none")->capture_default_str();
  app.add_flag("--mirrored-test", options.mirrored_test, "test images are read a second time, mirrored");
  app.add_option("--width-divisor", options.width_divisor, "divides the channels, to try it on a small machine")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--limit", options.limit, "the first images only; 0: all")->capture_default_str();
  app.add_flag("--fastest", options.fastest, "algorithms that need not repeat");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cifar_race: %s\n", error.what());
    return 1;
  }
}
