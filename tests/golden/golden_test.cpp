// The image networks, narrow, against PyTorch: same weights and images, same logits, gradients and trained weights.

#include "golden/golden.hpp"

#include <algorithm>

#include "support/catch.hpp"
#include "support/summary.hpp"
#include "tern/tern.hpp"

using namespace tern;

namespace {

void check(const std::string& mode) {
  const Device device(mode);
  for (const char* net : {"alexnet", "googlenet", "vgg16", "resnet18", "vit", "unet"}) {
    const testing::Comparison found = testing::compare_with_golden(message(TERN_GOLDEN_DATA, "/", net, ".safetensors"));
    const auto near = [&](const char* what, const testing::Difference& difference, double tolerance) {
      INFO(found.net << " in mode " << mode << ": " << what << " " << difference.where << " differs by "
                     << difference.largest);
      CHECK(difference.largest < tolerance);
    };
    near("logits", found.logits, 1e-5);
    near("gradient of", found.gradients, 1e-4);
    near("loss of", found.loss, 1e-4);
    near("after ten steps", found.weights, 1e-4);
    near("change by ten steps of", found.changes, 1e-3);
    CHECK(found.losses.size() == 10);
    testing::count_cases(mode, 5);
  }
}

}  // namespace

TEST_CASE("golden: the image networks compute what PyTorch computes, sequential", "[golden]") { check("sequential"); }

TEST_CASE("golden: the image networks compute what PyTorch computes, vectorized", "[golden]") { check("vectorized"); }

TEST_CASE("golden: the image networks compute what PyTorch computes, cuda", "[golden][cuda]") {
  const std::vector<std::string> modes = testing::available_modes();
  if (std::find(modes.begin(), modes.end(), "cuda") == modes.end()) {
    WARN("skipped: mode cuda is not available");
    return;
  }
  check("cuda");
}
