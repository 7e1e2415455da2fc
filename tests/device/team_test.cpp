// The worker threads beneath the vectorized mode's operators, and how many of them there are.
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "modes/cores.hpp"
#include "support/catch.hpp"
#include "support/files.hpp"
#include "tern/core/error.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"
#include "vectorized/parallel.hpp"
#include "vectorized/placement.hpp"

using namespace tern;
using namespace tern::testing;
namespace op = tern::operators;
using vectorized::Team;

namespace {

/// Runs phases whose parts each add up what all parts of the phase before left behind; the last sum, or -1 if a part
/// ran at the wrong time or not exactly once.
std::int64_t run_phases(int threads, int phases) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(threads), 1), next(values);
  std::vector<std::atomic<int>> runs(values.size());
  std::atomic<bool> wrong{false};
  vectorized::parallel_phases(threads, 2 * phases, [&](const Team& team, int phase) {
    const auto part = static_cast<std::size_t>(team.index);
    if (team.size != threads || runs[part].fetch_add(1) != phase) wrong = true;
    if (phase % 2 == 0)
      next[part] = std::accumulate(values.begin(), values.end(), std::int64_t{0}) % 1'000'003;
    else
      values[part] = next[part];
  });
  return wrong ? -1 : values[0];
}

std::int64_t expected(int threads, int phases) {
  std::int64_t value = 1;
  for (int i = 0; i < phases; ++i) value = value * threads % 1'000'003;
  return value;
}

}  // namespace

TEST_CASE("team: every part of a phase runs once, and ends before the next phase begins", "[device]") {
  for (const int threads : {1, 2, 3, 8, 16, vectorized::most_threads})
    CHECK(run_phases(threads, 20) == expected(threads, 20));
}

TEST_CASE("team: several callers share the workers", "[device]") {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 6; ++i)
    callers.emplace_back([&, i] {
      for (int round = 0; round < 10; ++round) wrong += run_phases(2 + i, 10) != expected(2 + i, 10);
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("team: what a part throws reaches the caller, and later phases do not run", "[device]") {
  for (int round = 0; round < 12; ++round) {
    std::atomic<int> later{0};
    CHECK_THROWS_AS(vectorized::parallel_phases(4, 2,
                                                [&](const Team& team, int phase) {
                                                  if (phase == 1) ++later;
                                                  if (team.index == round % 4) throw NumericError("planted");
                                                }),
                    NumericError);
    CHECK(later == 0);
    CHECK(run_phases(4, 3) == expected(4, 3));
  }
}

TEST_CASE("team: a caller whom workers hold up works alone, until they help again", "[device]") {
  if (vectorized::teams_always) return;
  using Clock = std::chrono::steady_clock;
  const auto caller = std::this_thread::get_id();
  // A worker that sleeps within its part is as one that has lost its core.
  std::atomic<int> by_workers{0};
  const auto call = [&](bool held_up) {
    by_workers = 0;
    vectorized::parallel(2, [&](const Team&) {
      const bool worker = std::this_thread::get_id() != caller;
      if (worker) ++by_workers;
      if (worker && held_up) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (const auto end = Clock::now() + std::chrono::microseconds(60); Clock::now() < end;) {
      }
    });
    return by_workers == 0;
  };
  int alone = 0;
  for (const auto end = Clock::now() + std::chrono::seconds(20); alone < 300 && Clock::now() < end;)
    alone = call(true) ? alone + 1 : 0;
  CHECK(alone == 300);
  for (const auto end = Clock::now() + std::chrono::seconds(20); alone > 0 && Clock::now() < end;)
    if (!call(false)) alone = 0;
  CHECK(alone == 0);
}

TEST_CASE("team: work inside of work stays on its thread", "[device]") {
  const Context context{.threads = 4};
  CHECK(vectorized::useful_threads(context, 1e9) == 4);
  std::atomic<int> wrong{0};
  vectorized::parallel(4, [&](const Team&) { wrong += vectorized::useful_threads(context, 1e9) != 1; });
  CHECK(wrong == 0);
  CHECK(vectorized::useful_threads(context, 1e9) == 4);
}

#ifndef __SANITIZE_THREAD__  // which does not follow a fork of a process with threads
TEST_CASE("team: a forked process computes with a team of its own", "[device]") {
  const Device device{"vectorized", {.threads = 4}};
  const auto result = [] { return op::sum(op::exp(full({1'000'000}, 0.5))).item(); };
  const double here = result();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);  // a hang must not be one of the suite
    _exit(result() == here && run_phases(8, 5) == expected(8, 5) ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(result() == here);
}
#endif

TEST_CASE("team: a worker leaves the core of its caller") {
  std::thread([] {
    const auto allowed = [] {
      cpu_set_t set{};
      sched_getaffinity(0, sizeof set, &set);
      return set;
    };
    const cpu_set_t all = allowed();
    const int cores = CPU_COUNT(&all);
    if (cores < 2) return;
    vectorized::Placement placement;
    placement.leave(-1);
    for (int turn = 0; turn < 2; ++turn) {  // the second time it may come back to where it was
      int core = 0;
      bool left = false;
      while (!left) {  // the system may have moved it just before
        core = sched_getcpu();
        placement.leave(core);
        const cpu_set_t set = allowed();
        left = !CPU_ISSET(static_cast<std::size_t>(core), &set);
        if (left) CHECK(CPU_COUNT(&set) == cores - 1);
      }
      CHECK(sched_getcpu() != core);
    }
  }).join();
}

TEST_CASE("cores: control groups limit the default number of threads", "[device]") {
  const TemporaryFolder folder;
  const auto write = [&](const std::string& name, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder / name).parent_path());
    std::ofstream(folder / name) << text;
  };
  const auto granted = [&](const std::string& groups) {
    write("cgroup", groups);
    return granted_cores(folder / "cgroup", folder.path());
  };
  CHECK(granted_cores(folder / "missing", folder.path()) == 0);
  CHECK(granted("0::/\n") == 0);
  // Version 2: the smallest quota on the way to the root holds.
  write("cpu.max", "max 100000\n");
  write("outer/cpu.max", "250000 100000\n");
  write("outer/inner/cpu.max", "800000 100000\n");
  CHECK(granted("0::/\n") == 0);
  CHECK(granted("0::/outer\n") == 3);
  write("outer/cpu.max", "200000 100000\n");
  CHECK(granted("0::/outer\n") == 2);
  write("outer/cpu.max", "250000 100000\n");
  CHECK(granted("0::/outer/inner\n") == 3);
  write("outer/inner/cpu.max", "1000 100000\n");
  CHECK(granted("0::/outer/inner\n") == 1);
  // Version 1: a container sees its own group as the root, though the process's path is the host's.
  write("cpu/cpu.cfs_quota_us", "-1\n");
  write("cpu/cpu.cfs_period_us", "100000\n");
  CHECK(granted("5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n") == 0);
  write("cpu/cpu.cfs_quota_us", "150000\n");
  CHECK(granted("5:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n") == 2);
  CHECK(granted("5:memory:/docker/1\n4:cpuset:/docker/1\n") == 0);
  write("cpu.max", "nonsense\n");
  CHECK(granted("0::/\nnonsense\n\n:\n") == 0);
}
