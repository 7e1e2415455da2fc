#include <map>
#include <set>

#include "support/catch.hpp"
#include "tern/data/dataset.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

TEST_CASE("folds: each example is held out once, and every class has its share of every fold", "[data][folds]") {
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 83; ++i) labels.push_back(i % 7 == 0 ? 2 : i % 3 == 0 ? 1 : 0);
  for (const std::int64_t folds : {2, 5, 83}) {
    std::multiset<std::int64_t> held;
    std::map<std::int64_t, std::pair<std::int64_t, std::int64_t>> of_class;  // fewest and most in a fold
    for (std::int64_t fold = 0; fold < folds; ++fold) {
      const data::SplitRows rows = data::fold_rows(labels, 3, folds, fold, 4);
      CHECK(rows.train.size() + rows.validation.size() == labels.size());
      CHECK(static_cast<std::int64_t>(rows.validation.size()) - 83 / folds <= 1);
      CHECK(static_cast<std::int64_t>(rows.validation.size()) >= 83 / folds);
      held.insert(rows.validation.begin(), rows.validation.end());
      for (std::int64_t c = 0; c < 3; ++c) {
        std::int64_t count = 0;
        for (const std::int64_t row : rows.validation) count += labels[static_cast<std::size_t>(row)] == c ? 1 : 0;
        auto& [fewest, most] = of_class.try_emplace(c, count, count).first->second;
        fewest = std::min(fewest, count);
        most = std::max(most, count);
      }
    }
    CHECK(held.size() == labels.size());
    CHECK(std::set<std::int64_t>(held.begin(), held.end()).size() == labels.size());
    for (const auto& [c, counts] : of_class) CHECK(counts.second - counts.first <= 1);
  }
  CHECK(data::fold_rows(labels, 3, 5, 1, 4).validation == data::fold_rows(labels, 3, 5, 1, 4).validation);
  CHECK(data::fold_rows(labels, 3, 5, 1, 4).validation != data::fold_rows(labels, 3, 5, 1, 5).validation);
}

TEST_CASE("folds: of a set, numbers too; and what is no fold", "[data][folds]") {
  const data::Dataset numbers{.images = arange(0, 10).to(DType::float32).reshape({10, 1}),
                              .labels = arange(0, 10).to(DType::float32),
                              .classes = data::no_classes};
  const data::Split parts = data::fold(numbers, 5, 4, 1);
  CHECK(parts.validation.size() == 2);
  CHECK(parts.train.size() == 8);
  CHECK(parts.validation.images.reshape({2}).values() == parts.validation.labels.values());
  const std::vector<std::int64_t> labels(4);
  CHECK_THROWS_WITH(data::fold_rows(labels, 1, 5, 0, 1), Catch::ContainsSubstring("expected 2 to 4 folds"));
  CHECK_THROWS_WITH(data::fold_rows(labels, 1, 1, 0, 1), Catch::ContainsSubstring("found 1"));
  CHECK_THROWS_WITH(data::fold_rows(labels, 1, 2, 2, 1), Catch::ContainsSubstring("in [0, 2)"));
}

}  // namespace tern::testing
