#pragma once
// Costs fitted to times.

#include <vector>

#include "members.hpp"

namespace tern::benchmarks {

/// A cut that was timed: its number in the order of the search, and microseconds.
struct Timed {
  int cut;
  float time;
};
/// A problem of a member, and its timed cuts.
struct Sample {
  int member, number;  ///< in members(), and in its cases
  std::vector<Timed> cuts;
  float best() const;
};

/// How good the choices by some costs are: the time of the cut that they choose, over that of the fastest cut, of every
/// problem. Problems whose choice was not timed do not count.
std::vector<double> regrets(const Figures& on, const Costs& costs, const std::vector<const Sample*>& samples);

/// The numbers of a member, by Levenberg and Marquardt's method on their logarithms: the logarithms of times are met
/// with least squares, a cut weighted by the fastest cut's time over its own, because only fast cuts are chosen
/// between. Starts at `costs`, and changes them. Returns the root of the weighted mean square of the logarithms'
/// differences.
double fit(const Figures& on, Costs& costs, const Member& member, const std::vector<const Sample*>& samples);

}  // namespace tern::benchmarks
