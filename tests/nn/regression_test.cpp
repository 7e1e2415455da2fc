#include "tern/nn/regression.hpp"

#include <cmath>
#include <vector>

#include "support/catch.hpp"
#include "tern/core/error.hpp"

namespace tern::nn {

using Values = std::vector<double>;

TEST_CASE("regression: figures by hand", "[nn]") {
  const Values actual{3, -0.5, 2, 7}, predicted{2.5, 0, 2, 8};
  const Regression found = regression(predicted, actual);
  CHECK(found.r2 == Approx(0.9486081370449679));  // scikit-learn's r2_score
  CHECK(found.rmse == Approx(std::sqrt(0.375)));
  CHECK(found.mae == Approx(0.5));
  CHECK(regression(actual, actual).r2 == 1);
  CHECK(regression(Values(4, 2.875), actual).r2 == Approx(0).margin(1e-12));  // their mean
  CHECK(regression(Values{7, 2, -0.5, 3}, actual).r2 < 0);
}

TEST_CASE("regression: what has no spread explains nothing", "[nn]") {
  const Regression found = regression(Values{1, 3}, Values{2, 2});
  CHECK(std::isnan(found.r2));
  CHECK(found.rmse == 1);
  CHECK_THROWS_AS(regression(Values{1}, Values{1, 2}), ShapeError);
}

}  // namespace tern::nn
