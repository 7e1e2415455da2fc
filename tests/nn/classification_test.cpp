#include "tern/nn/classification.hpp"

#include <cmath>

#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

namespace tern::nn {

namespace {
using Scores = std::vector<double>;
using Labels = std::vector<std::int64_t>;
double auc(const Scores& scores, const Labels& positive) { return roc_auc(scores, positive); }
}  // namespace

TEST_CASE("classification: precision, recall and F1 of each class, and their averages", "[nn]") {
  // What is: 4 of class 0, 3 of class 1, 3 of class 2.
  const Tensor confusion = tensor<std::int64_t>({3, 1, 0, 1, 2, 0, 0, 2, 1}, {3, 3});
  const Classification found = classification(confusion);
  CHECK(found.accuracy == Approx(0.6));
  CHECK(found.classes[0].precision == Approx(0.75));
  CHECK(found.classes[0].recall == Approx(0.75));
  CHECK(found.classes[1].precision == Approx(0.4));
  CHECK(found.classes[1].recall == Approx(2.0 / 3));
  CHECK(found.classes[1].f1 == Approx(0.5));
  CHECK(found.classes[2].precision == Approx(1));
  CHECK(found.classes[2].recall == Approx(1.0 / 3));
  CHECK(found.classes[2].support == 3);
  CHECK(found.macro.precision == Approx((0.75 + 0.4 + 1) / 3));
  CHECK(found.macro.f1 == Approx((0.75 + 0.5 + 0.5) / 3));
  CHECK(found.weighted.recall == Approx(found.accuracy));
  CHECK(found.weighted.f1 == Approx(0.4 * 0.75 + 0.3 * 0.5 + 0.3 * 0.5));
  CHECK(found.macro.support == 10);
}

TEST_CASE("classification: a quotient without a denominator is 0", "[nn]") {
  // Class 1 is never predicted, class 2 neither occurs nor is predicted.
  const Classification found = classification(tensor<std::int64_t>({2, 0, 0, 2, 0, 0, 0, 0, 0}, {3, 3}));
  CHECK(found.classes[1].precision == 0);
  CHECK(found.classes[1].recall == 0);
  CHECK(found.classes[1].f1 == 0);
  CHECK(found.classes[2].f1 == 0);
  CHECK(found.macro.recall == Approx(0.5));  // of the two classes that are there
  const Classification none = classification(zeros({2, 2}, DType::int64));
  CHECK(none.accuracy == 0);
  CHECK(none.macro.f1 == 0);
  CHECK(none.weighted.f1 == 0);
  CHECK_THROWS_AS(classification(zeros({2, 3}, DType::int64)), ShapeError);
}

TEST_CASE("roc_auc: the share of pairs in the right order", "[nn]") {
  CHECK(auc({0.1, 0.4, 0.35, 0.8}, {0, 0, 1, 1}) == Approx(0.75));
  CHECK(auc({3, 2, 1}, {1, 0, 0}) == 1);
  CHECK(auc({3, 2, 1}, {0, 1, 1}) == 0);
  CHECK(auc({1, 1, 1, 1}, {0, 1, 0, 1}) == Approx(0.5));
  CHECK(auc({1, 2, 2, 3}, {0, 0, 1, 1}) == Approx(0.875));
  CHECK(std::isnan(auc({1, 2}, {1, 1})));
  CHECK(std::isnan(auc({}, {})));
  CHECK_THROWS_AS(auc({1, 2}, {1}), ShapeError);
  CHECK_THROWS_AS(auc({1, NAN}, {0, 1}), NumericError);
}

TEST_CASE("roc_auc: equals the count over all pairs", "[nn]") {
  Generator generator(3);
  const auto raw = randint(0, 20, {300}, generator).to_vector<std::int64_t>();
  const auto labels = randint(0, 2, {300}, generator).to_vector<std::int64_t>();
  const Scores scores(raw.begin(), raw.end());
  double right = 0, pairs = 0;
  for (std::size_t i = 0; i < 300; ++i)
    for (std::size_t j = 0; j < 300; ++j)
      if (labels[i] == 1 && labels[j] == 0) {
        ++pairs;
        right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
  CHECK(auc(scores, labels) == Approx(right / pairs));
}

}  // namespace tern::nn
