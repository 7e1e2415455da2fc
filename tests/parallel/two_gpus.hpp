#pragma once
// Tests of ranks with a GPU each.

#include <cmath>
#include <mutex>
#include <string>
#include <vector>

#include "ranks.hpp"
#include "tern/modes/device.hpp"
#include "tern/run/step.hpp"
#include "tern/tensor/create.hpp"

namespace tern::testing {

/// The name of the cuda device of a rank; empty where there are fewer than two.
inline std::string device_name(int rank) {
  std::vector<std::string> names;
  for (const Place& place : devices())
    if (place.mode == "cuda") names.push_back(place.name);
  return names.size() < 2 || rank >= static_cast<int>(names.size()) ? std::string()
                                                                    : names[static_cast<std::size_t>(rank)];
}

/// Eight recorded steps in each of two ranks with a GPU; their losses beside those of one. `make` gives a step's
/// function for a group.
template <class Make>
void check_two_gpus(Make make) {
  if (device_name(1).empty()) {
    WARN("SKIPPED: there are fewer than two GPUs");
    return;
  }
  std::mutex mutex;
  std::int64_t replays = 0;
  const auto train = [&](const parallel::Group& group) {
    const Device device{device_name(group.rank())};
    Generator generator(1);
    const Tensor x = randn({32, 16}, generator), y = randint(0, 4, {32}, generator);
    Step step(make(group));
    std::vector<double> losses;
    for (int i = 0; i < 8; ++i) losses.push_back(step(x, y).item());
    const std::lock_guard lock(mutex);
    replays += step.replays();
    return losses;
  };
  const std::vector<double> alone = train(parallel::Group());
  CHECK(alone.front() > alone.back());
  replays = 0;
  check_ranks(2, [&](const parallel::Group& group) -> std::string {
    const std::vector<double> found = train(group);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (std::abs(found[i] - alone[i]) > 1e-4) return message("loss ", i, ": ", found[i], " for ", alone[i]);
    return {};
  });
  CHECK(replays > 0);
}

}  // namespace tern::testing
