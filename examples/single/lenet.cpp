// LeNet on MNIST with the one-file library, without CMake and without linking:
//
//     g++ -std=c++20 -O2 -fopenmp -I FOLDER_OF_tern_single.hpp lenet.cpp && ./a.out [FOLDER OF MNIST] [IMAGES]
//
// Without a folder, or with "", it draws digits. TERN_LENET_MODE=sequential names a mode. Prints the loss and the
// accuracy of each epoch, and the sum of all weights.

#define TERN_IMPLEMENTATION  // in one source file of a program
#include <cstdio>
#include <cstdlib>

#include "tern_single.hpp"

int main(int argc, char** argv) try {
  const char* const mode = std::getenv("TERN_LENET_MODE");
  const tern::Device device{mode == nullptr ? "fastest" : mode};
  const std::int64_t images = argc > 2 ? std::atoll(argv[2]) : 2000;
  tern::data::MnistOptions wanted;
  if (argc > 1) wanted.folder = argv[1];
  wanted.synthetic = wanted.folder.empty();
  wanted.synthetic_train = images;
  wanted.synthetic_test = images / 4;
  const tern::data::Mnist digits = tern::data::load_mnist(wanted);

  tern::models::LeNet net{1};
  tern::optim::SGD sgd{net.parameters(), {.learning_rate = 0.02, .momentum = 0.9}};
  const tern::data::DataLoader loader{
      digits.train.take(images),
      {.batch_size = 32, .seed = 1, .mean = tern::data::mnist_mean, .deviation = tern::data::mnist_deviation}};
  const tern::data::Dataset test = digits.test.take(images / 4);
  const tern::Tensor x = tern::data::to_float(test.images, tern::data::mnist_mean, tern::data::mnist_deviation);
  for (int epoch = 0; epoch < 2; ++epoch) {
    tern::nn::Mean mean_loss;
    for (const tern::data::Batch& batch : loader.epoch(epoch)) {
      const tern::Tensor loss = tern::op::cross_entropy(net(batch.images), batch.labels);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
      mean_loss.update(loss, static_cast<double>(batch.size));
    }
    const tern::NoGrad no_grad;
    tern::nn::Accuracy accuracy;
    accuracy.update(net(x), test.labels);
    std::printf("epoch %d: loss %.9g, test accuracy %.2f %%\n", epoch + 1, mean_loss.value(), 100 * accuracy.value());
  }
  double sum = 0;
  for (const tern::Tensor& parameter : net.parameters())
    for (const float weight : parameter.read<float>()) sum += weight;
  std::printf("sum of the weights %.17g\n", sum);
} catch (const tern::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
