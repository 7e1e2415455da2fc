#include "tern/parallel/shares.hpp"

#include "ranks.hpp"
#include "support/catch.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using parallel::Group;

TEST_CASE("shares: every rank gets the rows of all, in their order", "[parallel][ranks]") {
  for (const int ranks : rank_counts())
    check_ranks(ranks, [](const Group& group) -> std::string {
      for (const std::int64_t count : {0, 1, 2, 3, 5, 8, 13}) {
        const data::Rows own = parallel::share_of(group, count);
        const Tensor whole = arange(0, 2 * count).to(DType::float64).reshape({count, 2});
        const Tensor all = parallel::gather_shares(group, whole.slice(0, own.begin, own.end), count);
        if (all.shape() != whole.shape() || all.values() != whole.values())
          return message(count, " rows: ", all.shape(), ' ', all);
      }
      return {};
    });
}

TEST_CASE("shares: rows that are not a rank's share are refused", "[parallel]") {
  CHECK_THROWS_AS(parallel::gather_shares(Group(), zeros({3, 1}), 4), ShapeError);
  CHECK_THROWS_AS(parallel::gather_shares(Group(), zeros({4}), 4), ShapeError);
}

}  // namespace tern::testing
