// Fine-tunes an imported network beside peers/onnx_tune.py: onnx_tune MODEL DATA.npz THREADS EPOCHS BATCH RATE SEED...
// prints the accuracy on the test images for each seed, which draws the order of the training images. DATA has
// "train.x" [N, C, H, W], "train.y", "test.x" and "test.y". Stochastic gradient descent with momentum 0.9; batch
// normalisation keeps the statistics of the file.

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "tern/io/npy.hpp"
#include "tern/onnx/onnx.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

double accuracy(const graph::Graph& net, const Tensor& x, const Tensor& y, std::int64_t batch) {
  const NoGrad none;
  const std::vector<std::int64_t> labels = y.to_vector<std::int64_t>();
  std::size_t right = 0;
  for (std::int64_t at = 0; at < x.size(0); at += batch) {
    const Tensor scores = net(x.slice(0, at, std::min(at + batch, x.size(0))).contiguous());
    const std::vector<std::int64_t> found = operators::argmax(scores, 1).to_vector<std::int64_t>();
    for (std::size_t i = 0; i < found.size(); ++i) right += found[i] == labels[static_cast<std::size_t>(at) + i];
  }
  return static_cast<double>(right) / static_cast<double>(labels.size());
}

int run(char** argv, int seeds) {
  const Device device{"vectorized", {.threads = std::atoi(argv[3])}};
  const std::map<std::string, Tensor> data = io::load_npz(argv[2]);
  const Tensor &x = data.at("train.x"), &y = data.at("train.y");
  const std::int64_t epochs = std::atoi(argv[4]), batch = std::atoi(argv[5]), count = x.size(0);
  std::printf("before %.4f\n", accuracy(onnx::load(argv[1]), data.at("test.x"), data.at("test.y"), batch));
  for (int seed = 0; seed < seeds; ++seed) {
    const graph::Graph net = onnx::load(argv[1]);
    optim::SGD sgd(net.parameters(), {.learning_rate = std::atof(argv[6]), .momentum = 0.9});
    Generator generator(static_cast<std::uint64_t>(std::atoi(argv[7 + seed])));
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
      const Tensor order = operators::argsort(rand({count}, generator));
      for (std::int64_t at = 0; at + batch <= count; at += batch) {
        const Tensor rows = order.slice(0, at, at + batch);
        const Tensor loss =
            operators::cross_entropy(net(operators::index_select(x, 0, rows)), operators::index_select(y, 0, rows));
        sgd.zero_grad();
        loss.backward();
        sgd.step();
      }
    }
    std::printf("%.4f\n", accuracy(net, data.at("test.x"), data.at("test.y"), batch));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(stderr, "usage: onnx_tune MODEL DATA.npz THREADS EPOCHS BATCH RATE SEED...\n");
    return 2;
  }
  try {
    return run(argv, argc - 7);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
