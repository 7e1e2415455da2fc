#include "tern/nn/calibration.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/core/error.hpp"

namespace tern::nn {

namespace {
using Probabilities = std::vector<float>;
using Labels = std::vector<std::int64_t>;
Calibration found_in(const Probabilities& probabilities, const Labels& labels, std::int64_t classes = 2,
                     std::int64_t bins = 10) {
  return calibration(probabilities, labels, classes, bins);
}
}  // namespace

TEST_CASE("calibration: how sure beside how right, by hand", "[nn]") {
  // Two at about 0.9, of which one is right; two at 0.55, both right; one that is certain, and right.
  const Probabilities sure{0.95f, 0.05f, 0.09f, 0.91f, 0.55f, 0.45f, 0.45f, 0.55f, 1, 0};
  const Calibration found = found_in(sure, {0, 0, 0, 1, 0});
  REQUIRE(found.bins.size() == 10);
  CHECK(found.bins[5].examples == 2);
  CHECK(found.bins[5].confidence == Approx(0.55));
  CHECK(found.bins[5].accuracy == 1);
  CHECK(found.bins[9].examples == 3);
  CHECK(found.bins[9].confidence == Approx(2.86 / 3));
  CHECK(found.bins[9].accuracy == Approx(2.0 / 3));
  CHECK(found.bins[0].examples == 0);
  CHECK(found.bins[0].accuracy == 0);
  CHECK(found.error == Approx(0.4 * 0.45 + 0.6 * (0.86 / 3)));
  // 2 (1 - p)^2 of each that is right, 2 p^2 of the wrong one.
  CHECK(found.brier == Approx(2 * (0.05 * 0.05 + 0.91 * 0.91 + 0.45 * 0.45 + 0.45 * 0.45) / 5));
}

TEST_CASE("calibration: three classes, ends of bins, and nothing at all", "[nn]") {
  const Probabilities three{0.5f, 0.25f, 0.25f, 0.25f, 0.25f, 0.5f};
  const Calibration found = found_in(three, {0, 1}, 3, 4);
  CHECK(found.bins[2].examples == 2);  // 0.5 begins the third of four
  CHECK(found.bins[2].accuracy == 0.5);
  CHECK(found.error == 0);
  CHECK(found.brier == Approx((0.25 + 2 * 0.0625 + 0.0625 + 0.5625 + 0.25) / 2));
  CHECK(found_in({1, 0, 1, 0}, {0, 1}).error == Approx(0.5));  // sure and wrong
  CHECK(found_in({1, 0, 1, 0}, {0, 1}).brier == Approx(1));
  const Calibration nothing = found_in({}, {});
  CHECK(nothing.error == 0);
  CHECK(nothing.brier == 0);
  CHECK(nothing.bins.size() == 10);
}

TEST_CASE("calibration: what does not fit is an error", "[nn]") {
  CHECK_THROWS_AS(found_in({0.5f, 0.5f, 1}, {0}), ShapeError);
  CHECK_THROWS_AS(found_in({0.5f, 0.5f}, {0}, 2, 0), ShapeError);
  CHECK_THROWS_AS(found_in({}, {}, 0), ShapeError);
  CHECK_THROWS_AS(found_in({0.5f, 0.5f}, {2}), NumericError);
  CHECK_THROWS_AS(found_in({0.5f, 0.5f}, {-1}), NumericError);
  CHECK_THROWS_AS(found_in({NAN, NAN}, {0}), NumericError);
}

}  // namespace tern::nn
