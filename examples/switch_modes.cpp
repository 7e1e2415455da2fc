// One program, several modes: convolution and addition on the GPU (in sequential mode if there is none), matrix product
// and addition in vectorized mode. The tensors follow automatically.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tern/tern.hpp>

namespace op = tern::operators;
using tern::Device, tern::Tensor;

namespace {

struct Inputs {
  Tensor images, kernels, offset, weights, bias;
};

Tensor features_of(const Inputs& in) { return op::add(op::conv2d(in.images, in.kernels), in.offset); }
Tensor scores_of(const Tensor& features, const Inputs& in) {
  return op::add(op::dot(features.flatten(1), in.weights), in.bias);
}

double largest_difference(const Tensor& a, const Tensor& b) {
  const auto left = a.values(), right = b.values();
  double largest = 0;
  for (std::size_t i = 0; i < left.size(); ++i)
    largest = std::max(largest, std::abs(left[i] - right[i]) / (1 + std::abs(right[i])));
  return largest;
}

int run() {
  std::puts("modes:");
  bool gpu_present = false;
  for (const tern::ModeStatus& mode : tern::modes()) {
    std::printf("  %-10s  %s%s\n", mode.name.c_str(), mode.available ? "" : "missing: ", mode.reason.c_str());
    if (mode.name == "cuda") gpu_present = mode.available;
  }

  tern::Generator generator{1};
  const Inputs in{.images = tern::rand({32, 1, 28, 28}, generator),
                  .kernels = tern::randn({8, 1, 5, 5}, generator),
                  .offset = tern::randn({8, 1, 1}, generator),
                  .weights = tern::randn({8 * 24 * 24, 10}, generator),
                  .bias = tern::randn({10}, generator)};

  tern::reset_transfers();
  Tensor features, scores;
  {
    Device gpu{gpu_present ? "cuda" : "sequential"};
    features = features_of(in);
    std::printf("conv2d and add in %s\n", gpu.name().c_str());
  }
  {
    Device cpu{"vectorized"};
    scores = scores_of(features, in);  // `features` moves automatically, once
    std::printf("dot and add in %s\n", cpu.name().c_str());
  }

  std::puts("transfers:");
  std::int64_t moved = 0;
  for (const tern::Transfer& transfer : tern::transfers()) {
    std::printf("  %s -> %s: %ld, %ld bytes\n", transfer.from.c_str(), transfer.to.c_str(),
                static_cast<long>(transfer.count), static_cast<long>(transfer.bytes));
    moved += transfer.count;
  }
  if (moved == 0) std::puts("  none: both modes work in the same memory");
  // Three inputs move to the device, the features come back.
  if (moved != (gpu_present ? 4 : 0)) {
    std::fprintf(stderr, "switch_modes: %ld transfers, expected %d\n", static_cast<long>(moved), gpu_present ? 4 : 0);
    return 1;
  }

  Device reference{"sequential"};
  const double difference = largest_difference(scores, scores_of(features_of(in), in));
  std::printf("largest relative difference from sequential alone: %.1e\n", difference);
  if (!(difference < 1e-4)) {
    std::fputs("switch_modes: the modes do not agree\n", stderr);
    return 1;
  }
  return 0;
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const tern::Error& error) {
    std::fprintf(stderr, "switch_modes: %s\n", error.what());
    return 1;
  }
}
