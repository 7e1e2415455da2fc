// Trains LeNet on MNIST in 16 bits and prints the test accuracy after each epoch.
// usage: halves MODE DTYPE EPOCHS        reads $TERN_DATA_DIR
// DTYPE is float32, bfloat16 or float16 (a converted network with float32 masters), or bf16 or f16 (mixed precision).
// The loss of float16 and f16 is scaled.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tern/tern.hpp"

namespace {

using namespace tern;

double accuracy_of(nn::Module& net, const Tensor& images, const Tensor& labels) {
  const NoGrad no_grad;
  nn::Accuracy accuracy;
  net.eval();
  for (std::int64_t begin = 0; begin < labels.size(0); begin += 1000)
    accuracy.update(net(images.slice(0, begin, begin + 1000)), labels.slice(0, begin, begin + 1000));
  net.train();
  return accuracy.value();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fputs("usage: halves MODE DTYPE EPOCHS\n", stderr), 2;
  const std::string_view name = argv[2];
  const DType dtype = name == "bfloat16" ? DType::bfloat16 : name == "float16" ? DType::float16 : DType::float32;
  const Precision precision = name == "bf16" || name == "f16" ? precision_of(name) : Precision::strict;
  const bool scales = dtype == DType::float16 || precision == Precision::f16;
  Device device{argv[1], {.precision = precision}};
  const data::Mnist digits = data::load_mnist();
  const data::DataLoader loader{
      digits.train,
      {.batch_size = 64, .seed = 1, .resident = true, .mean = data::mnist_mean, .deviation = data::mnist_deviation}};
  const Tensor test = data::to_float(digits.test.images, data::mnist_mean, data::mnist_deviation).to(dtype);
  models::LeNet net{1};
  net.to(dtype);
  optim::MasterWeights masters{net.parameters()};
  optim::SGD sgd{masters.parameters(), {.learning_rate = 0.02, .momentum = 0.9, .weight_decay = 5e-4}};
  const int epochs = std::atoi(argv[3]);
  optim::Scheduler schedule{sgd, optim::CosineLr{.total = epochs}};
  optim::GradScaler scaler;
  Step step{[&](const Tensor& rows) {
    const Tensor x = op::index_select(loader.images(), 0, rows).to(dtype);
    const Tensor loss = op::cross_entropy(net(x), op::index_select(loader.labels(), 0, rows));
    net.zero_grad();
    if (scales) {
      scaler.scale(loss).backward();
      scaler.step(masters, sgd);
    } else {
      loss.backward();
      masters.load_gradients();
      sgd.step();
      masters.store();
    }
    return loss;
  }};
  const auto start = std::chrono::steady_clock::now();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Tensor order = loader.order(epoch);
    for (std::int64_t begin = 0; begin + 64 <= loader.examples(); begin += 64) step(order.slice(0, begin, begin + 64));
    const double right = accuracy_of(net, test, digits.test.labels);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("LeNet %s %s, epoch %d: %.2f %%, %.1f s\n", argv[1], argv[2], epoch + 1, 100 * right, seconds.count());
    schedule.step();
  }
}
