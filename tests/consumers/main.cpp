// A user's program: trains LeNet for a few steps in every mode that is present.
#include <array>
#include <cstdio>
#include <tern/tern.hpp>

namespace op = tern::operators;
using tern::Device, tern::Tensor;

int main() {
  // The package brings along whatever decodes images.
  const std::array<std::byte, 3> cut{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
  try {
    tern::data::parse_image(cut, "three bytes");
    return 1;
  } catch (const tern::FileError& error) {
    std::printf("%s\n", error.what());
  }
  const tern::data::Dataset digits = tern::data::synthetic_digits(8);
  for (const tern::ModeStatus& mode : tern::modes()) {
    if (!mode.available) {
      std::printf("%s: %s\n", mode.name.c_str(), mode.reason.c_str());
      continue;
    }
    Device device{mode.name};
    const Tensor images = tern::data::to_float(digits.images, tern::data::mnist_mean, tern::data::mnist_deviation);
    tern::models::LeNet net{/*seed=*/1};
    tern::optim::SGD sgd{net.parameters(), {.learning_rate = 0.01, .momentum = 0.9}};
    tern::Step step{[&](const Tensor& x, const Tensor& labels) {
      Tensor loss = op::cross_entropy(net(x), labels);
      sgd.zero_grad();
      loss.backward();
      sgd.step();
      return loss;
    }};
    const double before = step(images, digits.labels).item();
    for (int i = 0; i < 3; ++i) step(images, digits.labels);
    const double after = step(images, digits.labels).item();
    std::printf("%s, tern %s: loss %.3f, then %.3f\n", device.name().c_str(), tern::version(), before, after);
    if (!(after < before)) return 1;
  }
}
