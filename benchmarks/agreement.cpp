// How often does a network in 8 bits choose the class that it chooses in float32? Trains a network on a folder of
// photographs (FOLDER/CLASS/IMAGE.jpg), since no trained weights are at hand, quantises every layer, calibrated with
// 128 of them, and compares the answers for all.
// usage: agreement FOLDER NET SIZE EPOCHS        NET is resnet18, resnet50, googlenet or mobilenet_v2

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "tern/tern.hpp"

using namespace tern;

namespace {

struct Photographs {
  Tensor images, labels;
  std::int64_t classes = 0;
};

std::shared_ptr<nn::Module> net_of(const std::string& name, std::int64_t classes, std::int64_t size) {
  if (name == "resnet18")
    return std::make_shared<models::ResNet18>(models::ResNet18Options{.classes = classes, .image_size = size});
  if (name == "resnet50")
    return std::make_shared<models::ResNet50>(models::ResNet50Options{.classes = classes, .image_size = size});
  if (name == "googlenet")
    return std::make_shared<models::GoogLeNet>(
        models::GoogLeNetOptions{.classes = classes, .image_size = size, .auxiliary = false, .dropout = 0});
  if (name == "mobilenet_v2")
    return std::make_shared<models::MobileNetV2>(
        models::MobileNetV2Options{.classes = classes, .image_size = size, .dropout = 0});
  throw Error(message("net \"", name, "\" is unknown"));
}

Photographs read(const std::string& folder, std::int64_t size) {
  const data::ImageFolder source(folder, {.size = size, .short_side = size});
  data::DataLoader loader(source, {.batch_size = source.size(), .shuffle = false});
  for (const data::Batch& batch : loader.epoch(0)) return {batch.images, batch.labels, source.classes()};
  throw Error(message(folder, " has no photographs"));
}

void train(nn::Module& net, const Photographs& set, int epochs) {
  const Device device{"vectorized", {.precision = Precision::bf16}};
  optim::Adam adam{net.parameters(), {.learning_rate = 1e-3}};
  optim::Scheduler schedule{adam, optim::CosineLr{.total = epochs}};
  Generator generator{1};
  constexpr std::int64_t batch = 50;
  const std::int64_t count = set.labels.size(0);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const Tensor order = op::argsort(rand({count}, generator));
    double sum = 0;
    for (std::int64_t begin = 0; begin + batch <= count; begin += batch) {
      const Tensor rows = order.slice(0, begin, begin + batch);
      const Tensor loss =
          op::cross_entropy(net(op::index_select(set.images, 0, rows)), op::index_select(set.labels, 0, rows));
      net.zero_grad();
      loss.backward();
      adam.step();
      sum += loss.item() * batch;
    }
    schedule.step();
    std::printf("epoch %d: loss %.4f\n", epoch + 1, sum / static_cast<double>(count));
    std::fflush(stdout);
  }
}

std::vector<std::int64_t> answers(const graph::Program& program, const Tensor& images) {
  std::vector<std::int64_t> classes;
  for (std::int64_t begin = 0; begin < images.size(0); begin += 50) {
    const Tensor batch = images.slice(0, begin, std::min(begin + 50, images.size(0)));
    for (const double each : op::argmax(program(batch), 1).values()) classes.push_back(static_cast<std::int64_t>(each));
  }
  return classes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return std::fputs("usage: agreement FOLDER NET SIZE EPOCHS\n", stderr), 2;
  const Photographs set = read(argv[1], std::atoi(argv[3]));
  const std::shared_ptr<nn::Module> net = net_of(argv[2], set.classes, std::atoi(argv[3]));
  train(*net, set, std::atoi(argv[4]));
  const Device device{"vectorized"};
  const NoGrad no_grad;
  net->eval();
  const graph::Graph whole = graph::trace(*net, set.images.slice(0, 0, 1));
  graph::QuantizeReport report;
  const graph::Graph stored =
      graph::quantize(whole, {{set.images.slice(0, 0, std::min<std::int64_t>(128, set.images.size(0)))}},
                      {.bound = 10, .force = true}, &report);
  const std::vector<std::int64_t> real = answers(graph::Program(whole), set.images),
                                  small = answers(graph::Program(stored), set.images);
  const std::vector<double> labels = set.labels.values();
  std::size_t same = 0, right = 0, right_small = 0;
  for (std::size_t i = 0; i < real.size(); ++i) {
    same += real[i] == small[i];
    right += static_cast<double>(real[i]) == labels[i];
    right_small += static_cast<double>(small[i]) == labels[i];
  }
  std::printf("%s, %zu photographs: float32 and int8 agree on %zu; right are %zu and %zu; relative error %.4f\n",
              argv[2], real.size(), same, right, right_small, report.error);
}
