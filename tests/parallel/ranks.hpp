#pragma once
// Runs a check in every rank: threads, or, under mpirun with TERN_TEST_TRANSPORT=mpi, one in each process.

#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "tern/parallel/group.hpp"

namespace tern::testing {

/// Whether this process is one of several ranks.
inline bool under_mpi() {
  const char* transport = std::getenv("TERN_TEST_TRANSPORT");
  return transport != nullptr && std::string(transport) == "mpi";
}

/// Numbers of ranks to try; under mpirun there is one, and it is not ours to choose.
inline std::vector<int> rank_counts() { return under_mpi() ? std::vector{0} : std::vector{1, 2, 3, 4}; }

/// What a rank says that is wrong, empty when all is well. The checks of Catch belong to one thread.
using RankCheck = std::function<std::string(const parallel::Group& group)>;

inline void check_ranks(int count, const RankCheck& check) {
  std::mutex mutex;
  std::vector<std::string> wrong;
  parallel::launch({.transport = under_mpi() ? "mpi" : "threads", .ranks = count, .limit = std::chrono::seconds(120)},
                   [&](const parallel::Group& group) {
                     const std::string said = check(group);
                     const std::lock_guard lock(mutex);
                     if (!said.empty()) wrong.push_back(message("rank ", group.rank(), ": ", said));
                   });
  INFO((wrong.empty() ? std::string() : wrong[0]));
  CHECK(wrong.empty());
}

}  // namespace tern::testing
