// When a caller shares its work with the workers, on cores that others use or leave: by the clock of a simulation.
#include "vectorized/worth.hpp"

#include "support/catch.hpp"

using tern::vectorized::Worth;

namespace {

/// A call on a simulated machine: what it takes, and the processor time of its parts, in microseconds.
struct Call {
  double took, work;
};

/// A caller that computes for `seconds` where calls are as `team` or as `alone` says. Returns its share of the time
/// alone, and in `end` whether it was alone at the end.
struct Simulation {
  Worth worth;
  Worth::Clock::time_point now{};

  double share_alone(double seconds, Call team, Call alone, bool* end = nullptr) {
    const auto time = [](double microseconds) { return Worth::Time(static_cast<std::int64_t>(microseconds * 1e3)); };
    const auto begin = now;
    Worth::Time sum{};
    bool is_alone = false;
    while (now - begin < time(seconds * 1e6)) {
      is_alone = worth.alone(now);
      const Call call = is_alone ? alone : team;
      now += time(call.took);
      if (is_alone) sum += time(call.took);
      if (worth.looks()) worth.add(time(call.took), time(call.work), now);
      now += time(50);  // serial work between two calls
    }
    if (end != nullptr) *end = is_alone;
    return static_cast<double>(sum.count()) / static_cast<double>((now - begin).count());
  }
};

// Measured on two cores, per call: LeNet's and a small multilayer perceptron's training.
constexpr Call lenet_alone{450, 450}, mlp_alone{76, 75};

}  // namespace

TEST_CASE("worth: workers that help are never left out", "[device]") {
  CHECK(Simulation{}.share_alone(20, {240, 455}, lenet_alone) == 0);
  CHECK(Simulation{}.share_alone(20, {73, 130}, mlp_alone) == 0);
}

TEST_CASE("worth: beside one busy loop on two cores the caller works alone", "[device]") {
  CHECK(Simulation{}.share_alone(20, {650, 460}, lenet_alone) > 0.85);
  CHECK(Simulation{}.share_alone(20, {155, 76}, mlp_alone) > 0.55);  // the rest of the time is not calls
}

TEST_CASE("worth: the answer is that of the moment, not of the past", "[device]") {
  Simulation simulation;
  bool alone = false;
  for (int i = 0; i < 3; ++i) {
    simulation.share_alone(5, {650, 460}, lenet_alone, &alone);
    CHECK(alone);
    simulation.share_alone(5, {240, 455}, lenet_alone, &alone);
    CHECK(!alone);
  }
}

TEST_CASE("worth: threads that spin on after their turn keep the team away for a moment only", "[device]") {
  // Turns of 300 ms, for whose first 60 another process's threads still spin; then that process computes.
  Simulation simulation;
  double alone = 0;
  for (int turn = 0; turn < 20; ++turn) {
    simulation.share_alone(0.06, {650, 460}, lenet_alone);
    alone += simulation.share_alone(0.24, {240, 455}, lenet_alone) / 20;
    simulation.now += std::chrono::milliseconds(600);
  }
  CHECK(alone < 0.25);
}

TEST_CASE("worth: after a long load the team is soon back", "[device]") {
  for (int i = 0; i < 20; ++i) {  // loads end at any time between two looks
    Simulation simulation;
    bool alone = false;
    simulation.share_alone(20 + 0.1 * i, {650, 460}, lenet_alone);
    CHECK(simulation.share_alone(2, {240, 455}, lenet_alone, &alone) < 0.45);
    CHECK(!alone);
  }
}

TEST_CASE("worth: where every core is taken, the faster of the two", "[device]") {
  // Alone the caller has half a core, too.
  CHECK(Simulation{}.share_alone(20, {600, 500}, {950, 450}) < 0.15);
  CHECK(Simulation{}.share_alone(20, {900, 500}, {950, 450}) > 0.75);
}

TEST_CASE("worth: a team's processor time counts for what it gets done", "[device]") {
  // 130 us of the team's processor time are 75 of a caller alone.
  CHECK(Simulation{}.share_alone(20, {250, 130}, {180, 75}) > 0.55);
}
