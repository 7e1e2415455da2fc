#include "vectorized/team.hpp"

#include <pthread.h>

#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>

#include "tern/core/error.hpp"
#include "vectorized/team_call.hpp"

namespace tern::vectorized {
namespace {

/// The processor time of this thread.
Worth::Time thread_time() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

thread_local bool inside = false;

/// Whether this process was forked from one that may have run OpenMP: its threads do not exist here, and waiting for
/// them never ends. Tracked from the start, since the program may have its own regions.
bool forked = false;
[[maybe_unused]] const int watched = pthread_atfork(nullptr, nullptr, [] { forked = true; });

TeamEngine requested_engine() {
  const char* const variable = std::getenv("TERN_TEAM");
  const std::string_view name = variable == nullptr ? "" : variable;
  if (name.empty() || name == "workers") return TeamEngine::workers;
  expects<DeviceUnavailable>(name == "openmp", "TERN_TEAM: there is no engine \"", name,
                             "\" for teams, expected workers or openmp");
  expects<DeviceUnavailable>(TERN_OPENMP_BUILT, "TERN_TEAM=openmp: this library was built without OpenMP");
  return TeamEngine::openmp;
}

/// What a calling thread knows about sharing.
struct Sharing {
  Worth worth;
  int parts = 0;  ///< of the calls that `worth` is about
};
thread_local Sharing sharing;

void run_alone(TeamCall& call) {
  for (int phase = 0; phase < call.phases() && !call.failed(); ++phase)
    for (int part = 0; part < call.parts(); ++part) call.run(part, phase);
}

}  // namespace

bool in_team() { return inside; }

const bool teams_always = [] {
  const char* const requested = std::getenv("TERN_TEAMS");
  return requested != nullptr && std::string_view(requested) == "always";
}();

TeamEngine team_engine() {
  static const TeamEngine engine = requested_engine();
  return forked ? TeamEngine::workers : engine;
}

void TeamCall::run(int part, int phase) {
  inside = true;
  const Worth::Time begin = timed_ ? thread_time() : Worth::Time{};
  try {
    if (!failed_.load(std::memory_order_relaxed)) work_.run(work_.body, part, work_.parts, phase);
  } catch (...) {
    if (!failed_.exchange(true)) failure_ = std::current_exception();
  }
  inside = false;
  if (timed_) processor_time_.fetch_add((thread_time() - begin).count(), std::memory_order_relaxed);
}

void run_team(const TeamWork& work) {
  if (std::exchange(sharing.parts, work.parts) != work.parts) sharing.worth = {};
  const auto start = Worth::Clock::now();
  const bool alone = sharing.worth.alone(start) && !teams_always;
  const bool timed = sharing.worth.looks();
  TeamCall call(work, timed);
  if (alone)
    run_alone(call);
  else if (team_engine() == TeamEngine::openmp)
    run_on_openmp(call);
  else
    run_on_workers(call);
  call.rethrow();
  if (!timed) return;
  const auto now = Worth::Clock::now();
  sharing.worth.add(now - start, call.processor_time(), now);
}

}  // namespace tern::vectorized
