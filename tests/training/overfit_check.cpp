// overfit_check NET [MODE [FOLDER [BATCH [STEPS [RATE]]]]]: a whole network learns one batch of photographs by heart.
// FOLDER has a folder per class; without one, "-", the images are drawn. Ends well once a loss is below 0.05.

#include <chrono>
#include <cstdio>

#include "support/image_nets.hpp"

namespace {

using namespace tern;

data::Dataset one_batch(const std::string& folder, std::int64_t size, std::int64_t batch) {
  std::shared_ptr<const data::ExampleSource> images;
  if (folder == "-")
    images = std::make_shared<data::SyntheticImages>(data::SyntheticImagesOptions{.count = batch, .size = size});
  else
    images = std::make_shared<data::ImageFolder>(folder, data::ImageFolderOptions{.size = size});
  std::vector<std::int64_t> indices;  // from the whole folder, and so from many classes
  for (std::int64_t i = 0; i < batch; ++i) indices.push_back(i * images->size() / batch);
  return data::collect(data::Subset(images, indices));
}

bool learns(const std::string& name, const std::string& mode, const std::string& folder, std::int64_t batch, int steps,
            double rate) {
  Device device(mode);
  const auto net = testing::make(name, {.image_size = name == "alexnet" ? 227 : 224});
  const data::Dataset set = one_batch(folder, net->image_size(), batch);
  optim::SGD sgd(net->parameters(), {.learning_rate = rate, .momentum = 0.9});
  Step step([&](const Tensor& x, const Tensor& y) {
    Tensor loss = net->loss(x, y);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    return loss;
  });
  std::printf("%s in mode %s, %lld images of %s, SGD with learning rate %g\n", net->describe().c_str(), mode.c_str(),
              static_cast<long long>(batch), folder == "-" ? "stripes" : folder.c_str(), rate);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i <= steps; ++i) {
    const double loss = step(set.images, set.labels).item();
    std::printf("step %d: loss %.5f, %.1f s\n", i, loss,
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
    if (!(loss >= 0)) return false;
    if (loss < 0.05) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char* argv[]) {
  if (argc < 2 || argc > 7) {
    std::fprintf(stderr, "usage: overfit_check NET [MODE [FOLDER [BATCH [STEPS [RATE]]]]]\n");
    return 2;
  }
  const auto argument = [&](int i, const char* other) { return std::string(i < argc ? argv[i] : other); };
  try {
    const bool good =
        learns(argument(1, ""), argument(2, "vectorized"), argument(3, "-"), std::stoll(argument(4, "32")),
               std::stoi(argument(5, "100")), std::stod(argument(6, "0.003")));
    if (!good) std::printf("not learnt\n");
    return good ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "overfit_check: %s\n", error.what());
    return 2;
  }
}
