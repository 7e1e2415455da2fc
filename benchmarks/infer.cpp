// One inference of a network that the library ships: infer NET BATCH THREADS SECONDS prints the minimum, the median and
// the 99th percentile of its milliseconds, host tensors in and out. MODE names another mode than vectorized.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tern/tern.hpp"

using namespace tern;

namespace {

struct Setting {
  std::int64_t images;
  int threads;
  double seconds;
};

template <class Net>
void run(Net&& net, const Setting& setting) {
  const char* const mode = std::getenv("MODE");
  const Device device{mode == nullptr ? "vectorized" : mode, {.threads = setting.threads}};
  const NoGrad none;
  net.eval();
  Generator generator{1};
  const Tensor x = randn({setting.images, 3, 224, 224}, generator);
  for (int i = 0; i < 3; ++i) net(x).values();
  std::vector<double> times;
  for (double total = 0; total < setting.seconds || times.size() < 5; total += times.back()) {
    const auto start = std::chrono::steady_clock::now();
    net(x).values();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::ranges::sort(times);
  const auto at = [&](double share) { return 1e3 * times[static_cast<std::size_t>(share * double(times.size() - 1))]; };
  std::printf("%.4f %.4f %.4f\n", at(0), at(0.5), at(0.99));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: infer NET BATCH THREADS SECONDS\n");
    return 2;
  }
  const std::string net = argv[1];
  const Setting setting{std::atoi(argv[2]), std::atoi(argv[3]), std::atof(argv[4])};
  if (net == "resnet18")
    run(models::ResNet18(), setting);
  else if (net == "resnet50")
    run(models::ResNet50(), setting);
  else if (net == "mobilenet_v2")
    run(models::MobileNetV2(), setting);
  else if (net == "vgg16")
    run(models::Vgg16(), setting);
  else if (net == "vit_b_16")
    run(models::VisionTransformer({.width = 768, .heads = 12, .hidden = 3072}), setting);
  else
    std::fprintf(stderr, "infer: no network %s\n", net.c_str());
  return 0;
}
