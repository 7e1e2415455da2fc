// Steps of several ranks, which exchange messages on the host unless all of them replay.

#include "tern/run/step.hpp"

#include "ranks.hpp"
#include "run/recording.hpp"
#include "tern/modes/device.hpp"
#include "tern/operators/operators.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

using parallel::Group;

namespace {

bool in_all(const Group& group, bool own) {
  const Tensor all = tensor(std::vector{std::int32_t{own}}, {1});
  group.all_reduce(all, parallel::Reduction::min);
  return all.item<std::int32_t>() != 0;
}

/// Makes the replay of the step that runs a decision of all ranks.
void together(const Group& group) {
  if (Recording* const run = Recording::running())
    run->joins({&group.collective(), [&group](bool own) { return in_all(group, own); }});
}

}  // namespace

TEST_CASE("step: ranks replay together, though one of them needs another run", "[parallel]") {
  check_ranks(2, [](const Group& group) -> std::string {
    const Device device{"debug"};
    std::vector<Tensor> kept;
    int calls = 0;
    Step step([&](const Tensor& x) {
      ++calls;
      const Tensor y = operators::exp(x) + 1;
      // Rank 1 makes in its second run what it keeps.
      if (group.rank() == 1 && calls == 1) kept = {operators::tanh(x)};
      together(group);
      return operators::sin(y);
    });
    const Tensor x = full({4}, 0.5);
    for (int call = 1; call <= 6; ++call) {
      step(x);
      const bool replays = step.replays() > 0;
      if (in_all(group, replays) != replays)
        return message("in call ", call, " one rank has replayed and the other one has not");
    }
    if (step.replays() == 0) return message("no replay: ", step.unrecorded());
    return {};
  });
}

TEST_CASE("step: if one rank cannot record, no rank replays", "[parallel]") {
  check_ranks(2, [](const Group& group) -> std::string {
    const Device device{"debug"};
    Step step([&](const Tensor& x) {
      const Tensor y = operators::exp(x) + 1;
      together(group);
      if (group.rank() == 1 && y.to_vector<float>()[0] < 0) return y;  // a value on the host
      return operators::sin(y);
    });
    const Tensor x = full({4}, 0.5);
    for (int call = 0; call < 6; ++call) step(x);
    if (step.replays() > 0) return message(step.replays(), " replays");
    return step.unrecorded().find(group.rank() == 1 ? "memory" : "another rank") == std::string::npos
               ? message("says ", step.unrecorded())
               : std::string();
  });
}

}  // namespace tern::testing
