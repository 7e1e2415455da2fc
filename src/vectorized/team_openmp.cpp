// The second engine: a parallel region of OpenMP, whose threads the program's own regions use, too. Inside such a
// region OpenMP grants one thread by default, which runs all parts.
#include "vectorized/team_call.hpp"

#if TERN_OPENMP_BUILT

#include <omp.h>

#include <limits>

namespace tern::vectorized {

void run_on_openmp(TeamCall& call) {
  // A part that throws ends the team after its phase, for all threads after the same phase.
  std::atomic<int> last{std::numeric_limits<int>::max()};
#pragma omp parallel num_threads(call.parts())
  {
    const int first = omp_get_thread_num(), threads = omp_get_num_threads();
    for (int phase = 0; phase < call.phases() && phase <= last.load(); ++phase) {
      for (int part = first; part < call.parts(); part += threads) call.run(part, phase);
      if (call.failed()) {
        int known = last.load();
        while (phase < known && !last.compare_exchange_weak(known, phase)) {
        }
      }
#pragma omp barrier
    }
  }
}

}  // namespace tern::vectorized

#else

namespace tern::vectorized {
void run_on_openmp(TeamCall& call) { run_on_workers(call); }
}  // namespace tern::vectorized

#endif
