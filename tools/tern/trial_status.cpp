#include "trial_status.hpp"

namespace tern::tool {

const char* name_of(TrialState state) {
  constexpr const char* names[]{"waiting", "running", "paused", "dropped", "done", "failed"};
  return names[static_cast<int>(state)];
}

}  // namespace tern::tool
