// golden_check FILE [MODE]: a golden file of make_golden.py, such as one of a whole network, in one mode.

#include <cstdio>

#include "golden/golden.hpp"
#include "tern/modes/device.hpp"

int main(int argc, char* argv[]) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: golden_check FILE [MODE]\n");
    return 2;
  }
  try {
    const tern::Device device(argc == 3 ? argv[2] : "vectorized");
    const auto found = tern::testing::compare_with_golden(argv[1]);
    std::printf("%s, %lld parameters, %zu steps in mode %s; losses", found.net.c_str(),
                static_cast<long long>(found.parameters), found.losses.size(), argc == 3 ? argv[2] : "vectorized");
    for (const double loss : found.losses) std::printf(" %.5f", loss);
    std::printf(
        "\n| compared | largest difference, relative to the largest element of its tensor | where |\n|---|---|---|\n");
    const auto row = [](const char* what, const tern::testing::Difference& difference) {
      std::printf("| %s | %.1e | %s |\n", what, difference.largest, difference.where.c_str());
    };
    row("logits", found.logits);
    row("losses", found.loss);
    row("gradients of the first step", found.gradients);
    row("weights after the last step", found.weights);
    row("change of the weights by all steps", found.changes);
    std::printf("gradients %.1e and changes %.1e, of all tensors together, relative to their norm\n",
                found.gradient_norm, found.change_norm);
    // A whole network has millions of relus and maxima. A few lie within rounding of their kink and take the other
    // branch, in PyTorch's float32 against its own float64 too; that moves single gradients by up to a few per cent.
    return found.logits.largest < 1e-4 && (found.gradients.largest < 5e-2 || found.gradient_norm < 1e-3) &&
                   found.weights.largest < 1e-2
               ? 0
               : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden_check: %s\n", error.what());
    return 2;
  }
}
