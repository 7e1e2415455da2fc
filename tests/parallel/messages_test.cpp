// What ranks tell each other: words of any length, and elements that stay as long as others read them.

#include <thread>

#include "ranks.hpp"
#include "tern/core/error.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using Catch::ContainsSubstring;
using parallel::Group;

TEST_CASE("group: words are gathered whole, however long and whatever is in them", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      const auto of_rank = [](int rank) {
        std::string text(static_cast<std::size_t>(rank) * 700 + 1, static_cast<char>('a' + rank));
        return text + '\0' + "end";
      };
      const std::vector<std::string> all = group.all_gather(of_rank(group.rank()));
      if (std::ssize(all) != group.size()) return message(all.size(), " texts");
      for (int rank = 0; rank < group.size(); ++rank)
        if (all[static_cast<std::size_t>(rank)] != of_rank(rank))
          return message("rank ", rank, " said ", all[static_cast<std::size_t>(rank)].size(), " bytes");
      for (const std::string& text : group.all_gather(std::string()))
        if (!text.empty()) return "something was said";
      return {};
    });
}

TEST_CASE("group: what has to be alike in all ranks is compared, and the difference is named", "[parallel][ranks]") {
  for (const int count : rank_counts())
    check_ranks(count, [](const Group& group) -> std::string {
      group.check_same("these", "rate 0.1\nsteps 3\n");
      const int last = group.size() - 1;
      const auto said = [&](const std::string& text) -> std::string {
        try {
          group.check_same("these", text);
        } catch (const ParallelError& error) {
          return error.what();
        }
        return {};
      };
      const std::string other = said(group.rank() == last ? "rate 0.1\nsteps 4\n" : "rate 0.1\nsteps 3\n");
      const std::string expected =
          message("these: rank 0 has steps 3, rank ", last, " has steps 4; all ranks need the same");
      if (last > 0 ? other != expected : !other.empty()) return message("said '", other, "'");
      const std::string less = said(group.rank() == last ? "rate 0.1\n" : "rate 0.1\nsteps 3\n");
      if (last > 0 && less.find("has no more") == std::string::npos) return message("said '", less, "'");
      group.barrier();  // it goes on
      return {};
    });
}

TEST_CASE("group: a rank that fails in a call frees nothing that another still reads", "[parallel]") {
  constexpr std::int64_t count = std::int64_t{1} << 23;
  for (const int limit : {1, 2, 4, 8, 16, 32}) {
    CAPTURE(limit);
    const auto fails_or_not = [&](const std::function<void(const Group&, Tensor)>& call) {
      try {
        parallel::launch({.ranks = 3, .limit = std::chrono::milliseconds(limit)}, [&](const Group& group) {
          // What has not been written yet is copied more slowly.
          Tensor x = group.rank() == 0 ? full({count}, 1) : Tensor({count});
          group.barrier();
          call(group, x);
        });
      } catch (const ParallelError& error) {
        CHECK_THAT(error.what(), ContainsSubstring("did not arrive at"));
      }
    };
    fails_or_not([](const Group& group, const Tensor& x) { group.all_reduce(x); });
    fails_or_not([](const Group& group, const Tensor& x) { group.broadcast(x); });
    fails_or_not([](const Group& group, const Tensor& x) { (void)group.all_gather(x.slice(0, 0, count / 3)); });
  }
}

TEST_CASE("group: a message whose sender has given up is not delivered", "[parallel]") {
  std::string said;
  CHECK_THROWS_AS(parallel::launch({.ranks = 2, .limit = std::chrono::milliseconds(50)},
                                   [&](const Group& group) {
                                     if (group.rank() == 0) {
                                       group.send(full({1 << 20}, 3), 1);
                                       return;
                                     }
                                     std::this_thread::sleep_for(std::chrono::milliseconds(200));
                                     try {
                                       Tensor x({1 << 20});
                                       group.receive(x, 0);
                                     } catch (const ParallelError& error) {
                                       said = error.what();
                                       throw;
                                     }
                                   }),
                  ParallelError);
  CHECK_THAT(said, ContainsSubstring("did not receive"));
}

}  // namespace tern::testing
